"""Clients: what work takes and costs, who waits for the processor, one message at a time."""

import asyncio
from itertools import pairwise
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import Array, Message, Work
from fedsim.physics.devices import Device
from fedsim.problems.evaluators import SerialEvaluator
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import Handler, SimClient
from fedsim.sim.server import SimServer
from tests.sim.devices import device_of
from tests.tiers import examples

from .worlds import (
    IDEAL,
    SLOW,
    Run,
    answered,
    asked,
    deadline,
    fleet,
    play,
    rounds,
    setup,
    work,
    working,
)

HUNGRY = device_of(speed=2.0, active=7.0, idle=3.0)
ONE_ROUND = Stop(rounds=1)


def one_round(handle: Handler, device: Device = SLOW, clients: int = 1, **parts: Any) -> Run:
    members = fleet(*[(device, IDEAL)] * clients)
    return play(setup(rounds, handle, members, stop=ONE_ROUND, **parts))


def spans(run: Run, client: int = 0) -> list[tuple[float, float]]:
    """Return when the client has worked, in order."""
    rows = run.of("compute", node=f"client-{client}")
    return sorted((row["t"] - row["duration"], row["t"]) for row in rows)


def test_work_takes_its_operations_over_the_speed_and_costs_what_it_draws_beyond_idle() -> None:
    run = one_round(working(10.0), HUNGRY)
    (row,) = run.of("compute")
    assert (row["t"], row["duration"], row["joules"]) == (5.0, 5.0, 20.0)
    assert (row["node"], row["peer"], row["round"]) == ("client-0", None, 1)
    assert run.t == 5.0
    assert run.world.meters().idle_joules.sum() == 15.0


def test_work_on_an_ideal_device_takes_no_time_and_costs_nothing() -> None:
    run = one_round(working(1e30), device_of())
    assert (run.t, run.world.traffic.joules) == (0.0, 0.0)
    assert spans(run) == [(0.0, 0.0)]


def test_the_result_comes_at_the_virtual_finish_and_is_evaluated_no_later() -> None:
    seen = list[Any]()

    async def handle(client: SimClient, message: Message) -> Message:
        def kernel(a: float, b: float) -> Array:
            seen.append("evaluated")
            return np.array([a + b])

        result = await client.compute(Work(kernel, None, (1.0, 2.0), 4.0))
        seen.extend([client.now, *result])
        return answered()

    one_round(handle)
    assert seen == ["evaluated", 4.0, 3.0]


def test_an_evaluator_is_told_at_the_start_and_asked_at_the_finish() -> None:
    told = list[tuple[str, float]]()

    class Noting:
        def submit(self, work: Work) -> float:
            told.append(("submit", work.operations))
            return work.operations

        def result(self, ticket: float) -> Array:
            told.append(("result", ticket))
            return np.array([ticket])

        def finite(self, ticket: float, result: Array) -> bool:
            return bool(result[0] == ticket)

        def withdraw(self, ticket: float) -> None:
            raise AssertionError("nothing was broken off")

    members = fleet((SLOW, IDEAL), (SLOW, IDEAL))

    async def handle(client: SimClient, message: Message) -> Message:
        result = await client.compute(work(2.0 - client.id))
        return answered(value=float(result[0]))

    play(setup(rounds, handle, members, stop=ONE_ROUND, evaluator=Noting()))
    assert told == [("submit", 2.0), ("submit", 1.0), ("result", 1.0), ("result", 2.0)]


def test_work_that_is_given_together_is_done_in_turn() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        results = await asyncio.gather(*(client.compute(work(s, s)) for s in (2.0, 1.0, 3.0)))
        assert [float(result[0]) for result in results] == [2.0, 1.0, 3.0]
        return answered()

    assert spans(one_round(handle)) == [(0.0, 2.0), (2.0, 3.0), (3.0, 6.0)]


def test_work_that_is_cancelled_is_charged_up_to_that_moment() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.compute(work(100.0)), 1.5)
        await client.compute(work(4.0))  # the processor is free again
        return answered()

    run = one_round(handle, HUNGRY)
    assert spans(run) == [(0.0, 1.5), (1.5, 3.5)]
    assert [row["joules"] for row in run.of("compute")] == [6.0, 8.0]


