"""How a run ends: by a stop rule, by itself, by divergence, or by an error that is named."""

import asyncio
import signal
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from fedsim.core.errors import Diverged
from fedsim.core.ports import Message
from fedsim.protocol.stop_rules import RoundEnd
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel
from tests.tiers import every

from .worlds import (
    IDEAL,
    SLOW,
    answered,
    asked,
    deadline,
    echo,
    fleet,
    play,
    rounds,
    setup,
    work,
    working,
)

TWO = fleet((SLOW, IDEAL), (SLOW, IDEAL))


class Mine(Exception):
    """An error of the algorithm's own."""


@every(
    ("rules", "after", "named"),
    [
        (Stop(rounds=7), 7, "rounds: 7 of 7"),
        (Stop.in_si(gap=0.125), 4, "gap: 0.0625 is below 0.125"),
        (Stop.in_si(time=8.0), 4, "time: 8 s"),
        (Stop.in_si(bits=200), 5, "bits: 200 of 200"),
        (Stop.in_si(energy=30.0), 3, "energy: 30 J of 30 J"),
        (Stop.in_si(rounds=4, gap=0.125, time=8.0), 4, "gap"),
        (Stop.in_si(rounds=4, time=8.0), 4, "rounds"),
    ],
)
def test_a_stop_rule_ends_the_run_when_a_round_is_committed(
    rules: Stop, after: int, named: str
) -> None:
    # A round takes 2 s, 8 bits down and 32 up, and 2 x 2 + 3 x 2 J; the gap halves.
    gaps = iter([0.5**n for n in range(50)])  # the first is that of the start

    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(2.0))
        return answered(32)

    members = fleet((device_of(1.0, active=5.0, idle=3.0), IDEAL))
    run = play(setup(rounds, handle, members, evaluate=lambda _: next(gaps), stop=rules))
    assert (len(run.rounds), run.t) == (after, 2.0 * after)
    assert run.reason.startswith(named)
    (last,) = run.of("stop")
    assert (last["detail"], run.rows[-1]) == (run.reason, last)


@every(
    ("rules", "stops", "goes_on"),
    [
        (Stop(rounds=5), {"round": 5}, {"round": 4}),
        (Stop.in_si(gap=1e-3), {"gap": 9e-4}, {"gap": 1e-3}),
        (Stop.in_si(gap=1e-3), {"gap": -1.0}, {"gap": nan}),
        (Stop.in_si(bits=100), {"bits": 100}, {"bits": 99}),
        (Stop.in_si(energy=5.0), {"joules": 5.0}, {"joules": 4.99}),
        (Stop(rounds=2), {"round": 2}, {"gap": -1e-12}),
    ],
)
def test_a_rule_applies_from_its_bound_on_and_only_where_it_was_given(
    rules: Stop, stops: dict[str, Any], goes_on: dict[str, Any]
) -> None:
    assert rules.watch()(RoundEnd(**{"round": 1, "gap": 1.0} | stops))
    assert not rules.watch()(RoundEnd(**{"round": 1, "gap": 1.0} | goes_on))


def test_time_ends_a_run_at_the_very_moment_even_in_the_middle_of_a_round() -> None:
    run = play(setup(rounds, working(2.0), TWO, stop=Stop.in_si(time=5.0)))
    assert (run.reason, run.t, len(run.rounds)) == ("time: 5 s", 5.0, 2)
    assert [row["duration"] for row in run.of("compute")][-2:] == [1.0, 1.0]


def test_time_ends_a_run_in_which_everybody_waits_for_ever() -> None:
    async def never(client: SimClient, message: Message) -> Message:
        await asyncio.get_running_loop().create_future()
        return answered()

    run = play(setup(rounds, never, stop=Stop.in_si(time=5.0)))
    assert (run.reason, run.t, run.rounds) == ("time: 5 s", 5.0, [])


def test_an_algorithm_may_end_by_itself() -> None:
    async def serve(server: SimServer) -> None:
        await server.exchange(asked())
        server.commit(server.initial)

    run = play(setup(serve, working(2.0), TWO))
    assert (run.reason, run.t, len(run.rounds)) == ("the algorithm has ended", 2.0, 1)


@pytest.mark.parametrize("where", ["objective", "model"])
def test_divergence_keeps_and_names_the_last_finite_round(where: str) -> None:
    async def serve(server: SimServer) -> None:
        for n in range(10):
            await server.exchange(asked())
            server.commit(np.array([inf if where == "model" and n == 3 else float(n)]))

    def evaluate(model: Any) -> float:
        return nan if where == "objective" and model[0] == 3 else 10.0 - min(float(model[0]), 3.0)

    run = play(setup(serve, working(1.0), evaluate=evaluate))
    assert isinstance(run.error, Diverged)
    assert [row["objective"] for row in run.rounds] == [10.0, 9.0, 8.0]
    assert run.world.last_round == (3, 8.0)
    assert "diverged in round 4" in run.reason
    assert "round 3 was the last finite one, with the objective 8" in run.reason
    assert (run.t, run.of("stop")[0]["detail"]) == (4.0, run.reason)


