"""Batteries: the account balances, and an independent integration tells the same lives."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedsim.physics.signals import Constant, Steps
from tests.physics.batteries import (
    CHARGED,
    DEPLETED,
    GAPS,
    AnyBattery,
    Draws,
    Told,
    battery_of,
    lived,
    models,
    store_of,
    timed,
)
from tests.physics.signals import added_up
from tests.tiers import every


@given(models(), GAPS)
def test_the_account_balances(model: AnyBattery, gaps: list[tuple[float, float]]) -> None:
    store, draws = store_of(model), timed(gaps)
    lived(store, draws, draws[-1][0] + 50)
    initial = model.charge * model.capacity
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
    model: AnyBattery, gaps: list[tuple[float, float]]
) -> None:
    store, draws = store_of(model), timed(gaps)
    end = draws[-1][0] + 50
    told = lived(store, draws, end)
    changes = [(t, crossing is CHARGED) for t, crossing in told if crossing in (DEPLETED, CHARGED)]
    lives = [(0.0, store_of(model).alive), *changes]
    times = sorted({0.0, end, *(t for t, _ in lives), *(t for t, _ in draws)})
    drawn = 0.0
    for begin, after in pairwise(times):
        alive = [on for t, on in lives if t <= begin][-1]
        watts = [0.0, *(w for t, w in draws if t <= begin)][-1]
        drawn += alive * watts / model.discharge_efficiency * (after - begin)
    leaked = model.leaks * end
    assert store.drained <= (drawn + leaked) * (1 + 1e-9) + 1e-9
    if not leaked:  # without a leak, nothing is below the cut-off to run dry
        assert store.drained == pytest.approx(drawn, rel=1e-9, abs=1e-9)


@given(models(), GAPS)
def test_crossings_alternate_and_the_level_is_where_they_say(
    model: AnyBattery, gaps: list[tuple[float, float]]
) -> None:
    store, draws = store_of(model), timed(gaps)
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
        assert store.level <= model.restarts_at * model.capacity + edge


def by_small_steps(model: AnyBattery, draws: Draws, end: float, step: float) -> Told:
    """Return deaths and restarts by Euler's method: late by a step at most, each in its turn."""
    level, alive = model.charge * model.capacity, model.charge > model.cutoff
    told: Told = []
    times = np.arange(0.0, end, step)
    changes = np.searchsorted([t for t, _ in draws], times, side="right")
    watts = np.array([0.0, *(w for _, w in draws)])[changes]
    for t, w in zip(times.tolist(), watts.tolist(), strict=True):
        load = w / model.discharge_efficiency if alive else 0.0
        level += step * (model.charge_efficiency * model.source.at(t) - load - model.leaks)
        level = min(max(level, 0.0), model.capacity)
        if alive and level <= model.cutoff * model.capacity:
            alive = False
            told.append((t + step, DEPLETED))
        elif not alive and level >= model.restarts_at * model.capacity:
            alive = True
            told.append((t + step, CHARGED))
    return told


@pytest.mark.slow
@every("seed", range(8))
def test_small_steps_find_the_same_deaths_and_restarts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = battery_of(
        capacity=40.0,
        charge=float(rng.uniform(0.1, 1)),
        leak=0.125,
        source=Steps([0, 4, 12], rng.uniform([0, 3, 0], [2, 9, 1]), period=16.0),
        restart=0.3,
    )
    draws = [(float(t), float(rng.uniform(0, 8))) for t in range(0, 128, 2)]
    exact = [(t, c) for t, c in lived(store_of(model), draws, 128.0) if c in (DEPLETED, CHARGED)]
    step = 2.0**-9
    stepped = by_small_steps(model, draws, 128.0, step)
    assert [c for _, c in stepped] == [c for _, c in exact]
    assert len(exact) >= 3
    # A step late for each event so far: a client that died late has drawn longer.
    slip = 50 * step * np.arange(1, len(exact) + 1)
    assert (np.abs(np.subtract([t for t, _ in stepped], [t for t, _ in exact])) <= slip).all()


@given(st.floats(1e-3, 1e9), st.integers(1, 100))
def test_on_a_bound_the_state_of_charge_is_not_below_it(capacity: float, percent: int) -> None:
    share = percent / 100
    model = battery_of(
        capacity, charge=0.0, cutoff=0.0, threshold=share, restart=share, source=Constant(capacity)
    )
    store = store_of(model)
    assert store.settle(store.next_event()) is CHARGED
    assert store.share >= share
    assert store.share == pytest.approx(share, rel=1e-15)


@given(models())
def test_a_sustainable_battery_restarts(model: AnyBattery) -> None:
    dead = model.model_copy(update={"charge": 0.0})
    net = model.charge_efficiency * model.source.average - model.leaks
    assume(abs(net) > 1e-2)
    cycle = model.source.period if isinstance(model.source, Steps) else 0.0
    # At worst the level rises by the mean of a cycle in each of them.
    time = 2 * cycle + (model.restarts_at * model.capacity / net if net > 0 else 1e4)
    assume(time < 300 * max(cycle, 1))
    told = lived(store_of(dead), [], time * (1 + 1e-9))
    if model.charge_efficiency * model.source.average > model.leaks:
        assert told[0][1] is CHARGED


def test_one_advance_over_changes_of_the_offered_power_is_their_integral() -> None:
    """1 W for 10 s, 3 W for 10 s, and again; from half of 100 J, in one step of 25 s."""
    model = battery_of(100.0, charge=0.5, source=Steps([0, 10], [1.0, 3.0], period=20.0))
    store = store_of(model)
    store.advance(25.0)
    offered = 10 * 1.0 + 10 * 3.0 + 5 * 1.0
    assert store.now == 25.0
    assert store.charged == pytest.approx(model.charge_efficiency * offered, rel=1e-12)
    assert store.level == pytest.approx(50.0 + store.charged, rel=1e-12)