def test_an_evaluator_is_told_of_work_that_is_broken_off_and_not_asked_for_it() -> None:
    told = list[tuple[str, float]]()

    class Noting(SerialEvaluator):
        def result(self, ticket: Work) -> Array:
            told.append(("result", ticket.operations))
            return super().result(ticket)

        def withdraw(self, ticket: Work) -> None:
            told.append(("withdraw", ticket.operations))

    async def handle(client: SimClient, message: Message) -> Message:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.compute(work(100.0)), 1.5)
        await client.compute(work(4.0))
        return answered()

    one_round(handle, evaluator=Noting())
    assert told == [("withdraw", 100.0), ("result", 4.0)]


def test_work_that_ends_at_its_deadline_has_met_it() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        async with asyncio.timeout(4.0):
            await client.compute(work(4.0))
        return answered()

    assert spans(one_round(handle)) == [(0.0, 4.0)]


def test_work_that_never_got_its_turn_costs_nothing() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        first = asyncio.create_task(client.compute(work(4.0)))
        await asyncio.sleep(0)  # it has the processor
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.compute(work(4.0)), 1.0)
        await first
        return answered()

    run = one_round(handle, HUNGRY)
    assert sum(row["joules"] for row in run.of("compute")) == 8.0


@pytest.mark.parametrize("cancelled", [0, 1])
def test_a_processor_does_one_thing_at_a_time_though_work_was_cancelled(cancelled: int) -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        tasks = [asyncio.create_task(client.compute(work(2.0))) for _ in range(2)]
        await asyncio.sleep(1.0)
        tasks[cancelled].cancel()
        await asyncio.sleep(0)
        await client.compute(work(2.0))
        await asyncio.gather(*tasks, return_exceptions=True)
        return answered()

    worked = [(begin, end) for begin, end in spans(one_round(handle)) if begin < end]
    assert all(before[1] <= after[0] for before, after in pairwise(worked))


jobs = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 6), st.one_of(st.none(), st.integers(0, 8))),
    min_size=1,
    max_size=6,
)


@examples(40)
@given(jobs)
def test_spans_of_work_never_overlap_and_cost_their_length(
    jobs: list[tuple[int, int, int | None]],
) -> None:
    async def job(client: SimClient, start: int, seconds: int, patience: int | None) -> None:
        await asyncio.sleep(start)
        await asyncio.wait_for(client.compute(work(seconds)), patience)

    async def handle(client: SimClient, message: Message) -> Message:
        await asyncio.gather(*(job(client, *one) for one in jobs), return_exceptions=True)
        return answered()

    run = one_round(handle, device_of(speed=1.0, active=5.0, idle=1.0))
    worked = [(begin, end) for begin, end in spans(run) if begin < end]
    assert all(before[1] <= after[0] for before, after in pairwise(worked))
    assert run.ledger.joules[:, 1].sum() == 4.0 * sum(end - begin for begin, end in worked)


def test_a_client_handles_one_message_at_a_time_in_the_order_of_arrival() -> None:
    seen = list[tuple[str, float, float]]()

    async def handle(client: SimClient, message: Message) -> Message:
        number = float(message.payloads()[0].values[0])
        seen.append(("begins", number, client.now))
        await client.compute(work(2.5))
        seen.append(("ends", number, client.now))
        return answered()

    async def serve(server: SimServer) -> None:
        for number in range(6):
            await server.exchange(asked(value=number))  # closes after 1 s, mostly unanswered

    play(setup(serve, handle, silence=deadline(1.0)))
    assert seen == [
        ("begins", 0.0, 0.0),
        ("ends", 0.0, 2.5),
        ("begins", 1.0, 2.5),
        ("ends", 1.0, 5.0),
        ("begins", 2.0, 5.0),
    ]


@pytest.mark.parametrize("operations", [-1.0, inf, nan])
def test_work_without_a_finite_number_of_operations_is_refused(operations: float) -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(operations))
        return answered()

    with pytest.raises(ValueError, match=f"not {operations}"):
        play(setup(rounds, handle))


def test_every_piece_of_work_is_reported_when_it_starts() -> None:
    seen = list[tuple[int, float]]()

    async def handle(client: SimClient, message: Message) -> Message:
        steps = work(6.0)._replace(pieces=3)
        await client.compute(steps, lambda number: seen.append((number, client.now)))
        return answered()

    run = one_round(handle)
    assert [number for number, _ in seen] == [1, 2, 3]
    assert [now for _, now in seen] == [begin for begin, _ in spans(run)]
