"""A task that runs one coroutine after another, cheaper than an asyncio task per coroutine.

asyncio supports other implementations of tasks (see "Extending" in its documentation): a task
registers itself while it runs, so that timeouts, task groups and cancellation work in its
coroutines as usual. This saves the creation of a task per message, and a turn of the loop per wait
that the calendar ends.
"""

# asyncio requires more of a task than its documentation lists. `asyncio.tasks.Task` does the
# following, and so does the task here:
#
# - It is the current task while its coroutine runs (`_enter_task`): `asyncio.timeout` and
#   `TaskGroup` call `current_task()` and cancel the result.
# - A coroutine yields either a future whose `_asyncio_future_blocking` is set, or None for one turn
#   of the loop. The attribute shows that the future came through an `await`, and the task resets
#   it. Anything else is an error, which is raised in the coroutine.
# - A cancellation is delivered where the coroutine waits: through the future that it awaits, if
#   that can be cancelled, and otherwise at its next step. A cancellation in the coroutine's last
#   step ends it as cancelled. `uncancel` withdraws a request, for timeouts that turn their own
#   cancellation into a TimeoutError.
# - Variables that a coroutine sets in its context are not visible elsewhere.

import asyncio
from abc import ABC, abstractmethod
from asyncio.tasks import _enter_task, _leave_task, current_task
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Protocol

from fedsim.sim.engine.loop import SimLoop, sleep_until


class Owner(Protocol):
    """The owner of a task."""

    @property
    def name(self) -> str:
        """The name of the owner in reports."""
        ...

    def on_end(self, failure: BaseException | None) -> object:
        """Handle the end of a coroutine, and its error or cancellation, if any."""
        ...


class Driver(ABC):
    """Runs coroutines one after another; a task may run it in place of a coroutine."""

    __slots__ = ()

    @property
    @abstractmethod
    def driven(self) -> Coroutine[Any, Any, Any] | None:
        """The coroutine that runs at the moment, if any."""

    @abstractmethod
    def send(self, value: None, /) -> object:
        """Resume up to the next wait, and return the awaited object; StopIteration at the end."""

    @abstractmethod
    def throw(self, error: BaseException, /) -> object:
        """Resume with an error raised at the present wait."""


_SLEEP = object()
"""Sentinel for a task whose coroutine only waits for a time."""

_ASLEEP = (_SLEEP,)


