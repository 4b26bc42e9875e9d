"""Batteries: an exact, piecewise linear law of what a store holds.

Of a power p offered, the store takes charge_efficiency * p; a client that draws w takes
w / discharge_efficiency out of it; and it leaks. Between events all of them are constant, so
every crossing has a time in closed form.
"""

from dataclasses import dataclass
from enum import Enum
from math import inf, nextafter

from fedsim.physics.signals import Constant, Signal

_NOTHING = Constant(0.0)


class Crossing(Enum):
    """What a battery's level has just done.

    LOW and READY are told of a client that is alive, and that neither dies nor restarts at
    the same instant: `Store.ready` has it all.
    """

    DEPLETED = "depleted"  # it fell to the cut-off: the client is dead
    CHARGED = "charged"  # it rose to the restart level: the client is alive again
    LOW = "low"  # it falls below the threshold to take part
    READY = "ready"  # it rose to the threshold to take part


@dataclass(frozen=True, slots=True)
class BatteryModel:
    """A battery and what charges it.

    Attributes:
        capacity: J.
        initial: the share that it holds at time 0.
        charge_efficiency: what is stored of what is taken from the source.
        discharge_efficiency: what reaches the device of what leaves the store.
        leak: self-discharge until the store is empty, W.
        cutoff: the share at which the client shuts down.
        threshold: the share below which the client takes no part.
        restart: the share at which a dead client starts again.
        source: what a charger or harvester offers, W.

    Raises:
        ValueError: a value is outside its range, or a client would restart at its cut-off.
    """

    capacity: float
    initial: float = 1.0
    charge_efficiency: float = 0.95
    discharge_efficiency: float = 0.95
    leak: float = 0.0
    cutoff: float = 0.05
    threshold: float = 0.20
    restart: float = 0.20
    source: Signal = _NOTHING

    def __post_init__(self) -> None:
        if not 0 < self.capacity < inf:
            raise ValueError(f"capacity is above 0 and finite; seen {self.capacity}")
        if not 0 <= self.leak < inf:
            raise ValueError(f"leak is finite and at least 0; seen {self.leak}")
        for name in ("initial", "cutoff", "threshold", "restart"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share, 0 to 1; seen {getattr(self, name)}")
        for name in ("charge_efficiency", "discharge_efficiency"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is above 0 and at most 1; seen {getattr(self, name)}")
        if not self.cutoff < self.restart:
            raise ValueError(f"restart is above cutoff; seen {self.restart} and {self.cutoff}")

    @property
    def sustainable(self) -> bool:
        """Whether a battery surely charges to `restart` again while its client is off."""
        return self.charge_efficiency * self.source.average > self.leak


class Store:
    """The state of one battery; time never runs back.

    It is told what the client draws, asked when something happens next, and settled then. Of
    a dead client nothing is drawn, whatever it asks for; once it is charged, what it asked
    for last is drawn again.

    Attributes:
        model: its parameters.
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
        "_power",
        "_restart",
        "_threshold",
        "_until",
        "_watts",
        "alive",
        "charged",
        "drained",
        "level",
        "model",
        "now",
        "ready",
        "spilled",
    )

    def __init__(self, model: BatteryModel) -> None:
        self.model = model
        self._cutoff = _level(model.cutoff, model.capacity)
        self._threshold = _level(model.threshold, model.capacity)
        self._restart = _level(model.restart, model.capacity)
        self.now = self.charged = self.drained = self.spilled = self._watts = 0.0
        self.level = _level(model.initial, model.capacity)
        self.alive = self.level > self._cutoff
        self.ready = self.alive and self.level >= self._threshold
        self._power, self._until = model.source.at(0.0), model.source.next_change(0.0)

    @property
    def share(self) -> float:
        """The state of charge, 0 to 1."""
        return self.level / self.model.capacity

    def draw(self, now: float, watts: float) -> None:
        """Let the client draw so much from now on, W at the device.

        Raises:
            ValueError: the power is negative or not finite, or time runs back.
        """
        if not 0 <= watts < inf:
            raise ValueError(f"a client draws a finite power of at least 0 W; seen {watts}")
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
        source = self.model.source
        while self._until <= now:
            self._flow(self._until - self.now)
            self.now = self._until
            self._power, self._until = source.at(self.now), source.next_change(self.now)
        self._flow(now - self.now)
        self.now = now

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
        load = self._watts / self.model.discharge_efficiency if self.alive else 0.0
        return self.model.charge_efficiency * self._power, load + self.model.leak

    def _flow(self, seconds: float) -> None:
        """Let constant powers flow; what a full or an empty store cannot take or give does not."""
        inflow, outflow = self._rates()
        come, gone = inflow * seconds, outflow * seconds
        gain, room = come - gone, self.model.capacity - self.level
        if gain >= room:
            come -= gain - room
            self.spilled += (gain - room) / self.model.charge_efficiency
            self.level = self.model.capacity
        elif -gain >= self.level:
            gone += gain + self.level
            self.level = 0.0
        else:
            self.level += gain
        self.charged += come
        self.drained += gone

    def _next_bound(self) -> tuple[float, float, Crossing | None]:
        """Return when the level is on its next bound, that bound, and what this crosses."""
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
        return self.model.capacity, None

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
