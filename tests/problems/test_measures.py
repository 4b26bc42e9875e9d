"""Measures: closed forms, other people's implementations, and what they cannot be used with."""

from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error
from sklearn.metrics import precision_recall_fscore_support as scores

import fedsim
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import (
    Logistic,
    Loss,
    Measure,
    MultilayerPerceptron,
    Observer,
    Problem,
    Samples,
    Squared,
    Weighting,
)
from fedsim.problems.losses import NeymanPearson, Softmax, TraceRegression
from fedsim.problems.measures import (
    ConstraintValue,
    Distance,
    GradientNorm,
    HeldOutAccuracy,
    HeldOutLoss,
    L1Distance,
    MaxDistance,
    OperatorDistance,
    Rank,
    RelativeDistance,
    Sparsity,
    Support,
    TrainingAccuracy,
    TrainingLoss,
)
from fedsim.problems.penalties import L1
from tests import methods
from tests.problems.measured import gaussian, parted, seen
from tests.tiers import every

each_weighting = every("weighting", ["sum", "rows", "equal"])
WEIGHTS = {"sum": [1.0] * 3, "rows": [1 / 6, 1 / 3, 1 / 2], "equal": [1 / 3] * 3}
"""The weights of three clients that have 10, 20 and 30 rows."""

entries = arrays(np.float64, 12, elements=st.sampled_from([0.0, 0.01, -0.01, 0.02, -1.0, 3.0]))


@each_weighting
def test_the_gradient_norm_is_that_of_the_objective(weighting: Weighting) -> None:
    problem = gaussian(Squared(scale="sum"), weighting=weighting)
    w = np.linspace(-1, 1, 12)
    gradients = [part.X.T @ (part.X @ w - part.y) for part in problem.samples]
    whole = sum(p * gradient for p, gradient in zip(WEIGHTS[weighting], gradients, strict=True))
    figures = seen(GradientNorm(), problem, w)
    assert figures["gradient_norm"] == pytest.approx(np.linalg.norm(whole), rel=1e-12)


def test_with_a_penalty_it_is_zero_at_the_optimum_and_the_least_of_all_subgradients() -> None:
    rng = np.random.default_rng(1)
    X, weight = rng.standard_normal((50, 8)), 0.2
    y = X[:, 0] - 2 * X[:, 1] + 0.1 * rng.standard_normal(50)
    samples = [Samples(X[:20], y[:20]), Samples(X[20:], y[20:])]
    problem = Problem.of(Squared(scale="mean"), samples, L1(weight=weight))
    best = Lasso(alpha=weight, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y).coef_
    assert 0 < np.count_nonzero(best) < 8
    assert seen(GradientNorm(), problem, best)["gradient_norm"] < 1e-7
    gradient = X.T @ (X @ best - y) / 50
    assert np.linalg.norm(gradient) > 0.1  # the gradient alone would not say so
    signs = rng.uniform(-1, 1, (500, 8))
    w = np.where(np.arange(8) < 3, 1.5, 0.0)
    signs[:, :3] = 1.0
    subgradients = X.T @ (X @ w - y) / 50 + weight * signs
    least = seen(GradientNorm(), problem, w)["gradient_norm"]
    assert least <= np.linalg.norm(subgradients, axis=1).min()


@given(entries, entries.filter(np.any))
def test_distances_are_those_of_the_formulas(w: Array, truth: Array) -> None:
    problem = gaussian(Squared(), truth)
    away = float(np.sqrt(sum((a - b) ** 2 for a, b in zip(w, truth, strict=True))))
    each = [abs(a - b) for a, b in zip(w, truth, strict=True)]
    assert seen(L1Distance(), problem, w)["l1_distance"] == pytest.approx(sum(each), rel=1e-13)
    assert seen(MaxDistance(), problem, w)["max_distance"] == max(each)
    size = float(np.sqrt(sum(b**2 for b in truth)))
    assert seen(Distance(), problem, w)["distance"] == pytest.approx(away, rel=1e-13)
    relative = seen(RelativeDistance(), problem, w)["relative_distance"]
    assert relative == pytest.approx(away / size, rel=1e-13)


def test_the_distance_of_matrices_is_frobenius() -> None:
    rng = np.random.default_rng(0)
    W, truth = rng.standard_normal((2, 3, 4))
    problem = gaussian(TraceRegression(rows=3), truth.ravel())
    distance = seen(Distance(), problem, W.ravel())["distance"]
    assert distance == pytest.approx(np.linalg.norm(W - truth, ord="fro"), rel=1e-12)


