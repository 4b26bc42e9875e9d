"""Batteries: every crossing comes at its time in closed form."""

from math import inf
from typing import Any

import numpy as np
import pytest

from fedsim.physics.batteries import Battery
from fedsim.physics.signals import Constant, Steps
from tests.physics.batteries import CHARGED, DEPLETED, LOW, READY, battery_of, lived, store_of
from tests.tiers import every

PHONE = battery_of(1000.0)
SUN = Steps([0, 6, 18], [0, 8, 0], period=24)


def test_a_steady_draw_empties_the_battery_at_its_time() -> None:
    store = store_of(PHONE)
    told = lived(store, [(0.0, 2.0)], 1e4)
    joule_per_second = 2.0 / 0.95
    assert [crossing for _, crossing in told] == [LOW, DEPLETED]
    assert [t for t, _ in told] == pytest.approx([800 / joule_per_second, 950 / joule_per_second])
    assert store.level == 50.0
    assert not store.alive
    assert store.next_event() == inf
    assert store.drained == pytest.approx(950, rel=1e-12)


def test_a_dead_client_draws_nothing_until_it_restarts() -> None:
    model = battery_of(1000.0, charge=0.05, source=Constant(10.0))
    store = store_of(model)
    assert (store.alive, store.ready) == (False, False)
    store.draw(0.0, 100.0)
    restart = 150 / 9.5
    assert store.next_event() == pytest.approx(restart)
    assert store.settle(store.next_event()) is CHARGED
    assert store.level == 200.0
    assert (store.alive, store.ready) == (
        True,
        False,
    )  # what it asked for is drawn again, and turns the level round
    assert store.next_event() == pytest.approx(restart + 150 / (100 / 0.95 - 9.5))


def test_death_and_restart_take_turns() -> None:
    model = battery_of(1000.0, charge=0.2, leak=0.5, source=Constant(10.0), threshold=0.0)
    fall, rise = 150 / (20 / 0.95 + 0.5 - 9.5), 150 / 9.0
    told = lived(store_of(model), [(0.0, 20.0)], 4 * (fall + rise) - 1e-6)
    assert [crossing for _, crossing in told] == [DEPLETED, CHARGED] * 3 + [DEPLETED]
    times = [t for t, _ in told]
    assert np.diff(times) == pytest.approx([rise, fall] * 3, rel=1e-12)


def test_a_full_battery_takes_only_what_it_gives() -> None:
    model = battery_of(1000.0, charge=0.9, source=Constant(10.0), leak=0.1)
    store = store_of(model)
    store.draw(0.0, 3.8)
    net = 9.5 - 4.0 - 0.1
    full = store.next_event()
    assert full == pytest.approx(100 / net)
    assert store.settle(full) is None
    assert store.next_event() == inf
    charged = store.charged
    store.advance(full + 10)
    assert store.level == 1000.0
    assert store.charged - charged == pytest.approx(41)
    assert store.spilled == pytest.approx(10 * net / 0.95)


def test_a_leak_ends_when_the_store_is_empty() -> None:
    store = store_of(battery_of(1000.0, charge=0.04, leak=2.0))
    store.advance(19.75)
    assert store.level == 0.5
    assert store.next_event() == 20.0
    assert store.settle(20.0) is None
    store.advance(1e6)
    assert store.level == 0
    assert store.drained == pytest.approx(40)
    assert store.next_event() == inf


def test_source_changes_between_two_looks_are_integrated() -> None:
    sunny = battery_of(1000.0, charge=0.5, source=SUN)
    lookout = store_of(sunny)
    watchful = store_of(sunny)
    lookout.draw(0.0, 1.0)
    lived(watchful, [(0.0, 1.0)], 60.0)
    lookout.advance(60.0)
    assert lookout.level == pytest.approx(watchful.level, rel=1e-12)
    assert lookout.level == pytest.approx(500 + 0.95 * 8 * 30 - 60 / 0.95)


def test_looking_at_the_instant_of_an_event_does_not_hide_it() -> None:
    for watts in np.linspace(0.1, 7, 100):
        store = store_of(PHONE)
        store.draw(0.0, 0.37)
        store.draw(12.3, float(watts))
        assert store.settle(store.next_event()) is LOW
        due = store.next_event()
        store.advance(due)
        while (crossing := store.settle(store.next_event())) is None:
            assert store.now <= due + 1e-6
        assert crossing is DEPLETED
        assert store.level == 50.0


