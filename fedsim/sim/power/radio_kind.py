"""What all radios of one law at the same rates have in common, computed once for a fleet."""

from dataclasses import dataclass
from functools import lru_cache

from fedsim.core.columns import choose
from fedsim.physics.radios import RadioLaw, RadioPowers, Rates, powers_of

Pair = tuple[float, float]
"""A figure of each direction: down, then up."""


@lru_cache
def _both(down: float, up: float) -> Pair:
    """Return a pair that all radios with the same figures share."""
    return down, up


def bit_energies(powers: RadioPowers, rates: Rates, factor: float = 1.0) -> Pair:
    """Return the energy of a bit with its time on the air, J/bit; figures may be columns.

    That time counts where the rate is constant, and there is one.

    Args:
        powers: of the radio.
        rates: of its two directions.
        factor: what the model of the network leaves of a rate.
    """
    down, up = (
        energy + _on_air(watts, rate.constant, factor)
        for energy, watts, rate in zip(
            powers.per_bit, powers.on_air, (rates.down, rates.up), strict=True
        )
    )
    return down, up


def _on_air(watts: float, rate: float | None, factor: float) -> float:
    """Return the energy of being on the air for a bit, J; 0 without a constant rate."""
    if rate is None:
        return 0.0
    joules: float = choose(rate > 0.0, watts, 0.0) / choose(rate > 0.0, rate * factor, 1.0)
    return joules


@dataclass(frozen=True, slots=True)
class RadioKind:
    """The common properties of radios of one law at the same rates.

    Attributes:
        law: the law.
        powers: beyond rest.
        per_bit: the energy of a bit with its time on the air, J/bit, down and up; without that time
            where the rate is not constant.
        paced: whether a bit's time on the air differs from message to message.
        stateful: whether the radio has states beyond ready and busy.
        detached: whether a message needs nothing of such a radio but `RadioMeter.end`, on mains.
    """

    law: RadioLaw
    powers: RadioPowers
    per_bit: Pair
    paced: bool
    stateful: bool
    detached: bool

    @classmethod
    def of(cls, law: RadioLaw, rates: Rates, factor: float = 1.0) -> "RadioKind":
        """Return the kind of a radio.

        Args:
            law: of the radio.
            rates: of its two directions.
            factor: what the model of the network leaves of a rate.
        """
        powers = powers_of(law)
        both = (rates.down, rates.up)
        paced = any(
            watts != 0.0 and rate.constant is None
            for watts, rate in zip(powers.on_air, both, strict=True)
        )
        stateful = law.states.stateful
        detached = not (stateful or paced) and all(rate.continuous for rate in both)
        per_bit = _both(*bit_energies(powers, rates, factor))
        return cls(law, powers, per_bit, paced, stateful, detached)

    def bit_energy(self, up: bool, seconds: float, back: float = 0.0) -> float:
        """Return the energy of a bit that is on the air for a time, J/bit.

        Args:
            up: its direction.
            seconds: how long it is, s.
            back: how long its answer is, which comes back, s.
        """
        powers = self.powers
        on_air = powers.on_air[up] * seconds + powers.on_air[not up] * back
        return powers.per_bit[up] + on_air