class LightTask:
    """Runs one coroutine after another, with the interface of an asyncio task.

    Args:
        loop: the event loop.
        owner: the owner; its `on_end` is called at the end of each coroutine.
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

    _cancelled = False  # read by the loop; a turn of a task is never cancelled

    def __init__(self, loop: SimLoop, owner: Owner) -> None:
        self._loop = loop
        self._owner = owner
        self._serial = loop.enlist(self)
        self._context: Context | None = None  # its own, once it has set a variable
        self._coroutine: Coroutine[Any, Any, None] | Driver | None = None
        self._waits_for: asyncio.Future[Any] | None = None
        self._asleep = False  # until a time; only a cancellation ends it earlier
        self._sleeps = 0  # number of sleeps so far
        self._cancels = 0  # requests to cancel that were not withdrawn
        self._broken = False  # whether a cancellation is due at the next step

    # -- for the owner -----------------------------------------------------------------

    def start(self, coroutine: Coroutine[Any, Any, None] | Driver) -> None:
        """Run a coroutine from the next turn of the loop on; the one before has ended."""
        self._coroutine = coroutine
        self._cancels, self._broken = 0, False
        self._loop.enqueue(self)

    def until(self, when: float) -> "Sleep":
        """Wait until the time `when`, in the running coroutine or in a task that it started."""
        return Sleep(self, when)

    def pause(self) -> "Pause":
        """Wait until the pause is ended, in the running coroutine or in a task that it started."""
        return Pause(self, self._loop)

    def begin_pause(self) -> int:
        """Return the number of a pause; 0 if a task other than this one is running."""
        running: object = current_task(self._loop)
        if running is not self:
            return 0
        self._sleeps += 1
        return self._sleeps

    def end_pause(self, number: int) -> None:
        """Resume after what is ready now, unless a cancellation has ended the pause."""
        if self._asleep and self._sleeps == number:
            self._asleep = False
            self._loop.enqueue(self)

    def sleep(self, when: float) -> Generator[Any, None, None]:
        """Return an awaitable that completes at a time."""
        running: object = current_task(self._loop)
        # A handler may start asyncio tasks and have one of them wait. Such a task understands
        # futures, but not the sentinel.
        if running is not self:
            return sleep_until(self._loop, when).__await__()
        self._sleeps += 1
        self._loop.calendar.call(when, self._resume, self._sleeps)
        return iter(_ASLEEP)  # type: ignore[return-value]  # an await needs no more

    # A bare call of the calendar is the cheapest wake-up, and cannot be cancelled. If a
    # cancellation has ended the sleep meanwhile, the call finds the task awake, or in a later
    # sleep with another number.
    #
    # The coroutine resumes within the calendar's step, not in a turn of the loop. The order is the
    # same: the calendar steps only when nothing is ready, so that turn would run next.

    def _resume(self, sleep: int) -> None:
        if self._asleep and self._sleeps == sleep:
            self._step()

    # -- for asyncio -------------------------------------------------------------------

    def cancel(self, msg: object = None) -> bool:
        """Cancel the running coroutine at its wait; return whether one is running."""
        if self._coroutine is None:
            return False
        self._cancels += 1
        self._deliver_cancellation(msg)
        return True

    def cancelling(self) -> int:
        """Return the number of requests to cancel that were not withdrawn."""
        return self._cancels

    def uncancel(self) -> int:
        """Withdraw one request to cancel; return how many are left."""
        self._cancels = max(self._cancels - 1, 0)
        if not self._cancels:
            self._broken = False
        return self._cancels

    def done(self) -> bool:
        """Return whether no coroutine is running."""
        return self._coroutine is None

    def get_name(self) -> str:
        """Return the name of its owner, for asyncio's reports."""
        return self._owner.name

    def get_coro(self) -> Coroutine[Any, Any, None] | None:
        """Return the running coroutine, if any."""
        coroutine = self._coroutine
        return coroutine.driven if isinstance(coroutine, Driver) else coroutine

    def get_loop(self) -> SimLoop:
        """Return the event loop."""
        return self._loop

    def __hash__(self) -> int:
        return self._serial

    def __eq__(self, other: object) -> bool:
        return self is other

    # -- steps -------------------------------------------------------------------------

    def __call__(self) -> None:
        """Run the turn for which it is ready."""
        self._step()

    def _step(self, misuse: RuntimeError | None = None) -> None:
        """Run to the next wait, or to the end."""
        coroutine = self._coroutine
        if coroutine is None:  # pragma: no cover - a turn has one coroutine
            return
        error: BaseException | None = misuse
        self._waits_for, self._asleep = None, False
        if self._broken:
            self._broken, error = False, asyncio.CancelledError()
        failure: BaseException | None = None
        # A context per task would cost a copy per client. Most handlers set nothing in it, so all
        # tasks run in one spare context of the loop. If a task has set a variable, the spare
        # context differs from the common one that it was copied from: the task keeps it, and the
        # loop gets a new copy.
        loop, context = self._loop, self._context or self._loop.spare
        _enter_task(loop, self)  # type: ignore[arg-type]  # it behaves as a task
        try:
            go_on: Any = coroutine.send if error is None else coroutine.throw
            awaited = context.run(go_on, error)
        except StopIteration:
            if self._broken:  # cancelled in its very last step
                failure = asyncio.CancelledError()
        except (KeyboardInterrupt, SystemExit):  # they end the loop, and are no failure of a task
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

    def _wait(self, awaited: Any) -> None:
        """Register the object that the coroutine awaits."""
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
            text = f"{self._owner.name} awaits {awaited!r}, which asyncio cannot wait for"
            self._loop.call_soon(self._step, RuntimeError(text))
            return
        if self._broken:  # the coroutine has cancelled its own task in this step
            self._broken = False
            self._deliver_cancellation(None)

    def _wake(self, awaited: "asyncio.Future[Any]") -> None:
        """Resume: the awaited object has a result, has failed or was cancelled."""
        if self._waits_for is awaited:  # otherwise a cancellation has ended the wait already
            self._step()

    def _deliver_cancellation(self, msg: object) -> None:
        """Cancel the awaited object, or else the coroutine at its next step."""
        # A future that is cancelled calls `_wake`, which passes the error to the coroutine. A
        # future that is done cannot be cancelled: its wake-up is the next step.
        if self._waits_for is None or not self._waits_for.cancel(msg):
            self._broken = True
        if self._asleep:  # no future is behind a sleep, so nothing else would wake the task
            self._asleep = False
            self._loop.enqueue(self)


class Pause:
    """An awaitable that completes when it is ended; it is awaited once.

    Args:
        task: the waiting task, or the one in which the wait happens.
        loop: that it runs on.
    """

    __slots__ = ("_future", "_loop", "_number", "_task")

    def __init__(self, task: LightTask, loop: SimLoop) -> None:
        self._task = task
        self._loop = loop
        self._number = 0
        self._future: asyncio.Future[None] | None = None  # for an asyncio task

    def __await__(self) -> Generator[Any, None, None]:
        self._number = self._task.begin_pause()
        if self._number:
            return iter(_ASLEEP)  # type: ignore[return-value]  # an await needs no more
        self._future = self._loop.create_future()
        return self._future.__await__()

    def end(self) -> None:
        """Resume the waiting task."""
        if self._future is None:
            self._task.end_pause(self._number)
        elif not self._future.done():
            self._future.set_result(None)


class Sleep:
    """An awaitable that completes at a time.

    Args:
        task: the waiting task, or the one in which the wait happens.
        when: the time, s.
    """

    __slots__ = ("_task", "_when")

    def __init__(self, task: LightTask, when: float) -> None:
        self._task = task
        self._when = when

    def __await__(self) -> Generator[Any, None, None]:
        return self._task.sleep(self._when)


def settle(done: "asyncio.Future[None]", failure: BaseException | None) -> None:
    """Complete a future, with an error if there is one; a cancellation is not an error."""
    if failure is None or isinstance(failure, asyncio.CancelledError):
        done.set_result(None)
    else:
        done.set_exception(failure)
