"""A task that runs one coroutine after another, at less cost than a task of asyncio for each.

asyncio lets others write tasks (its documentation, "Extending"): a task registers itself
while it runs, so that timeouts, task groups and cancellation work in its coroutines as in others.
What is saved is the making of a task for every message, and a turn of the loop for every wait
that the calendar ends.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task, current_task
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any

from fedsim.sim.engine.loop import Handle, SimLoop

Ended = Callable[[BaseException | None], None]
"""Told that a coroutine has ended, and what it has raised, if anything; a cancellation, too."""


class LightTask:
    """Runs one coroutine after another; does for them what asyncio asks of a task.

    Args:
        loop: that it runs on.
        name: its own, for reports.
        ended: told of the end of each coroutine.
    """

    __slots__ = (
        "__weakref__",
        "_asleep",
        "_cancelled",
        "_cancels",
        "_coroutine",
        "_ended",
        "_loop",
        "_name",
        "_run",
        "_serial",
        "_sleeps",
        "_turn",
        "_waits_for",
    )

    def __init__(self, loop: SimLoop, name: str, ended: Ended) -> None:
        self._loop = loop
        self._name = name
        self._ended = ended
        self._serial = loop.enlist(self)
        self._run = copy_context().run
        self._turn = Handle(self._step)
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._waits_for: asyncio.Future[Any] | None = None
        self._asleep = False  # until a time, and nothing else can wake it up
        self._sleeps = 0  # counts these: a time that it waits for no longer is stale
        self._cancels = 0
        self._cancelled = False  # while it waited for nothing

    # -- what its owner does -----------------------------------------------------------

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine from the next turn of the loop on; the last one has ended."""
        self._coroutine = coroutine
        self._cancels, self._cancelled = 0, False
        self._loop.enqueue(self._turn)

    @coroutine
    def until(self, when: float) -> Generator[object, None, None]:
        """Wait until the time `when`, in what it runs or in a task of that."""
        running: object = current_task(self._loop)
        if running is not self:
            yield from alarm(self._loop, when)
            return
        self._sleeps += 1
        self._loop.calendar.call(when, self._resume, self._sleeps)
        yield self

    def _resume(self, sleep: int) -> None:
        if self._asleep and self._sleeps == sleep:
            self._step()  # nothing else is ready when the calendar takes a step

    # -- what asyncio asks of a task ---------------------------------------------------

    def cancel(self, msg: object = None) -> bool:
        """Let what it runs be cancelled where it waits; tell whether it runs anything."""
        if self._coroutine is None:
            return False
        self._cancels += 1
        self._break_off(msg)
        return True

    def cancelling(self) -> int:
        """Return how often it was asked to cancel, without what was taken back."""
        return self._cancels

    def uncancel(self) -> int:
        """Take one request to cancel back; return how many are left."""
        self._cancels = max(self._cancels - 1, 0)
        if not self._cancels:
            self._cancelled = False
        return self._cancels

    def done(self) -> bool:
        """Tell whether it runs nothing."""
        return self._coroutine is None

    def get_name(self) -> str:
        """Return the name it was given, which asyncio's reports show."""
        return self._name

    def get_coro(self) -> Coroutine[Any, Any, None] | None:
        """Return what it runs, if anything."""
        return self._coroutine

    def get_loop(self) -> SimLoop:
        """Return the loop that it runs on."""
        return self._loop

    def __hash__(self) -> int:
        return self._serial

    def __eq__(self, other: object) -> bool:
        return self is other

    # -- how it goes on ----------------------------------------------------------------

    def _step(self, wrong: RuntimeError | None = None) -> None:
        """Run on to where it waits next, or to its end."""
        coroutine = self._coroutine
        if coroutine is None:  # pragma: no cover - a turn has one coroutine
            return
        error: BaseException | None = wrong
        self._waits_for, self._asleep = None, False
        if self._cancelled:
            self._cancelled, error = False, asyncio.CancelledError()
        failure: BaseException | None = None
        _enter_task(self._loop, self)  # type: ignore[arg-type]  # it does what a task does
        try:
            if error is None:
                awaited = self._run(coroutine.send, None)
            else:
                awaited = self._run(coroutine.throw, error)
        except StopIteration:
            if self._cancelled:  # at the very end of it
                failure = asyncio.CancelledError()
        except (KeyboardInterrupt, SystemExit):
            self._coroutine = None
            raise
        except BaseException as raised:  # noqa: BLE001 - whoever owns the task is told
            failure = raised
        else:
            if awaited is self and not self._cancelled:
                self._asleep = True
            else:
                self._wait(awaited)
            return
        finally:
            _leave_task(self._loop, self)  # type: ignore[arg-type]
        self._coroutine = None
        self._ended(failure)

    def _wait(self, awaited: Any) -> None:  # noqa: ANN401 - whatever a coroutine yields
        """Take note of what the coroutine waits for."""
        if awaited is self:
            self._asleep = True
        elif awaited is None:  # a turn of the loop, as `asyncio.sleep(0)` asks for
            self._loop.enqueue(self._turn)
            return
        elif getattr(awaited, "_asyncio_future_blocking", False):
            awaited._asyncio_future_blocking = False
            self._waits_for = awaited
            awaited.add_done_callback(self._wake)
        else:
            text = f"{self._name} awaits {awaited!r}, which is nothing that asyncio waits for"
            self._loop.call_soon(self._step, RuntimeError(text))
            return
        if self._cancelled:
            self._cancelled = False
            self._break_off(None)

    def _wake(self, awaited: "asyncio.Future[Any]") -> None:
        """Go on: what was waited for has come, has failed or was cancelled."""
        if self._waits_for is awaited:
            self._step()

    def _break_off(self, msg: object) -> None:
        """Let the coroutine be cancelled at its next step, which is the next turn if it waits."""
        if self._waits_for is None or not self._waits_for.cancel(msg):
            self._cancelled = True
        if self._asleep:
            self._asleep = False
            self._loop.enqueue(self._turn)


def alarm(loop: SimLoop, when: float) -> "asyncio.Future[None]":
    """Return what is done at the time `when`, for who waits in a task of asyncio."""
    future: asyncio.Future[None] = asyncio.Future(loop=loop)
    loop.calendar.call(when, _ring, future)
    return future


def _ring(future: "asyncio.Future[None]") -> None:
    """Wake up who waits for a time, unless it was cancelled meanwhile."""
    if not future.done():
        future.set_result(None)
