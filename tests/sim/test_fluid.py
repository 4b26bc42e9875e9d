"""The fluid network against closed forms, case by case."""

from math import inf
from typing import Any

import numpy as np
import pytest

from fedsim.physics.signals import Signal, Steps
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.flows import Flow, Link, Path
from fedsim.sim.network.fluid import Fluid
from tests.sim.radios import law


class Bench:
    """A fluid network, and what it tells.

    Attributes:
        ended: when each transfer has passed, in the order in which this was told.
        rates: what was told of each, and when.
    """

    def __init__(self, env: Calendar) -> None:
        self.env, self.fluid = env, Fluid(env)
        self.ended: dict[Any, float] = {}
        self.rates: dict[Any, list[tuple[float, float]]] = {}

    def path(self, *capacities: float | Signal) -> Path:
        """Return a path over new fair links."""
        return self.fluid.path([self.link(capacity) for capacity in capacities])

    def link(self, capacity: float | Signal, *how: Any) -> Link:
        """Return a new link."""
        return self.fluid.link(law(capacity), *how)

    def add(
        self,
        name: object,
        path: Path,
        bits: float,
        cap: float | Signal = inf,
        *,
        watch: bool = False,
    ) -> Flow:
        """Start a transfer now."""
        changed, most = self._change if watch else None, law(cap)
        return self.fluid.add(path, bits, most.peak, self._end, name, changed, most.signal)

    def add_at(self, t: float, name: object, path: Path, bits: float, cap: float = inf) -> None:
        """Start a transfer later."""
        self.env.at(t, self.add, name, path, bits, cap)

    def _end(self, name: object) -> None:
        self.ended[name] = self.env.now

    def _change(self, name: object, rate: float) -> None:
        self.rates.setdefault(name, []).append((self.env.now, rate))


@pytest.fixture
def bench(env: Calendar) -> Bench:
    return Bench(env)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_n_equal_transfers_take_n_times_as_long_and_end_in_the_order_of_arrival(
    bench: Bench, count: int
) -> None:
    path = bench.path(4.0)
    for n in range(count):
        bench.add(n, path, 10.0)
    bench.env.run()
    assert list(bench.ended) == list(range(count))
    assert set(bench.ended.values()) == {bench.env.now}
    assert bench.env.now == pytest.approx(count * 2.5, rel=1e-12)


def test_two_hops_hold_back_what_each_alone_would_let_pass(bench: Bench) -> None:
    # The parking lot: one long flow, and one short one on each of its links.
    first, second = bench.link(6.0), bench.link(10.0)
    bench.add("long", bench.fluid.path([first, second]), 6.0)
    bench.add("first", bench.fluid.path([first]), 12.0)
    bench.add("second", bench.fluid.path([second]), 14.0)
    bench.env.run()
    # 3, 3 and 7 bit/s; at 2 s two have ended, and the one on the first link goes on at 6.
    assert bench.ended == {"long": 2.0, "second": 2.0, "first": 3.0}


def test_weights_share_a_link_in_proportion(bench: Bench) -> None:
    link = bench.link(4.0)
    bench.add("heavy", bench.fluid.path([link], weight=3.0), 6.0)
    bench.add("light", bench.fluid.path([link]), 4.0)
    bench.env.run()
    assert bench.ended == {"heavy": 2.0, "light": 2.5}


def test_usage_takes_more_of_a_link_than_flows(bench: Bench) -> None:
    link = bench.link(4.0)
    bench.add("a", bench.fluid.path([link], [2.0]), 4.0)
    bench.env.run()
    assert bench.ended == {"a": 2.0}


def test_a_transfer_alone_on_an_open_link_runs_at_its_cap(bench: Bench) -> None:
    flow = bench.add("a", bench.path(4.0, 8.0), 6.0, 2.0)
    bench.env.run(until=1.0)
    assert (flow.rate, flow.passed(1.0)) == (2.0, 2.0)
    bench.env.run()
    assert (bench.ended, flow.rate, flow.passed(9.0)) == ({"a": 3.0}, 0.0, 6.0)


