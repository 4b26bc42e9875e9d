"""Batteries: the account balances, and every crossing comes at its exact time."""

from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedsim.physics.batteries import BatteryModel, Crossing, Store
from fedsim.physics.signals import Constant, Signal, Steps
from tests.physics.signals import added_up

DEPLETED, CHARGED, LOW, READY = Crossing
Told = list[tuple[float, Crossing]]
Draws = list[tuple[float, float]]

PHONE = BatteryModel(capacity=1000.0)
SUN = Steps([0, 6, 18], [0, 8, 0], period=24)


def lived(store: Store, draws: Draws, end: float) -> Told:
    """Let a battery live through draws (time, W), sorted by time; return its crossings."""
    told: Told = []
    for t, watts in [*draws, (end, 0.0)]:
        while (event := store.next_event()) <= t:
            crossing = store.settle(event)
            assert store.next_event() > event, "settled, but it would happen again"
            if crossing:
                told.append((event, crossing))
        store.draw(t, watts)
        assert 0 <= store.level <= store.model.capacity
    return told


@st.composite
def models(draw: st.DrawFn) -> BatteryModel:
    # Bounds coincide or are well apart: it takes no more than this to be told one by one.
    shares = st.integers(0, 100).map(lambda percent: percent / 100)
    cutoff = draw(shares.filter(lambda share: share <= 0.9))
    powers = draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.5, 30.0]), min_size=1, max_size=5))
    source: Signal = Constant(powers[0])
    if len(powers) > 1:
        times = np.cumsum([0.0, *draw(st.lists(st.floats(0.5, 60), min_size=5, max_size=5))])
        source = Steps(times[: len(powers)], powers, period=float(times[len(powers)]))
    return BatteryModel(
        capacity=draw(st.floats(50, 1e4)),
        initial=draw(shares),
        charge_efficiency=draw(st.floats(0.5, 1)),
        discharge_efficiency=draw(st.floats(0.5, 1)),
        leak=draw(st.sampled_from([0.0, 1e-3, 0.5])),
        cutoff=cutoff,
        threshold=draw(shares),
        restart=draw(shares.filter(lambda share: share > cutoff + 0.09)),
        source=source,
    )


GAPS = st.lists(
    st.tuples(st.floats(0, 30), st.sampled_from([0.0, 0.3, 2.0, 25.0])), min_size=1, max_size=30
)


def timed(gaps: list[tuple[float, float]]) -> Draws:
    times = np.cumsum([gap for gap, _ in gaps])
    return [(float(t), watts) for t, (_, watts) in zip(times, gaps, strict=True)]


@given(models(), GAPS)
def test_the_account_balances(model: BatteryModel, gaps: list[tuple[float, float]]) -> None:
    store, draws = Store(model), timed(gaps)
    lived(store, draws, draws[-1][0] + 50)
    initial = model.initial * model.capacity
    scale = max(initial, store.charged, store.drained)
    assert initial + store.charged - store.drained == pytest.approx(
        store.level, rel=1e-9, abs=1e-12 * scale
    )
    offered = model.charge_efficiency * added_up(model.source, 0, store.now)
    taken = store.charged + model.charge_efficiency * store.spilled
    assert taken == pytest.approx(offered, rel=1e-9, abs=1e-12 * scale)
    assert min(store.charged, store.drained, store.spilled) >= 0


@given(models(), GAPS)
def test_what_goes_out_is_what_the_client_drew_and_what_leaked(
    model: BatteryModel, gaps: list[tuple[float, float]]
) -> None:
    store, draws = Store(model), timed(gaps)
    end = draws[-1][0] + 50
    told = lived(store, draws, end)
    changes = [(t, crossing is CHARGED) for t, crossing in told if crossing in (DEPLETED, CHARGED)]
    lives = [(0.0, Store(model).alive), *changes]
    times = sorted({0.0, end, *(t for t, _ in lives), *(t for t, _ in draws)})
    drawn = 0.0
    for begin, after in pairwise(times):
        alive = [on for t, on in lives if t <= begin][-1]
        watts = [0.0, *(w for t, w in draws if t <= begin)][-1]
        drawn += alive * watts / model.discharge_efficiency * (after - begin)
    leaked = model.leak * end
    assert store.drained <= (drawn + leaked) * (1 + 1e-9) + 1e-9
    if not leaked:  # without a leak, nothing is below the cut-off to run dry
        assert store.drained == pytest.approx(drawn, rel=1e-9, abs=1e-9)


