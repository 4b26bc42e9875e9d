"""A fair link against closed forms."""

import gc
import weakref
from math import inf
from typing import Any

import numpy as np
import pytest

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink, SharedTransfer

Ended = dict[str, float]
Offer = tuple[str, float, float, float]
"""Name, start, bits, cap."""


def run(env: Calendar, capacity: float, *offers: Offer) -> Ended:
    """Return when each offer has passed, in the order in which they were told so."""
    link, ended = FairLink(env, capacity), Ended()

    def end(name: Any) -> None:
        ended[name] = env.now

    def offer(one: Offer) -> None:
        link.add(one[2], one[3], end, one[0])

    for one in offers:
        env.at(one[1], offer, one)
    env.run()
    return ended


def test_a_transfer_alone_runs_at_the_capacity(env: Calendar) -> None:
    assert run(env, 4.0, ("a", 1.0, 10.0, inf)) == {"a": 3.5}


def test_a_transfer_alone_runs_at_its_cap_where_that_is_lower(env: Calendar) -> None:
    assert run(env, 4.0, ("a", 1.0, 10.0, 2.0)) == {"a": 6.0}


@pytest.mark.parametrize("count", [2, 3, 7, 100])
def test_n_equal_transfers_take_n_times_as_long_and_end_at_one_instant(
    env: Calendar, count: int
) -> None:
    ended = run(env, 4.0, *((str(n), 1.0, 10.0, inf) for n in range(count)))
    assert len(set(ended.values())) == 1
    assert ended["0"] == pytest.approx(1.0 + count * 2.5, rel=1e-12)


def test_a_second_transfer_slows_the_first_down_from_its_start_on(env: Calendar) -> None:
    # a passes 4 bits alone; then both pass 6 at half the rate; then b its last 2 alone.
    ended = run(env, 2.0, ("a", 0.0, 10.0, inf), ("b", 2.0, 8.0, inf))
    assert ended == {"a": 8.0, "b": 9.0}


def test_what_a_capped_transfer_leaves_goes_to_the_others(env: Calendar) -> None:
    ended = run(env, 10.0, ("slow", 0.0, 8.0, 2.0), ("a", 0.0, 16.0, inf), ("b", 0.0, 16.0, 9.0))
    assert ended == {"slow": 4.0, "a": 4.0, "b": 4.0}


def test_a_cap_ceases_to_bind_when_others_come(env: Calendar) -> None:
    # b runs at its cap 5 for 1 s, then at 4 beside a for 2 s, then at 5 again.
    ended = run(env, 8.0, ("b", 0.0, 18.0, 5.0), ("a", 1.0, 8.0, inf))
    assert ended == {"a": 3.0, "b": 4.0}


@pytest.mark.parametrize("capacity", [6.0, 6.5, 1e6], ids=["exactly", "nearly", "amply"])
def test_all_run_at_their_caps_where_all_caps_fit(env: Calendar, capacity: float) -> None:
    offers = [(str(cap), 0.0, 12.0, cap) for cap in (1.0, 2.0, 3.0)]
    assert run(env, capacity, *offers) == {"3.0": 4.0, "2.0": 6.0, "1.0": 12.0}


def test_caps_that_add_up_to_the_capacity_only_without_rounding_still_all_pass(
    env: Calendar,
) -> None:
    caps = [0.1, 0.2, 0.3, 0.7]
    ended = run(env, 1.3, *((str(cap), 0.0, 1.0, cap) for cap in caps))
    assert list(ended) == ["0.7", "0.3", "0.2", "0.1"]
    for cap in caps:
        assert ended[str(cap)] == pytest.approx(1 / cap, rel=1e-12)


def test_those_that_end_at_one_instant_are_told_in_the_order_of_their_start(env: Calendar) -> None:
    # Two at their caps and two at the fair share, in turn.
    offers = [("d", 0.0, 10.0, inf), ("c", 0.0, 4.0, 1.0), ("b", 0.0, 10.0, inf)]
    ended = run(env, 8.0, *offers, ("a", 0.0, 8.0, 2.0))
    assert ended == {"d": 4.0, "c": 4.0, "b": 4.0, "a": 4.0}
    assert list(ended) == ["d", "c", "b", "a"]


def test_a_transfer_that_starts_as_another_ends_has_the_link_for_itself(env: Calendar) -> None:
    first, then = ("a", 0.0, 8.0, inf), ("b", 2.0, 8.0, inf)
    for order in ((first, then), (then, first)):
        assert run(Calendar(), 4.0, *order) == {"a": 2.0, "b": 4.0}


