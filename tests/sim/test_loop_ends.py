"""How a simulation ends: results, errors, interrupts, deadlocks, and what it refuses."""

import asyncio
import signal
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest
import simpy

from fedsim.core.errors import Deadlock
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.engine.loop import simulate


async def for_ever() -> None:
    await asyncio.Event().wait()


async def waits_in_vain() -> None:
    task = asyncio.create_task(for_ever(), name="sleepy")
    await asyncio.sleep(2.0)
    await task


def test_a_deadlock_names_who_waits_where_and_since_when() -> None:
    with pytest.raises(Deadlock) as caught:
        simulate(waits_in_vain())
    head, *lines = str(caught.value).splitlines()
    assert "t = 2 s" in head
    assert "2 task(s)" in head
    (sleepy,) = (line for line in lines if "sleepy" in line)
    assert "for_ever:" in sleepy
    assert "Event.wait:" in sleepy
    assert any("waits_in_vain:" in line for line in lines)


def test_a_deadlock_is_told_alike_whatever_ran_before_in_the_same_process() -> None:
    texts = set[str]()
    for before in (0, 1, 5):
        simulate(asyncio.sleep(before))
        with pytest.raises(Deadlock) as caught:
            simulate(waits_in_vain())
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_a_deadlock_of_thousands_names_the_first_and_counts_the_rest() -> None:
    async def crowd() -> None:
        await asyncio.gather(*(asyncio.create_task(for_ever(), name=f"n{n}") for n in range(3000)))

    with pytest.raises(Deadlock) as caught:
        simulate(crowd())
    text = str(caught.value)
    assert "3001 task(s)" in text
    assert "n0 waits" in text
    assert "n2999 waits" not in text
    assert len(text.splitlines()) < 30
    assert f"{3001 - len(text.splitlines()) + 2} more" in text


def test_after_a_deadlock_everybody_is_cleaned_up(log: list[Any]) -> None:
    async def tidy(name: str) -> None:
        try:
            await for_ever()
        finally:
            log.append(name)

    async def main() -> None:
        await asyncio.gather(tidy("a"), tidy("b"))

    with pytest.raises(Deadlock):
        simulate(main())
    assert sorted(log) == ["a", "b"]
    assert simulate(asyncio.sleep(1.0, "the next one runs")) == "the next one runs"


def test_cleaning_up_may_take_simulated_time(env: Calendar, log: list[Any]) -> None:
    async def slow_to_go() -> None:
        try:
            await asyncio.sleep(100.0)
        finally:
            await asyncio.sleep(3.0)
            log.append(env.now)

    async def main() -> None:
        task = asyncio.create_task(slow_to_go())
        await asyncio.sleep(1.0)
        assert not task.done()

    simulate(main(), env)
    assert log == [4.0]


def test_what_the_main_task_raises_is_raised() -> None:
    error = ZeroDivisionError("mine")

    async def main() -> None:
        await asyncio.sleep(1.0)
        raise error

    with pytest.raises(ZeroDivisionError) as caught:
        simulate(main())
    assert caught.value is error


@pytest.mark.parametrize("timer", [True, False])
def test_what_a_callback_raises_ends_the_run_there(env: Calendar, timer: bool) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        if timer:
            loop.call_at(1.0, lambda: 1 // 0)
        else:
            loop.call_at(1.0, loop.call_soon, lambda: 1 // 0)
        await asyncio.sleep(5.0)

    with pytest.raises(ZeroDivisionError):
        simulate(main(), env)
    assert env.now == 1.0


async def raising_callbacks() -> list[str]:
    """Return what a handler gets, of a callback, of a timer, and of the one after them."""
    seen = list[str]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: seen.append(repr(context["exception"])))
    loop.call_soon(lambda: 1 // 0)
    loop.call_soon(seen.append, "after it")
    loop.call_later(0.01, [].pop)
    await asyncio.sleep(0.02)
    return seen


def test_an_exception_handler_takes_what_a_callback_raises_as_in_asyncio() -> None:
    seen = simulate(raising_callbacks())
    assert seen == asyncio.run(raising_callbacks())
    assert len(seen) == 3


def test_what_a_process_raises_ends_the_run_there(env: Calendar) -> None:
    def process() -> Generator[simpy.Event, Any, None]:
        yield env.timeout(1.0)
        raise ZeroDivisionError("in a process")

    async def main() -> None:
        env.process(process())
        await asyncio.sleep(5.0)

    with pytest.raises(ZeroDivisionError, match="in a process"):
        simulate(main(), env)
    assert env.now == 1.0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_exit_within_a_task_ends_the_run_and_cleans_up(
    env: Calendar, log: list[Any], error: type[BaseException]
) -> None:
    async def exits() -> None:
        await asyncio.sleep(1.0)
        raise error

    async def main() -> None:
        task = asyncio.create_task(exits())
        try:
            await asyncio.sleep(5.0)
        finally:
            log.append(env.now)
            assert task.done()

    with pytest.raises(error):
        simulate(main(), env)
    assert log == [1.0]


def test_an_interrupt_from_the_keyboard_ends_a_busy_run_and_cleans_up(
    env: Calendar, log: list[Any], interruptible: None
) -> None:
    async def main() -> None:
        env.call(3.0, signal.raise_signal, signal.SIGINT)
        try:
            for _ in range(1000):
                await asyncio.sleep(0.25)
        finally:
            log.append(env.now)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        simulate(main(), env)
    assert log == [3.0]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_asynchronous_generator_that_was_left_is_closed_at_the_end(log: list[Any]) -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            for n in range(10):
                await asyncio.sleep(1.0)
                yield n
        finally:
            log.append("closed")

    async def main() -> list[int]:
        left = numbers()
        return [await anext(left), await anext(left)]

    assert simulate(main()) == [0, 1]
    assert log == ["closed"]
