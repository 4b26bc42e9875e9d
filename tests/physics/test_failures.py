"""Failures of edges and Levy walks: their laws, against closed forms and loops of their own."""

from collections import defaultdict
from itertools import pairwise
from math import exp, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.errors import ScenarioError
from fedsim.core.streams import stream
from fedsim.physics.failures import EdgeFailures, FailingByExchange, FailingInTime
from fedsim.physics.graphs_in_time import Contacts, GraphInTime, OnePeer
from fedsim.physics.mobility import LevyWalk, power_mean
from fedsim.physics.overlay import Overlay
from fedsim.physics.spectral import describe_any
from tests.algorithms.test_changing_graphs import metropolis
from tests.algorithms.test_peer_methods import (
    NODES,
    ROUNDS,
    distance_to_loop,
    drawn,
    run,
)

RNG = np.random.default_rng
RING = Overlay(tuple([tuple(sorted([(n - 1) % 6, (n + 1) % 6])) for n in range(6)]))
EDGES = [(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)]

# Edges that fail in each exchange.


def test_an_edge_is_missing_in_the_share_of_exchanges_that_is_given() -> None:
    graphs = FailingByExchange(RING, 0.3, RNG)
    there = np.array(
        [[b in graphs.of(k).neighbours[a] for a, b in EDGES] for k in range(1, 3001)], dtype=float
    )
    assert there.mean(axis=0) == pytest.approx(np.full(6, 0.7), abs=0.03)
    assert np.corrcoef(there.T) == pytest.approx(np.eye(6), abs=0.07)  # of each other
    for exchange in range(1, 40):
        graphs.of(exchange).check("symmetric")
        W = graphs.of(exchange).matrix().toarray()
        assert W.sum(axis=0) == pytest.approx(np.ones(6))


def test_directed_edges_fail_one_way_and_keep_the_sum() -> None:
    graphs = FailingByExchange(OnePeer().cycle(8), 0.5, RNG)
    for exchange in range(1, 40):
        graphs.of(exchange).check("column-stochastic")
        edges = list(graphs.of(exchange).pairs())
        assert all((b - a) % 8 == 2 ** ((exchange - 1) % 3) for a, b in edges)
        assert len(edges) < 8 or exchange > 1


# Edges that fail in time.

LAW = EdgeFailures.in_si(up=30.0, down=10.0)


def looks(law: FailingInTime, nodes: int, times: list[float], seed: int = 0) -> Any:
    graph, found = GraphInTime(nodes, law.changes(nodes, RNG(seed))), []
    for time in times:
        graph.advance(time)
        found.append([b in graph.neighbours(a) for a, b in EDGES])
    return np.array(found, dtype=float)


def test_an_edge_is_up_for_its_stationary_share_from_the_beginning() -> None:
    law = FailingInTime(RING, LAW)
    there = np.array([looks(law, 6, [0.0, 7.0, 500.0], seed) for seed in range(400)])
    assert there.mean(axis=(0, 2)) == pytest.approx(np.full(3, 0.75), abs=0.03)
    # The correlation over t is exp(-(1/up + 1/down) t).
    x, y = there[:, 0].ravel(), there[:, 1].ravel()
    wanted = exp(-(1 / 30 + 1 / 10) * 7.0)
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(wanted, abs=0.06)


def test_times_up_and_down_are_exponential() -> None:
    spans: dict[bool, list[float]] = {True: [], False: []}
    last: dict[tuple[int, int], tuple[float, bool]] = {}
    for change in FailingInTime(RING, LAW).changes(6, RNG(1)):
        if change.time > 40_000:
            break
        pair = change.one, change.other
        if pair in last and last[pair][0] > 0:
            assert change.there != last[pair][1]  # up and down in turn
            spans[last[pair][1]].append(change.time - last[pair][0])
        last[pair] = change.time, change.there
    for there, mean in ((True, 30.0), (False, 10.0)):
        found = np.sort(spans[there])
        shares = np.arange(1, len(found) + 1) / len(found)
        distance = np.abs(shares - (1 - np.exp(-found / mean))).max()  # Kolmogorov, Smirnov
        assert distance < 1.63 / len(found) ** 0.5  # the level of 1 %


def test_an_edge_of_a_graph_in_time_is_there_if_it_is_in_range_and_up() -> None:
    spans = ((0, 1, 0.0, 50.0), (1, 2, 20.0, 90.0), (0, 1, 70.0, 120.0))
    contacts = Contacts.in_si(contacts=spans)
    times = [k / 2 for k in range(260)]
    both = looks(FailingInTime(contacts, LAW), 6, times, 4)
    never_down = EdgeFailures.in_si(up=1e12, down=1e-6)
    plain = looks(FailingInTime(contacts, never_down), 6, times, 4)
    for (a, b), column in zip(EDGES, plain.T, strict=True):
        wanted = [any({a, b} == {c, d} and lo <= t < hi for c, d, lo, hi in spans) for t in times]
        assert column.tolist() == wanted
    assert (both <= plain).all()
    assert 0 < both.sum() < plain.sum()


# Runs.


def test_gossip_on_edges_that_fail_is_its_loop(tmp_path: Path) -> None:
    network = {"peers": {"kind": "ring"}, "failures": {"probability": "30 %"}}
    result = run({"kind": "gossip"}, tmp_path, network=network)

    def loop() -> Any:
        x = drawn()
        for exchange in range(1, ROUNDS + 1):
            up = stream(1, "failures", exchange).random(len(EDGES)) >= 0.3
            kept = {edge for edge, there in zip(EDGES, up, strict=True) if there}
            x = metropolis(kept, NODES) @ x
            yield x

    assert distance_to_loop(result, loop()) < 1e-10
    graphs = FailingByExchange(RING, 0.3, RNG)
    assert describe_any(graphs).endswith("gap 0.333; each edge is missing in 0.3 of the exchanges")