@given(models(), GAPS)
def test_crossings_alternate_and_the_level_is_where_they_say(
    model: BatteryModel, gaps: list[tuple[float, float]]
) -> None:
    store, draws = Store(model), timed(gaps)
    alive = store.alive
    told = lived(store, draws, draws[-1][0] + 50)
    for _, crossing in told:
        if crossing in (DEPLETED, CHARGED):
            assert alive is (crossing is DEPLETED)
            alive = not alive
        else:
            assert alive
    assert store.alive is alive
    edge = 1e-12 * model.capacity
    if store.alive:
        assert store.level >= model.cutoff * model.capacity - edge
    if store.ready:
        assert store.level >= model.threshold * model.capacity - edge
    if not store.alive:
        assert store.level <= model.restart * model.capacity + edge


def by_small_steps(model: BatteryModel, draws: Draws, end: float, step: float) -> Told:
    """Return deaths and restarts by Euler's method: late by a step at most, each in its turn."""
    level, alive = model.initial * model.capacity, model.initial > model.cutoff
    told: Told = []
    times = np.arange(0.0, end, step)
    changes = np.searchsorted([t for t, _ in draws], times, side="right")
    watts = np.array([0.0, *(w for _, w in draws)])[changes]
    for t, w in zip(times.tolist(), watts.tolist(), strict=True):
        load = w / model.discharge_efficiency if alive else 0.0
        level += step * (model.charge_efficiency * model.source.at(t) - load - model.leak)
        level = min(max(level, 0.0), model.capacity)
        if alive and level <= model.cutoff * model.capacity:
            alive = False
            told.append((t + step, DEPLETED))
        elif not alive and level >= model.restart * model.capacity:
            alive = True
            told.append((t + step, CHARGED))
    return told


@pytest.mark.parametrize("seed", range(8))
def test_small_steps_find_the_same_deaths_and_restarts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = BatteryModel(
        capacity=40.0,
        initial=float(rng.uniform(0.1, 1)),
        leak=0.125,
        source=Steps([0, 4, 12], rng.uniform([0, 3, 0], [2, 9, 1]), period=16.0),
        restart=0.3,
    )
    draws = [(float(t), float(rng.uniform(0, 8))) for t in range(0, 128, 2)]
    exact = [(t, c) for t, c in lived(Store(model), draws, 128.0) if c in (DEPLETED, CHARGED)]
    step = 2.0**-9
    stepped = by_small_steps(model, draws, 128.0, step)
    assert [c for _, c in stepped] == [c for _, c in exact]
    assert len(exact) >= 3
    # A step late for each event so far: a client that died late has drawn longer.
    slip = 50 * step * np.arange(1, len(exact) + 1)
    assert (np.abs(np.subtract([t for t, _ in stepped], [t for t, _ in exact])) <= slip).all()


def test_a_steady_draw_empties_the_battery_at_its_time() -> None:
    store = Store(PHONE)
    told = lived(store, [(0.0, 2.0)], 1e4)
    joule_per_second = 2.0 / 0.95
    assert [crossing for _, crossing in told] == [LOW, DEPLETED]
    assert [t for t, _ in told] == pytest.approx([800 / joule_per_second, 950 / joule_per_second])
    assert store.level == 50.0
    assert not store.alive
    assert store.next_event() == inf
    assert store.drained == pytest.approx(950, rel=1e-12)


def test_a_dead_client_draws_nothing_until_it_restarts() -> None:
    model = replace(PHONE, initial=0.05, source=Constant(10.0))
    store = Store(model)
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
    model = replace(PHONE, initial=0.2, leak=0.5, source=Constant(10.0), threshold=0.0)
    fall, rise = 150 / (20 / 0.95 + 0.5 - 9.5), 150 / 9.0
    told = lived(Store(model), [(0.0, 20.0)], 4 * (fall + rise) - 1e-6)
    assert [crossing for _, crossing in told] == [DEPLETED, CHARGED] * 3 + [DEPLETED]
    times = [t for t, _ in told]
    assert np.diff(times) == pytest.approx([rise, fall] * 3, rel=1e-12)


