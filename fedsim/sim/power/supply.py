"""Power supplies: a client's battery in operation, with its events at their exact times."""

from collections.abc import Callable
from copy import copy
from enum import IntEnum
from math import inf, nan, ulp

from fedsim.core.columns import Figure
from fedsim.physics.batteries import Crossing
from fedsim.physics.state_of_charge import BatteryStore
from fedsim.sim.engine.calendar import DEADLINE, Calendar, Timer

Crossed = Callable[[Crossing | None], None]
"""Callback for a mark that the charge has reached, or None for any other change."""

# A battery is drained in two ways that have to agree. Powers are integrated over time, between the
# events that change them. The meters of radio and processor price what they do by the bit, the
# operation and the second, as the log states them. Both are the same joules; but a float of
# time has a resolution, so a power that begins or ends at a time that is off by one unit is off by
# that times the power. `Supply.book` makes the difference good, and `resolution` adds up how large
# it may be for that reason alone: an audit refuses more.

_EDGES = 4
"""How many times the clock's resolution a change of power may come too early or too late: twice
in the time of the change, and in the time from which on it counts."""

_MOST_EVENTS = 10_000
"""Most events in a forecast of an idle battery: many years of harvest."""


# Laws of one supply, or entry by entry of many: `fedsim.sim.arrays.supplies` asks them of arrays.


def total_power(rest: Figure, processor: Figure, radio: Figure) -> Figure:
    """Return the power of all parts of a client, W, summed in this order."""
    return rest + processor + radio


def clock_error(tick: Figure, watts: Figure) -> Figure:
    """Return the largest error of a change of power, J, for a clock resolution, s."""
    return _EDGES * tick * watts


def meter_gap(shown: Figure, before: Figure, drawn: Figure) -> Figure:
    """Return the growth of a meter that exceeds the energy drawn since its last reading, J."""
    return shown - before - drawn


class Part(IntEnum):
    """The parts of a client that draw power."""

    REST = 0
    PROCESSOR = 1
    RADIO = 2


def harvested(supply: "Supply | None", watts: float) -> float:
    """Return the charging power on offer now as a share of a power, at most 1; 1 on mains."""
    if supply is None:
        return 1.0
    offered = supply.offered
    return 1.0 if offered >= watts else offered / watts


def state_of_charge(supply: "Supply | None") -> float:
    """Return the state of charge now, in [0, 1]; NaN on mains."""
    return nan if supply is None else supply.share


