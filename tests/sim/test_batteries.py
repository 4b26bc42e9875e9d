"""Batteries in a world, by hand: rest, work, death and restart at their exact times."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from fedsim.core.ports import Message
from fedsim.physics.signals import Constant, Steps
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from tests.sim.devices import device_of

from .physical import battery, gathered, member, online, spans, told
from .worlds import Run, answered, asked, play, setup, work, working

WORKER = device_of(speed=1.0, active=5.0, idle=2.0)
"""5 W while it works, 2 W while it does not."""


def waiting(seconds: float) -> Callable[[SimServer], Any]:
    """A server that asks nobody for so long."""

    async def serve(server: SimServer) -> None:
        await asyncio.sleep(seconds)

    return serve


def stores(run: Run) -> dict[str, float]:
    """Return what the first battery says of itself."""
    stores = run.world.meters().stores
    names = ("initial", "final", "charged", "drained", "delivered", "depletions")
    return {name: float(getattr(stores, name)[0]) for name in names}


def test_a_client_at_rest_dies_when_its_idle_power_has_emptied_the_battery() -> None:
    run = play(setup(waiting(100.0), working(1.0), [member(battery(10.0), device=WORKER)]))
    assert told(run, "depleted", "t", "node", "state_of_charge") == [(5.0, "client-0", 0.0)]
    assert run.world.meters().idle_joules.tolist() == [10.0]
    assert (run.t, run.of("stop")[0]["joules"]) == (100.0, 10.0)
    assert stores(run)["depletions"] == 1


def test_where_all_is_metered_by_power_nothing_is_settled_beyond_the_clock_s_resolution() -> None:
    run = play(setup(waiting(100.0), working(1.0), [member(battery(1000.0), device=WORKER)]))
    held = run.world.meters().stores
    assert held.settled.tolist() == [0.0]
    assert held.resolution.tolist() == [0.0]  # nothing has changed its power


def test_what_leaves_the_store_is_more_than_what_the_client_draws_and_it_leaks() -> None:
    store = battery(100.0, discharge_efficiency=0.5, leak=1.0, cutoff=0.25)
    run = play(setup(waiting(100.0), working(1.0), [member(store, device=WORKER)]))
    # 75 J to the cut-off at 2/0.5 + 1 W; then it leaks on: 15 s and 25 s.
    assert told(run, "depleted", "t", "state_of_charge") == [(15.0, 0.25)]
    assert run.world.meters().idle_joules.tolist() == [30.0]
    assert stores(run) == {
        "initial": 100.0,
        "final": 0.0,
        "charged": 0.0,
        "drained": 100.0,
        "delivered": 30.0,
        "depletions": 1.0,
    }


def test_death_amid_work_breaks_it_off_and_what_was_spent_stays_spent() -> None:
    members = [member(battery(20.0), device=WORKER), member()]
    run, seen = gathered(working(8.0), members, 1)
    assert spans(run, "compute", 0) == [(0.0, 4.0)]
    assert told(run, "compute", "joules", node="client-0") == [(12.0,)]
    assert told(run, "depleted", "t") == [(4.0,)]
    assert run.of("send", node="client-0") == []
    assert seen == [(8.0, [(1, 1)])]
    # 4 s at 2 W; the other client is an ideal one.
    assert run.world.meters().idle_joules.tolist() == [8.0, 0.0]


def test_a_round_that_waits_for_the_dead_alone_is_over_as_they_die() -> None:
    run, seen = gathered(working(8.0), [member(battery(20.0), device=WORKER)], 1)
    assert told(run, "abandoned", "t", "duration") == [(4.0, 4.0)]
    assert seen == [], "without a reply it is no step of the algorithm"
    assert run.reason.startswith("no client can take part any more")


def test_work_that_waits_for_the_processor_dies_with_the_work_that_has_it() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        await asyncio.gather(*(client.compute(work(3.0)) for _ in range(3)))
        return answered()

    run, _ = gathered(handle, [member(battery(20.0), device=WORKER)], 1)
    assert spans(run, "compute") == [(0.0, 3.0), (3.0, 4.0), (4.0, 4.0)]
    assert sum(row["joules"] for row in run.of("compute")) == 12.0


def test_work_that_was_cancelled_is_not_drawn_any_more() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        first, second = (asyncio.create_task(client.compute(work(4.0))) for _ in range(2))
        await asyncio.sleep(1.0)
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return answered()

    # 1 s of the first, then nothing until the second's turn: 5 + 3 * 2 + 4 * 5 J in 8 s.
    run, seen = gathered(handle, [member(battery(100.0), device=WORKER)], 1)
    assert (seen, stores(run)["final"]) == ([(8.0, [(0, 1)])], 69.0)


@pytest.mark.parametrize("given_again", [False, True])
def test_work_whose_place_in_the_queue_was_given_back_never_draws(given_again: bool) -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        first, second = (asyncio.create_task(client.compute(work(4.0))) for _ in range(2))
        await asyncio.sleep(1.0)
        second.cancel()
        await first
        await (client.compute(work(4.0)) if given_again else asyncio.sleep(4.0))
        return answered()

    run, seen = gathered(handle, [member(battery(100.0), device=WORKER)], 1)
    left = 100.0 - 4 * 5.0 - 4 * (5.0 if given_again else 2.0)
    assert (seen, stores(run)["final"]) == ([(8.0, [(0, 1)])], left)


def test_a_dead_client_draws_nothing_and_comes_back_at_its_restart_level() -> None:
    # 4 W net empty 20 J in 5 s; 1 W charges 30 J in 30 s.
    store = battery(40.0, charge=0.5, restart=0.75, source=Constant(1.0))
    device = device_of(1.0, active=9.0, idle=5.0)
    run = play(setup(waiting(50.0), working(1.0), [member(store, device=device)]))
    assert told(run, "depleted", "t", "state_of_charge") == [(5.0, 0.0), (42.5, 0.0)]
    assert told(run, "charged", "t", "duration", "state_of_charge") == [(35.0, 30.0, 0.75)]
    assert run.world.meters().idle_joules.tolist() == [5.0 * (5.0 + 7.5)]
    assert stores(run) == {
        "initial": 20.0,
        "final": 7.5,
        "charged": 50.0,
        "drained": 62.5,
        "delivered": 62.5,
        "depletions": 2.0,
    }


def test_efficiency_counts_both_ways() -> None:
    store = battery(
        100.0,
        charge=0.5,
        cutoff=0.25,
        charge_efficiency=0.5,
        discharge_efficiency=0.8,
        source=Constant(4.0),
    )
    # 2/0.8 out and 4 * 0.5 in: half a watt net, 25 J in 50 s; then 25 J at 2 W.
    run = play(setup(waiting(70.0), working(1.0), [member(store, device=WORKER)]))
    assert told(run, "depleted", "t") == [(50.0,)]
    assert told(run, "charged", "t") == [(62.5,)]
    assert stores(run)["charged"] == 140.0
    assert stores(run)["drained"] == pytest.approx(2.5 * 57.5, rel=1e-12)


def test_the_sun_charges_it_by_day_and_it_dies_by_night() -> None:
    # 4 W on the first 10 of every 20 s, 2 W drawn: +20 J by day, -20 J by night from full.
    sun = Steps([0.0, 10.0], [4.0, 0.0], period=20.0)
    store = battery(16.0, charge=0.25, restart=0.5, source=sun)
    run = play(setup(waiting(60.0), working(1.0), [member(store, device=WORKER)]))
    # Full at 6 s, empty at 18 s; by day it takes 2 s at 4 W to restart, and 4 s more to fill.
    assert told(run, "depleted", "t") == [(18.0,), (38.0,), (58.0,)]
    assert told(run, "charged", "t", "duration") == [(22.0, 4.0), (42.0, 4.0)]
    assert run.world.meters().idle_joules.tolist() == [2.0 * (18.0 + 16.0 + 16.0)]


def test_a_full_battery_takes_only_what_the_client_draws() -> None:
    store = battery(100.0, source=Constant(3.0))
    run = play(setup(waiting(10.0), working(1.0), [member(store, device=WORKER)]))
    assert (stores(run)["final"], stores(run)["charged"], stores(run)["drained"]) == (
        100.0,
        20.0,
        20.0,
    )


def test_a_handler_reads_the_charge_of_the_moment() -> None:
    seen = list[tuple[float, float | None]]()

    async def handle(client: SimClient, message: Message) -> Message:
        seen.append((client.now, client.battery))
        await client.compute(work(4.0))
        seen.append((client.now, client.battery))
        await asyncio.sleep(2.0)
        seen.append((client.now, client.battery))
        return answered()

    async def serve(server: SimServer) -> None:
        await asyncio.sleep(8.0)
        await server.exchange(asked())

    play(setup(serve, handle, [member(battery(128.0), device=WORKER)]))
    spent = 8 * 2.0, 8 * 2.0 + 4 * 5.0, 10 * 2.0 + 4 * 5.0
    assert seen == [
        (t, 1.0 - joules / 128.0) for t, joules in zip((8.0, 12.0, 14.0), spent, strict=True)
    ]


def test_a_client_on_mains_has_no_charge_to_read() -> None:
    seen = list[float | None]()

    async def handle(client: SimClient, message: Message) -> Message:
        seen.append(client.battery)
        return answered()

    gathered(handle, [member()], 1)
    assert seen == [None]


def test_a_client_may_die_while_it_is_offline_and_charge_there() -> None:
    store = battery(20.0, source=Constant(1.0), restart=0.5)
    members = [member(store, online(0.0, 5.0, 24.0, inf), device=device_of(1.0, 9.0, 3.0))]
    run = play(setup(waiting(39.0), working(1.0), members))
    # 2 W net: 10 s from full, 5 s from half; and 10 s to charge a half.
    assert told(run, "depleted", "t") == [(10.0,), (25.0,)]
    assert told(run, "charged", "t") == [(20.0,), (35.0,)]
    assert told(run, "offline", "t", "state_of_charge") == [(5.0, 0.5)]
    assert told(run, "online", "t", "duration", "state_of_charge") == [(24.0, 19.0, 0.1)]
    assert run.world.meters().idle_joules.tolist() == [3.0 * (10 + 5 + 4)]
