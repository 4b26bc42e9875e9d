"""What a simulation refuses, and where it may run: threads, executors, sockets, other loops."""

import asyncio
import threading
from typing import Any

import pytest

from fedsim.core.errors import Deadlock
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.engine.loop import simulate


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_a_thread_that_calls_in_is_refused() -> None:
    errors = list[BaseException]()

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def call_in() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=call_in)
        thread.start()
        thread.join()
        loop.call_soon_threadsafe(errors.clear).cancel()  # the loop's own thread may
        await asyncio.sleep(1.0)

    simulate(main())
    (error,) = errors
    assert "thread" in str(error)
    assert "Client.compute" in str(error)


def blocking() -> int:
    return 1


def test_executors_are_refused_and_told_what_to_do_instead() -> None:
    async def to_thread() -> None:
        await asyncio.to_thread(blocking)

    async def in_executor() -> None:
        await asyncio.get_running_loop().run_in_executor(None, blocking)

    for main in (to_thread, in_executor):
        with pytest.raises(RuntimeError, match=r"blocking.*Client\.compute"):
            simulate(main())


def test_the_network_of_the_real_world_is_refused() -> None:
    async def resolve() -> None:
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)

    async def listen() -> None:
        asyncio.get_running_loop().add_reader(0, print)

    with pytest.raises(RuntimeError, match=r"Client\.compute"):
        simulate(resolve())
    with pytest.raises(NotImplementedError):
        simulate(listen())


def test_it_runs_inside_a_running_stock_loop_as_in_a_notebook(log: list[Any]) -> None:
    async def inner() -> float:
        await asyncio.sleep(1e6)
        return asyncio.get_running_loop().time()

    async def cell() -> None:
        outer, task = asyncio.get_running_loop(), asyncio.current_task()
        log.append(simulate(inner()))
        with pytest.raises(Deadlock):
            simulate(for_ever())
        assert asyncio.get_running_loop() is outer
        assert asyncio.current_task() is task
        await asyncio.sleep(0)

    asyncio.run(cell())
    assert log == [1e6]


def test_it_runs_inside_another_simulation() -> None:
    async def cell() -> tuple[float, float]:
        await asyncio.sleep(1.0)
        simulate(asyncio.sleep(50.0), inner := Calendar())
        return inner.now, asyncio.get_running_loop().time()

    assert simulate(cell()) == (50.0, 1.0)
