"""One link in many worlds: closed forms, and the simulator's own fair link."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.addons.robustness.sharing import ends, fair_level
from fedsim.core.ports import Array
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink
from tests.tiers import examples

numbers = st.floats(0.1, 10.0)
transfers = st.lists(st.tuples(st.floats(0.0, 5.0), numbers, numbers), min_size=1, max_size=7)


def fair_rates(on: NDArray[np.bool_], caps: Array, capacity: float) -> Array:
    """Return the rate of each transfer, 0 if it does not flow, shape (n,)."""
    ascending = np.argsort(caps)
    level = fair_level(caps, ascending[on[ascending]], capacity)
    return np.where(on, np.minimum(caps, level), 0.0)


def simulated(rows: list[tuple[float, float, float]], capacity: float) -> list[float]:
    """Return when each transfer ends over the simulator's link: begin, bits and cap of each."""
    calendar = Calendar()
    link, over = FairLink(calendar, capacity), [np.nan] * len(rows)

    def end(number: int) -> None:
        over[number] = calendar.now

    def begin(number: int) -> None:
        link.add(rows[number][1], rows[number][2], end, number)

    for number, row in enumerate(rows):
        calendar.call(row[0], begin, number)
    calendar.run()
    return over


@examples(200)
@given(transfers, st.lists(numbers, min_size=1, max_size=3))
def test_each_world_is_the_simulators_link(
    rows: list[tuple[float, float, float]], speeds: list[float]
) -> None:
    capacity = 4.0
    begins, bits, caps = (np.array(each)[:, None] for each in zip(*rows, strict=True))
    worlds = np.array(speeds)
    own = caps * worlds
    known = ends(np.repeat(begins, len(worlds), axis=1), bits, own, capacity)
    for number, speed in enumerate(speeds):
        alone = [(begin, size, cap * speed) for begin, size, cap in rows]
        np.testing.assert_allclose(known[:, number], simulated(alone, capacity), rtol=1e-9)


def test_equal_transfers_share_alike_and_a_slow_one_leaves_the_rest() -> None:
    begins, caps = np.zeros((3, 1)), np.array([[1.0], [100.0], [100.0]])
    rates = fair_rates(np.ones(3, dtype=bool), caps[:, 0], 9.0)
    assert rates.tolist() == [1.0, 4.0, 4.0]
    over = ends(begins, np.array([[8.0], [8.0], [16.0]]), caps, 9.0)
    # Two share eight bit/s for two seconds; then the last one alone has them all for one more.
    assert over.ravel().tolist() == [8.0, 2.0, 3.0]


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_rates_fill_the_link_or_every_cap(flows: list[bool], data: st.DataObject) -> None:
    drawn = st.lists(numbers, min_size=len(flows), max_size=len(flows))
    caps, on = np.array(data.draw(drawn)), np.array(flows)
    rates = fair_rates(on, caps, 5.0)
    wanted = np.where(on, caps, 0.0).sum()
    assert rates.sum() == pytest.approx(min(wanted, 5.0))
    assert (rates <= caps).all()
    held = rates[on & (rates < caps)]
    assert held.size == 0 or held.max() >= rates.max() - 1e-12  # nobody has more than who waits


def test_a_radio_without_a_limit_is_held_back_by_the_link() -> None:
    rates = fair_rates(np.ones(3, dtype=bool), np.array([np.inf, np.inf, 2.0]), 10.0)
    assert rates.tolist() == [4.0, 4.0, 2.0]
