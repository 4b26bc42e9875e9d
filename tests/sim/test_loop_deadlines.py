"""The rule of deadlines: what completes at the very instant of its deadline has met it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fedsim.sim.engine.calendar import SETTLE, Calendar
from fedsim.sim.engine.loop import SimLoop, simulate
from fedsim.sim.network.processor_sharing import FairLink

pytestmark = pytest.mark.asyncio

Job = Callable[[float], Awaitable[str]]
"""Completes at the given time with "done"."""


def running() -> SimLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return loop


async def sleep(end: float) -> str:
    return await asyncio.sleep(end - running().time(), "done")


async def future(end: float) -> str:
    made: asyncio.Future[str] = running().create_future()
    running().call_at(end, made.set_result, "done")
    return await made


async def event(end: float) -> str:
    made: asyncio.Future[str] = running().create_future()
    calendar = running().calendar
    calendar.timeout(end - calendar.now, "done").callbacks.append(
        lambda timeout: made.set_result(timeout.value)
    )
    return await made


async def transfer(end: float) -> str:
    made: asyncio.Future[str] = running().create_future()
    link = FairLink(running().calendar, 4.0)
    link.add(4.0 * (end - running().time()), 100.0, made.set_result, "done")
    return await made


async def message_of_no_length(end: float) -> str:
    """What is sent at the deadline over a link that settles after all else."""
    await asyncio.sleep(end - running().time())
    return await transfer(end)


async def chain(end: float) -> str:
    """Many steps within the last instant."""
    await asyncio.sleep(end - running().time())
    for _ in range(3):
        await asyncio.sleep(0)
        await asyncio.create_task(asyncio.sleep(0))
        running().calendar.at(end, (woken := asyncio.Event()).set, priority=SETTLE)
        await woken.wait()
    return await sleep(end)


each_job = pytest.mark.parametrize(
    "job",
    [sleep, future, event, transfer, message_of_no_length, chain],
    ids=lambda job: str(job.__name__),
)


async def yield_three_times() -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    return "done"


async def past(late: float) -> list[str]:
    """Return what becomes of two deadlines that are over as they are set."""
    now, seen = asyncio.get_running_loop().time(), list[str]()
    for deadline in (asyncio.timeout(-late), asyncio.timeout_at(now - late)):
        try:
            async with deadline:
                seen.append(await yield_three_times())
        except TimeoutError:
            seen.append("expired")
    return seen


@pytest.mark.parametrize("late", [11.0, 1e-9])
async def test_a_deadline_in_the_past_expires_at_once(late: float) -> None:
    """As in CPython's own loop: it does not wait for the end of the instant."""
    assert await past(late) == ["expired", "expired"]
    assert await asyncio.sleep(1.0, running().time()) == 0.0
    assert await past(late) == ["expired", "expired"]


async def test_a_deadline_of_now_comes_last_in_its_instant() -> None:
    async with asyncio.timeout(0):
        assert await yield_three_times() == "done"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(1e-9)


@each_job
async def test_timeout_is_met_at_its_very_instant(job: Job) -> None:
    async with asyncio.timeout(5.0):
        assert await job(5.0) == "done"
    assert running().time() == 5.0


@each_job
async def test_wait_for_is_met_at_its_very_instant(job: Job) -> None:
    assert await asyncio.wait_for(job(5.0), 5.0) == "done"
    assert running().time() == 5.0


@each_job
async def test_the_timeout_of_wait_is_met_at_its_very_instant(job: Job) -> None:
    task = asyncio.ensure_future(job(5.0))
    assert await asyncio.wait([task], timeout=5.0) == ({task}, set())


@each_job
async def test_the_next_float_after_the_deadline_is_late(job: Job) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5.0):
            await job(5.000000000000001)
    assert running().time() == 5.0


@each_job
async def test_a_deadline_that_was_moved_to_this_instant_is_met(job: Job) -> None:
    async with asyncio.timeout(50.0) as timeout:
        await asyncio.sleep(1.0)
        timeout.reschedule(5.0)
        assert await job(5.0) == "done"


@each_job
async def test_the_inner_of_two_equal_deadlines_is_met_too(job: Job) -> None:
    async with asyncio.timeout(5.0):
        async with asyncio.timeout_at(5.0):
            assert await asyncio.wait_for(job(5.0), 5.0) == "done"


async def test_of_two_equal_deadlines_the_one_that_was_set_first_expires() -> None:
    outer, inner = asyncio.timeout(5.0), asyncio.timeout(5.0)

    async def late() -> None:
        async with outer, inner:
            await asyncio.sleep(6.0)

    with pytest.raises(TimeoutError):
        await late()
    assert (outer.expired(), inner.expired()) == (True, False)


@pytest.mark.parametrize("begin", [0.0, 5.0])
async def test_what_takes_no_time_meets_a_deadline_that_is_now(begin: float) -> None:
    await asyncio.sleep(begin)
    async with asyncio.timeout(0):
        assert await future(begin) == "done"


async def test_a_deadline_that_has_passed_expires_at_once() -> None:
    await asyncio.sleep(5.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout_at(4.0):
            await asyncio.sleep(1.0)
    assert running().time() == 5.0


async def test_a_met_deadline_does_not_move_the_clock_later() -> None:
    env = Calendar()

    async def punctual() -> None:
        async with asyncio.timeout(100.0):
            await asyncio.sleep(1.0)
        await asyncio.wait_for(asyncio.sleep(1.0), 100.0)

    simulate(punctual(), env)
    env.run()
    assert env.now == 2.0