def test_the_operator_distance_is_the_largest_stretch_of_the_difference() -> None:
    rng = np.random.default_rng(0)
    W, truth = rng.standard_normal((2, 3, 4))
    problem = gaussian(TraceRegression(rows=3), truth.ravel())
    distance = seen(OperatorDistance(), problem, W.ravel())["operator_distance"]
    squares = np.linalg.eigvalsh((W - truth) @ (W - truth).T)
    assert distance == pytest.approx(np.sqrt(squares.max()), rel=1e-12)
    directions = rng.standard_normal((1000, 4))
    stretch = np.linalg.norm(directions @ (W - truth).T, axis=1)
    assert (stretch <= distance * np.linalg.norm(directions, axis=1)).all()


def test_the_operator_distance_takes_matrices() -> None:
    with pytest.raises(DataError, match="operator_distance takes a model that is a matrix"):
        OperatorDistance().bind(gaussian(Squared(), np.ones(12)))


@given(entries, entries.filter(np.any), st.sampled_from([0.0, 0.005, 0.01, 0.5]))
def test_support_scores_are_those_of_scikit_learn(w: Array, truth: Array, threshold: float) -> None:
    figures = seen(Support(threshold=threshold), gaussian(Squared(), truth), w)
    found = np.abs(w) > threshold
    precision, recall, f1, _ = scores(truth != 0, found, average="binary", zero_division=0)
    assert list(figures.values()) == pytest.approx([precision, recall, f1, found.sum()])


@given(entries, st.sampled_from([0.0, 0.01, 2.0]))
def test_non_zeros_are_counted(w: Array, threshold: float) -> None:
    (count,) = seen(Sparsity(threshold=threshold), gaussian(Squared()), w).values()
    assert count == sum(abs(entry) > threshold for entry in w.tolist())


@given(
    st.lists(st.sampled_from([1.0, 0.5, 0.02, 1e-5, 0.0]), min_size=3, max_size=3),
    st.sampled_from([1e-3, 0.1, 1e-7]),
    st.sampled_from([1.0, 1e-6, 1e5]),
)
def test_the_rank_counts_singular_values_by_the_largest(
    values: list[float], tolerance: float, scale: float
) -> None:
    """A matrix with these singular values, times anything."""
    rng = np.random.default_rng(5)
    U, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    V, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    W = scale * U[:, :3] @ np.diag(values) @ V.T
    (rank,) = seen(Rank(tolerance=tolerance), gaussian(TraceRegression(rows=4)), W.ravel()).values()
    assert rank == sum(value > tolerance * max(values) for value in values)


@each_weighting
def test_the_constraint_is_the_mean_of_the_clients(weighting: Weighting) -> None:
    problem = gaussian(NeymanPearson(), weighting=weighting)
    w = np.linspace(-0.3, 0.4, 12)
    own = []
    for part in problem.samples:
        minority = part.X[part.y == 1]  # 0.4 of the labels are 1
        own.append(np.logaddexp(0, -minority @ w).mean())
    weights = np.array(WEIGHTS[weighting])
    g = float(weights / weights.sum() @ own)
    for tolerance, violated in ((g * 0.999, 1), (g * 1.001, 0)):
        figures = seen(ConstraintValue(tolerance=tolerance), problem, w)
        assert figures == {"constraint": pytest.approx(g, rel=1e-12), "violated": violated}


def test_accuracies_are_those_of_scikit_learn() -> None:
    X, y = load_digits(return_X_y=True)
    train, test = slice(0, 1200), slice(1200, None)
    held = Samples(X[test], y[test].astype(float))
    problem = Problem.of(Softmax(), parted(X[train], y[train].astype(float)), test=held)
    model = LogisticRegression(fit_intercept=False, C=1e-3, max_iter=500)
    model.fit(X[train] / 16, y[train])
    w = (model.coef_.T / 16).ravel()
    for measure, rows in ((TrainingAccuracy(), train), (HeldOutAccuracy(), test)):
        (accuracy,) = seen(measure, problem, w).values()
        assert accuracy == accuracy_score(y[rows], model.predict(X[rows] / 16))
        assert 0.5 < accuracy < 1