class Supply:
    """Adds up the power of a client's parts, and drains its battery by it.

    Between two changes all powers are constant, so the time of what comes next is known
    exactly, and one timer waits for it. What ends at the very instant at which the battery is
    empty has ended.

    Args:
        calendar: the simulated time.
        store: the battery's state.
        rest: the client's idle power, W.
        crossed: called as the battery reaches a mark, or with None as something else changes.

    Attributes:
        store: see above.
        delivered: what the client has drawn so far, J.
        depletions: how often the battery has reached its cut-off; a battery that starts at it, or
            below, has done so at time 0.
        settled: what the parts' own meters differed by, all of it without its signs, J.
        resolution: what the clock's resolution explains of that, J.
    """

    def __init__(
        self,
        calendar: Calendar,
        store: BatteryStore,
        rest: float,
        crossed: Crossed,
    ) -> None:
        self.store = store
        self.delivered = 0.0
        self.depletions = 0 if store.alive else 1
        self.settled = self.resolution = 0.0
        self._calendar = calendar
        self._crossed = crossed
        self._rest = rest
        self._watts = [rest, 0.0, 0.0] if self.store.alive else [0.0, 0.0, 0.0]
        self._load = self._watts[Part.REST]
        self.store.draw(0.0, self._load)
        self._since = 0.0
        self._drawn = [0.0 for _ in Part]  # by the powers, since a part's meter was last looked at
        self._metered = [0.0 for _ in Part]  # what it showed then
        self._ready_at = -inf  # as was forecast; before now: to be forecast anew
        self._timer: Timer | None = None
        self._wait()

    @property
    def offered(self) -> float:
        """The power offered to charge the battery now, W."""
        self.store.advance(self._calendar.now)
        return self.store.offered

    @property
    def ready(self) -> bool:
        """Whether the charge is high enough to take part."""
        self.store.advance(self._calendar.now)
        return self.store.ready

    @property
    def share(self) -> float:
        """The state of charge now, in [0, 1]."""
        self.store.advance(self._calendar.now)
        return self.store.share

    def switch_on(self) -> None:
        """Switch the client on: it draws its idle power again."""
        self.set(Part.REST, self._rest)

    def set(self, part: Part, watts: float) -> None:
        """Set the power of a part from now on, W."""
        if self._watts[part] != watts:
            now = self._calendar.now
            self.resolution += clock_error(ulp(now), abs(watts - self._watts[part]))
            self.advance()
            self._watts[part] = watts
            # A forecast is of an idle client, so idle power that goes off and on is part of it.
            if part is not Part.REST:
                self._ready_at = -inf
            self._draw(total_power(*self._watts))

    def book(self, part: Part, joules: float, watts: float = 0.0) -> None:
        """Settle a part with its own meter, at an instant at which the meter is complete.

        Where a price is by the bit or the operation, the powers come to the same only as far as
        the clock resolves when they changed: the difference leaves the battery now, so that the
        battery is drained of exactly what the log states.

        Args:
            part: the metered component.
            joules: what it shows, beyond idle power, J.
            watts: the power of what may have begun and ended within one instant, W.
        """
        # While bits flow the meter lags behind: it shows a message at its end. So this is called
        # when a part has become idle, and never in the middle, where the whole message would be
        # missing.
        self.advance()
        missing = meter_gap(joules, self._metered[part], self._drawn[part])
        self._metered[part], self._drawn[part] = joules, 0.0
        if missing:
            self.settled += abs(missing)
            self.resolution += clock_error(ulp(self._calendar.now), watts)
            self.delivered += missing
            self.store.take(missing)
            self._ready_at = -inf
            self._wait()

    def spend(self, part: Part, joules: float) -> float:
        """Drain energy that a part uses at this instant; return the supplied energy, J.

        A battery that holds less above its cut-off gives that, and is then empty.

        Args:
            part: the component that works; its meter shows as much more from now on.
            joules: what it takes, J.
        """
        self.advance()
        supplied = self.store.spare(joules)
        self._metered[part] += supplied
        self.delivered += supplied
        self.store.take(supplied)
        self._ready_at = -inf
        self._wait()
        return supplied

    def cut(self) -> None:
        """Switch off every part."""
        self.advance()
        self._watts = [0.0 for _ in Part]
        self._ready_at = -inf
        self._draw(0.0)

    def advance(self) -> None:
        """Bring all accounts up to now."""
        now = self._calendar.now
        span = now - self._since
        self.delivered += self._load * span
        for part, watts in enumerate(self._watts):
            self._drawn[part] += watts * span
        self._since = now
        self.store.advance(now)

    def recovers(self) -> bool:
        """Return whether the client can take part now, or will be able to after idling.

        An idle battery's future is known. It is forecast once, and again after the client has
        done anything else.
        """
        # The server asks this of every client whenever none can take part, and a client that
        # harvests at night takes thousands of events a forecast. What was forecast stays true for
        # as long as the client idles, so what invalidates it is a change of any other power, or of
        # the charge.
        if self._ready_at < self._calendar.now:
            self._ready_at = self._forecast()
        return self._ready_at < inf

    def _forecast(self) -> float:
        """Return when an idling client will be ready, s; inf for never."""
        # A copy of the store goes through its events as `_settle` would: it is cut off when empty,
        # and draws idle power again once it has recharged, perhaps only to be emptied by that.
        now = self._calendar.now
        image = copy(self.store)
        image.draw(now, self._rest if image.alive else 0.0)
        for _ in range(_MOST_EVENTS):
            if image.ready:
                return now
            now = image.next_event()
            if now == inf:
                break
            crossing = image.settle(now)
            if crossing is Crossing.DEPLETED:
                image.draw(now, 0.0)
            elif crossing is Crossing.CHARGED and not image.ready:
                image.draw(now, self._rest)
        return inf

    def _draw(self, watts: float) -> None:
        self.advance()
        self._load = watts
        self.store.draw(self._calendar.now, watts)
        self._wait()

    def _wait(self) -> None:
        """Make sure that a timer happens no later than the next event of the battery."""
        # Every message changes the load several times, and with it the time of the next event,
        # which is hours away. To set a timer each time would fill the calendar with cancelled ones.
        # A timer that is too early does no harm: it finds that nothing has happened, and is set
        # anew (`_settle`). Only one that is too late has to go.
        when = self.store.next_event()
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
            self._calendar.background -= 1
        self._timer = None
        if when < inf:
            # Last in its instant: a message whose last bit passes as the battery is empty has
            # passed.
            self._timer = self._calendar.at(when, self._settle, priority=DEADLINE)
            self._calendar.background += 1

    def _settle(self) -> None:
        self._timer = None
        self._calendar.background -= 1
        # A battery that charges and drains goes on for ever. Without anything else to come, that is
        # no progress: the run is at its end, or in a deadlock that would never be noticed.
        self._calendar.ensure_alive()
        if self._calendar.now < self.store.next_event():
            self._wait()
            return
        self.advance()
        crossing = self.store.settle(self._calendar.now)
        if crossing is Crossing.DEPLETED:
            self.depletions += 1
            self.cut()
        else:
            self._wait()
        self._crossed(crossing)
