"""Transfers on a fair link that are broken off."""

import gc
import weakref
from dataclasses import replace
from fractions import Fraction
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink, SharedTransfer
from tests.tiers import examples

from .filling import Transfer, run
from .test_links_laws import capacities, number, odd, transfers, whole

waits = st.one_of(st.none(), st.just(Fraction(0)), whole, odd)


def stopped(transfer: Transfer, wait: Fraction | None) -> Transfer:
    return transfer if wait is None else replace(transfer, stop=transfer.start + wait)


many = st.lists(st.builds(stopped, transfers, waits), min_size=1, max_size=10)


class Stopped:
    """Transfers of which some are broken off: when each was over, and what had passed."""

    def __init__(self, offers: list[Transfer], capacity: float) -> None:
        self.env = Calendar()
        self.link = FairLink(self.env, capacity)
        self.flows: dict[int, SharedTransfer] = {}
        self.over: dict[int, tuple[float, float]] = {}
        self.told: list[int] = []
        for key, offer in enumerate(offers):
            self.env.at(number(offer.start), self._start, key, offer)
            if offer.stop is not None:
                self.env.at(number(offer.stop), self._stop, key)

    def _start(self, key: int, offer: Transfer) -> None:
        self.flows[key] = self.link.add(number(offer.bits), number(offer.cap), self._end, key)

    def _end(self, key: int) -> None:
        self.told.append(key)
        self.over[key] = self.env.now, self.flows[key].passed(self.env.now)

    def _stop(self, key: int) -> None:
        if key not in self.over:
            self.flows[key].stop()
            self.over[key] = self.env.now, self.flows[key].passed(self.env.now)


@examples(150)
@given(many, capacities)
def test_all_are_over_when_brute_force_says_with_the_bits_it_says(
    offers: list[Transfer], capacity: Fraction
) -> None:
    seen = Stopped(offers, number(capacity))
    seen.env.run()
    for key, (end, passed) in enumerate(run(offers, [capacity])):
        assert seen.over[key] == pytest.approx((float(end), float(passed)), rel=1e-9, abs=1e-9)


@examples(60)
@given(many, capacities)
def test_nobody_is_told_of_what_was_broken_off(offers: list[Transfer], capacity: Fraction) -> None:
    seen = Stopped(offers, number(capacity))
    seen.env.run()
    for key, offer in enumerate(offers):
        if key in seen.told:
            assert seen.over[key][1] == number(offer.bits)
        else:
            assert seen.over[key][0] == number(offer.stop)
    assert len(set(seen.told)) == len(seen.told)


def test_the_others_have_the_link_for_themselves_from_then_on(env: Calendar) -> None:
    link, ended = FairLink(env, 4.0), list[str]()
    flows = [link.add(12.0, inf, ended.append, name) for name in "ab"]
    env.at(2.0, flows[0].stop)
    env.run()
    assert (ended, env.now) == (["b"], 4.0)
    assert flows[0].passed(4.0) == 4.0


def test_one_that_has_not_begun_to_flow_can_be_broken_off_at_once(env: Calendar) -> None:
    link, ended = FairLink(env, 4.0), list[str]()
    link.add(4.0, inf, ended.append, "a").stop()
    link.add(4.0, inf, ended.append, "b")
    env.run()
    assert (ended, env.now) == (["b"], 1.0)


def test_one_that_ends_may_break_off_another_that_ends_at_the_same_instant(env: Calendar) -> None:
    link, ended, flows = FairLink(env, 4.0), list[str](), list[SharedTransfer]()

    def end(name: str) -> None:
        ended.append(name)
        flows[1].stop()

    flows += [link.add(4.0, inf, end, name) for name in "abc"]
    env.run()
    assert ended == ["a", "c"]
    assert flows[1].passed(env.now) == 4.0


def test_to_break_off_twice_or_after_the_end_changes_nothing(env: Calendar) -> None:
    link, ended = FairLink(env, 4.0), list[str]()
    early, late = link.add(4.0, inf, ended.append, "a"), link.add(8.0, inf, ended.append, "b")
    for moment in (1.0, 1.5, 9.0):
        env.at(moment, early.stop)
        env.at(moment + 8.0, late.stop)
    env.run()
    assert ended == ["b"]
    assert (early.passed(20.0), late.passed(20.0)) == (2.0, 8.0)


@pytest.mark.slow
@pytest.mark.parametrize("cap", [2.0, inf], ids=["at their caps", "at the fair share"])
def test_a_link_forgets_what_was_broken_off(env: Calendar, cap: float) -> None:
    class Token:
        """Held by whoever still remembers a transfer."""

    link, remembered = FairLink(env, 1000.0), weakref.WeakSet[Token]()
    link.add(1e12, 10.0, lambda _: None, None)

    def start(_: object) -> None:
        token = Token()
        remembered.add(token)
        env.at(env.now + 0.5, link.add(1e9, cap, lambda _: None, token).stop)

    for n in range(4000):
        env.at(float(n), start, None)
    env.run(until=5000.0)
    gc.collect()
    assert len(remembered) < 1000