def test_a_run_that_diverges_at_once_says_that_no_round_was_finite() -> None:
    run = play(setup(evaluate=lambda _: nan))
    assert isinstance(run.error, Diverged)
    assert (run.rounds, "no round was finite" in run.reason) == ([], True)


@pytest.mark.parametrize("others", ["answer", "work", "fail later"])
def test_a_handler_that_fails_ends_the_run_with_that_very_error(others: str) -> None:
    error = Mine("client 0")

    async def handle(client: SimClient, message: Message) -> Message:
        if client.id == 0:
            await client.compute(work(2.0))
            raise error
        await client.compute(work({"answer": 0.0, "work": 50.0, "fail later": 2.0}[others]))
        if others == "fail later":
            await asyncio.sleep(0)
            raise Mine("client 1")
        return answered()

    with pytest.raises(Mine) as caught:
        play(setup(rounds, handle, TWO))
    assert caught.value is error


def test_a_server_that_fails_ends_the_run_with_that_very_error() -> None:
    error = Mine()

    async def serve(server: SimServer) -> None:
        await server.exchange(asked())
        raise error

    with pytest.raises(Mine) as caught:
        play(setup(serve, working(1.0)))
    assert caught.value is error


@every("nonsense", [None, 3, "SILENCE", b"", Mine()])
def test_a_handler_that_returns_nonsense_is_told_what_it_may_return(nonsense: object) -> None:
    async def handle(client: SimClient, message: Message) -> Any:
        return nonsense

    with pytest.raises(TypeError, match="a Message or SILENCE") as caught:
        play(setup(rounds, handle))
    assert repr(nonsense) in str(caught.value)


def cut_off(respond: Any, radio: RadioModel = IDEAL) -> str:
    """End a run at 1 s amid the work of client 1, which responds to that; say why it ended."""

    async def handle(client: SimClient, message: Message) -> Any:
        if client.id == 1:
            try:
                await client.compute(work(10.0))
            except asyncio.CancelledError:
                return await respond(client)
        return answered()

    stop = Stop(rounds=1)
    members = fleet((SLOW, radio), (SLOW, IDEAL))
    return play(setup(rounds, handle, members, silence=deadline(1.0), stop=stop)).reason


def test_a_handler_that_answers_its_cancellation_does_not_keep_the_run_from_ending() -> None:
    async def respond(client: SimClient) -> Message:
        return answered()

    assert cut_off(respond) == "rounds: 1 of 1"


def test_a_handler_that_fails_as_it_is_cancelled_is_heard() -> None:
    async def respond(client: SimClient) -> Message:
        raise Mine

    with pytest.raises(Mine):
        cut_off(respond)


def test_the_first_failure_is_told_whatever_others_raise_as_they_are_cancelled_for_it() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        if client.id == 0:
            await client.compute(work(1.0))
            raise Mine
        try:
            await client.compute(work(10.0))
        except asyncio.CancelledError:
            raise ZeroDivisionError from None
        return answered()

    with pytest.raises(Mine):
        play(setup(rounds, handle, TWO))


def test_a_handler_that_takes_its_time_to_stop_does_not_upset_the_others() -> None:
    async def respond(client: SimClient) -> Message:
        await client.compute(work(2.0))
        raise asyncio.CancelledError

    # Meanwhile a message reaches client 0, which has already stopped.
    assert cut_off(respond, RadioModel(latency=1.5)) == "rounds: 1 of 1"


def test_a_handler_that_is_cancelled_from_within_is_not_taken_for_a_deadlock() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        helper = asyncio.create_task(client.compute(work(5.0)))
        asyncio.get_running_loop().call_later(1.0, helper.cancel)
        await helper
        return answered()

    with pytest.raises(RuntimeError, match="client-0"):
        play(setup(rounds, handle))


def test_an_interrupt_from_the_keyboard_ends_a_run_and_leaves_a_readable_world(
    interruptible: None,
) -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(1.0))
        if client.now == 3.0:
            signal.raise_signal(signal.SIGINT)
        return answered()

    with pytest.raises(KeyboardInterrupt):
        play(setup(rounds, handle))
    assert play(setup(rounds, echo, stop=Stop(rounds=1))).reason == "rounds: 1 of 1"


def test_a_commit_within_a_task_group_ends_the_run_as_any_other() -> None:
    async def commit(server: SimServer) -> None:
        await server.exchange(asked())
        server.commit(server.initial)

    async def serve(server: SimServer) -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(asyncio.sleep(100.0))
            async with asyncio.TaskGroup() as inner:
                inner.create_task(commit(server))

    assert play(setup(serve, stop=Stop(rounds=1))).reason == "rounds: 1 of 1"


def test_a_failure_beside_a_commit_is_not_lost() -> None:
    async def serve(server: SimServer) -> None:
        async def fail() -> None:
            raise Mine

        async def commit() -> None:
            server.commit(server.initial)

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(commit())

    with pytest.raises(BaseExceptionGroup) as caught:
        play(setup(serve, stop=Stop(rounds=1)))
    assert caught.value.subgroup(Mine) is not None