@pytest.mark.parametrize("watts", [0.0, 9.5 * 0.95])
def test_nothing_happens_at_a_bound_where_nothing_flows(watts: float) -> None:
    source = Constant(10.0 if watts else 0.0)
    for initial in (0.05, 0.2, 1.0):
        store = store_of(battery_of(1000.0, charge=initial, cutoff=0.04, source=source))
        store.draw(1.0, watts)
        level = store.level
        assert store.next_event() == inf
        store.advance(1e5)
        assert store.level == pytest.approx(level)


def test_a_level_that_turns_at_the_threshold_is_told_each_time() -> None:
    store = store_of(battery_of(1000.0, source=Constant(1.0)))
    store.draw(0.0, 5.0)
    low = store.next_event()
    assert store.settle(low) is LOW
    store.draw(low, 0.0)
    assert store.next_event() == low
    assert store.settle(low) is READY
    assert store.next_event() > low


def test_at_the_threshold_a_client_is_ready_unless_it_falls() -> None:
    assert store_of(battery_of(1000.0, charge=0.2)).ready
    for watts, ready in ((0.0, True), (16.0, True), (20.0, False)):
        lossless = {"charge_efficiency": 1.0, "discharge_efficiency": 1.0}
        model = battery_of(1000.0, charge=0.0, source=Constant(16.0), **lossless)
        store = store_of(model)
        store.draw(0.0, watts)
        assert store.settle(store.next_event()) is CHARGED
        assert store.ready is ready


def test_what_late_times_round_is_booked() -> None:
    late = 1e9  # s, known to 1e-7 s
    store = store_of(battery_of(1000.0, source=Constant(7.3)))
    told = lived(store, [(late, 97.0)], late + 200)
    assert [crossing for _, crossing in told].count(DEPLETED) >= 5
    assert 1000 + (store.charged - store.drained) == pytest.approx(store.level, abs=1e-9)


def test_time_never_runs_back() -> None:
    store = store_of(PHONE)
    store.advance(5.0)
    with pytest.raises(ValueError, match=r"got the time 4\.0, before 5\.0"):
        store.advance(4.0)


@every(
    ("name", "value", "seen"),
    [
        ("capacity", 0.0, "an energy above 0"),
        ("capacity", inf, "too large a number"),
        ("charge", 1.1, "a share of 100 % or less"),
        ("cutoff", -0.1, "a share of 0 or more"),
        ("threshold", float("nan"), "a share as a number"),
        ("charge_efficiency", 0.0, "a share above 0"),
        ("discharge_efficiency", 1.01, "a share of 100 % or less"),
        ("self_discharge", -1.0, "a share per time of 0 or more"),
        ("restart", 0.05, "above the cut-off"),
    ],
)
def test_what_is_no_battery_is_refused(name: str, value: float, seen: str) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=rf"(?s){name}\n.*{seen}"):
        Battery.in_si(**{"capacity": 1000.0, "threshold": 0.05, "restart": 0.2, **changed})


@pytest.mark.parametrize("watts", [-1.0, inf, float("nan")])
def test_what_is_no_draw_is_refused(watts: float) -> None:
    with pytest.raises(ValueError, match="at least 0 W"):
        store_of(PHONE).draw(0.0, watts)


def test_what_is_taken_at_once_leaves_marks_behind_at_once() -> None:
    model = battery_of(100.0, charge_efficiency=1.0, discharge_efficiency=0.5, source=Constant(3.0))
    store = store_of(model)
    store.draw(0.0, 1.0)
    store.take(42.0)  # 84 J of the store
    assert (store.level, store.drained) == (16.0, 84.0)
    assert store.next_event() == 0.0
    assert store.settle(0.0) is LOW
    store.take(7.0)
    assert [store.settle(store.next_event()), store.level] == [DEPLETED, 2.0]
    assert store.next_event() == 6.0  # dead: nothing is drawn, and 3 W charge it to 20 J
    assert [store.settle(6.0), store.level] == [CHARGED, 20.0]


def test_an_empty_store_gives_no_more_and_a_full_one_takes_no_more() -> None:
    store = store_of(battery_of(100.0, charge=0.5, discharge_efficiency=1.0))
    store.take(80.0)
    assert (store.level, store.drained) == (0.0, 50.0)
    store.take(-200.0)
    assert (store.level, store.drained) == (100.0, -50.0)