def test_a_transfer_may_start_the_next_one_as_it_ends(env: Calendar) -> None:
    link, ended = FairLink(env, 2.0), list[float]()

    def end(left: int) -> None:
        ended.append(env.now)
        if left:
            link.add(3.0, inf, end, left - 1)

    link.add(3.0, inf, end, 4)
    env.run()
    assert ended == [1.5, 3.0, 4.5, 6.0, 7.5]


def test_nothing_passes_at_once_even_on_a_busy_link(env: Calendar) -> None:
    ended = run(env, 2.0, ("a", 0.0, 8.0, inf), ("empty", 1.0, 0.0, inf))
    assert ended == {"empty": 1.0, "a": 4.0}


def test_passed_tells_the_bits_at_any_moment(env: Calendar) -> None:
    link, seen = FairLink(env, 2.0), dict[float, tuple[float, float]]()
    flows = list[SharedTransfer]()

    def look(_: object) -> None:
        seen[env.now] = (flows[0].passed(env.now), flows[1].passed(env.now))

    def start(cap: float) -> None:
        flows.append(link.add(8.0, cap, lambda _: None, None))

    env.at(0.0, start, 0.5)
    env.at(0.0, start, inf)
    for moment in (0.0, 0.25, 1.0, 3.0, 5.0):
        env.at(moment, look, None)
    env.run(until=5.2)
    assert seen == {
        0.0: (0, 0),
        0.25: (0.125, 0.375),
        1.0: (0.5, 1.5),
        3.0: (1.5, 4.5),
        5.0: (2.5, 7.5),
    }


def test_a_link_that_is_never_idle_carries_its_capacity_however_long_it_runs(
    env: Calendar,
) -> None:
    # One transfer outlives ten thousand others; a link that drifts would end elsewhere.
    offers: list[Offer] = [("long", 0.0, 1e6, inf)]
    offers += [(str(n), n * 0.1, 3.3 + n % 7, inf) for n in range(10_000)]
    ended = run(env, 100.0, *offers)
    bits = sum(bits for _, _, bits, _ in offers)
    assert max(ended.values()) == pytest.approx(bits / 100.0, rel=1e-11)


def test_what_capped_transfers_leave_does_not_drift_however_many_come_and_go(
    env: Calendar,
) -> None:
    # Never without a capped transfer: each starts before the one in front has ended.
    offers: list[Offer] = [(str(n), n * 0.3, 0.1 * 0.7, 0.1) for n in range(10_000)]
    last = 0.3 * 9_999
    offers += [("watch", last, 0.07, 0.1), ("free", last, 0.8 * 0.7, inf)]
    ended = run(env, 1.0, *offers)
    # The last capped one and the watch take 0.1 each, and the one before takes 0.1 for 0.4 s.
    assert ended["free"] == pytest.approx(last + 0.4 + (0.56 - 0.4 * 0.7) / 0.8 * 1.0, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("long_cap", "short_cap", "capacity"),
    [(10.0, 2.0, 1000.0), (50.0, 100.0, 10.0)],
    ids=["at their caps", "at the fair share"],
)
def test_a_link_forgets_what_has_passed_though_one_transfer_lasts(
    env: Calendar, long_cap: float, short_cap: float, capacity: float
) -> None:
    class Token:
        """Held by whoever still remembers a transfer."""

    link, remembered = FairLink(env, capacity), weakref.WeakSet[Token]()

    def start(_: object) -> None:
        token = Token()
        remembered.add(token)
        link.add(1.0, short_cap, lambda _: None, token)

    link.add(1e12, long_cap, lambda _: None, None)
    for n in range(4000):
        env.at(float(n), start, None)
    env.run(until=5000.0)
    gc.collect()
    assert len(remembered) < 1000


def test_a_link_that_everybody_has_left_is_as_it_was_to_the_last_bit(env: Calendar) -> None:
    rng = np.random.default_rng(1)
    caps = rng.random(300)  # whose sum, less each of them in another order, is not zero
    link, alone = FairLink(env, 1.5 * caps.sum()), FairLink(env, 1.5 * caps.sum())
    ended = dict[object, float]()
    for cap, bits in zip(caps, rng.random(300), strict=True):
        link.add(bits, cap, lambda _: None, None)

    def begin() -> None:
        for each in (link, alone):
            each.add(1e6, inf, lambda token: ended.update({token: env.now}), each)

    env.at(1e6, begin)
    env.run()
    assert ended[link] == ended[alone]
