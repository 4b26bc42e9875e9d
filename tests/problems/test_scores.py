"""Scores of classifiers and of regressions, by their definitions, one row after the other."""

from math import exp, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Logistic, Loss, MultilayerPerceptron, Problem, Samples, Squared
from fedsim.problems.losses import NeymanPearson, Softmax, TorchLoss
from fedsim.problems.measures import (
    ClientAccuracy,
    HeldOutAbsoluteError,
    HeldOutAccuracy,
    HeldOutAUC,
    HeldOutF1,
    HeldOutPerplexity,
    HeldOutTopAccuracy,
)
from tests.problems.measured import parted, seen
from tests.tiers import every

CLASSES = 4
FEATURES = 3
WEIGHTS = arrays(np.float64, (FEATURES, CLASSES), elements=st.sampled_from([-2.0, -0.5, 0.0, 1.0]))


def problem_of(loss: Loss, classes: int = CLASSES, labels: Array | None = None) -> Problem:
    """Return a problem whose rows have small whole numbers, so that logits tie now and then."""
    rng = np.random.default_rng(8)
    X = rng.integers(-2, 3, size=(60, FEATURES)).astype(float)
    known = np.arange(classes) + 0.0 if labels is None else labels
    y: Array = rng.permutation(known[np.arange(60) % len(known)])
    return Problem.of(loss, parted(X[:40], y[:40]), test=Samples(X[40:], y[40:]))


def test_rows(problem: Problem) -> tuple[Array, list[float]]:
    assert problem.test is not None
    return np.asarray(problem.test.X), problem.test.y.tolist()


test_rows.__test__ = False  # type: ignore[attr-defined]


@given(W=WEIGHTS, k=st.integers(1, CLASSES - 1))
def test_scores_of_several_classes_are_what_their_definitions_say(W: Array, k: int) -> None:
    problem = problem_of(Softmax())
    X, labels = test_rows(problem)
    logits = (X @ W).tolist()
    first = sum(
        sum(other > row[int(label)] for other in row) < k
        for row, label in zip(logits, labels, strict=True)
    )
    figures = seen(HeldOutTopAccuracy(k=k), problem, W.ravel())
    assert figures == {"test_top_accuracy": pytest.approx(first / len(labels))}
    chances = [
        exp(row[int(label)]) / sum(map(exp, row)) for row, label in zip(logits, labels, strict=True)
    ]
    perplexity = exp(-sum(map(log, chances)) / len(labels))
    assert seen(HeldOutPerplexity(), problem, W.ravel()) == {
        "test_perplexity": pytest.approx(perplexity, rel=1e-12)
    }
    areas = []
    for label in range(CLASSES):
        own = [exp(row[label]) / sum(map(exp, row)) for row in logits]
        areas.append(area_under(own, [each == label for each in labels]))
    found = seen(HeldOutAUC(), problem, W.ravel())["test_auc"]
    # Chances that tie by definition may differ in their last bit, and then a pair counts 0 or 1.
    assert found == pytest.approx(np.mean(areas), abs=0.05)


def area_under(scores: list[float], positive: list[bool]) -> float:
    """Return the share of pairs that are in order; ties, up to rounding, count half."""
    pairs = [
        0.5 if abs(one - other) < 1e-9 else float(one > other)
        for one, yes in zip(scores, positive, strict=True)
        for other, no in zip(scores, positive, strict=True)
        if yes and not no
    ]
    return sum(pairs) / len(pairs)


