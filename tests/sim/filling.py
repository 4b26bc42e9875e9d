"""Max-min fair sharing by brute force, in rational numbers.

At every arrival and every end all rates are computed anew by progressive filling: all
transfers are raised together; who reaches its cap stays there; the rest goes on until the
capacity is used up. There is no heap, no virtual time and no rounding in it.
"""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is offered to a link; no cap means that only the link limits it."""

    start: Fraction
    bits: Fraction
    cap: Fraction | None


def fair_rates(caps: dict[int, Fraction | None], capacity: Fraction) -> dict[int, Fraction]:
    """Fill progressively and return the rates."""
    level, frozen = Fraction(0), dict[int, Fraction]()
    rising = set(caps)
    while rising:
        spare = capacity - sum(frozen.values()) - level * len(rising)
        reach = level + spare / len(rising)
        near = [cap for key in rising if (cap := caps[key]) is not None and cap <= reach]
        level = min(near, default=reach)
        done = {key for key in rising if not near or caps[key] == level}
        frozen |= dict.fromkeys(done, level)
        rising -= done
    return frozen


def ends(transfers: list[Transfer], capacity: Fraction) -> list[Fraction]:
    """Return when each transfer ends."""
    now, ended = Fraction(0), dict[int, Fraction]()
    left = {number: transfer.bits for number, transfer in enumerate(transfers)}
    while left:
        active = [number for number in left if transfers[number].start <= now]
        for number in [number for number in active if not left[number]]:
            ended[number] = now
            del left[number]
            active.remove(number)
        rates = fair_rates({number: transfers[number].cap for number in active}, capacity)
        changes = [transfers[number].start - now for number in left if number not in rates]
        changes += [left[number] / rates[number] for number in active]
        span = min(changes, default=Fraction(0))
        for number in active:
            left[number] -= rates[number] * span
        now += span
    return [ended[number] for number in range(len(transfers))]