def test_a_full_battery_takes_only_what_it_gives() -> None:
    model = replace(PHONE, initial=0.9, source=Constant(10.0), leak=0.1)
    store = Store(model)
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
    store = Store(replace(PHONE, initial=0.04, leak=2.0))
    assert store.next_event() == 20.0
    assert store.settle(20.0) is None
    store.advance(1e6)
    assert store.level == 0
    assert store.drained == pytest.approx(40)
    assert store.next_event() == inf


def test_source_changes_between_two_looks_are_integrated() -> None:
    lookout = Store(replace(PHONE, initial=0.5, source=SUN))
    watchful = Store(lookout.model)
    lookout.draw(0.0, 1.0)
    lived(watchful, [(0.0, 1.0)], 60.0)
    lookout.advance(60.0)
    assert lookout.level == pytest.approx(watchful.level, rel=1e-12)
    assert lookout.level == pytest.approx(500 + 0.95 * 8 * 30 - 60 / 0.95)


def test_looking_at_the_instant_of_an_event_does_not_hide_it() -> None:
    for watts in np.linspace(0.1, 7, 100):
        store = Store(PHONE)
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
        store = Store(replace(PHONE, initial=initial, cutoff=0.04, source=source))
        store.draw(1.0, watts)
        level = store.level
        assert store.next_event() == inf
        store.advance(1e5)
        assert store.level == pytest.approx(level)


def test_a_level_that_turns_at_the_threshold_is_told_each_time() -> None:
    store = Store(replace(PHONE, source=Constant(1.0)))
    store.draw(0.0, 5.0)
    low = store.next_event()
    assert store.settle(low) is LOW
    store.draw(low, 0.0)
    assert store.next_event() == low
    assert store.settle(low) is READY
    assert store.next_event() > low


@given(st.floats(1e-3, 1e9), st.integers(1, 100))
def test_on_a_bound_the_state_of_charge_is_not_below_it(capacity: float, percent: int) -> None:
    share = percent / 100
    model = BatteryModel(
        capacity, 0.0, cutoff=0.0, threshold=share, restart=share, source=Constant(capacity)
    )
    store = Store(model)
    assert store.settle(store.next_event()) is CHARGED
    assert store.share >= share
    assert store.share == pytest.approx(share, rel=1e-15)


@given(models())
def test_a_sustainable_battery_restarts(model: BatteryModel) -> None:
    dead = replace(model, initial=0.0)
    net = model.charge_efficiency * model.source.average - model.leak
    assume(abs(net) > 1e-2)
    cycle = model.source.period if isinstance(model.source, Steps) else 0.0
    # At worst the level rises by the mean of a cycle in each of them.
    time = 2 * cycle + (model.restart * model.capacity / net if net > 0 else 1e4)
    assume(time < 300 * max(cycle, 1))
    told = lived(Store(dead), [], time * (1 + 1e-9))
    if model.sustainable:
        assert told[0][1] is CHARGED


def test_time_never_runs_back() -> None:
    store = Store(PHONE)
    store.advance(5.0)
    with pytest.raises(ValueError, match=r"from 5\.0 to 4\.0"):
        store.advance(4.0)


@pytest.mark.parametrize(
    ("name", "value", "seen"),
    [
        ("capacity", 0.0, "capacity is above 0"),
        ("capacity", inf, "capacity is above 0"),
        ("initial", 1.1, "initial is a share"),
        ("cutoff", -0.1, "cutoff is a share"),
        ("threshold", float("nan"), "threshold is a share"),
        ("charge_efficiency", 0.0, "charge_efficiency is above 0"),
        ("discharge_efficiency", 1.01, "discharge_efficiency is above 0"),
        ("leak", -1.0, "leak is finite"),
        ("restart", 0.05, "restart is above cutoff"),
    ],
)
def test_what_is_no_battery_is_refused(name: str, value: float, seen: str) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=seen):
        replace(PHONE, **changed)


@pytest.mark.parametrize("watts", [-1.0, inf, float("nan")])
def test_what_is_no_draw_is_refused(watts: float) -> None:
    with pytest.raises(ValueError, match="at least 0 W"):
        Store(PHONE).draw(0.0, watts)
