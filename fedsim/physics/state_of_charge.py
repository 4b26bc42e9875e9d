"""State of charge: the exact, piecewise linear energy in a battery over time.

The battery stores charge_efficiency * p of an offered power p. A client that draws w takes w /
discharge_efficiency out of it. In addition the battery leaks. All of these are constant between
events, so the time of every crossing has a closed form.

Equality of floats needs care. A crossing is computed as a time, and at that time the level is
computed again; rounding may put it just above or below the mark. The level is therefore set to the
mark exactly (`settle`), and the energy account is corrected by the same amount. So no crossing is
reported twice or missed. Comparisons with a mark use the smallest level whose share is at least
that of the mark (`_level`).
"""

from math import inf, nextafter

from fedsim.core.columns import Figure, larger, smaller
from fedsim.physics.batteries import Battery, Crossing
from fedsim.physics.signals import Signal

# Laws of one battery, or elementwise of many: `fedsim.sim.arrays.supplies` calls them with arrays.


def outflow(watts: Figure, efficiency: Figure, leak: Figure) -> Figure:
    """Return the power out of a battery, W: the drawn power with its losses, and the leakage."""
    return watts / efficiency + leak


def outtake(joules: Figure, efficiency: Figure, level: Figure, capacity: Figure) -> Figure:
    """Return the energy that leaves a battery, J, when an amount is taken out at once.

    It is at most the stored energy, and when energy is given back, at most the free capacity.

    Args:
        joules: the amount at the device, J; negative if it is given back.
        efficiency: the usable share of the energy taken out.
        level: the stored energy, J.
        capacity: the energy of the full battery, J.
    """
    return larger(smaller(joules / efficiency, level), level - capacity)


class BatteryStore:
    """The state of one battery over time, which must not decrease.

    The caller sets the client's power, asks for the time of the next event, and calls `settle` at
    that time. A client that is shut down draws no power, whatever was set. After a restart it draws
    the power that was set last.

    Args:
        battery: the law.
        capacity: the energy of the full battery, J.
        source: the offered power, W.
        threshold: the threshold of participation as a share, if it is not that of the battery.

    Attributes:
        battery: see the arguments.
        capacity: see the arguments.
        initial: the energy at time 0, J.
        now: the time of the current state, s.
        level: the stored energy, J.
        charged: the energy received so far, after the losses of charging, J.
        drained: the energy taken out so far, before the losses of discharging, with leakage, J.
        spilled: the offered energy that the full battery could not take, J.
        alive: whether the client is on.
        ready: whether it is on, and neither below the threshold nor falling from it.
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
    def threshold(self) -> float:
        """The threshold of participation, as a share of the capacity."""
        return self._threshold / self.capacity

    @property
    def share(self) -> float:
        """The state of charge, 0 to 1."""
        return self.level / self.capacity

    @property
    def lower_mark(self) -> float:
        """The level of the next event if the battery only drains, J."""
        return self._bound_below()[0]

    @property
    def offered(self) -> float:
        """The power currently offered to charge it, W."""
        return self._power

    def draw(self, now: float, watts: float) -> None:
        """Set the power drawn from `now` on, W at the device.

        Raises:
            ValueError: the power is negative or not finite, or time decreases.
        """
        if not 0 <= watts < inf:
            raise ValueError(f"got a power of {watts} W; expected a finite one of at least 0 W")
        self.advance(now)
        self._watts = watts

    def advance(self, now: float) -> None:
        """Advance the state to `now`.

        Raises:
            ValueError: time decreases.
        """
        if now < self.now:
            raise ValueError(f"got the time {now}, before {self.now}")
        if now == self.now and self._until > now:
            return  # the most frequent case
        source = self._source
        # Powers are constant until the source changes, so each interval is integrated exactly.
        while self._until <= now:
            self._flow(self._until - self.now)
            self.now = self._until
            self._power, self._until = source.at(self.now), source.next_change(self.now)
        self._flow(now - self.now)
        self.now = now

    def take(self, joules: float) -> None:
        """Take out an energy at this instant, J at the device; a negative one is given back.

        The level stays between empty and full. A mark between the old and the new level counts as
        crossed at this instant.
        """
        out = outtake(joules, self.battery.discharge_efficiency, self.level, self.capacity)
        self.drained += out
        self.level -= out
        self._taken_at = self.now

    def spare(self, joules: float) -> float:
        """Return how much of an energy, J at the device, can be taken at this instant.

        It is all of it, or the part that brings the level just below the cut-off, so that the
        client shuts down. It is 0 for a client that is off.
        """
        if not self.alive:
            return 0.0
        left = self.level - self._cutoff * (1 - 1e-12)  # a margin larger than rounding
        return min(joules, max(left, 0.0) * self.battery.discharge_efficiency)

    def outlasts(self, *loads: tuple[float, float]) -> bool:
        """Return whether it certainly supplies powers in turn, W, each given after its end, s.

        What it may be charged with meanwhile does not count.
        """
        level, now = self.level, self.now
        for until, watts in loads:
            out: float = outflow(watts, self.battery.discharge_efficiency, self._leak)
            level, now = level - out * (until - now), until
        return level > self.lower_mark

    def next_event(self) -> float:
        """Return the time at which to call `settle` next; inf if there is no event.

        It is the first time at which the source changes, the battery is full or empty, or a
        `Crossing` happens. It is the current time if the level is on the threshold and falls
        because of a new draw.
        """
        return min(self._until, self._next_bound()[0])

    def settle(self, now: float) -> Crossing | None:
        """Process the event at `now`; return the crossed mark, if any.

        Before the time of the next event nothing changes. The level is set exactly to the bound
        that it reached, so that no event happens twice.
        """
        due, bound, crossing = self._next_bound()
        self.advance(now)
        if due > now:  # the source may have changed, and rounding may shift the event to now
            due, bound, crossing = self._next_bound()
        if due > now:
            return None
        if due == now:  # correct the rounding error, and the account with it
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
        """Return the power into and out of the battery, W."""
        watts = self._watts if self.alive else 0.0
        out: float = outflow(watts, self.battery.discharge_efficiency, self._leak)
        return self.battery.charge_efficiency * self._power, out

    def _flow(self, seconds: float) -> None:
        """Apply constant powers; a full battery takes no energy, and an empty one gives none."""
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
        """Return the time at which the level reaches its next bound, this bound, and its mark."""
        if self._taken_at == self.now and self.alive:
            bound, crossing = self._bound_below()
            if self.level < bound:  # `take` has crossed it at this instant, whatever the powers
                return self.now, self.level, crossing
        inflow, outflow = self._rates()
        net = inflow - outflow
        if net > 0:
            bound, crossing = self._bound_above()
        elif net < 0:
            bound, crossing = self._bound_below()
        else:
            return inf, self.level, None
        # A full battery stays full, and an empty one empty, until the powers change.
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
        """Return whether the level is above the threshold, or on the threshold and not falling."""
        inflow, outflow = self._rates()
        return (self.level, inflow) >= (self._threshold, outflow)


def _level(share: float, capacity: float) -> float:
    """Return the smallest level whose quotient by the capacity is at least `share`."""
    level = share * capacity
    while level / capacity < share:
        level = nextafter(level, inf)
    return level
