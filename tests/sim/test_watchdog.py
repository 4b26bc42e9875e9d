"""Code of users that keeps the loop from going on, or does not end, is reported with its place."""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fedsim.sim.engine import loop as engine
from fedsim.sim.engine.light_task import LightTask
from fedsim.sim.engine.loop import SimLoop, simulate
from fedsim.sim.engine.watchdog import Watchdog
from tests.tiers import every

Handler = Callable[[Watchdog, list[str]], Coroutine[Any, Any, None]]


class Owner:
    """Owns a light task."""

    name = "client-3"

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    def on_end(self, failure: BaseException | None) -> None:
        self.ended.set_result(failure)


def found(handle: Handler, *, light: bool, cancelled_at: float | None = None) -> list[str]:
    """Run a coroutine as a handler of a client runs, or in a task of asyncio; return its lines."""
    lines: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        watchdog = Watchdog(SimLoop._run_once.__code__, loop.light)
        if not light:
            await asyncio.create_task(handle(watchdog, lines))
            return
        owner = Owner()
        task = LightTask(loop, owner)
        task.start(handle(watchdog, lines))
        if cancelled_at is not None:
            loop.call_at(cancelled_at, task.cancel)
        assert await owner.ended is None

    simulate(main())
    return lines


@pytest.mark.parametrize("light", [True, False])
def test_code_that_awaits_nothing_is_reported_once_with_its_line(*, light: bool) -> None:
    async def spin(watchdog: Watchdog, lines: list[str]) -> None:
        await asyncio.sleep(1.0)
        for _ in range(3):
            assert watchdog.look() == []
        for _ in range(6):
            lines += watchdog.look()  # where it spins

    (line,) = found(spin, light=light)
    assert line.startswith("no event for 60 s of real time: ")
    assert f"spin is at {__file__}, line " in line
    assert "(lines += watchdog.look()  # where it spins), and awaits nothing" in line


@every("light", [True, False])
@every("seconds", [0.0, 1.0])
def test_code_that_awaits_is_never_reported_however_long_it_takes(
    seconds: float, *, light: bool
) -> None:
    async def work(watchdog: Watchdog, lines: list[str]) -> None:
        for _ in range(20):
            lines += watchdog.look()
            await asyncio.sleep(seconds)

    assert found(work, light=light) == []


def test_a_handler_that_swallows_its_cancellation_is_named_with_its_line() -> None:
    async def stubborn(watchdog: Watchdog, lines: list[str]) -> None:
        for _ in range(9):
            try:
                await asyncio.sleep(1.0)
            except asyncio.CancelledError:
                continue
            lines += watchdog.look()

    (line,) = found(stubborn, light=True, cancelled_at=1.5)
    assert line.startswith("client-3 was cancelled 60 s of real time ago, and goes on at ")
    assert f"{__file__}, line " in line
    assert line.endswith("does it catch CancelledError without raising it again?")
    assert found(stubborn, light=True) == []


def test_a_handler_that_ends_when_it_is_cancelled_is_not_named() -> None:
    async def obedient(watchdog: Watchdog, lines: list[str]) -> None:
        try:
            await asyncio.sleep(9.0)
        except asyncio.CancelledError:
            await asyncio.sleep(1.0)
        for _ in range(3):
            lines += watchdog.look()

    assert found(obedient, light=True, cancelled_at=1.5) == []


class Written:
    """A stream that keeps what another thread writes, also while it is read."""

    text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Do nothing: nothing is held back."""


def test_the_line_is_written_while_the_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = Written()
    monkeypatch.setattr(engine, "Watchdog", lambda loop, tasks: Watchdog(loop, tasks, 0.03))
    monkeypatch.setattr(sys, "stderr", errors)

    async def spin() -> str:
        while "\n" not in errors.text:
            pass
        return errors.text

    assert simulate(spin()).startswith("fedsim: no event for 0.03 s of real time: ")
    assert "fedsim-watchdog" not in {thread.name for thread in threading.enumerate()}


def test_a_run_without_threads_has_no_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    async def main() -> str:
        await asyncio.sleep(1.0)
        return "done"

    assert simulate(main()) == "done"
