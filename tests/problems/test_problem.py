"""Problems: objectives over clients of unequal size, and what identifies a problem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.problems import (
    LinearLoss,
    Logistic,
    Loss,
    MultilayerPerceptron,
    Problem,
    Samples,
    Squared,
    Weighting,
    projections,
)
from fedsim.problems.projections import largest_eigenvalue
from fedsim.problems.references import optimum
from tests.tiers import every
from tests.works import evaluated

from .examples import LINEAR, LOSSES, differences, local, named, samples

DATA = samples(rows=60, features=5)
CUTS = [25, 30, 31]
PARTS = [DATA.take(rows) for rows in np.split(np.arange(60), CUTS)]
each_loss = every("loss", LOSSES)
each_linear = every("loss", LINEAR)
each_weighting = every("weighting", ["sum", "rows", "equal"])


def test_weights_are_the_shares_of_the_rows() -> None:
    problem = Problem.of(Squared(), PARTS)
    assert problem.weights == pytest.approx([25 / 60, 5 / 60, 1 / 60, 29 / 60])
    assert problem.coefficients is problem.weights
    assert problem.total_weight == 1


def test_a_sum_weighs_each_client_by_one() -> None:
    problem = Problem.of(Squared(), PARTS, weighting="sum")
    assert problem.coefficients.tolist() == [1, 1, 1, 1]
    assert problem.total_weight == 4
    assert problem.weights.tolist() == [1 / 4] * 4


@each_loss
def test_by_default_the_objective_is_the_loss_of_all_rows_pooled(
    loss: Loss, rng: np.random.Generator
) -> None:
    terms = {"l1", "l2"} & type(loss).model_fields.keys()
    bare = loss.model_copy(update=dict.fromkeys(terms, 0.0))
    problem, whole = Problem.of(bare, PARTS), Problem.of(bare, [DATA])
    w = rng.standard_normal(problem.dimension)
    assert problem.value(w) == pytest.approx(whole.value(w), rel=1e-12)


@each_weighting
def test_peers_have_the_objective_as_the_plain_mean(weighting: Weighting) -> None:
    problem = Problem.of(Squared(), PARTS, weighting=weighting)
    assert problem.node_coefficients == pytest.approx(4 * problem.coefficients, rel=1e-15)


def test_equal_weights_make_the_mean_one_over_the_clients(rng: np.random.Generator) -> None:
    problem = Problem.of(Logistic(), PARTS, weighting="equal")
    w = rng.standard_normal(problem.dimension)
    values = [local.value(w) for local in problem.losses]
    assert problem.weights.tolist() == [1 / 4] * 4
    assert problem.value(w) == pytest.approx(np.mean(values), rel=1e-14)
    slopes = [local.gradient(w) for local in problem.losses]
    assert problem.gradient(w) == pytest.approx(np.mean(slopes, axis=0), rel=1e-13)


def test_the_optimum_is_that_of_the_weights() -> None:
    by_rows, equal = (
        Problem.of(Squared(scale="mean"), PARTS, weighting=weights) for weights in ("rows", "equal")
    )
    assert by_rows.fingerprint != equal.fingerprint, "optima are cached by fingerprint"
    rows = [np.full(part.rows, 1 / (len(PARTS) * part.rows)) for part in PARTS]
    root = np.sqrt(np.concatenate(rows))
    least = np.linalg.lstsq(root[:, None] * DATA.X, root * DATA.y)[0]
    assert equal.gradient(least) == pytest.approx(0, abs=1e-12)
    found = optimum(equal)
    assert found is not None
    assert found.value == pytest.approx(equal.value(least), rel=1e-12)


@each_loss
@every(
    ("weighting", "weights"),
    [
        ("sum", [1, 1, 1, 1]),
        ("rows", [25 / 60, 5 / 60, 1 / 60, 29 / 60]),
        ("equal", [1 / 4, 1 / 4, 1 / 4, 1 / 4]),
    ],
)
def test_the_objective_is_the_weighted_sum_of_the_clients(
    loss: Loss, weighting: Weighting, weights: list[float], rng: np.random.Generator
) -> None:
    problem = Problem.of(loss, PARTS, weighting=weighting)
    w = rng.standard_normal(problem.dimension)
    values = [local.value(w) for local in problem.losses]
    assert problem.value(w) == pytest.approx(np.dot(weights, values), rel=1e-14)


@each_loss
@each_weighting
def test_the_gradient_is_that_of_the_objective(
    loss: Loss, weighting: Weighting, rng: np.random.Generator
) -> None:
    problem = Problem.of(loss, PARTS, weighting=weighting)
    w = rng.standard_normal(problem.dimension)
    expected = differences(problem.value, w)
    assert problem.gradient(w) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@every(
    "loss",
    [
        Squared(l2=0.2),
        Squared(scale="mean-square"),
        Logistic(l1=0.1, l2=0.3),
        MultilayerPerceptron(l2=0.1),
    ],
)
def test_the_objective_of_mean_losses_does_not_depend_on_the_split(
    loss: Loss, rng: np.random.Generator
) -> None:
    problem, whole = Problem.of(loss, PARTS), Problem.of(loss, [DATA])
    w = rng.standard_normal(problem.dimension)
    assert problem.value(w) == pytest.approx(whole.value(w))
    assert problem.gradient(w) == pytest.approx(whole.gradient(w))


@pytest.mark.parametrize(
    "loss",
    [Squared(scale="mean"), Logistic(scale="mean"), MultilayerPerceptron(output="sigmoid")],
    ids=named,
)
def test_clients_that_count_by_their_share_sum_to_the_mean_over_all_rows(
    loss: Loss, rng: np.random.Generator
) -> None:
    whole = Problem.of(loss, [DATA])
    share = Problem.of(loss.model_copy(update={"scale": "share"}), PARTS)
    w = rng.standard_normal(whole.dimension)
    assert share.value(w) == pytest.approx(whole.value(w))
    assert share.gradient(w) == pytest.approx(whole.gradient(w))
    if loss.kind != "mlp":
        assert share.smoothness() == pytest.approx(whole.smoothness())


@pytest.mark.parametrize("loss", [Squared(scale="sum", l1=0.5), Logistic(scale="sum", l2=0.5)])
def test_penalties_count_once_a_client(loss: LinearLoss, rng: np.random.Generator) -> None:
    bare = loss.model_copy(update={"l1": 0.0, "l2": 0.0})
    w = rng.standard_normal(5)
    penalty = loss.l1 * np.abs(w).sum() + loss.l2 / 2 * w @ w
    with_penalty = Problem.of(loss, PARTS).value(w)
    assert with_penalty - Problem.of(bare, PARTS).value(w) == pytest.approx(4 * penalty)


@each_linear
@each_weighting
@every("features", [5, 90])
def test_smoothness_is_the_largest_eigenvalue_at_the_steepest_point(
    loss: LinearLoss, weighting: Weighting, features: int
) -> None:
    data = samples(rows=60, features=features)
    parts = [data.take(rows) for rows in np.split(np.arange(60), CUTS)]
    problem = Problem.of(loss, parts, weighting=weighting)
    expected = np.linalg.eigvalsh(problem.hessian(np.zeros(features)))[-1]
    assert problem.smoothness() == pytest.approx(expected, rel=1e-10)


@each_linear
@each_weighting
def test_smoothness_lies_between_the_clients_largest_and_their_sum(
    loss: LinearLoss, weighting: Weighting
) -> None:
    problem = Problem.of(loss, PARTS, weighting=weighting)
    assert problem.client_smoothness.tolist() == [local.smoothness for local in problem.losses]
    own = problem.coefficients * problem.client_smoothness
    assert own.max() * (1 - 1e-12) <= problem.smoothness() <= own.sum() * (1 + 1e-12)


def test_logistic_smoothness_goes_by_the_labels_as_used() -> None:
    # Labels 0 and 3: rows of label 0 do not curve at all, the others 9 times.
    data = Samples(DATA.X, np.where(DATA.y > 0, 3.0, 0.0))
    problem = Problem.of(Logistic(scale="sum", labels="as-given"), [data])
    curved = DATA.X[DATA.y > 0]
    expected = 9 / 4 * np.linalg.norm(curved, 2) ** 2
    assert problem.smoothness() == pytest.approx(expected)


@given(
    shape=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    weights=st.lists(st.floats(0, 10), min_size=1, max_size=4),
)
def test_the_largest_eigenvalue_is_that_of_the_sum(
    shape: tuple[int, int], weights: list[float]
) -> None:
    rng = np.random.default_rng(1)
    blocks = [rng.standard_normal(shape) for _ in weights]
    dense = sum(c * A.T @ A for c, A in zip(weights, blocks, strict=True))
    expected = np.linalg.eigvalsh(dense)[-1]
    assert largest_eigenvalue(weights, blocks) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_largest_eigenvalue_of_large_matrices_is_found_too(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    blocks = [rng.standard_normal((20, 50)), rng.standard_normal((40, 50))]
    expected = largest_eigenvalue([1.0, 0.5], blocks)
    monkeypatch.setattr(projections, "_DENSE", 10)
    assert largest_eigenvalue([1.0, 0.5], blocks) == pytest.approx(expected, rel=1e-10)


def test_linear_models_start_at_zero(rng: np.random.Generator) -> None:
    problem = Problem.of(Logistic(), PARTS)
    assert problem.initial(rng).tolist() == [0.0] * problem.dimension


@each_loss
def test_oracles_are_those_of_the_clients(loss: Loss) -> None:
    problem = Problem.of(loss, PARTS)
    w = np.full(problem.dimension, 0.1)
    for oracle, own in zip(problem.oracles, problem.losses, strict=True):
        work = oracle.gradient(w)
        assert np.array_equal(evaluated(work, *problem.losses), own.gradient(w))


def test_labels_are_mapped_over_all_clients_together() -> None:
    # Each client has one label only, so none of them could tell which is the smaller one.
    parts = [DATA.take(np.flatnonzero(DATA.y == label)) for label in (-1, 1)]
    shifted = [Samples(part.X, part.y + 5) for part in parts]
    w = np.linspace(-1, 1, 5)
    mapped = Problem.of(Logistic(labels="plus-minus"), shifted)
    assert mapped.value(w) == pytest.approx(local(Logistic(), DATA).value(w))


class TestFingerprint:
    def test_it_goes_by_content(self) -> None:
        again = [Samples(np.asfortranarray(part.X), part.y.copy()) for part in PARTS]
        first = Problem.of(Logistic(l2=0.1), PARTS).fingerprint
        assert Problem.of(Logistic(l2=0.1), again).fingerprint == first
        assert len(bytes.fromhex(first)) == 32

    @every(
        ("loss", "parts"),
        [
            (Logistic(l2=0.2), PARTS),
            (Logistic(l2=0.1, scale="sum"), PARTS),
            (Squared(l2=0.1), PARTS),
            (Logistic(l2=0.1), PARTS[::-1]),
            (Logistic(l2=0.1), PARTS[:3]),
            (Logistic(l2=0.1), [DATA]),
            (Logistic(l2=0.1), [Samples(part.X, -part.y) for part in PARTS]),
            (Logistic(l2=0.1), [Samples(part.X + 1e-15, part.y) for part in PARTS]),
        ],
    )
    def test_it_differs_when_loss_data_labels_or_split_differ(
        self, loss: Loss, parts: list[Samples]
    ) -> None:
        assert (
            Problem.of(loss, parts).fingerprint != Problem.of(Logistic(l2=0.1), PARTS).fingerprint
        )


@each_weighting
def test_a_planted_truth_is_kept(weighting: Weighting) -> None:
    truth = np.arange(5.0)
    data = Samples(DATA.X, DATA.X @ truth, truth=truth)
    parts = [data.take(np.arange(40)), data.take(np.arange(40, 60))]
    problem = Problem.of(Squared(), parts, weighting=weighting)
    assert problem.truth is truth
    assert problem.value(truth) == pytest.approx(0, abs=1e-25)


@pytest.mark.parametrize(
    ("parts", "key", "words"),
    [
        ([], "split.clients", "at least one client"),
        ([DATA, DATA.take(np.arange(0))], "split", "client 1 has no samples"),
        ([DATA, samples(features=4)], "data", "client 1 has 4 features, but client 0 has 5"),
    ],
)
def test_parts_that_make_no_problem_are_refused(parts: list[Samples], key: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        Problem.of(Squared(), parts)
    assert caught.value.key == key
