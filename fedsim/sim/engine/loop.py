"""An asyncio event loop whose clock is a SimPy calendar.

`loop.time()` is the simulated time. Ready callbacks run. When none is ready, the calendar takes one
step, which moves the clock. Handlers are therefore ordinary coroutines with ordinary sleeps,
timeouts, cancellation and task groups, and a week costs as little as a second.

Three rules make a run a function of its input:

- events of one instant happen in the order in which they were scheduled;
- a deadline (`asyncio.timeout`, `asyncio.wait_for`) comes last in its instant: whatever completes
  at the very instant of its deadline has met it; a deadline in the past expires at once;
- tasks hash by their number in their loop. So a set of tasks, as in `TaskGroup` and
  `asyncio.wait`, is iterated in an order that depends only on the run.

There are two more differences from asyncio's loops. Of two deadlines at one instant, only the one
that was set first expires; the other is met. And an exception of a callback ends the run, where
asyncio logs it and goes on. After `set_exception_handler` it is passed to the handler, as in
asyncio.
"""

import asyncio
import gc
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from itertools import count
from types import MethodType
from typing import Any, Never, Protocol, TypeVar, TypeVarTuple, Unpack

from simpy.core import EmptySchedule

from fedsim.core.errors import Deadlock
from fedsim.sim.engine.calendar import DEADLINE, NORMAL, Calendar, Timer
from fedsim.sim.engine.watchdog import Cancellable, Watchdog

# Deadlock diagnosis: which tasks wait, and where, when no event is scheduled.

_MOST_REPORTED = 20


class Waiting(Hashable, Cancellable, Protocol):
    """The part of a task, asyncio's or a light one, that a report reads.

    Tasks that hash by their number in their loop are sorted by it.
    """


def describe_waiting(tasks: Iterable[Waiting], now: float) -> str:
    """Return a text that names every unfinished task, and where it waits.

    Args:
        tasks: all tasks.
        now: the time, s.
    """
    waiting = sorted((task for task in tasks if not task.done()), key=_place)
    lines = [f"  {task.get_name()} waits in {_where(task)}" for task in waiting]
    more = len(lines) - _MOST_REPORTED
    shown = lines[:_MOST_REPORTED] + ([f"  ... and {more} more"] if more > 0 else [])
    head = f"nothing is scheduled after t = {now:g} s, yet {len(waiting)} task(s) wait:"
    return "\n".join([head, *shown])


def _place(task: Waiting) -> tuple[int, str]:
    """Return the sort key of a task; tasks that hash by address come first, by name."""
    by_address = type(task) is asyncio.Task
    return (0, task.get_name()) if by_address else (hash(task), "")


def _where(task: Waiting) -> str:
    """Describe the chain of coroutines that a task is suspended in, outermost first."""
    chain: list[str] = []
    waiting: Any = task.get_coro()
    while hasattr(waiting, "cr_frame"):
        frame = waiting.cr_frame
        line = f":{frame.f_lineno}" if frame else ""
        chain.append(f"{waiting.__qualname__}{line}")
        waiting = waiting.cr_await
    return " > ".join(chain) or repr(waiting)


# Control of Python's cyclic garbage collector while a world is built and run.

