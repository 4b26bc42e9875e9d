"""A light task does, to its coroutines, what a task of asyncio does: the same at the same times."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedsim.core.errors import Deadlock
from fedsim.sim.engine.light_task import LightTask
from fedsim.sim.engine.loop import SimLoop, simulate, sleep_until

Until = Callable[[float], Awaitable[None]]
Play = Callable[[list["Step"]], Coroutine[Any, Any, None]]
Note = Callable[[str], None]
Step = tuple[Any, ...]

spans = st.sampled_from([0.0, 0.5, 1.0, 2.0])
waits = st.tuples(st.sampled_from(["until", "sleep"]), spans) | st.just(("turn",))
steps = st.recursive(
    waits,
    lambda inner: (
        st.tuples(st.just("timeout"), spans, st.lists(inner, max_size=3))
        | st.tuples(st.just("wait_for"), spans, st.lists(inner, max_size=2))
        | st.tuples(st.just("group"), st.lists(st.lists(inner, max_size=2), max_size=3))
        | st.tuples(st.just("shield"), st.lists(inner, max_size=2))
        | st.tuples(st.just("stubborn"), st.lists(inner, max_size=2))
        | st.just(("cancel oneself",))
    ),
    max_leaves=8,
)
scripts = st.lists(steps, max_size=5)


async def play(script: list[Step], until: Until, note: Note) -> None:
    """Do what a script says, step by step."""
    for what, *rest in script:
        await STEPS[what](lambda inner: play(inner, until, note), until, *rest)
        note(what)


async def wait_for(_: Play, until: Until, span: float) -> None:
    await until(asyncio.get_running_loop().time() + span)


async def sleep(_: Play, __: Until, span: float = 0.0) -> None:
    await asyncio.sleep(span)


async def within_a_timeout(inner: Play, _: Until, span: float, script: list[Step]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(span):
            await inner(script)


async def waited_for(inner: Play, _: Until, span: float, script: list[Step]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(inner(script), span)


async def in_a_group(inner: Play, _: Until, scripts: list[list[Step]]) -> None:
    async with asyncio.TaskGroup() as group:
        for script in scripts:
            group.create_task(inner(script))


async def shielded(inner: Play, _: Until, script: list[Step]) -> None:
    await asyncio.shield(inner(script))


async def stubborn(inner: Play, _: Until, script: list[Step]) -> None:
    with suppress(asyncio.CancelledError):
        await inner(script)


async def cancel_oneself(_: Play, __: Until) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


STEPS: dict[str, Callable[..., Awaitable[None]]] = {
    "until": wait_for,
    "sleep": sleep,
    "turn": sleep,
    "timeout": within_a_timeout,
    "wait_for": waited_for,
    "group": in_a_group,
    "shield": shielded,
    "stubborn": stubborn,
    "cancel oneself": cancel_oneself,
}


async def watch(
    script: list[Step], cancels: list[tuple[float, int]], make: Callable[[Any], Any]
) -> list[Any]:
    """Return what happens when: to a script that is cancelled at some times, once or more often."""
    loop = cast("SimLoop", asyncio.get_running_loop())
    seen: list[Any] = []

    def note(what: str) -> None:
        seen.append((loop.time(), what))

    async def whole(until: Until) -> None:
        try:
            await play(script, until, note)
        except asyncio.CancelledError:
            note("cancelled")
            raise
        note("done")

    task = make(whole)

    def cancel(times: int) -> None:
        for _ in range(times):
            task.cancel()

    for when, times in cancels:
        loop.call_at(when, cancel, times)
    await asyncio.sleep(100.0)
    return [*seen, task.done()]


class Told(NamedTuple):
    """An owner that calls somebody."""

    name: str
    on_end: Callable[[BaseException | None], object]


def by_asyncio(coroutine: Callable[[Until], Any]) -> asyncio.Task[None]:
    """Run a coroutine by a task of asyncio."""
    loop = cast("SimLoop", asyncio.get_running_loop())

    async def until(when: float) -> None:
        await sleep_until(loop, when)

    return loop.create_task(coroutine(until))


def by_light_task(coroutine: Callable[[Until], Any]) -> LightTask:
    """Run a coroutine by a light task."""
    loop = cast("SimLoop", asyncio.get_running_loop())
    task = LightTask(loop, Told("light", lambda _: None))
    task.start(coroutine(task.until))
    return task


moments = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 3.0])


@given(scripts, st.lists(st.tuples(moments, st.integers(1, 2)), max_size=3))
@example([("stubborn", [("until", 1.0)]), ("until", 2.0)], [(0.5, 2)])
@example([("cancel oneself",), ("until", 2.0)], [])
def test_it_does_what_a_task_of_asyncio_does(
    script: list[Step], cancels: list[tuple[float, int]]
) -> None:
    expected = simulate(watch(script, cancels, by_asyncio))
    assert simulate(watch(script, cancels, by_light_task)) == expected


def run_one(coroutine: Callable[[LightTask], Any]) -> BaseException | None:
    """Run one coroutine by a light task, and return what it has raised."""
    failures: list[BaseException | None] = []

    async def main() -> None:
        loop = cast("SimLoop", asyncio.get_running_loop())
        task = LightTask(loop, Told("client-7", failures.append))
        task.start(coroutine(task))
        await asyncio.sleep(10.0)

    simulate(main())
    (failure,) = failures
    return failure


def test_what_it_raises_is_told() -> None:
    async def fails(task: LightTask) -> None:
        await task.until(1.0)
        raise KeyError("gone")

    assert isinstance(run_one(fails), KeyError)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_loop(error: type[BaseException]) -> None:
    async def interrupted(task: LightTask) -> None:
        await task.until(1.0)
        raise error

    with pytest.raises(error):
        run_one(interrupted)


def test_what_cannot_be_awaited_is_refused_by_the_name_of_who_awaits_it() -> None:
    class Odd:
        def __await__(self) -> Any:
            yield 7

    async def odd(_: LightTask) -> None:
        await Odd()

    assert "client-7 awaits 7" in str(run_one(odd))


def test_it_runs_one_coroutine_after_another() -> None:
    seen: list[float] = []

    async def main() -> None:
        loop = cast("SimLoop", asyncio.get_running_loop())

        async def waits() -> None:
            await task.until(loop.time() + 1.0)
            seen.append(loop.time())

        def ended(_: BaseException | None) -> None:
            assert task.done()
            if len(seen) < 3:
                task.start(waits())

        task = LightTask(loop, Told("light", ended))
        task.start(waits())
        await asyncio.sleep(10.0)
        assert not task.cancel()

    simulate(main())
    assert seen == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("make", [by_asyncio, by_light_task])
def test_what_is_cancelled_before_its_first_turn_does_not_begin(make: Callable[[Any], Any]) -> None:
    seen: list[str] = []

    async def whole(until: Until) -> None:
        seen.append("began")

    async def main() -> bool:
        task = make(whole)
        assert task.cancel()
        await asyncio.sleep(1.0)
        return bool(task.done())

    assert simulate(main())
    assert seen == []


def test_what_one_sets_in_its_context_no_other_one_sees() -> None:
    variable = ContextVar("variable", default=0)
    seen: list[tuple[int, int]] = []

    async def main() -> None:
        loop = cast("SimLoop", asyncio.get_running_loop())

        async def sets(task: LightTask, value: int) -> None:
            variable.set(value)
            await task.until(1.0)
            seen.append((value, variable.get()))

        for value in (1, 2):
            task = LightTask(loop, Told(f"light-{value}", lambda _: None))
            task.start(sets(task, value))
        await asyncio.sleep(2.0)
        seen.append((0, variable.get()))

    simulate(main())
    assert seen == [(1, 1), (2, 2), (0, 0)]


def test_a_deadlock_names_it_and_where_it_waits() -> None:
    async def main() -> None:
        loop = cast("SimLoop", asyncio.get_running_loop())

        async def for_ever() -> None:
            await loop.create_future()

        LightTask(loop, Told("client-3", lambda _: None)).start(for_ever())
        await loop.create_future()

    with pytest.raises(Deadlock, match=r"client-3 waits in .*for_ever"):
        simulate(main())
