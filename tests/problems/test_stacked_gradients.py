"""Gradients and steps of many clients at once are, bit by bit, those of each by itself."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.losses import Logistic, Loss, Squared, TraceRegression
from fedsim.problems.partition import partition
from fedsim.problems.samples import Samples

SHAPES = some.tuples(some.integers(2, 40), some.integers(2, 40))


@some.composite
def losses(draw: some.DrawFn) -> Loss:
    kind = draw(some.sampled_from([Squared, Logistic, TraceRegression]))
    scale = draw(some.sampled_from(["sum", "mean", "share"]))
    of: dict[str, Any] = {"rows": 1} if kind is TraceRegression else {}
    l1, l2 = (draw(some.sampled_from([0.0, 0.03])) for _ in range(2))
    loss: Loss = kind(scale=scale, l1=l1, l2=l2, **of)
    return loss


def joined(loss: Loss, clients: int, rows: int, features: int, steep: float) -> ClientLosses:
    rng = np.random.default_rng(rows * features)
    X = steep * rng.standard_normal((clients * rows, features))
    y = np.where(rng.random(clients * rows) < 0.5, -1.0, 1.0)
    own = np.split(np.arange(clients * rows), clients)
    samples = partition(Samples(X, y), own)
    return ClientLosses.join(loss, samples, y)


@given(losses(), SHAPES, some.integers(1, 3), some.sampled_from([None, 0.3]), some.booleans())
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("steep", [1.0, 300.0])
def test_steps(
    precision: Any,
    steep: float,
    loss: Loss,
    shape: tuple[int, int],
    count: int,
    pull: Any,
    each: bool,
) -> None:
    clients, (rows, features) = 7, shape
    every = joined(loss, clients, rows, features, steep).with_precision(precision)
    rng = np.random.default_rng(5)
    w = rng.standard_normal((clients, features) if each else features)
    whose, own = np.array([0, 2, 3, 6]), np.broadcast_to(w, (clients, features))
    stacks = every.stacks_of(0)
    assert stacks is not None
    found = stacks.steps(whose, w[whose] if each else w, 0.1, count, pull)
    slopes = stacks.gradients(whose, w[whose] if each else w)
    for place, client in enumerate(whose.tolist()):
        alone = every[client].sgd_steps(own[client].copy(), 0.1, (None,) * count, pull)
        assert found[place].tobytes() == alone.tobytes()
        assert slopes[place].tobytes() == every[client].gradient(own[client].copy()).tobytes()


@pytest.mark.parametrize(("rows", "features"), [(1, 5), (5, 1), (80, 80)])
def test_where_kernels_differ_or_calls_are_cheap_each_is_by_itself(
    rows: int, features: int
) -> None:
    assert joined(Squared(), 3, rows, features, 1.0).stacks_of(1) is None


def test_a_subclass_is_by_itself() -> None:
    class Own(Squared):
        pass

    assert joined(Own(), 3, 4, 5, 1.0).stacks_of(1) is None
