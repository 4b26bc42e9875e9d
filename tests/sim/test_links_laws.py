"""A fair link against brute force, and the laws that define max-min fairness."""

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpy.core import EmptySchedule

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink, SharedTransfer
from tests.tiers import examples

from .filling import Rate, Transfer, ends

# Few values, so that transfers often start, end and change sides at one instant.
whole = st.integers(1, 12).map(Fraction)
odd = st.fractions(min_value=Fraction(1, 20), max_value=20, max_denominator=50)
starts = st.one_of(st.sampled_from([Fraction(0), Fraction(1), Fraction(2)]), odd)
transfers = st.builds(
    Transfer, start=starts, bits=st.one_of(whole, odd), cap=st.one_of(st.none(), whole, odd)
)
many = st.lists(transfers, min_size=1, max_size=10)
capacities = st.one_of(whole, odd)
laws = examples(60)


def number(value: Rate | None) -> float:
    assert not isinstance(value, tuple)  # nothing varies here
    return inf if value is None else float(value)


class Offered:
    """Transfers on a link: who is on it, and when and in which order they have passed."""

    def __init__(self, offers: list[Transfer], capacity: float) -> None:
        self.env = Calendar()
        self.link = FairLink(self.env, capacity)
        self.flows: dict[int, SharedTransfer] = {}
        self.ended: dict[int, float] = {}
        self.offers = offers
        for key, offer in enumerate(offers):
            self.env.at(number(offer.start), self._start, key)

    def _start(self, key: int) -> None:
        offer = self.offers[key]
        self.flows[key] = self.link.add(number(offer.bits), number(offer.cap), self._end, key)

    def _end(self, key: int) -> None:
        self.ended[key] = self.env.now
        del self.flows[key]

    def instants(self) -> list[float]:
        """Run to the end; return the moments at which anything happened."""
        return sorted({self.env.now for _ in steps(self.env)})


def steps(env: Calendar) -> Iterator[None]:
    """Let one thing after the other happen."""
    with suppress(EmptySchedule):
        while True:
            env.step()
            yield


def measured(offers: list[Transfer], capacity: float) -> list[tuple[float, dict[int, float]]]:
    """Return the spans between events, and the rates in the middle of each.

    A rate is measured from outside: the bits that pass between two moments.
    """
    spans = list[tuple[float, dict[int, float]]]()
    offered = Offered(offers, capacity)

    def look(early: float, late: float, span: float) -> None:
        bits = {key: flow.passed(late) - flow.passed(early) for key, flow in offered.flows.items()}
        spans.append((span, {key: passed / (late - early) for key, passed in bits.items()}))

    for begin, end in pairwise(Offered(offers, capacity).instants()):
        if end - begin > 1e-6:  # closer moments would measure rounding
            early, late = begin + (end - begin) / 4, begin + 3 * (end - begin) / 4
            offered.env.at(early, look, early, late, end - begin)
    offered.env.run()
    return [(span, rates) for span, rates in spans if rates]


@examples(150)
@given(many, capacities)
def test_transfers_end_when_brute_force_says(offers: list[Transfer], capacity: Fraction) -> None:
    offered = Offered(offers, number(capacity))
    offered.env.run()
    expected = [float(end) for end in ends(offers, capacity)]
    assert [offered.ended[key] for key in range(len(offers))] == pytest.approx(expected, rel=1e-9)


@laws
@given(many, capacities)
def test_no_rate_could_rise_but_at_a_slower_ones_cost(
    offers: list[Transfer], capacity: Fraction
) -> None:
    most = number(capacity)
    for _, rates in measured(offers, most):
        assert sum(rates.values()) <= most * (1 + 1e-6)
        at_cap = {key for key in rates if rates[key] >= number(offers[key].cap) * (1 - 1e-6)}
        held_back = set(rates) - at_cap
        fastest = max(rates.values())
        assert all(rates[key] >= fastest * (1 - 1e-6) for key in held_back)
        assert not held_back or sum(rates.values()) >= most * (1 - 1e-6)


@laws
@given(many, capacities)
def test_the_integral_of_a_rate_is_what_was_offered(
    offers: list[Transfer], capacity: Fraction
) -> None:
    integral = dict.fromkeys(range(len(offers)), 0.0)
    for span, rates in measured(offers, number(capacity)):
        for key, rate in rates.items():
            integral[key] += rate * span
    expected = {key: number(offer.bits) for key, offer in enumerate(offers)}
    assert integral == pytest.approx(expected, rel=1e-5, abs=1e-5)


@laws
@given(many, capacities)
def test_what_has_passed_never_shrinks_and_stays_within_what_was_offered(
    offers: list[Transfer], capacity: Fraction
) -> None:
    offered, seen = Offered(offers, number(capacity)), dict[int, list[float]]()
    for _ in steps(offered.env):
        for key, flow in offered.flows.items():
            seen.setdefault(key, []).append(flow.passed(offered.env.now))
    for key, passed in seen.items():
        slack = 1e-9 * (1 + number(offers[key].bits))
        assert all(-slack <= bits <= number(offers[key].bits) + slack for bits in passed)
        assert all(later >= earlier - slack for earlier, later in pairwise(passed))


@laws
@given(many, capacities)
def test_those_of_one_size_and_cap_leave_in_the_order_in_which_they_came(
    offers: list[Transfer], capacity: Fraction
) -> None:
    alike = [Transfer(offer.start, offers[0].bits, offers[0].cap) for offer in offers]
    offered = Offered(alike, number(capacity))
    offered.env.run()
    arrival = sorted(range(len(alike)), key=lambda key: alike[key].start)
    left = [offered.ended[key] for key in arrival]
    assert all(later >= earlier * (1 - 1e-12) for earlier, later in pairwise(left))
    together = [key for key in offered.ended if alike[key].start == alike[0].start]
    assert together == sorted(together)
