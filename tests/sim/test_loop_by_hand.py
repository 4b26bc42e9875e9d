"""The loop as a loop: run by hand, stopped, closed, debugged and shown like any other."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fedsim.core.errors import Deadlock
from fedsim.sim.engine.loop import SimLoop


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    yield loop
    loop.close()


def test_it_runs_until_a_coroutine_is_complete_and_then_the_next(loop: SimLoop) -> None:
    assert loop.run_until_complete(asyncio.sleep(2.0, "a")) == "a"
    assert loop.run_until_complete(asyncio.sleep(3.0, "b")) == "b"
    assert loop.time() == 5.0


def by_timer(loop: SimLoop) -> None:
    loop.call_at(3.0, loop.stop)


def by_call(loop: SimLoop) -> None:
    loop.calendar.call(3.0, lambda _: loop.stop(), None)


def by_event(loop: SimLoop) -> None:
    loop.calendar.timeout(3.0).callbacks.append(lambda _: loop.stop())


@pytest.mark.parametrize("stop", [by_timer, by_call, by_event])
def test_it_stops_when_it_is_told_to_and_can_go_on(
    loop: SimLoop, log: list[Any], stop: Callable[[SimLoop], None]
) -> None:
    stop(loop)
    loop.call_at(8.0, log.append, "later")
    loop.calendar.call(8.0, log.append, "later still")
    loop.run_forever()
    assert (loop.time(), log) == (3.0, [])
    loop.call_at(9.0, loop.stop)
    loop.run_forever()
    assert (loop.time(), log) == (9.0, ["later", "later still"])


def test_a_callback_stops_it_after_what_is_ready(loop: SimLoop, log: list[Any]) -> None:
    loop.call_soon(loop.stop)
    loop.call_soon(log.append, "ready")
    loop.call_at(1.0, log.append, "later")
    loop.run_forever()
    assert (loop.time(), log) == (0.0, ["ready"])


def test_it_has_nothing_to_do_for_ever(loop: SimLoop) -> None:
    with pytest.raises(Deadlock, match=r"0 task\(s\)"):
        loop.run_forever()


def test_once_closed_it_takes_nothing(log: list[Any]) -> None:
    loop = SimLoop()
    loop.close()
    sleeping = asyncio.sleep(1.0)
    with pytest.raises(RuntimeError, match="closed"):
        loop.run_until_complete(sleeping)
    with pytest.raises(RuntimeError, match="closed"):
        loop.create_task(sleeping)
    sleeping.close()
    for take in (loop.call_soon, loop.call_soon_threadsafe):
        with pytest.raises(RuntimeError, match="closed"):
            take(log.append, 1)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1.0, log.append, 1)


def test_it_runs_in_debug_mode(loop: SimLoop) -> None:
    loop.set_debug(True)

    async def main() -> str:
        async with asyncio.timeout(10.0), asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.sleep(1.0, "done"))
        return task.result()

    assert loop.run_until_complete(main()) == "done"
    assert loop.time() == 1.0


def test_its_handles_can_be_shown(loop: SimLoop) -> None:
    assert "print" in repr(loop.call_soon(print, 1))
