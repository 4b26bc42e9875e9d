"""The constants that radios of one law and equal rates share, computed once per fleet."""

from dataclasses import dataclass
from functools import lru_cache

from fedsim.core.columns import choose
from fedsim.physics.radios import RadioLaw, RadioPowers, Rates, powers_of

Pair = tuple[float, float]
"""A figure per direction: down, then up."""


@lru_cache
def _both(down: float, up: float) -> Pair:
    """Return a pair that all radios with the same figures share."""
    return down, up


def bit_energies(powers: RadioPowers, rates: Rates, factor: float = 1.0) -> Pair:
    """Return the energy of a bit including its time on the air, J/bit; figures may be columns.

    The time on the air is included only if the rate is constant and above 0.

    Args:
        powers: the powers of the radio.
        rates: the rates of its two directions.
        factor: the factor of the network model on a rate.
    """
    down, up = (
        energy + _on_air(watts, rate.constant, factor)
        for energy, watts, rate in zip(
            powers.per_bit, powers.on_air, (rates.down, rates.up), strict=True
        )
    )
    return down, up


def _on_air(watts: float, rate: float | None, factor: float) -> float:
    """Return the energy of the time on the air of a bit, J; 0 without a constant rate."""
    if rate is None:
        return 0.0
    joules: float = choose(rate > 0.0, watts, 0.0) / choose(rate > 0.0, rate * factor, 1.0)
    return joules


@dataclass(frozen=True, slots=True)
class RadioKind:
    """The common properties of radios of one law at the same rates.

    law: the law.
    powers: the powers beyond rest.
    per_bit: the energy of a bit, J/bit, down and up. It includes the time on the air if the
        rate is constant.
    paced: whether the time on the air of a bit differs between messages.
    stateful: whether the radio has states beyond ready and busy.
    detached: whether messages use only `RadioMeter.end` of such a radio on mains.
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
            law: the law of the radio.
            rates: the rates of its two directions.
            factor: the factor of the network model on a rate.
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
        """Return the energy of a bit for a given time on the air, J/bit.

        Args:
            up: the direction.
            seconds: the time on the air of the bit, s.
            back: the time on the air of its answer in the other direction, s.
        """
        powers = self.powers
        on_air = powers.on_air[up] * seconds + powers.on_air[not up] * back
        return powers.per_bit[up] + on_air
