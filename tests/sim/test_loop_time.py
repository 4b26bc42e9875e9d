"""The loop's clock: exact, in order, and as quick over a week as over a second."""

import asyncio
import contextvars
from collections.abc import Generator
from itertools import accumulate
from math import inf
from typing import Any

import pytest
import simpy

from fedsim.core.errors import Deadlock
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.engine.loop import SimLoop, simulate

WEEK = 7 * 24 * 3600.0


def clock() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.asyncio
async def test_coroutines_of_this_folder_run_in_simulated_time() -> None:
    assert isinstance(asyncio.get_running_loop(), SimLoop)
    assert clock() == 0.0


@pytest.mark.asyncio
async def test_call_at_keeps_its_time_to_the_last_bit(log: list[Any]) -> None:
    loop, now, when = asyncio.get_running_loop(), 0.3, 0.9
    assert now + (when - now) != when
    await asyncio.sleep(now)
    loop.call_at(when, lambda: log.append(clock()))
    await asyncio.sleep(10.0)
    assert log == [when]


@pytest.mark.asyncio
async def test_sleeps_add_up_as_their_floats_do() -> None:
    naps = [0.1, 1 / 3, 1e-9, 0.7, 2.0**-40] * 20
    for nap, end in zip(naps, accumulate(naps), strict=True):
        await asyncio.sleep(nap)
        assert clock() == end


@pytest.mark.asyncio
@pytest.mark.parametrize("seconds", [1e-12, 1.0, WEEK, 1e12])
async def test_a_sleep_may_have_any_length(seconds: float) -> None:
    assert await asyncio.sleep(seconds, "rested") == "rested"
    assert clock() == seconds


def test_what_is_for_ever_never_ends() -> None:
    # Were infinity a time like any other, the clock would reach it and never come back.
    with pytest.raises(Deadlock):
        simulate(asyncio.sleep(inf))


@pytest.mark.asyncio
async def test_a_deadline_at_infinity_is_none() -> None:
    async with asyncio.timeout(inf):
        await asyncio.sleep(1e9)
    assert clock() == 1e9


@pytest.mark.asyncio
async def test_sleepers_of_one_instant_wake_in_the_order_in_which_they_lay_down(
    log: list[Any],
) -> None:
    async def sleeper(name: int, begin: float) -> None:
        await asyncio.sleep(begin)
        await asyncio.sleep(4.0 - begin)
        log.append(name)

    # All wake at 4; what counts is when each lay down for it.
    await asyncio.gather(*(sleeper(n, begin) for n, begin in enumerate([3.0, 1.0, 2.0, 1.0])))
    assert (clock(), log) == (4.0, [1, 3, 2, 0])


@pytest.mark.asyncio
async def test_callbacks_of_this_instant_run_in_order_and_before_any_timer(
    log: list[Any],
) -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(0, log.append, "timer")
    for n in range(3):
        loop.call_soon(log.append, n)
    loop.call_soon(lambda: loop.call_soon(log.append, "nested"))
    await asyncio.sleep(1.0)
    assert log == [0, 1, 2, "nested", "timer"]


@pytest.mark.asyncio
async def test_what_one_timer_wakes_runs_before_the_next_timer_of_the_instant(
    log: list[Any],
) -> None:
    async def sleeper(name: str) -> None:
        await asyncio.sleep(1.0)
        log.append(f"{name} wakes")
        await asyncio.sleep(0)
        log.append(f"{name} goes on")

    await asyncio.gather(sleeper("a"), sleeper("b"))
    assert log == ["a wakes", "a goes on", "b wakes", "b goes on"]


@pytest.mark.asyncio
async def test_a_time_that_has_passed_means_now(log: list[Any]) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(5.0)
    loop.call_at(1.0, lambda: log.append(clock()))
    loop.call_later(-3.0, lambda: log.append(clock()))
    await asyncio.sleep(-1.0)
    await asyncio.sleep(1.0)
    assert log == [5.0, 5.0]


@pytest.mark.asyncio
async def test_callbacks_and_timers_keep_the_context_they_were_made_in(log: list[Any]) -> None:
    name = contextvars.ContextVar("name", default="nobody")
    loop = asyncio.get_running_loop()
    own = contextvars.copy_context()
    own.run(name.set, "given")
    name.set("first")
    loop.call_later(1.0, lambda: log.append(name.get()))
    loop.call_soon(lambda: log.append(name.get()))
    loop.call_later(1.0, lambda: log.append(name.get()), context=own)
    name.set("second")
    await asyncio.sleep(2.0)
    assert log == ["first", "first", "given"]


def test_coroutines_and_processes_share_one_clock_and_one_order(
    env: Calendar, log: list[Any]
) -> None:
    def process(name: str, seconds: float) -> Generator[simpy.Event, Any, None]:
        while True:
            yield env.timeout(seconds)
            log.append((env.now, name))

    async def ticking(name: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            log.append((clock(), name))

    async def main() -> None:
        env.process(process("process", 1.0))
        async with asyncio.timeout(3.5):
            await asyncio.gather(ticking("coroutine", 1.0), ticking("slow", 1.5))

    with pytest.raises(TimeoutError):
        simulate(main(), env)
    # The process starts by an event, so after the coroutines; at 3, "slow" comes first: it lay
    # down for it at 1.5, the others at 2.
    assert log == [
        (1.0, "coroutine"),
        (1.0, "process"),
        (1.5, "slow"),
        (2.0, "coroutine"),
        (2.0, "process"),
        (3.0, "slow"),
        (3.0, "coroutine"),
        (3.0, "process"),
    ]


def test_the_simulation_ends_with_its_main_task_whatever_is_still_to_come(env: Calendar) -> None:
    def for_ever() -> Generator[simpy.Event, Any, None]:
        while True:
            yield env.timeout(1.0)

    async def main() -> None:
        env.process(for_ever())
        asyncio.get_running_loop().call_later(100.0, print)
        await asyncio.sleep(2.25)

    simulate(main(), env)
    assert env.now == 2.25
