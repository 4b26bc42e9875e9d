"""The fluid network against brute force, on random networks whose links and caps vary."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.physics.signals import Signal, Steps
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network import sharing
from fedsim.sim.network.flows import Flow
from fedsim.sim.network.fluid import Fluid
from tests.tiers import examples

from . import test_links_stops
from .filling import Rate, Transfer, run
from .radios import law

LINKS = 5

whole = st.integers(1, 12).map(Fraction)
odd = st.fractions(min_value=Fraction(1, 20), max_value=20, max_denominator=50)
amounts = st.one_of(whole, odd)
starts = st.one_of(st.sampled_from([Fraction(0), Fraction(1), Fraction(2)]), odd)
uses = st.sampled_from([Fraction(1), Fraction(1), Fraction(1, 20)])


@st.composite
def _profiles(draw: st.DrawFn) -> Rate:
    """Steps, of which any but the last may be 0."""
    gaps = draw(st.lists(amounts, min_size=1, max_size=4))
    values = [draw(st.one_of(st.just(Fraction(0)), amounts)) for _ in gaps]
    times = [sum(gaps[:n], Fraction(0)) for n in range(len(gaps) + 1)]
    return tuple(zip(times, [*values, draw(amounts)], strict=True))


rates = st.one_of(amounts, amounts, _profiles())


@st.composite
def _transfers(draw: st.DrawFn) -> Transfer:
    path = tuple(draw(st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=3, unique=True)))
    start, wait = draw(starts), draw(st.one_of(st.none(), st.none(), amounts))
    return Transfer(
        start=start,
        bits=draw(amounts),
        cap=draw(st.one_of(st.none(), rates)),
        path=path,
        weight=draw(st.one_of(st.just(Fraction(1)), amounts)),
        usage=tuple([draw(uses) for _ in path]),
        stop=None if wait is None else start + wait,
    )


many = st.lists(_transfers(), min_size=1, max_size=9)
networks = st.lists(rates, min_size=LINKS, max_size=LINKS)


def signal(rate: Rate | None) -> float | Signal:
    if isinstance(rate, tuple):
        return Steps([float(time) for time, _ in rate], [float(value) for _, value in rate])
    return inf if rate is None else float(rate)


class Offered:
    """Transfers over a fluid network: when each was over, what had passed, what was told.

    Attributes:
        rates: of each that is watched, the times at which it was told a rate, and the rates.
    """

    def __init__(
        self, offers: Sequence[Transfer], capacities: Sequence[Rate], *, watched: bool
    ) -> None:
        self.env = Calendar()
        self.fluid = Fluid(self.env)
        self.links = [self.fluid.link(law(signal(capacity))) for capacity in capacities]
        self.flows: dict[int, Flow] = {}
        self.over: dict[int, tuple[float, float]] = {}
        self.rates: dict[int, list[tuple[float, float]]] = {n: [] for n in range(len(offers))}
        self._changed = self._change if watched else None
        for key, offer in enumerate(offers):
            self.env.at(float(offer.start), self._start, key, offer)
            if offer.stop is not None:
                self.env.at(float(offer.stop), self._stop, key)

    def _start(self, key: int, offer: Transfer) -> None:
        path = self.fluid.path(
            [self.links[link] for link in offer.path],
            [float(offer.use(link)) for link in offer.path],
            float(offer.weight),
        )
        cap = law(signal(offer.cap))
        self.flows[key] = self.fluid.add(
            path, float(offer.bits), cap.peak, self._end, key, self._changed, cap.signal
        )

    def _change(self, key: int, rate: float) -> None:
        self.rates[key].append((self.env.now, rate))

    def _end(self, key: int) -> None:
        self.over[key] = self.env.now, self.flows[key].passed(self.env.now)

    def _stop(self, key: int) -> None:
        if key not in self.over:
            self.flows[key].stop()
            self._end(key)


def _close(seen: Offered, expected: Sequence[tuple[Fraction, Fraction]]) -> None:
    for key, (end, passed) in enumerate(expected):
        assert seen.over[key] == pytest.approx((float(end), float(passed)), rel=1e-9, abs=1e-9)


@examples(120)
@given(many, networks)
def test_all_are_over_when_brute_force_says_with_the_bits_it_says(
    offers: list[Transfer], capacities: list[Rate]
) -> None:
    seen = Offered(offers, capacities, watched=False)
    seen.env.run()
    _close(seen, run(offers, capacities))


@examples(80)
@given(many, networks)
def test_it_does_not_matter_when_it_is_looked_at_whether_a_pool_has_fallen_apart(
    offers: list[Transfer], capacities: list[Rate]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "YOUNG", 1)
        seen = Offered(offers, capacities, watched=False)
        seen.env.run()
    _close(seen, run(offers, capacities))


@examples(80)
@given(many, networks)
def test_the_integral_of_the_rates_that_are_told_is_what_has_passed(
    offers: list[Transfer], capacities: list[Rate]
) -> None:
    seen = Offered(offers, capacities, watched=True)
    seen.env.run()
    for key, told in seen.rates.items():
        end, passed = seen.over[key]
        spans = [(later - since) * rate for (since, rate), (later, _) in pairwise(told)]
        assert sum(spans) == pytest.approx(passed, rel=1e-9, abs=1e-9)
        assert not told or (told[-1][1] == 0.0 and told[-1][0] <= end)


@examples(60)
@given(many, networks)
def test_to_be_watched_changes_nothing(offers: list[Transfer], capacities: list[Rate]) -> None:
    watched = Offered(offers, capacities, watched=True)
    unwatched = Offered(offers, capacities, watched=False)
    watched.env.run()
    unwatched.env.run()
    for key, over in watched.over.items():
        assert over == pytest.approx(unwatched.over[key], rel=1e-12, abs=1e-12)


@examples(40)
@given(st.lists(_transfers(), min_size=1, max_size=6), networks, st.integers(1, 3))
def test_a_network_that_nothing_joins_to_others_is_shared_as_if_they_were_not_there(
    offers: list[Transfer], capacities: list[Rate], copies: int
) -> None:
    apart = [
        replace(offer, path=tuple([link + copy * LINKS for link in offer.path]))
        for copy in range(copies)
        for offer in offers
    ]
    seen = Offered(apart, capacities * copies, watched=False)
    seen.env.run()
    _close(seen, run(offers, capacities) * copies)


@examples(80)
@given(test_links_stops.many, amounts)
def test_over_one_link_it_is_a_fair_link(offers: list[Transfer], capacity: Fraction) -> None:
    fluid = Offered(offers, [capacity], watched=False)
    fair = test_links_stops.Stopped(offers, float(capacity))
    fluid.env.run()
    fair.env.run()
    for key, over in fair.over.items():
        assert fluid.over[key] == pytest.approx(over, rel=1e-9, abs=1e-9)