@pytest.mark.parametrize("links", [(), (inf,), (inf, inf)], ids=len)
def test_what_meets_no_limit_or_has_no_bits_takes_no_time(
    bench: Bench, links: tuple[float, ...]
) -> None:
    bench.add("capped", bench.path(*links), 3.0, 1.0)
    bench.add_at(1.0, "free", bench.path(*links), 3.0)
    bench.add_at(2.0, "nothing", bench.path(1.0), 0.0)
    bench.env.run()
    assert bench.ended == {"free": 1.0, "nothing": 2.0, "capped": 3.0}


def test_what_takes_no_time_has_no_rate(bench: Bench) -> None:
    bench.add("free", bench.path(), 3.0, watch=True)
    bench.add("nothing", bench.path(1.0), 0.0, watch=True)
    bench.env.run()
    assert (bench.ended, bench.rates) == ({"free": 0.0, "nothing": 0.0}, {})


def test_rates_are_told_once_an_instant_from_the_start_to_the_end(bench: Bench) -> None:
    path = bench.path(4.0)
    bench.add("a", path, 8.0, 3.0, watch=True)
    bench.env.at(1.0, bench.add, "b", path, 4.0)
    bench.env.at(1.0, bench.add, "c", path, 0.0)
    bench.env.run()
    # b has passed at 1 + 4/2 s, and a's last bit runs at its cap again.
    assert bench.rates == {"a": [(0.0, 3.0), (1.0, 2.0), (3.0, 3.0), (3.0 + 1 / 3, 0.0)]}


def test_a_capacity_that_changes_in_the_middle(bench: Bench) -> None:
    path = bench.path(Steps([0, 2, 3], [4.0, 0.0, 2.0]))
    a, b = bench.add("a", path, 7.0), bench.add("b", path, 4.5, 1.5)
    bench.env.run(until=2.5)
    # 2.5 and 1.5 bit/s for 2 s, nothing for 1 s, and then 1 and 1.
    assert (a.passed(2.5), b.passed(2.5), a.rate, b.rate) == (5.0, 3.0, 0.0, 0.0)
    bench.env.run()
    assert bench.ended == {"b": 4.5, "a": 4.75}


def test_a_link_that_becomes_too_narrow_is_shared_from_then_on(bench: Bench) -> None:
    path = bench.path(Steps([0, 1], [4.0, 2.0]))
    bench.add("a", path, 6.0, 3.0, watch=True)
    bench.env.run()
    assert bench.ended == {"a": 2.5}
    assert bench.rates == {"a": [(0.0, 3.0), (1.0, 2.0), (2.5, 0.0)]}


@pytest.mark.parametrize("watch", [False, True])
def test_a_transfer_follows_the_trace_of_its_radio(bench: Bench, watch: bool) -> None:
    trace = Steps([0, 1, 3], [2.0, 0.0, 4.0], period=4)  # 6 bits in 4 s
    flow = bench.add("a", bench.path(), 15.0, trace, watch=watch)
    bench.env.run(until=7.5)
    assert (flow.passed(7.5), flow.rate) == (10.0, 4.0)
    bench.env.run()
    assert bench.ended == {"a": 11.25}


def test_a_trace_and_a_shared_link_hold_back_in_turns(bench: Bench) -> None:
    path, trace = bench.path(4.0), Steps([0, 1], [1.0, 9.0], period=2)
    bench.add("traced", path, 6.0, trace, watch=True)
    bench.add("other", path, 10.0)
    bench.env.run()
    # 1 and 3 bit/s, then 2 and 2, in turns.
    assert bench.ended == {"traced": 4.0, "other": 4.0}
    assert [rate for _, rate in bench.rates["traced"]] == [1.0, 2.0, 1.0, 2.0, 0.0]


def test_a_trace_that_ends_at_zero_never_ends_and_waits_for_nothing(bench: Bench) -> None:
    for name, path in (("open", bench.path()), ("shared", bench.path(1.0))):
        bench.add(name, path, 6.0, Steps([0, 1], [2.0, 0.0]), watch=True)
    bench.env.run()
    assert (bench.ended, bench.env.now) == ({}, 1.0)


