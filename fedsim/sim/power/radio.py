"""Radios: what their two directions spend, metered."""

from functools import lru_cache
from math import inf

from fedsim.physics.radios import RadioLaw
from fedsim.sim.power.supply import Part, Supply

Pair = tuple[float, float]
"""What is said of the bits that flow down, and of those that flow up."""

_BITS = 1, 2
_WHOLE: Pair = (1.0, 1.0)
_NOTHING: Pair = (0.0, 0.0)


@lru_cache
def _both(down: float, up: float) -> Pair:
    """Return a pair, one for all radios of which it is true."""
    return down, up


def _with(pair: Pair, up: bool, value: float) -> Pair:  # noqa: FBT001
    """Return a pair in which one of the two has a value: the same pair where it has it."""
    if pair[up] == value:
        return pair
    return (pair[0], value) if up else (value, pair[1])


class Radio:
    """Meters the energy of a radio that may send and receive at once.

    The base power is on while anything is transferred, and is paid once: each transfer pays,
    when it ends, for all the time that is not paid yet. The sum is the exact integral of the
    power however the two directions overlap.

    Attributes:
        law: what it is.
        began: since when bits flow down, and up; may be to come; infinite while none do.
        joules: spent so far beyond idle power.
        supply: the battery, if any, that is told of every change of the power.
        detached: whether a message needs nothing of this radio but `end`.
    """

    __slots__ = (
        "_base",
        "_by_state",
        "_energy",
        "_flowing",
        "_paid_until",
        "_rates",
        "_shares",
        "_watts",
        "began",
        "detached",
        "joules",
        "law",
        "supply",
    )

    def __init__(
        self, law: RadioLaw, supply: Supply | None = None, *, continuous: bool = True
    ) -> None:
        self.law = law
        self.supply = supply
        self.detached = supply is None and not law.states.stateful and continuous
        self.began = [inf, inf]
        self.joules = 0.0
        draw = law.draw
        self._base = draw.base
        self._energy = _both(draw.energy_down, draw.energy_up)
        self._watts = _both(draw.receive, draw.send)
        self._by_state = draw.receive > 0 or draw.send > 0
        self._shares = _WHOLE
        self._rates = _NOTHING
        self._flowing = 0  # a bit for what flows down, and one for what flows up
        self._paid_until = 0.0

    def heard(self, now: float) -> float:
        """Return when it hears of a message that is there for it now."""
        return now

    def wake(self, now: float, round_number: int) -> float:  # noqa: ARG002 - for subclasses
        """Return when it is ready for a message that is there now."""
        return now

    def begin(self, up: bool, rate: float, share: float = 1.0) -> None:  # noqa: FBT001
        """Let bits flow in one direction from now on.

        Args:
            up: which direction.
            rate: bit/s, until `change` says another.
            share: of the time in which it is on the air.
        """
        self._flowing |= _BITS[up]
        self._shares = _with(self._shares, up, share)
        if self.supply is not None:  # else nobody asks for the power
            # What takes no time has no power.
            self._rates = _with(self._rates, up, rate if rate < inf else 0.0)
            self.feed()

    def change(self, up: bool, rate: float) -> None:  # noqa: FBT001
        """Take note that bits flow at another rate from now on."""
        if self.supply is not None and self._rates[up] != rate:
            self._rates = _with(self._rates, up, rate)
            self.feed()

    def end(self, now: float, bits: float, up: bool) -> float:  # noqa: FBT001 - once a message
        """Note that bits have ceased to flow; meter them and return the joules."""
        # Comparisons, not min and max: this runs twice for every client in every round.
        on, other = began = self.began  # both directions' bits, if any, flow until now
        own = began[up]
        if other < on:  # noqa: PLR1730
            on = other
        if on < self._paid_until:  # noqa: PLR1730
            on = self._paid_until
        joules = self._energy[up] * bits
        if self._by_state and own < now:
            joules += self._watts[up] * self._shares[up] * (now - own)
        if on < now:
            joules += self._base * (now - on)
        self._paid_until = now
        began[up] = inf
        self.joules += joules
        return joules

    def rest(self, up: bool) -> None:  # noqa: FBT001
        """Take note that one direction has nothing under way any more."""
        flowed = self._flowing
        self.began[up] = inf
        self._flowing &= ~_BITS[up]
        self.feed()
        if flowed and not self._flowing:
            self._book()

    def off(self) -> None:
        """Leave every state: the radio has lost its network, or its power."""
        self.feed()
        self._book()

    @property
    def power(self) -> float:
        """What it draws now beyond idle power, W."""
        watts = self._base if self._flowing else 0.0
        for up, bit in enumerate(_BITS):
            if self._flowing & bit:
                watts += self._watts[up] * self._shares[up] + self._energy[up] * self._rates[up]
        return watts

    def _book(self) -> None:
        """Tell the battery what is metered, at an instant at which all that is spent is."""
        if self.supply is not None:
            self.supply.book(Part.RADIO, self.joules)

    def feed(self) -> None:
        """Tell the battery what is drawn now."""
        if self.supply is not None:
            self.supply.set(Part.RADIO, self.power)
