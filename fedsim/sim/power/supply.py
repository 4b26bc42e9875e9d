"""Power supplies: a client's battery in operation, with its events at their exact times."""

from collections.abc import Callable, Sequence
from copy import copy
from enum import IntEnum
from math import inf, nan, ulp
from typing import Any

from fedsim.core.columns import Figure
from fedsim.physics.batteries import Crossing
from fedsim.physics.state_of_charge import BatteryStore
from fedsim.sim.engine.calendar import DEADLINE, Calendar, Timer

Crossed = Callable[[Crossing | None], None]
"""Callback for a mark that the charge has reached; called with None for any other change."""

# A battery is drained in two ways that have to agree. Powers are integrated over time, between the
# events that change them. The meters of radio and processor charge bits, operations and seconds, as
# the log records them. Both are the same energy. But a float of time has a resolution: a power that
# begins or ends one unit too early or too late is wrong by this unit times the power. `Supply.book`
# settles the difference, and `resolution` sums how large it may be for this reason alone. An audit
# rejects larger differences.

_EDGES = 4
"""Largest error of the time of a change of power, in units of the clock's resolution: twice in the
time of the change, and twice in the time from which on it applies."""

_MOST_EVENTS = 10_000
"""Most events in a forecast of an idle battery: many years of harvest."""


def empty_at(store: BatteryStore, rest: float, loads: Sequence[tuple[float, float]]) -> float:
    """Return when a battery is empty, s, if a radio draws powers in turn; inf if it outlasts them.

    Args:
        store: its state, which is changed.
        rest: the idle power of the client, W.
        loads: the powers of the radio, W, each after the time at which it ends, s; at least one.
    """
    most = total_power(rest, 0.0, max(watts for _, watts in loads))
    if not store.alive or store.outlasts((loads[-1][0], most)):
        return inf if store.alive else store.now
    for ends, watts in loads:
        store.draw(store.now, total_power(rest, 0.0, watts))
        for _ in range(_MOST_EVENTS):
            if (now := store.next_event()) > ends:
                break
            if store.settle(now) is Crossing.DEPLETED:
                return now
        store.advance(ends)
    return inf


class Part(IntEnum):
    """The parts of a client that draw power."""

    REST = 0
    PROCESSOR = 1
    RADIO = 2


_METERED = (Part.PROCESSOR, Part.RADIO)


def total_power(rest: Figure, processor: Figure, radio: Figure) -> Figure:
    """Return the power of all parts of a client, W, summed in this order."""
    return rest + processor + radio


class Accounts:
    """The energy that a client draws from its battery; or that many clients draw, as columns.

    All operations hold entry by entry, so a column has the bits of the figures of its clients.

    Args:
        store: the state of the battery, or of all batteries.
        watts: the powers of the parts at time 0, W.

    Attributes:
        store: see above.
        watts: the present powers of the parts, W.
        load: their sum, W.
        since: the time up to which energy is counted, s.
        delivered: the energy drawn so far, J.
        drawn: the energy of each part by power x time since its last `close`, J.
        metered: the meter of each part at its last `close`, J.
        settled: the sum of the absolute differences from the parts' meters, J.
        resolution: the part of `settled` that the clock's resolution explains, J.
    """

    def __init__(self, store: Any, watts: Figure) -> None:
        self.store = store
        self.watts, self.load = watts, total_power(*watts)
        self.since: Figure = 0.0
        self.delivered: Figure = 0.0
        self.settled: Figure = 0.0
        self.resolution: Figure = 0.0
        self.drawn: Figure = [0.0 for _ in Part]
        self.metered: Figure = [0.0 for _ in Part]

    def advance_to(self, now: Figure) -> None:
        """Count the energy of all parts up to a time, s."""
        span = now - self.since
        self.delivered += self.load * span
        for part in _METERED:
            self.drawn[part] += self.watts[part] * span
        self.since = now
        self.store.advance(now)

    def change(self, part: Part, watts: Figure, tick: Figure) -> None:
        """Change the power of a part to another one, W; the clock resolves `tick`, s."""
        self.resolution += _EDGES * tick * abs(watts - self.watts[part])
        self.watts[part] = watts
        self.load = total_power(*self.watts)
        self.store.draw(self.since, self.load)

    def close(self, part: Part, joules: Figure) -> Figure:
        """Begin a part's accounts anew; return the energy that only its meter has counted, J."""
        missing = joules - self.metered[part] - self.drawn[part]
        self.metered[part] = joules
        self.drawn[part] = 0.0
        return missing

    def settle(self, missing: Figure, watts: Figure, tick: Figure) -> None:
        """Take the energy that `close` returned from the battery; see `Supply.book`."""
        self.settled += abs(missing)
        self.resolution += _EDGES * tick * watts
        self.delivered += missing
        self.store.take(missing)


def harvested(supply: "Supply | None", watts: float) -> float:
    """Return the charging power on offer now as a share of a power, at most 1; 1 on mains."""
    if supply is None:
        return 1.0
    offered = supply.offered
    return 1.0 if offered >= watts else offered / watts


def state_of_charge(supply: "Supply | None") -> float:
    """Return the state of charge now, in [0, 1]; NaN on mains."""
    return nan if supply is None else supply.share