@every(
    ("loss", "labels"),
    [
        (Logistic(labels="plus-minus"), (0.0, 1.0)),
        (Logistic(), (-1.0, 1.0)),
        (NeymanPearson(), (1.0, 0.0)),  # the majority is benign, 1, and stands first
        (MultilayerPerceptron(hidden=3, output="sigmoid"), (0.0, 1.0)),
        (MultilayerPerceptron(hidden=3), (0.0, 1.0)),
    ],
)
def test_two_classes_keep_the_labels_of_the_data(loss: Loss, labels: tuple[float, float]) -> None:
    """A model that says one thing of all rows is right as often as that label is seen."""
    X, y = load_breast_cancer(return_X_y=True)
    y = np.where(y == 0, min(labels), max(labels))
    problem = Problem.of(loss, parted(np.abs(X), y), test=Samples(np.abs(X[:100]), y[:100]))
    w = np.ones(problem.dimension)
    if isinstance(loss, MultilayerPerceptron):
        w[:] = 0.0
        w[-1] = 1.0  # the bias of the last output
    train, test = (
        next(iter(seen(measure, problem, w).values()))
        for measure in (TrainingAccuracy(), HeldOutAccuracy())
    )
    assert train == np.mean(y == labels[1])
    assert test == np.mean(y[:100] == labels[1])


@each_weighting
def test_the_training_loss_is_the_objective_without_the_penalty(weighting: Weighting) -> None:
    """Of clients with 10, 20 and 30 rows; a mean of means over rows is that over all rows."""
    rng = np.random.default_rng(4)
    X, y, w = rng.standard_normal((60, 5)), rng.standard_normal(60), rng.standard_normal(5)
    problem = Problem.of(Squared(scale="mean"), parted(X, y), L1(weight=0.7), weighting=weighting)
    loss = seen(TrainingLoss(), problem, w)["train_loss"]
    assert loss + 0.7 * np.abs(w).sum() == pytest.approx(problem.value(w), rel=1e-12)
    if weighting == "rows":
        assert loss == pytest.approx(mean_squared_error(y, X @ w) / 2, rel=1e-12)


@every("scale", ["sum", "mean", "share", "mean-square"])
def test_the_test_loss_is_a_mean_without_penalties(scale: Any) -> None:
    rng = np.random.default_rng(7)
    held = Samples(rng.standard_normal((9, 12)), rng.standard_normal(9))
    problem = gaussian(Squared(scale=scale, l1=3.0, l2=2.0), test=held)
    w = rng.standard_normal(12)
    error = mean_squared_error(held.y, held.X @ w)
    half = 1.0 if scale == "mean-square" else 0.5
    assert seen(HeldOutLoss(), problem, w)["test_loss"] == pytest.approx(half * error, rel=1e-12)


@pytest.mark.parametrize("loss", [Softmax(l2=1.0), Logistic(labels="plus-minus", scale="sum")])
def test_the_test_loss_of_classes_is_the_log_loss(loss: Loss) -> None:
    """Only the smaller label is among the test rows: it is not renumbered."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((9, 12))
    held = Samples(X, np.full(9, -1.0))
    problem = gaussian(loss, test=held)
    w = rng.standard_normal(problem.dimension)
    margins = X @ (w if w.size == 12 else w.reshape(12, 2) @ [-1.0, 1.0])
    odds = 1 / (1 + np.exp(-margins))
    expected = log_loss(held.y, np.column_stack([1 - odds, odds]), labels=[-1.0, 1.0])
    assert seen(HeldOutLoss(), problem, w)["test_loss"] == pytest.approx(expected, rel=1e-12)


class Writing(Measure):
    """A measure that computes in place."""

    kind: Literal["writing"] = "writing"
    columns: ClassVar[tuple[str, ...]] = ("peak",)

    def bind(self, problem: Problem) -> Observer:
        def evaluate(w: Array) -> dict[str, float]:
            np.abs(w, out=w)
            return {"peak": float(w.max())}

        return evaluate


class Least(Measure):
    """A measure that sees whether another one has written."""

    kind: Literal["least"] = "least"
    columns: ClassVar[tuple[str, ...]] = ("least",)

    def bind(self, problem: Problem) -> Observer:
        return lambda w: {"least": float(w.min())}


@pytest.mark.parametrize(
    ("kind", "counting"),
    [
        *((kind, "rounds") for kind in ("gd", "scaffold", "ditto", "apfl", "d-psgd")),
        *((kind, "iterates") for kind in ("gd", "scaffold", "d-psgd")),
    ],
)
@pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")
def test_a_measure_that_writes_into_its_model_changes_no_run_and_no_other_measure(
    kind: str, counting: str
) -> None:
    made = methods.scenario(kind) | {"fleet": [{"count": 3}], "stop": {"rounds": 4}}
    made["counting"] = counting
    blocks: list[type[Measure]] = [Writing, Least]
    plain = fedsim.run(made | {"measures": ["least"]}, blocks=blocks).rounds
    rounds = fedsim.run(made | {"measures": ["writing", "least"]}, blocks=blocks).rounds
    assert (plain["least"] < 0).any(), "there is something to write"
    assert (rounds["peak"] >= 0).all()
    for column in ("objective", "least"):
        assert rounds[column].tolist() == plain[column].tolist()