def test_edges_that_fail_in_time_keep_the_mean(tmp_path: Path) -> None:
    network = {
        "peers": {"kind": "ring"},
        "failures": {"up": "30 s", "down": "30 s", "every": "10 s"},
    }
    result = run({"kind": "gossip"}, tmp_path, network=network)
    means = np.array([model.ravel() for model in result.models["model"]])
    assert np.abs(means - drawn().mean(axis=0)).max() < 1e-12
    sent = (result.events["event"] == "send").sum()
    assert 0.2 < sent / (12 * ROUNDS) < 0.8  # half of them, of 6 edges


@pytest.mark.parametrize(
    ("method", "network", "key", "words"),
    [
        ("gossip", {"failures": {"up": "3 s"}}, "network.failures.probability", "one of the two"),
        (
            "gossip",
            {"failures": {"probability": "5 %", "every": "3 s"}},
            "network.failures.every",
            "leave it out",
        ),
        (
            "choco-gossip",
            {"failures": {"probability": "5 %"}},
            "network.failures",
            "does not change",
        ),
        (
            "gossip",
            {"peers": {"kind": "one-peer"}, "failures": {"probability": "5 %"}},
            "network.failures",
            "needs a doubly stochastic one",
        ),
        (
            "push-sum",
            {"peers": {"kind": "one-peer"}, "failures": {"up": "5 s", "down": "1 s"}},
            "network.failures",
            "use probability",
        ),
        (
            "gossip",
            {
                "peers": {"kind": "contacts", "contacts": [[0, 1, 0, 9]]},
                "failures": {"probability": "5 %"},
            },
            "network.failures",
            "give up and down",
        ),
    ],
)
def test_what_cannot_fail_is_refused(
    method: str, network: dict[str, Any], key: str, words: str, tmp_path: Path
) -> None:
    block = {"kind": method, **({"gamma": 0.5} if method == "choco-gossip" else {})}
    with pytest.raises(ScenarioError) as caught:
        run(block, tmp_path, network={"peers": {"kind": "ring"}} | network)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault.message


# Levy walks.


def levy(**keys: Any) -> LevyWalk:
    sizes = {"range": 0.2, "width": 1.0, "height": 1.0, "min_flight": 0.05, "max_flight": 0.8}
    pauses = {"min_pause": 5.0, "max_pause": 60.0, "speed": 0.02}
    return LevyWalk.in_si(**(sizes | pauses | keys))


def cumulative(x: Any, exponent: float, low: float, high: float) -> Any:
    return (low**-exponent - x**-exponent) / (low**-exponent - high**-exponent)


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_flights_and_pauses_follow_truncated_power_laws(rho: float) -> None:
    law = levy(width=1e9, height=1e9, speed_exponent=rho)  # far from walls
    (legs,) = law.legs(1, RNG(0))
    flights: list[float] = []
    pauses: list[float] = []
    for _ in range(6001):
        leg = next(legs)
        span, speed = leg.end - leg.begin, np.hypot(leg.vx, leg.vy)
        (flights if speed else pauses).append(span * speed if speed else span)
        if speed and len(flights) > 1:
            assert speed == pytest.approx(0.02 * flights[-1] ** rho)
    for found, exponent, low, high in ((flights, 1.6, 0.05, 0.8), (pauses, 0.8, 5.0, 60.0)):
        whole = np.sort(found[1:])  # the first one has begun before
        shares = np.arange(1, len(whole) + 1) / len(whole)
        distance = np.abs(shares - cumulative(whole, exponent, low, high)).max()
        assert distance < 1.63 / len(whole) ** 0.5


def test_walkers_stay_in_their_rectangle_without_gaps() -> None:
    law = levy(width=0.3, height=0.2)
    for legs in law.legs(5, RNG(2)):
        walk = [next(legs) for _ in range(400)]
        assert walk[0].begin == 0.0
        for one, after in pairwise(walk):
            span = one.end - one.begin
            assert after.begin == one.end
            end = one.x + one.vx * span, one.y + one.vy * span
            assert (after.x, after.y) == pytest.approx(end, abs=1e-9)
            assert -1e-9 <= end[0] <= 0.3 + 1e-9
            assert -1e-9 <= end[1] <= 0.2 + 1e-9


def test_walkers_are_stationary_from_the_beginning() -> None:
    """The mean degree is that of uniform places, and the share of pauses that of their time."""
    law, nodes = levy(), 40
    degrees = defaultdict(list)
    for seed in range(6):
        graph = GraphInTime(nodes, law.changes(nodes, RNG(seed)))
        for time in (0.0, 50.0, 100.0, 150.0, 200.0):
            graph.advance(time)
            degrees[time].append(2 * graph.edges / nodes)
    r = law.range
    in_range = pi * r**2 - 8 / 3 * r**3 + r**4 / 2  # of two uniform points in a unit square
    assert np.mean(list(degrees.values())) == pytest.approx((nodes - 1) * in_range, rel=0.05)

    travel = power_mean(1.6, 1.0, 0.05, 0.8) / 0.02
    rest = power_mean(0.8, 1.0, 5.0, 60.0)
    x = np.linspace(5.0, 60.0, 200_001)
    middle = (x[1:] + x[:-1]) / 2
    assert rest == pytest.approx(float((middle * np.diff(cumulative(x, 0.8, 5.0, 60.0))).sum()))
    for time in (0.0, 30.0, 300.0):
        moving = []
        for legs in law.legs(1500, RNG(7)):
            leg = next(each for each in legs if each.end > time)
            moving.append(bool(leg.vx or leg.vy))
        assert np.mean(moving) == pytest.approx(travel / (travel + rest), abs=0.03)
