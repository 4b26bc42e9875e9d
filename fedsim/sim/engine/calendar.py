"""The calendar: SimPy's event heap, with timers at exact times that can be cancelled.

One heap holds everything that will happen: SimPy's own events and processes, the physical
timers of links and processors, and asyncio's timers. Its key is (time, priority, serial),
so what is due at one instant happens by priority, and first in, first out within one.
"""

from collections.abc import Callable, Sized
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

import simpy
from simpy.core import EmptySchedule

NORMAL = 1
"""SimPy's priority for events: completions, arrivals, wake-ups."""

SETTLE = 2
"""For what sums up an instant, such as sharing a link anew: after all that starts or ends."""

DEADLINE = 3
"""For deadlines: what completes at the very instant of its deadline has met it."""


_CALL = 5
"""The length of a heap entry that is a bare call."""


class Timer:
    """A callback at an exact time.

    It will happen; then it has happened, or it was cancelled and never does. asyncio's
    `TimerHandle` has the same three methods.
    """

    __slots__ = ("_calendar", "_when", "args", "callback")

    def __init__(
        self,
        calendar: "Calendar",
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        self._calendar = calendar
        self._when = when
        self.callback: Callable[..., object] | None = callback
        self.args: tuple[Any, ...] = args

    def cancel(self) -> None:
        """Prevent the callback; a timer that has happened is left alone."""
        if self.callback is not None:
            self.callback, self.args = None, ()
            self._calendar.forget(self)

    def cancelled(self) -> bool:
        """Return whether it was cancelled, or has happened."""
        return self.callback is None

    def when(self) -> float:
        """Return its time, in simulated seconds."""
        return self._when


class Calendar(simpy.Environment):
    """A SimPy environment that also takes bare callbacks at absolute times.

    SimPy schedules by delay, and now + (when - now) need not equal `when` in floating
    point; a timer here keeps the time it was given to the last bit.

    Attributes:
        now: the simulated time, s.
        background: timers in the heap that go on whether or not a client works: batteries, and
            clients that join and leave. The caller that sets one counts it.
        background_waits: how many tasks wait for what only such timers may bring.
        undisturbed: whether nothing looks at anything, or begins anything, between two events.
    """

    # Shadows a property of SimPy's: what is read several times a message is a slot.
    __slots__ = ("now",)
    now: float

    # Of (time, priority, serial, event or timer), or with a callback and its argument. Serials are
    # unique, so that tuples of both lengths can be compared: no comparison looks beyond the serial.
    _queue: list[Any]

    _FEW = 256  # cancelled timers that are not worth a clean-up

    def __init__(self) -> None:
        super().__init__(0.0)
        self.now = 0.0
        self._cancelled = 0
        self.background = 0
        self.background_waits = 0
        self.undisturbed = False

    def call(
        self,
        when: float,
        callback: Callable[[Any], object],
        argument: object,
        priority: int = NORMAL,
    ) -> None:
        """Call `callback(argument)` at the time `when`, which has not passed.

        The cheapest thing that can happen; it cannot be cancelled.
        """
        heappush(self._queue, (when, priority, next(self._eid), callback, argument))

    def at(
        self, when: float, callback: Callable[..., object], *args: Any, priority: int = NORMAL
    ) -> Timer:
        """Call `callback(*args)` at the time `when`; a time that has passed means now.

        Raises:
            ValueError: `when` is NaN, which has no place in a heap.
        """
        if not when >= self.now:
            if when != when:  # noqa: PLR0124 - the test for NaN
                raise ValueError("a timer was set for the time NaN")
            when = self.now
        timer = Timer(self, when, callback, args)
        if when < inf:  # an infinite time never comes, and must not move the clock
            heappush(self._queue, (when, priority, next(self._eid), timer))
        return timer

    def at_deadline(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call `callback(*args)` at a time, after everything that completes at that instant."""
        return self.at(when, callback, *args, priority=DEADLINE)

    def peek(self) -> float:
        """Return the time of the next event that is not cancelled; inf for none."""
        while self._queue and self._dead(self._queue[0]):
            heappop(self._queue)
            self._cancelled -= 1
        return float(super().peek())

    def forget(self, timer: Timer) -> None:
        """Count a cancelled timer, and drop cancelled ones once they are most of the heap."""
        if timer.when() == inf:
            return
        # Taking one entry out of a heap costs its whole length. Dropping the dead ones only when
        # they are the majority makes that a constant cost for each, and bounds the heap.
        self._cancelled += 1
        if self._cancelled > self._FEW and 2 * self._cancelled > len(self._queue):
            self._queue[:] = [entry for entry in self._queue if not self._dead(entry)]
            heapify(self._queue)
            self._cancelled = 0

    def ensure_alive(self) -> None:
        """Check, as a background timer fires, that other events than background ones are left.

        Raises:
            EmptySchedule: no event is scheduled that anything could wait for.
        """
        # Batteries and availability set their next timer for ever. Where nothing else is left, no
        # client will ever reply, and the clock would run on without end.
        if not self.background_waits and len(self._queue) - self._cancelled <= self.background:
            raise EmptySchedule

    def step_until(self, ready: Sized) -> None:
        """Step until `ready` is not empty; bare calls, the commonest, are taken without `step`.

        Raises:
            EmptySchedule: nothing will ever happen again.
        """
        queue = self._queue
        self.undisturbed = True
        try:
            while not ready:
                if queue and len(queue[0]) == _CALL:
                    now, _, _, callback, argument = heappop(queue)
                    self.now = self._now = now
                    callback(argument)
                elif queue and type(queue[0][3]) is Timer:
                    self._fire(heappop(queue))
                else:
                    self.step()
        finally:
            self.undisturbed = False

    def run(self, until: Any = None) -> Any:
        """See SimPy's `Environment.run`."""
        self.undisturbed = True
        try:
            return super().run(until)
        finally:
            self.undisturbed = False

    @property
    def next_time(self) -> float:
        """The time of the next event, cancelled or not, s; inf for none."""
        return self._queue[0][0] if self._queue else inf

    def run_before(self, when: float, other: "Calendar | None" = None, since: float = 0.0) -> None:
        """Execute timers and bare calls that are due before the time `when`.

        Args:
            when: on this calendar, s.
            other: a calendar that stands still meanwhile: what is due before anything is there
                happens, too.
            since: the time of that calendar that is 0 on this one, s.
        """
        queue, others = self._queue, self._queue if other is None else other._queue
        while queue:
            if queue[0][0] >= when and (
                other is None or (others and queue[0][0] + since >= others[0][0])
            ):
                return
            entry = heappop(queue)
            if len(entry) == _CALL:
                self.now = self._now = entry[0]
                entry[3](entry[4])
                continue
            self._fire(entry)

    def clear(self) -> None:
        """Remove all events and return to time 0."""
        self._queue.clear()
        self._cancelled = 0
        self.now = self._now = 0.0

    @staticmethod
    def _dead(entry: tuple[Any, ...]) -> bool:
        return type(entry[3]) is Timer and entry[3].callback is None

    def step(self) -> None:
        """Execute the next event; cancelled timers do not move the clock.

        Raises:
            EmptySchedule: nothing will ever happen again.
        """
        queue = self._queue
        while queue:
            entry = heappop(queue)
            if len(entry) == _CALL:
                self.now = self._now = entry[0]
                entry[3](entry[4])
                return
            if type(entry[3]) is not Timer:
                heappush(queue, entry)  # SimPy takes its own events out itself
                self.now = entry[0]
                super().step()
                return
            if self._fire(entry):
                return
        raise EmptySchedule

    def _fire(self, entry: tuple[Any, ...]) -> bool:
        """Run the callback of a timer taken from the queue, unless it was cancelled."""
        timer = entry[3]
        callback, args = timer.callback, timer.args
        if callback is None:
            self._cancelled -= 1
            return False
        self.now = self._now = entry[0]
        timer.callback, timer.args = None, ()
        callback(*args)
        return True
