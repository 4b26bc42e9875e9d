"""Tasks: cancellation, groups, and waiting for several of them, in an order of their own."""

import asyncio
from typing import Any

import pytest

from fedsim.sim.engine.loop import simulate

pytestmark = pytest.mark.asyncio


def clock() -> float:
    return asyncio.get_running_loop().time()


async def sleeper(name: object, seconds: float, log: list[Any]) -> object:
    """Sleep, and say when and how that ended."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        log.append((clock(), name, "cancelled"))
        raise
    log.append((clock(), name, "done"))
    return name


async def failing(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise ZeroDivisionError(f"at {seconds}")


async def aborted() -> list[Any]:
    """Let a group of seven fail, and return what they say of it."""
    log = list[Any]()
    try:
        async with asyncio.TaskGroup() as group:
            for n in range(7):
                group.create_task(sleeper(n, 10.0, log))
            group.create_task(failing(1.0))
    except* ZeroDivisionError:
        pass
    return log


async def strangers(count: int) -> None:
    """Let so many tasks come and go that have nothing to do with what follows."""
    for _ in range(count):
        await asyncio.create_task(asyncio.sleep(0))


async def test_a_task_is_cancelled_at_the_time_of_the_cancellation(log: list[Any]) -> None:
    task = asyncio.create_task(sleeper("a", 10.0, log))
    await asyncio.sleep(3.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (clock(), log) == (3.0, [(3.0, "a", "cancelled")])


async def test_cancellation_may_take_its_time(log: list[Any]) -> None:
    async def careful() -> None:
        try:
            await asyncio.sleep(10.0)
        finally:
            await asyncio.sleep(2.0)
            log.append(clock())

    task = asyncio.create_task(careful())
    await asyncio.sleep(3.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (log, task.cancelled()) == ([5.0], True)


async def test_thousands_are_cancelled_in_order_and_the_rest_wake_in_order(
    log: list[Any],
) -> None:
    tasks = [asyncio.create_task(sleeper(n, 5.0, log)) for n in range(3000)]
    await asyncio.sleep(1.0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    expected = [(1.0, n, "cancelled") for n in range(0, 3000, 2)]
    assert log == expected + [(5.0, n, "done") for n in range(1, 3000, 2)]


async def test_a_group_lasts_as_long_as_its_longest_task(log: list[Any]) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sleeper(n, s, log)) for n, s in enumerate([2.0, 7.0, 2.0])]
    assert clock() == 7.0
    assert [task.result() for task in tasks] == [0, 1, 2]
    assert [name for _, name, _ in log] == [0, 2, 1]


async def test_the_first_to_fail_ends_its_group_at_that_time(log: list[Any]) -> None:
    async def group_of_three() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper("quick", 1.0, log))
            group.create_task(failing(2.0))
            group.create_task(sleeper("slow", 3.0, log))
            await sleeper("body", 4.0, log)

    with pytest.raises(ExceptionGroup) as caught:
        await group_of_three()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
    assert clock() == 2.0
    assert sorted(log) == [
        (1.0, "quick", "done"),
        (2.0, "body", "cancelled"),
        (2.0, "slow", "cancelled"),
    ]


async def test_a_group_is_aborted_alike_whatever_ran_before_in_the_same_process() -> None:
    runs = [simulate(aborted()) for _ in range(40)]
    assert all(run == runs[0] for run in runs)


async def test_waiting_tells_of_tasks_alike_whatever_ran_before_in_the_same_process() -> None:
    async def waited() -> list[Any]:
        tasks = [asyncio.create_task(asyncio.sleep(1.0, n)) for n in range(7)]
        done, pending = await asyncio.wait(tasks)
        assert not pending
        return [task.result() for task in done]

    runs = [simulate(waited()) for _ in range(40)]
    assert all(run == runs[0] for run in runs)


async def test_gather_keeps_the_order_in_which_it_was_asked(log: list[Any]) -> None:
    naps = [3.0, 1.0, 2.0, 1.0]
    assert await asyncio.gather(*(sleeper(n, s, log) for n, s in enumerate(naps))) == [0, 1, 2, 3]
    assert [(t, name) for t, name, _ in log] == [(1.0, 1), (1.0, 3), (2.0, 2), (3.0, 0)]


async def test_waiting_for_the_first_leaves_the_others_pending(log: list[Any]) -> None:
    tasks = [asyncio.create_task(sleeper(n, 3.0 - n, log)) for n in range(3)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert (clock(), done, pending) == (1.0, {tasks[2]}, set(tasks[:2]))
    await asyncio.gather(*pending)


async def test_tasks_are_told_as_they_complete_ties_in_the_order_of_creation(
    log: list[Any],
) -> None:
    naps = [3.0, 1.0, 2.0, 1.0, 3.0, 1.0]
    tasks = [asyncio.create_task(sleeper(n, s, log)) for n, s in enumerate(naps)]
    assert [await one for one in asyncio.as_completed(tasks)] == [1, 3, 5, 2, 0, 4]
