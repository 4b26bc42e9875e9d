"""A client's own loss: what who evaluates it remembers must never show in what it returns."""

import pickle
import sys
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import Array
from fedsim.problems import Logistic, Loss, LossOracle, Squared
from fedsim.problems.client_loss import LONG
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.losses import Rows, State
from tests.works import evaluated

from .examples import LOSSES, local, named, samples

DATA = samples(rows=70, features=5)
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=named)


class Counted(Logistic):
    """A logistic loss that counts its forward passes."""

    passes: ClassVar[list[int]] = []

    def forward(self, rows: Rows, w: Array) -> State:
        self.passes.append(1)
        return super().forward(rows, w)


@pytest.fixture
def passes() -> Sequence[int]:
    Counted.passes.clear()
    return Counted.passes


@pytest.mark.parametrize("order", ["value first", "gradient first"])
def test_value_and_gradient_at_one_model_share_a_forward_pass(
    order: str, passes: Sequence[int]
) -> None:
    f, w = local(Counted(), DATA).remembering(), np.ones(5)
    calls = [f.value, f.gradient] if order == "value first" else [f.gradient, f.value]
    for call in calls:
        call(w.copy())  # an equal array, but another object
    assert len(passes) == 1
    f.value(2 * w)
    assert len(passes) == 2


@pytest.mark.parametrize("fixed", [(True, True), (True, False), (False, True), (False, False)])
def test_a_long_model_is_known_by_its_bits_whether_it_may_change_or_not(
    fixed: tuple[bool, bool], passes: Sequence[int]
) -> None:
    """One that nothing changes is not copied to be remembered."""
    long = samples(rows=3, features=LONG)
    f = local(Counted(), long).remembering()
    one, other = (np.ones(LONG) for _ in range(2))
    for w, unchanging in zip((one, other), fixed, strict=True):
        w.flags.writeable = not unchanging
        f.value(w)
    assert len(passes) == 1
    changed = np.ones(LONG)
    changed[-1] = np.nextafter(1.0, 2.0)
    changed.flags.writeable = not fixed[1]
    f.value(changed)
    assert len(passes) == 2


def test_caches_of_a_long_model_hold_it_once() -> None:
    long = samples(rows=6, features=LONG)
    losses = ClientLosses.of([local(Logistic(), long) for _ in range(3)]).remembering()
    w = np.ones(LONG)
    w.flags.writeable = False
    before = sys.getrefcount(w)
    losses.values(w)
    assert sys.getrefcount(w) == before + 3


def test_a_loss_itself_remembers_nothing(passes: Sequence[int]) -> None:
    f, w = local(Counted(), DATA), np.ones(5)
    f.remembering().value(w)
    f.value(w)
    f.gradient(w)
    assert len(passes) == 3


@each_loss
@given(calls=st.lists(st.tuples(st.sampled_from(["value", "gradient"]), st.integers(0, 2))))
def test_results_do_not_depend_on_what_was_asked_before(
    loss: Loss, calls: list[tuple[str, int]]
) -> None:
    f = local(loss, DATA).remembering()
    points = np.random.default_rng(5).standard_normal((3, f.dimension))
    for name, point in calls:
        fresh = getattr(local(loss, DATA), name)(points[point])
        assert np.array_equal(getattr(f, name)(points[point]), fresh)


@each_loss
def test_a_model_changed_in_place_is_another_model(loss: Loss) -> None:
    f = local(loss, DATA).remembering()
    w = np.ones(f.dimension)
    before = f.value(w)
    w *= 0.5
    assert f.value(w) == local(loss, DATA).value(w)
    w *= 2.0
    assert f.value(w) == before


@each_loss
def test_a_gradient_belongs_to_who_asked_for_it(loss: Loss) -> None:
    f = local(loss, DATA).remembering()
    w = np.full(f.dimension, 0.3)
    first = f.gradient(w)
    kept, value = first.copy(), f.value(w)
    first[:] = np.nan
    assert np.array_equal(f.gradient(w), kept)
    assert f.value(w) == value


@each_loss
def test_the_samples_are_left_as_they_were(loss: Loss) -> None:
    data = samples(rows=70, features=5)
    f = local(loss, data)
    f.gradient(np.ones(f.dimension))
    assert np.array_equal(data.X, DATA.X)
    assert np.array_equal(data.y, DATA.y)


@each_loss
def test_models_need_not_be_contiguous_nor_writeable(loss: Loss) -> None:
    f = local(loss, DATA)
    strided = np.linspace(-1, 1, 2 * f.dimension)[::2]
    fixed = strided.copy()
    fixed.flags.writeable = False
    assert f.value(strided) == f.value(fixed)
    assert np.array_equal(f.gradient(strided), local(loss, DATA).gradient(fixed))


@each_loss
@pytest.mark.parametrize("size", [1e200, np.inf, np.nan])
def test_a_model_that_has_diverged_gives_numbers_that_say_so(loss: Loss, size: float) -> None:
    # A run ends on what is not finite, and has told NumPy not to warn of it.
    f = local(loss, DATA)
    with np.errstate(over="ignore", invalid="ignore"):
        value = f.value(np.full(f.dimension, size))
        gradient = f.gradient(np.full(f.dimension, size))
    assert gradient.shape == (f.dimension,)
    assert value >= 0 or np.isnan(value)
    if not np.isfinite(size):
        assert not np.isfinite(value)


@each_loss
def test_the_oracle_describes_the_gradient_and_its_price(loss: Loss) -> None:
    f = local(loss, DATA)
    w = np.full(f.dimension, 0.1)
    work = LossOracle(f).gradient(w)
    assert np.array_equal(evaluated(work, f), f.gradient(w))
    assert work.operations == f.gradient_operations > 0


def test_work_can_be_sent_to_another_process() -> None:
    f, w = local(Logistic(), DATA), np.ones(5)
    work = pickle.loads(pickle.dumps(LossOracle(f).gradient(w)))
    assert np.array_equal(evaluated(work, f), f.gradient(w))


@pytest.mark.parametrize("shape", [(50, 4), (4, 50), (1, 1)])
def test_shapes_are_those_of_the_samples(shape: tuple[int, int]) -> None:
    f = local(Squared(), samples(*shape))
    assert (f.rows, f.features, f.dimension) == (*shape, shape[1])
