"""A task that runs one coroutine after another, at less cost than a task of asyncio for each.

asyncio lets others write tasks (its documentation, "Extending"): a task registers itself
while it runs, so that timeouts, task groups and cancellation work in its coroutines as in others.
What is saved is the making of a task for every message, and a turn of the loop for every wait
that the calendar ends.
"""

import asyncio
from abc import ABC, abstractmethod
from asyncio.tasks import _enter_task, _leave_task, current_task
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Protocol

from fedsim.sim.engine.loop import SimLoop, alarm


class Owner(Protocol):
    """The owner of a task."""

    @property
    def name(self) -> str:
        """The owner's, for reports."""
        ...

    def on_end(self, failure: BaseException | None) -> object:
        """Take note that a coroutine has ended, and what it has raised; a cancellation, too."""
        ...


class Driver(ABC):
    """What a task may run in place of a coroutine: runs coroutines in turn, as one would."""

    __slots__ = ()

    @property
    @abstractmethod
    def driven(self) -> Coroutine[Any, Any, Any] | None:
        """What it runs at the moment, if anything."""

    @abstractmethod
    def send(self, value: None, /) -> object:
        """Go on to where it waits next, and return what for; StopIteration at its end."""

    @abstractmethod
    def throw(self, error: BaseException, /) -> object:
        """Go on with an error that is raised where it waits."""


_SLEEP = object()
"""Sentinel for a task whose coroutine waits for nothing but a time."""

_ASLEEP = (_SLEEP,)


class LightTask:
    """Runs one coroutine after another; does for them what asyncio asks of a task.

    Args:
        loop: that it runs on.
        owner: is told of the end of each coroutine.
    """

    __slots__ = (
        "__weakref__",
        "_asleep",
        "_broken",
        "_cancels",
        "_context",
        "_coroutine",
        "_loop",
        "_owner",
        "_serial",
        "_sleeps",
        "_waits_for",
    )

    _cancelled = False  # as the loop asks of what is ready: a turn is always taken

    def __init__(self, loop: SimLoop, owner: Owner) -> None:
        self._loop = loop
        self._owner = owner
        self._serial = loop.enlist(self)
        self._context: Context | None = None  # of its own, once it has set anything
        self._coroutine: Coroutine[Any, Any, None] | Driver | None = None
        self._waits_for: asyncio.Future[Any] | None = None
        self._asleep = False  # until a time, and nothing else can wake it up
        self._sleeps = 0  # counts these: a time that it waits for no longer is stale
        self._cancels = 0
        self._broken = False  # cancelled while it waited for nothing

    # -- what its owner does -----------------------------------------------------------

    def start(self, coroutine: Coroutine[Any, Any, None] | Driver) -> None:
        """Run a coroutine from the next turn of the loop on; the last one has ended."""
        self._coroutine = coroutine
        self._cancels, self._broken = 0, False
        self._loop.enqueue(self)

    def until(self, when: float) -> "Sleep":
        """Wait until the time `when`, in what it runs or in a task of that."""
        return Sleep(self, when)

    def sleep(self, when: float) -> Generator[Any, None, None]:
        """Return an awaitable that the driver resumes at that time."""
        running: object = current_task(self._loop)
        if running is not self:
            return alarm(self._loop, when).__await__()
        self._sleeps += 1
        self._loop.calendar.call(when, self._resume, self._sleeps)
        return iter(_ASLEEP)  # type: ignore[return-value]  # all that an await takes

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
            self._broken = False
        return self._cancels

    def done(self) -> bool:
        """Tell whether it runs nothing."""
        return self._coroutine is None

    def get_name(self) -> str:
        """Return the name of its owner, which asyncio's reports show."""
        return self._owner.name

    def get_coro(self) -> Coroutine[Any, Any, None] | None:
        """Return what it runs, if anything."""
        coroutine = self._coroutine
        return coroutine.driven if isinstance(coroutine, Driver) else coroutine

    def get_loop(self) -> SimLoop:
        """Return the loop that it runs on."""
        return self._loop

    def __hash__(self) -> int:
        return self._serial

    def __eq__(self, other: object) -> bool:
        return self is other

    # -- how it goes on ----------------------------------------------------------------

    def __call__(self) -> None:
        """Take the turn that it is ready for."""
        self._step()

    def _step(self, wrong: RuntimeError | None = None) -> None:
        """Run on to where it waits next, or to its end."""
        coroutine = self._coroutine
        if coroutine is None:  # pragma: no cover - a turn has one coroutine
            return
        error: BaseException | None = wrong
        self._waits_for, self._asleep = None, False
        if self._broken:
            self._broken, error = False, asyncio.CancelledError()
        failure: BaseException | None = None
        loop, context = self._loop, self._context or self._loop.spare
        _enter_task(loop, self)  # type: ignore[arg-type]  # it does what a task does
        try:
            go_on: Any = coroutine.send if error is None else coroutine.throw
            awaited = context.run(go_on, error)
        except StopIteration:
            if self._broken:  # at the very end of it
                failure = asyncio.CancelledError()
        except (KeyboardInterrupt, SystemExit):
            self._coroutine = None
            raise
        except BaseException as raised:  # noqa: BLE001 - passed to the task's owner
            failure = raised
        else:
            if awaited is _SLEEP and not self._broken:
                self._asleep = True
            else:
                self._wait(awaited)
            return
        finally:
            _leave_task(loop, self)  # type: ignore[arg-type]
            if context is loop.spare and context != loop.common:
                self._context, loop.spare = context, loop.common.copy()
        self._coroutine = None
        self._owner.on_end(failure)

    def _wait(self, awaited: Any) -> None:  # noqa: ANN401 - whatever a coroutine yields
        """Take note of what the coroutine waits for."""
        if awaited is _SLEEP:
            self._asleep = True
        elif awaited is None:  # a turn of the loop, as `asyncio.sleep(0)` asks for
            self._loop.enqueue(self)
            return
        elif getattr(awaited, "_asyncio_future_blocking", False):
            awaited._asyncio_future_blocking = False
            self._waits_for = awaited
            awaited.add_done_callback(self._wake)
        else:
            text = f"{self._owner.name} awaits {awaited!r}, which is nothing that asyncio waits for"
            self._loop.call_soon(self._step, RuntimeError(text))
            return
        if self._broken:
            self._broken = False
            self._break_off(None)

    def _wake(self, awaited: "asyncio.Future[Any]") -> None:
        """Go on: what was waited for has come, has failed or was cancelled."""
        if self._waits_for is awaited:
            self._step()

    def _break_off(self, msg: object) -> None:
        """Let the coroutine be cancelled at its next step, which is the next turn if it waits."""
        if self._waits_for is None or not self._waits_for.cancel(msg):
            self._broken = True
        if self._asleep:
            self._asleep = False
            self._loop.enqueue(self)


class Sleep:
    """An awaitable that completes at a time.

    Args:
        task: the waiting task, or the one in which the wait happens.
        when: until then.
    """

    __slots__ = ("_task", "_when")

    def __init__(self, task: LightTask, when: float) -> None:
        self._task = task
        self._when = when

    def __await__(self) -> Generator[Any, None, None]:
        return self._task.sleep(self._when)