_THRESHOLDS = (50_000, 50, 100)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Run the garbage collector less often within the block.

    Messages leave no reference cycles behind, so reference counts free them. With its default
    thresholds, the collector would visit all objects in progress of a large fleet again and again:
    half of the run time of 30,000 clients that train at once.
    """
    before = gc.get_threshold()
    # A first threshold of 0 means that the collector is off.
    gc.set_threshold(
        *(
            max(threshold, few) if threshold else 0
            for threshold, few in zip(before, _THRESHOLDS, strict=True)
        )
    )
    try:
        yield
    finally:
        gc.set_threshold(*before)


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# The functions that asyncio calls when a deadline expires; `wait_for` has its own before Python
# 3.12.
#
# A deadline and the completion that it guards may be due at one instant. Their order must not
# depend on which of them was scheduled first: whatever completes at the very instant of its
# deadline has met it. asyncio schedules both as a callback at a time, and only the function
# distinguishes a deadline. So these functions are recognised, and come last in their instant. For
# deadlines of now and of the past, asyncio uses `call_soon`: those of now come last as well, and
# those of the past expire at once.
_EXPIRIES = {
    getattr(asyncio.Timeout, "_on_timeout", None),
    getattr(asyncio.tasks, "_release_waiter", None),
}


class Handle(partial[object]):
    """A callback that is ready to run, with the methods of asyncio's handle.

    Every wake-up creates one, so `partial`, rather than Python code, creates it.
    """

    _cancelled = False

    def cancel(self) -> None:
        """Prevent the callback."""
        self._cancelled = True

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._cancelled


class Ready(Protocol):
    """Any object that is ready to run."""

    _cancelled: bool

    def __call__(self) -> object:
        """Run."""
        ...


class SimTask(asyncio.Task[T]):
    """A task that hashes by its number in its loop, not by its address."""

    # `TaskGroup` and `asyncio.wait` keep their tasks in sets, and cancel or await them in the order
    # of the set, which is by hash. An address differs from run to run, and would change the order
    # of rows in the log.

    def __init__(self, coro: Any, serial: int, **kwargs: Any) -> None:
        self._serial = serial
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        return self._serial

    def __eq__(self, other: object) -> bool:
        return self is other


class SimLoop(asyncio.BaseEventLoop):
    """The loop. It may be created, is running, and is closed like any other loop.

    It has no file descriptors and no threads: readers, writers and subprocesses raise
    NotImplementedError as the base class does, executors and calls from other threads
    raise RuntimeError with the reason.

    Attributes:
        calendar: the clock, and all scheduled events.
        enqueue: runs a handle after all that is ready now, even if it has run before; the minimum
            of `call_soon`.
        light: the tasks that asyncio does not know.
        common: the context in which light tasks start.
        spare: a copy of it, for tasks that set nothing in it.
    """

    # Attributes of BaseEventLoop that its stubs leave out.
    _ready: deque["Ready"]
    _stopping: bool
    _thread_id: int | None
    _check_closed: Callable[[], None]
    _closed: bool

    def __init__(self, calendar: Calendar | None = None) -> None:
        super().__init__()
        self.calendar = calendar or Calendar()
        self._serials = count(1)
        self.light: list[Waiting] = []
        self.enqueue = self._ready.append
        self.common = copy_context()
        self.spare = self.common.copy()

    def time(self) -> float:
        """Return the simulated time in seconds."""
        return self.calendar.now

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call back at this instant, after all that is ready now."""
        if self._closed:
            self._check_closed()
        if type(callback) is MethodType and callback.__func__ in _EXPIRIES:
            deadline: asyncio.Timeout = callback.__self__  # type: ignore[assignment]
            if deadline.when() == self.time():
                return self.call_at(self.time(), callback, *args, context=context)  # type: ignore[return-value, arg-type]
        context = copy_context() if context is None else context
        handle = Handle(context.run, callback, *args)
        self._ready.append(handle)
        return handle  # type: ignore[return-value]

    def call_at(  # type: ignore[override]  # a Timer has the methods of a TimerHandle
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Timer:
        """Call back at the simulated time `when`, exactly."""
        self._check_closed()
        expiry = getattr(callback, "__func__", callback) in _EXPIRIES
        context = copy_context() if context is None else context
        return self.calendar.at(
            when, context.run, callback, *args, priority=DEADLINE if expiry else NORMAL
        )

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Timer:
        """Call back `delay` simulated seconds from now."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_task(self, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        """Start a task."""
        self._check_closed()
        serial = next(self._serials)
        kwargs["name"] = kwargs.get("name") or f"Task-{serial}"
        return SimTask(coro, serial, loop=self, **kwargs)

    def enlist(self, task: Waiting) -> int:
        """Register a task that asyncio does not know; return its number."""
        self.light.append(task)
        return next(self._serials)

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call back soon, from the loop's own thread only (a signal handler runs there)."""
        if self._thread_id not in {None, threading.get_ident()}:
            raise RuntimeError(
                "a thread called into the simulation: simulated time does not wait for threads, "
                "so the result would depend on the machine; describe the work with Client.compute"
            )
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self,
        executor: object,
        func: Callable[..., object],
        *args: object,
    ) -> Never:
        """Refuse: simulated time does not wait for threads.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"{getattr(func, '__qualname__', func)} was given to an executor: simulated time "
            "stands still meanwhile; describe the work with Client.compute instead"
        )

    def _run_once(self) -> None:
        """Run what is ready, or take one step of the calendar. BaseEventLoop repeats this."""
        ready, calendar = self._ready, self.calendar
        while not self._stopping:
            try:
                calendar.step_until(ready)
            # Nothing is ready and nothing is scheduled, but the main task has not ended: it would
            # have stopped the loop. So the tasks wait for something that will never come.
            except EmptySchedule:
                tasks = [*asyncio.all_tasks(self), *self.light]
                raise Deadlock(describe_waiting(tasks, self.time())) from None
            except Exception as error:  # noqa: BLE001 - of a callback
                self._take(error, "a timer")
            # Callbacks that become ready meanwhile run in the next sweep, as in asyncio. The
            # calendar takes no step in between, since it steps only while nothing is ready.
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    try:
                        handle()
                    except Exception as error:  # noqa: BLE001 - of a callback
                        self._take(error, repr(handle))

    def _take(self, error: Exception, what: str) -> None:
        """Pass the exception of a callback to the registered handler, or raise it."""
        # By default asyncio would log it and go on, with another simulation than the one described.
        if self.get_exception_handler() is None:
            raise error
        message = f"Exception in callback {what}"
        self.call_exception_handler({"message": message, "exception": error})

    def stop(self) -> None:
        """Stop after all that is ready has run, now or at this instant of the calendar."""
        super().stop()
        # Otherwise the calendar would step until something is ready, and move the clock.
        if self.calendar.undisturbed:
            self._ready.append(Handle(_nothing))


def simulate(main: Coroutine[Any, Any, T], calendar: Calendar | None = None) -> T:
    """Run a coroutine to its end in simulated time, and return its result.

    It may be called where another loop is running, as in a notebook. The simulation does not use
    that loop, which stands still during the call.

    Raises:
        Deadlock: every task waits and nothing is scheduled.
        KeyboardInterrupt, SystemExit: as raised, whatever the tasks do as they end.
    """
    # asyncio refuses to run a loop while another one runs in the thread, so that the outer loop
    # does not stand still. Here it is meant to, so it is hidden from asyncio during the call.
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    loop = SimLoop(calendar)
    watchdog = Watchdog(SimLoop._run_once.__code__, loop.light)
    interrupt: BaseException | None = None
    try:
        with (
            collecting_rarely(),
            watchdog.watching(),
            asyncio.Runner(loop_factory=lambda: loop) as runner,
        ):
            try:
                return runner.run(main)
            except (KeyboardInterrupt, SystemExit) as raised:
                interrupt = raised
                runner.get_loop().set_exception_handler(_report_nothing)
                raise
    # An interrupt may arrive anywhere, also between two steps of the loop itself. The task whose
    # turn it was then never goes on, and tasks that wait for it cannot be ended.
    except (Exception, asyncio.CancelledError):
        if interrupt is None:
            raise
        raise interrupt from None
    finally:
        asyncio._set_running_loop(outer)


def _report_nothing(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Do not report tasks that an interrupt has left behind; asyncio would print them."""


def _nothing() -> None:
    """Do nothing."""


# Timed waits of asyncio tasks.


def sleep_until(loop: SimLoop, when: float) -> "asyncio.Future[None]":
    """Return a future that completes at simulated time `when`."""
    future: asyncio.Future[None] = asyncio.Future(loop=loop)
    loop.calendar.call(when, _complete, future)
    return future


def _complete(future: "asyncio.Future[None]") -> None:
    """Complete the future, unless it was cancelled meanwhile."""
    if not future.done():
        future.set_result(None)