def test_a_link_s_trace_moves_no_clock_while_nobody_is_on_it(bench: Bench) -> None:
    bench.add("a", bench.path(Steps([0, 1], [2.0, 4.0], period=2)), 6.0)
    bench.env.run()
    assert (bench.ended, bench.env.now) == ({"a": 2.0}, 2.0)


def test_bits_that_end_with_a_piece_of_a_trace_do_not_wait_for_the_next(bench: Bench) -> None:
    # 0.1 is not exact, so neither are the ends of 2000 pieces, and what is left of the bits.
    trace = Steps([0, 0.1], [0.7, 0.0], period=0.7)
    for name, path in (("traced", bench.path(trace)), ("watched", bench.path())):
        bench.add(name, path, 2000 * 0.07, trace, watch=name == "watched")
    bench.env.run()
    assert list(bench.ended.values()) == pytest.approx([1999 * 0.7 + 0.1] * 2, rel=1e-9)


def test_slots_are_one_s_own_whether_others_use_theirs_or_not(bench: Bench) -> None:
    link = bench.link(6.0, "slotted", 3)
    path = bench.fluid.path([link])
    bench.add("slow", path, 3.0, 1.0)
    bench.add("fast", path, 4.0)
    bench.env.run()
    assert bench.ended == {"fast": 2.0, "slow": 3.0}


def test_slots_of_a_link_that_varies_and_a_trace(bench: Bench) -> None:
    link = bench.link(Steps([0, 2], [6.0, 12.0], period=4), "slotted", 3)
    bench.add("a", bench.fluid.path([link]), 9.0, Steps([0, 1], [1.0, 3.0]))
    bench.env.run()
    assert bench.ended == {"a": 4.0}  # 1 + 2 + 3 + 3 bits in as many seconds


def test_turns_are_taken_in_the_order_of_arrival(bench: Bench) -> None:
    path = bench.fluid.path([bench.link(4.0, "fifo")])
    for n, (bits, cap) in enumerate([(8.0, inf), (4.0, 2.0), (0.0, inf), (4.0, inf)]):
        bench.add(n, path, bits, cap)
    bench.env.run()
    assert bench.ended == {0: 2.0, 1: 4.0, 2: 4.0, 3: 5.0}


def test_a_fifo_link_is_a_queue(bench: Bench) -> None:
    # Lindley's recursion: an end is the bits' own time after the arrival or the end before.
    rng = np.random.default_rng(1)
    arrivals, bits = np.cumsum(rng.exponential(1.0, 500)), rng.exponential(0.9, 500)
    path = bench.fluid.path([bench.link(1.0, "fifo")])
    for n in range(500):
        bench.add_at(float(arrivals[n]), n, path, float(bits[n]))
    bench.env.run()
    end, expected = 0.0, []
    for n in range(500):
        end = max(end, arrivals[n]) + bits[n]
        expected.append(end)
    assert [bench.ended[n] for n in range(500)] == pytest.approx(expected, rel=1e-12)


def test_queues_that_are_joined_in_opposite_orders_do_not_wait_for_each_other(
    bench: Bench,
) -> None:
    one, other = bench.link(1.0, "fifo"), bench.link(1.0, "fifo")
    there, back = bench.fluid.path([one, other]), bench.fluid.path([other, one])
    for n in range(6):
        bench.add(n, (there, back)[n % 2], 1.0)
    bench.env.run()
    assert bench.ended == {n: n + 1.0 for n in range(6)}


def test_whose_turn_has_come_shares_fair_links_with_others(bench: Bench) -> None:
    fair, fifo = bench.link(4.0), bench.link(9.0, "fifo")
    for name in "ab":
        bench.add(name, bench.fluid.path([fifo, fair]), 4.0)
    bench.add("c", bench.fluid.path([fair]), 10.0)
    bench.env.run()
    assert bench.ended == {"a": 2.0, "b": 4.0, "c": 4.5}