class Supply(Accounts):
    """Adds up the power of a client's parts, and drains its battery.

    Between two changes all powers are constant, so the time of the next event is known exactly, and
    one timer waits for it. Whatever completes at the instant at which the battery becomes empty has
    completed.

    Args:
        calendar: the calendar.
        store: the state of the battery.
        rest: the idle power of the client, W.
        crossed: called when the battery reaches a mark, or with None for another change.

    Attributes:
        depletions: the number of times that the battery has reached its cut-off. A battery that
            starts at or below its cut-off counts at time 0.
    """

    store: BatteryStore

    def __init__(
        self,
        calendar: Calendar,
        store: BatteryStore,
        rest: float,
        crossed: Crossed,
    ) -> None:
        super().__init__(store, [rest if store.alive else 0.0, 0.0, 0.0])
        self.depletions = 0 if store.alive else 1
        self._calendar = calendar
        self._crossed = crossed
        self._rest = rest
        self.store.draw(0.0, self.load)
        self._ready_at = -inf  # forecast of readiness; a time before now is out of date
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
        if self.watts[part] != watts:
            self.advance()
            self.change(part, watts, ulp(self.since))
            # A forecast assumes an idle client, so switching idle power is part of it.
            if part is not Part.REST:
                self._ready_at = -inf
            self._wait()

    def book(self, part: Part, joules: float, watts: float = 0.0) -> None:
        """Settle a part with its meter, at an instant at which the meter is complete.

        If energy is charged per bit or operation, power x time agrees with it only up to the
        clock's resolution. The difference leaves the battery now, so that the battery is drained of
        exactly the energy in the log.

        Args:
            part: the metered part.
            joules: the meter, beyond idle power, J.
            watts: the power of use that may have begun and ended within one instant, W.
        """
        # The meter counts a message at its end, and lags behind while bits flow. So this is called
        # when a part has become idle, never in the middle of a message, which would be missing.
        self.advance()
        if missing := self.close(part, joules):
            self.settle(missing, watts, ulp(self.since))
            self._ready_at = -inf
            self._wait()

    def spend(self, part: Part, joules: float) -> float:
        """Drain energy that a part uses at this instant; return the supplied energy, J.

        A battery that holds less above its cut-off supplies that, and is then empty.

        Args:
            part: the part; its meter counts the supplied energy as well.
            joules: the required energy, J.
        """
        self.advance()
        supplied = self.store.spare(joules)
        self.metered[part] += supplied
        self.delivered += supplied
        self.store.take(supplied)
        self._ready_at = -inf
        self._wait()
        return supplied

    def spare(self, joules: float) -> float:
        """Return what `spend` would supply of an energy now, J; the battery stays as it is."""
        # A copy: to advance an account in more steps would round it differently.
        image = copy(self.store)
        image.advance(self._calendar.now)
        return image.spare(joules)

    def outlasts(self, until: float, watts: float) -> bool:
        """Return whether the battery certainly outlasts a power of the radio, W, until a time."""
        load = total_power(self._rest, 0.0, watts)
        now = self._calendar.now
        return self.store.alive and self.store.outlasts((now, self.load), (until, load))

    def empty_at(self, loads: Sequence[tuple[float, float]]) -> float:
        """Return when the battery is empty, s, if only the radio draws power; see `empty_at`."""
        # A copy: to advance an account in more steps would round it differently.
        image = copy(self.store)
        image.advance(self._calendar.now)
        return empty_at(image, self._rest, loads)

    def cut(self) -> None:
        """Switch off every part."""
        self.advance()
        self.watts, self.load = [0.0 for _ in Part], 0.0
        self.store.draw(self.since, 0.0)
        self._ready_at = -inf
        self._wait()

    def advance(self) -> None:
        """Count the energy of all parts up to now."""
        self.advance_to(self._calendar.now)

    def recovers(self) -> bool:
        """Return whether the client can take part now, or will be able to after idling.

        The future of an idle battery is known. It is forecast once, and again after any other
        activity of the client.
        """
        # The server queries every client whenever none can take part, and the forecast of a client
        # that harvests at night takes thousands of events. A forecast holds as long as the client
        # idles. A change of any other power, or of the charge, invalidates it.
        if self._ready_at < self._calendar.now:
            self._ready_at = self._forecast()
        return self._ready_at < inf

    def _forecast(self) -> float:
        """Return the time at which an idling client will be ready, s; inf for never."""
        # A copy of the store goes through its events as in `_settle`: it is cut off when empty, and
        # draws idle power again once it has recharged, which may empty it again.
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

    def _wait(self) -> None:
        """Set a timer that expires no later than the next event of the battery."""
        # Every message changes the load several times, and with it the time of the next event,
        # which is hours away. A new timer each time would fill the calendar with cancelled ones. A
        # timer that expires too early is harmless: `_settle` finds that nothing has happened, and
        # sets it anew. Only a timer that is too late has to be replaced.
        when = self.store.next_event()
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
            self._calendar.background -= 1
        self._timer = None
        if when < inf:
            # Last in its instant: a message whose last bit passes as the battery becomes empty has
            # arrived.
            self._timer = self._calendar.at(when, self._settle, priority=DEADLINE)
            self._calendar.background += 1

    def _settle(self) -> None:
        self._timer = None
        self._calendar.background -= 1
        # A battery that charges and drains has events for ever. They are no progress if nothing
        # else is scheduled: the run is over, or in a deadlock that would never be noticed.
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
