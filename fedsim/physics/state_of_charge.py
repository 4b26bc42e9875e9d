"""Stores: an exact, piecewise linear law of what a battery holds.

Of a power p offered, the store takes charge_efficiency * p; a client that draws w takes
w / discharge_efficiency out of it; and it leaks. Between events all of them are constant, so
every crossing has a time in closed form.
"""

from math import inf, nextafter

from fedsim.physics.batteries import Battery, Crossing
from fedsim.physics.signals import Signal


class BatteryStore:
    """The state of one battery; time never runs back.

    It receives the client's power draw, returns the time of the next event, and is settled then. A
    dead client draws nothing, whatever it requests; once it is charged, the last request is drawn
    again.

    Args:
        battery: its law.
        capacity: what it holds when full, J.
        source: what is offered to charge it, W.
        threshold: the share to take part, where that is not the battery's own.

    Attributes:
        battery, capacity: see above.
        initial: what it held at time 0, J.
        now: the time that the rest is of, s.
        level: what it holds, J.
        charged: what has come in, after the efficiency, J.
        drained: what has gone out, before the efficiency and with what leaked, J.
        spilled: what the source offered and a full store did not take, J.
        alive: whether the client is on.
        ready: whether it is alive and not below the threshold, nor about to be.
    """

    __slots__ = (
        "_cutoff",
        "_leak",
        "_power",
        "_restart",
        "_source",
        "_taken_at",
        "_threshold",
        "_until",
        "_watts",
        "alive",
        "battery",
        "capacity",
        "charged",
        "drained",
        "initial",
        "level",
        "now",
        "ready",
        "spilled",
    )

    def __init__(
        self, battery: Battery, capacity: float, source: Signal, threshold: float | None = None
    ) -> None:
        self.battery, self.capacity = battery, capacity
        self._source, self._leak = source, battery.leak(capacity)
        self._cutoff = _level(battery.cutoff, capacity)
        self._threshold = _level(battery.threshold if threshold is None else threshold, capacity)
        self._restart = _level(battery.restarts_at, capacity)
        self._taken_at = -inf
        self.now = self.charged = self.drained = self.spilled = self._watts = 0.0
        self.initial = battery.charge * capacity
        self.level = _level(battery.charge, capacity)
        self.alive = self.level > self._cutoff
        self.ready = self.alive and self.level >= self._threshold
        self._power, self._until = source.at(0.0), source.next_change(0.0)

    @property
    def share(self) -> float:
        """The state of charge, 0 to 1."""
        return self.level / self.capacity

    def draw(self, now: float, watts: float) -> None:
        """Let the client draw so much from now on, W at the device.

        Raises:
            ValueError: the power is negative or not finite, or time runs back.
        """
        if not 0 <= watts < inf:
            raise ValueError(f"a client draws a finite power of at least 0 W; got {watts}")
        self.advance(now)
        self._watts = watts

    def advance(self, now: float) -> None:
        """Bring the level up to now.

        Raises:
            ValueError: time runs back.
        """
        if now < self.now:
            raise ValueError(f"time runs back from {self.now} to {now}")
        if now == self.now and self._until > now:
            return  # it is asked far more often than time passes
        source = self._source
        while self._until <= now:
            self._flow(self._until - self.now)
            self.now = self._until
            self._power, self._until = source.at(self.now), source.next_change(self.now)
        self._flow(now - self.now)
        self.now = now

    def take(self, joules: float) -> None:
        """Let the client draw so much at this instant, J at the device; below 0, give it back.

        A mark that this leaves behind is crossed at this instant, too. An empty store gives no
        more, and a full one takes no more.
        """
        out = joules / self.battery.discharge_efficiency
        out = max(min(out, self.level), self.level - self.capacity)
        self.drained += out
        self.level -= out
        self._taken_at = self.now

    def spare(self, joules: float) -> float:
        """Return what can be taken at this instant of some joules at the device.

        That is all of them, or what leaves the level just below the cut-off, which a client that
        is on then crosses; nothing of one that is off.
        """
        if not self.alive:
            return 0.0
        left = self.level - self._cutoff * (1 - 1e-12)  # more than rounding can give back
        return min(joules, max(left, 0.0) * self.battery.discharge_efficiency)

    def next_event(self) -> float:
        """Return when next to `settle`; inf if nothing happens unless the draw changes.

        It is the first time at which the source changes, the store is full or empty, or a
        `Crossing` comes. That is now where a draw turns the level round on the threshold.
        """
        return min(self._until, self._next_bound()[0])

    def settle(self, now: float) -> Crossing | None:
        """Take in what happens now, the time of the next event; before it, nothing happens.

        The level is put exactly on the bound that it reached, so nothing happens twice.
        Returns what was crossed, if anything.
        """
        due, bound, crossing = self._next_bound()
        self.advance(now)
        if due > now:  # as the source has it from now on, rounding may have it now
            due, bound, crossing = self._next_bound()
        if due > now:
            return None
        if due == now:  # correct what rounding has left, and the account with it
            self.charged += max(0.0, bound - self.level)
            self.drained += max(0.0, self.level - bound)
            self.level = bound
        if crossing in (Crossing.DEPLETED, Crossing.CHARGED):
            self.alive = crossing is Crossing.CHARGED
            self.ready = self.alive and self._above_threshold()
        elif crossing:
            self.ready = crossing is Crossing.READY
        return crossing

    def _rates(self) -> tuple[float, float]:
        """Return what comes in and what goes out, W."""
        load = self._watts / self.battery.discharge_efficiency if self.alive else 0.0
        return self.battery.charge_efficiency * self._power, load + self._leak

    def _flow(self, seconds: float) -> None:
        """Let constant powers flow; what a full or an empty store cannot take or give does not."""
        inflow, outflow = self._rates()
        come, gone = inflow * seconds, outflow * seconds
        gain, room = come - gone, self.capacity - self.level
        if gain >= room:
            come -= gain - room
            self.spilled += (gain - room) / self.battery.charge_efficiency
            self.level = self.capacity
        elif -gain >= self.level:
            gone += gain + self.level
            self.level = 0.0
        else:
            self.level += gain
        self.charged += come
        self.drained += gone

    def _next_bound(self) -> tuple[float, float, Crossing | None]:
        """Return when the level is on its next bound, that bound, and what this crosses."""
        if self._taken_at == self.now and self.alive:
            bound, crossing = self._bound_below()
            if self.level < bound:  # left behind at this instant, whatever flows now
                return self.now, self.level, crossing
        inflow, outflow = self._rates()
        net = inflow - outflow
        if net > 0:
            bound, crossing = self._bound_above()
        elif net < 0:
            bound, crossing = self._bound_below()
        else:
            return inf, self.level, None
        if crossing is None and bound == self.level:
            return inf, bound, None
        return self.now + max(0.0, (bound - self.level) / net), bound, crossing

    def _bound_above(self) -> tuple[float, Crossing | None]:
        if not self.alive:
            return self._restart, Crossing.CHARGED
        if not self.ready:
            return self._threshold, Crossing.READY
        return self.capacity, None

    def _bound_below(self) -> tuple[float, Crossing | None]:
        if not self.alive:
            return 0.0, None
        if self.ready and self._threshold > self._cutoff:
            return self._threshold, Crossing.LOW
        return self._cutoff, Crossing.DEPLETED

    def _above_threshold(self) -> bool:
        """Tell whether the level is above the threshold, or on it and does not fall."""
        inflow, outflow = self._rates()
        return (self.level, inflow) >= (self._threshold, outflow)


def _level(share: float, capacity: float) -> float:
    """Return the least level that is so much of a capacity when divided by it."""
    level = share * capacity
    while level / capacity < share:
        level = nextafter(level, inf)
    return level