@pytest.mark.parametrize("discipline", ["fair", "fifo", "slotted"])
def test_what_is_broken_off_leaves_its_bits_where_they_are(bench: Bench, discipline: Any) -> None:
    path = bench.fluid.path([bench.link(4.0, discipline, 2)])
    flows = [bench.add(name, path, 8.0, 3.0, watch=True) for name in "abc"]
    for flow in flows[:2]:
        bench.env.at(1.0, flow.stop)
    bench.env.run()
    passed = {"fair": 4 / 3, "fifo": 3.0, "slotted": 2.0}[discipline]
    assert flows[0].passed(9.0) == pytest.approx(passed, rel=1e-12)
    assert flows[1].passed(9.0) == (0.0 if discipline == "fifo" else flows[0].passed(9.0))
    assert list(bench.ended) == ["c"]
    assert bench.rates["a"][-1] == (1.0, 0.0)
    assert bench.ended["c"] == pytest.approx(
        {"fair": 1 + 20 / 9, "fifo": 1 + 8 / 3, "slotted": 4}[discipline]
    )


def test_whoever_waits_for_a_turn_can_be_broken_off(bench: Bench) -> None:
    path = bench.fluid.path([bench.link(1.0, "fifo")])
    flows = [bench.add(n, path, 1.0) for n in range(4)]
    bench.env.at(0.5, flows[1].stop)
    bench.env.at(2.5, flows[3].stop)
    bench.env.run()
    assert bench.ended == {0: 1.0, 2: 2.0}
    assert (flows[1].passed(9.0), flows[3].passed(9.0)) == (0.0, 0.5)


def test_one_that_ends_may_break_off_others_and_start_new_ones(bench: Bench) -> None:
    path, flows = bench.path(4.0), dict[str, Flow]()

    def end(name: Any) -> None:
        bench.ended[name] = bench.env.now
        if name == "a":
            flows["b"].stop()
            flows["c"].stop()
            bench.add("d", path, 4.0)

    for name, bits in (("a", 4.0), ("b", 4.0), ("c", 8.0)):
        flows[name] = bench.fluid.add(path, bits, inf, end, name)
    bench.env.run()
    assert bench.ended == {"a": 3.0, "d": 4.0}
    assert (flows["b"].passed(9.0), flows["c"].passed(9.0)) == (4.0, 4.0)


def test_whoever_is_told_a_rate_may_break_off_transfers(bench: Bench) -> None:
    path, flows, seen = bench.path(4.0), list[Flow](), list[tuple[float, Any, float]]()

    def change(name: Any, rate: float) -> None:
        seen.append((bench.env.now, name, rate))
        flows[1].stop()

    flows += [bench.fluid.add(path, 4.0, inf, bench._end, n, change) for n in range(2)]
    bench.env.run()
    assert seen == [(0.0, 0, 2.0), (0.0, 1, 0.0), (0.0, 0, 4.0), (1.0, 0, 0.0)]
    assert bench.ended == {0: 1.0}


def test_what_has_fallen_apart_no_longer_costs_each_other(bench: Bench) -> None:
    # Two blocks behind links of their own are joined by one flow over both, while that lasts.
    left, right = bench.link(1.0), bench.link(1.0)
    sides = [bench.fluid.path([link]) for link in (left, right)]
    bench.add("bridge", bench.fluid.path([left, right]), 1.0)
    flows = [bench.add(n, sides[n % 2], 1.0 + n) for n in range(200)]
    bench.env.run(until=9000.0)
    rest = [flow.component for flow in flows if flow.component is not None]
    assert len(rest) > 2
    assert len({id(component) for component in rest}) == 2


def test_a_connected_mesh_is_shared_out_as_a_whole(bench: Bench) -> None:
    # A ring of links, each shared by three flows that go three links far: all get a third.
    ring = [bench.link(3.0) for _ in range(12)]
    for start in range(12):
        hops = [ring[(start + hop) % 12] for hop in range(3)]
        bench.add(start, bench.fluid.path(hops), 2.0)
    bench.env.run()
    assert set(bench.ended.values()) == {2.0}