@given(W=WEIGHTS, average=st.sampled_from(["macro", "micro", "weighted"]))
def test_f1_is_twice_the_hits_over_all_that_were_there_or_predicted(W: Array, average: Any) -> None:
    problem = problem_of(Softmax())
    X, labels = test_rows(problem)
    predicted = (X @ W).argmax(axis=1).tolist()
    hits, others, scores, sizes = 0, 0, [], []
    for label in range(CLASSES):
        both = sum(p == label == y for p, y in zip(predicted, labels, strict=True))
        whole = predicted.count(label) + labels.count(label)
        scores.append(2 * both / whole if whole else 0.0)
        sizes.append(labels.count(label))
        hits, others = hits + both, others + whole
    wanted = {
        "macro": np.mean(scores),
        "weighted": np.average(scores, weights=sizes),
        "micro": 2 * hits / others,
    }
    figures = seen(HeldOutF1(average=average), problem, W.ravel())
    assert figures == {"test_f1": pytest.approx(wanted[average], rel=1e-12, abs=1e-15)}


@every(
    ("loss", "labels"),
    [
        (Logistic(), [-1.0, 1.0]),
        (Logistic(labels="plus-minus"), [3.0, 7.0]),
        (NeymanPearson(scale="mean"), [3.0, 7.0, 7.0]),
        (NeymanPearson(scale="mean"), [3.0, 3.0, 7.0]),
    ],
)
def test_of_two_classes_the_second_has_the_logit(loss: Loss, labels: list[float]) -> None:
    problem = problem_of(loss, labels=np.array(labels))
    X, y = test_rows(problem)
    w = np.array([0.75, -0.25, 0.5])  # sums without rounding: equal logits tie
    second = problem.loss.classes(problem.labels)[1]
    logits, positive = (X @ w).tolist(), [label == second for label in y]
    assert seen(HeldOutAUC(), problem, w)["test_auc"] == pytest.approx(area_under(logits, positive))
    signs = np.where(positive, 1.0, -1.0)
    mean = np.mean([log(1 + exp(-s * u)) for s, u in zip(signs, logits, strict=True)])
    assert seen(HeldOutPerplexity(), problem, w)["test_perplexity"] == pytest.approx(exp(mean))


def test_a_network_of_two_outputs_has_the_area_of_their_difference() -> None:
    loss = MultilayerPerceptron(hidden=2, output="softmax")
    problem = problem_of(loss, classes=2)
    X, labels = test_rows(problem)
    w = np.random.default_rng(1).normal(size=problem.dimension)
    own = loss.layers(w, FEATURES, 2)
    units = 1 / (1 + np.exp(-(X @ own.hidden + own.hidden_bias)))
    outputs = units @ own.output + own.output_bias
    margin = (outputs[:, 1] - outputs[:, 0]).tolist()
    wanted = area_under(margin, [label == 1 for label in labels])
    assert seen(HeldOutAUC(), problem, w)["test_auc"] == pytest.approx(wanted)


def test_a_model_that_knows_nothing() -> None:
    problem = problem_of(Softmax())
    zero = np.zeros(problem.dimension)
    assert seen(HeldOutPerplexity(), problem, zero)["test_perplexity"] == pytest.approx(CLASSES)
    assert seen(HeldOutAUC(), problem, zero)["test_auc"] == 0.5
    assert seen(HeldOutTopAccuracy(k=1), problem, zero)["test_top_accuracy"] == 1.0  # all tie
    assert np.isnan(seen(HeldOutAUC(), problem, zero + np.nan)["test_auc"])


@pytest.mark.parametrize("network", [False, True])
def test_the_mean_absolute_error(network: bool) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    loss = MultilayerPerceptron(hidden=2, output="squared") if network else Squared()
    problem = Problem.of(loss, parted(X[:20], y[:20]), test=Samples(X[20:], y[20:]))
    w = rng.normal(size=problem.dimension)
    if isinstance(loss, MultilayerPerceptron):
        own = loss.layers(w, 3, 1)
        units = 1 / (1 + np.exp(-(X @ own.hidden + own.hidden_bias)))
        outputs = (units @ own.output + own.output_bias)[:, 0]
    else:
        outputs = X @ w
    wanted = sum(abs(outputs[i] - y[i]) for i in range(20, 30)) / 10
    assert seen(HeldOutAbsoluteError(), problem, w) == {"test_mae": pytest.approx(wanted)}


