"""Values of many clients at once are to the bit those that each client's own loss says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import Array
from fedsim.problems import Logistic, Loss, Problem, Samples, Squared
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.client_losses import KEPT, SMALL, ClientLosses
from fedsim.problems.evaluators import SerialEvaluator
from fedsim.problems.losses import Rows, State
from fedsim.problems.partition import partition
from fedsim.problems.samples import Precision

from .examples import CLASSIFIERS, LINEAR, MATRICES

STACKED: list[Loss] = [*LINEAR, *CLASSIFIERS, *MATRICES]


def dealt(loss: Loss, sizes: list[int], features: int, *, reach: float = 1.0) -> Problem:
    """Return a problem of clients with so many rows, in no order; labels are -1 and 1."""
    rng, rows = np.random.default_rng(len(sizes)), sum(sizes)
    X, y = reach * rng.standard_normal((rows, features)), rng.choice([-1.0, 1.0], rows)
    cuts = np.cumsum(sizes)[:-1]
    return Problem.of(loss, partition(Samples(X, y), np.split(rng.permutation(rows), cuts)))


def one_by_one(losses: ClientLosses, w: Array) -> list[float]:
    return [loss.value(w) for loss in losses]


@given(
    loss=st.sampled_from(STACKED),
    sizes=st.lists(st.sampled_from([1, 2, 5, 17, 40]), min_size=1, max_size=9),
    features=st.sampled_from([1, 2, 3, 7, 16, 70]),
    precision=st.sampled_from(["float64", "float32"]),
    reach=st.sampled_from([0.1, 1.0, 50.0]),
)
def test_values_are_to_the_bit_those_of_each_client(
    loss: Loss, sizes: list[int], features: int, precision: Precision, reach: float
) -> None:
    problem = dealt(loss, sizes, features, reach=reach)
    losses = ClientLosses.of(problem.losses).with_precision(precision)
    w = np.random.default_rng(5).standard_normal(problem.dimension)
    assert losses.values(w).tolist() == one_by_one(losses, w)


def test_they_are_the_same_where_a_model_is_beyond_all_numbers() -> None:
    for loss in (Squared(l2=0.1), Logistic()):
        problem = dealt(loss, [3, 3, 5], 4)
        losses = ClientLosses.of(problem.losses)
        with np.errstate(over="ignore", invalid="ignore"):
            for w in (np.full(4, 1e200), np.array([np.inf, 1.0, 1.0, 1.0]), np.full(4, np.nan)):
                np.testing.assert_array_equal(losses.values(w), one_by_one(losses, w))


def calls_of(monkeypatch: pytest.MonkeyPatch, losses: ClientLosses, w: Array) -> int:
    """Return how many clients are evaluated by themselves; their values are as they should be."""
    expected, asked = one_by_one(losses, w), list[LocalLoss]()
    own = LocalLoss.value

    def value(local: LocalLoss, w: Array) -> float:
        asked.append(local)
        return own(local, w)

    with monkeypatch.context() as patched:
        patched.setattr(LocalLoss, "value", value)
        assert SerialEvaluator(losses).values(w).tolist() == expected
    return len(asked)


def test_small_clients_are_evaluated_together_and_large_ones_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = 100
    sizes = [3, SMALL // features + 1, 3, 4]
    losses = ClientLosses.of(dealt(Squared(), sizes, features).losses)
    assert calls_of(monkeypatch, losses, np.ones(features)) == 1


def test_of_more_clients_than_are_kept_no_loss_is_made_for_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    losses = ClientLosses.of(dealt(Squared(), [2] * (KEPT + 3), 3).losses)
    assert calls_of(monkeypatch, losses, np.ones(3)) == 0


def test_a_loss_of_ones_own_is_asked_of_each_client() -> None:
    class Doubled(Squared):
        def value(self, rows: Rows, w: Array, state: State) -> float:
            return 2 * super().value(rows, w, state)

    single, double = (dealt(loss, [2, 2, 3], 4) for loss in (Squared(), Doubled()))
    w = np.arange(4.0)
    assert double.value(w) == pytest.approx(2 * single.value(w))


def test_only_another_precision_than_double_makes_other_losses() -> None:
    losses = ClientLosses.of(dealt(Squared(), [3, 40], 4).losses)
    assert losses.with_precision("float64") is losses
    single = losses.with_precision("float32")
    assert single is not losses
    for loss, own in zip(losses, single, strict=True):
        assert loss.loss == own.loss
