"""Weighted max-min fair sharing by brute force, in rational numbers.

At every arrival, end, stop and change all rates are computed anew by progressive filling:
all transfers are raised together, each in proportion to its weight; who reaches its cap
stays there, and so does everybody on a link that is used up. There is no heap, no virtual
time and no rounding in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Profile = tuple[tuple[Fraction, Fraction], ...]
"""Times, the first of them 0, and the value from each of them on."""

Rate = Fraction | Profile


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is offered to a network; no cap means that only links limit it."""

    start: Fraction
    bits: Fraction
    cap: Rate | None
    path: tuple[int, ...] = (0,)
    weight: Fraction = Fraction(1)
    usage: tuple[Fraction, ...] = ()
    stop: Fraction | None = None

    def use(self, link: int) -> Fraction:
        """Return how much of its rate a link carries; all of it unless told otherwise."""
        if link not in self.path:
            return Fraction(0)
        return self.usage[self.path.index(link)] if self.usage else Fraction(1)


def at(rate: Rate, t: Fraction) -> Fraction:
    """Return the value at a time."""
    if isinstance(rate, Fraction):
        return rate
    return next(value for time, value in reversed(rate) if time <= t)


def changes(rate: Rate | None, t: Fraction) -> list[Fraction]:
    """Return when the value changes after a time."""
    return [time for time, _ in rate if time > t] if isinstance(rate, tuple) else []


def fair_rates(
    transfers: Mapping[int, Transfer], capacities: Sequence[Rate], t: Fraction = Fraction(0)
) -> dict[int, Fraction]:
    """Fill progressively and return the rates."""
    rates, rising = dict[int, Fraction](), dict(transfers)

    def cap_level(one: Transfer) -> list[Fraction]:
        return [] if one.cap is None else [at(one.cap, t) / one.weight]

    def link_level(link: int) -> list[Fraction]:
        demand = sum((one.weight * one.use(link) for one in rising.values()), Fraction(0))
        taken = sum((rate * transfers[key].use(link) for key, rate in rates.items()), Fraction(0))
        return [(at(capacities[link], t) - taken) / demand] if demand else []

    while rising:
        own = {key: cap_level(one) for key, one in rising.items()}
        links = {link: link_level(link) for link in range(len(capacities))}
        level = min(level for levels in (*own.values(), *links.values()) for level in levels)
        full = {link for link, levels in links.items() if levels == [level]}
        for key, one in list(rising.items()):
            if own[key] == [level] or any(one.use(link) for link in full):
                rates[key] = one.weight * level
                del rising[key]
    return rates


def run(
    transfers: Sequence[Transfer], capacities: Sequence[Rate]
) -> list[tuple[Fraction, Fraction]]:
    """Return when each transfer is over, and the bits that have passed until then."""
    now, over = Fraction(0), dict[int, tuple[Fraction, Fraction]]()
    left = {number: transfer.bits for number, transfer in enumerate(transfers)}
    while left:
        active = {key: transfers[key] for key in left if transfers[key].start <= now}
        for key, one in list(active.items()):
            if not left[key] or one.stop == now:
                over[key] = now, one.bits - left.pop(key)
                del active[key]
        rates = fair_rates(active, capacities, now)
        times = [transfers[key].start for key in left if key not in active]
        times += [now + left[key] / rates[key] for key in active if rates[key]]
        times += [one.stop for one in active.values() if one.stop is not None]
        for rate in (*capacities, *[one.cap for one in active.values()]):
            times += changes(rate, now)
        then = min(times, default=now)
        for key in active:
            left[key] -= rates[key] * (then - now)
        now = then
    return [over[number] for number in range(len(transfers))]


def ends(transfers: Sequence[Transfer], capacity: Fraction) -> list[Fraction]:
    """Return when each transfer over one link ends."""
    return [end for end, _ in run(transfers, [capacity])]