def test_a_module_has_the_scores_of_its_outputs_in_use() -> None:
    torch = pytest.importorskip("torch")
    loss = TorchLoss.model_validate({"kind": "torch", "model": {"kind": "mlp", "hidden": [5]}})
    problem = problem_of(loss)
    X, labels = test_rows(problem)
    w = np.random.default_rng(0).normal(size=problem.dimension)
    first, second = w[: 5 * FEATURES].reshape(5, FEATURES), w[5 * FEATURES + 5 : -CLASSES]
    hidden = np.maximum(X @ first.T + w[5 * FEATURES : 5 * FEATURES + 5], 0)
    logits = torch.tensor(hidden @ second.reshape(CLASSES, 5).T + w[-CLASSES:])
    targets = torch.tensor(labels, dtype=torch.int64)
    wanted = torch.nn.functional.cross_entropy(logits, targets).exp().item()
    figures = seen(HeldOutPerplexity(), problem, w)
    assert figures["test_perplexity"] == pytest.approx(wanted, rel=1e-5)
    squared = loss.model_copy(update={"criterion": "squared"})
    problem = Problem.of(squared, problem.samples, test=problem.test)
    w = w[: problem.dimension]
    one = np.maximum(X @ first.T + w[15:20], 0) @ w[20:25] + w[25]
    figures = seen(HeldOutAbsoluteError(), problem, w)
    assert figures["test_mae"] == pytest.approx(np.abs(one - labels).mean(), rel=1e-5)


@pytest.mark.parametrize("clients", [3, 10, 11])
def test_the_accuracy_of_each_client_and_how_unlike_they_are(clients: int) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, FEATURES))
    y = rng.integers(0, CLASSES, 300).astype(np.float64)
    problem = Problem.of(Softmax(), parted(X, y, clients))
    W = rng.normal(size=(FEATURES, CLASSES))
    shares = sorted(
        sum((part.X[i] @ W).argmax() == part.y[i] for i in range(part.rows)) / part.rows
        for part in problem.samples
    )
    count = 2 if clients == 11 else 1
    assert seen(ClientAccuracy(), problem, W.ravel()) == {
        "worst_accuracy": pytest.approx(shares[0]),
        "tenth_accuracy": pytest.approx(sum(shares[:count]) / count),
        "median_accuracy": pytest.approx(np.median(shares)),
        "spread_of_accuracies": pytest.approx(np.std(shares)),
    }


def test_what_does_not_fit_is_said() -> None:
    problem = problem_of(Softmax())
    assert problem.test is not None
    with pytest.raises(DataError, match="got k: 4, and the data has 4 classes; give a smaller one"):
        HeldOutTopAccuracy(k=4).bind(problem)
    with pytest.raises(DataError, match="the loss softmax predicts classes, and no numbers"):
        HeldOutAbsoluteError().bind(problem)
    few = problem.test.y > 0
    part = Samples(problem.test.X[few], problem.test.y[few])
    with pytest.raises(DataError, match="needs test rows of every class; there is none of the"):
        HeldOutAUC().bind(Problem.of(Softmax(), problem.samples, test=part))
    for measure in (HeldOutF1(), HeldOutAUC(), HeldOutPerplexity(), HeldOutTopAccuracy()):
        with pytest.raises(DataError, match=f"{measure.kind} needs test rows"):
            measure.bind(Problem.of(Softmax(), problem.samples))
        with pytest.raises(DataError, match="the loss squared does not classify"):
            measure.bind(Problem.of(Squared(), problem.samples, test=problem.test))
    with pytest.raises(DataError, match="does not classify"):
        ClientAccuracy().bind(Problem.of(Squared(), problem.samples))
    assert HeldOutAccuracy().bind(problem)(np.zeros(problem.dimension))
