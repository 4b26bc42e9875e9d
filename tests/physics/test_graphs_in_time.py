"""Graphs that change: crossings against brute force, time averages against closed forms."""

from collections.abc import Iterator
from itertools import combinations, pairwise
from math import cos, log, pi, sin, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.physics.failures import OverlayInTime
from fedsim.physics.graphs_in_time import (
    Contacts,
    GraphInTime,
    OnePeer,
    RandomMatching,
    read_contacts,
)
from fedsim.physics.mobility import (
    MotionLeg,
    PositionTraces,
    RandomWaypoint,
    mean_distance,
    read_positions,
)
from fedsim.physics.overlay import Overlay
from fedsim.physics.spectral import facts_in_time
from tests.tiers import every, examples

RNG = np.random.default_rng

# One peer an exchange.


@every("nodes", [2, 4, 16, 64])
def test_one_peer_averages_exactly_after_log2_exchanges(nodes: int) -> None:
    cycle = OnePeer().cycle(nodes)
    x = RNG(0).standard_normal(nodes)
    mixed = x
    for exchange in range(1, nodes.bit_length()):
        W = cycle.of(exchange).matrix().toarray()
        assert (W.sum(axis=0) == 1).all()
        assert (W.sum(axis=1) == 1).all()
        assert ((W > 0).sum(axis=1) == 2).all()
        mixed = W @ mixed
    assert mixed == pytest.approx(np.full(nodes, x.mean()), abs=1e-14)
    assert cycle.contraction() < 1e-14


def test_one_peer_of_other_numbers_contracts_but_not_to_the_mean() -> None:
    assert 0.01 < OnePeer().cycle(6).contraction() < 1
    assert len(OnePeer().cycle(1).graphs) == 1


@pytest.mark.parametrize("nodes", [6, 7])
def test_pairs_contract_by_the_second_eigenvalue_of_the_expected_matrix(nodes: int) -> None:
    pairs = RandomMatching().sequence(nodes, RNG)
    matrices = [pairs.of(exchange).matrix().toarray() for exchange in range(1, 1501)]
    second = np.linalg.eigvalsh(np.mean(matrices, axis=0))[-2]
    assert second == pytest.approx(pairs.contraction(), abs=0.03)
    x = RNG(0).standard_normal(nodes)
    x -= x.mean()
    shorter = np.mean([((W @ x) ** 2).sum() / (x**2).sum() for W in matrices])
    assert shorter == pytest.approx(pairs.contraction(), rel=0.03)
    assert pairs.of(3) == RandomMatching().sequence(nodes, RNG).of(3)


# Contacts.


def edges_at(law: Any, nodes: int, times: list[float]) -> list[set[tuple[int, int]]]:
    graph, found = GraphInTime(nodes, law.changes(nodes, RNG(3))), []
    for time in times:
        graph.advance(time)
        pairs = {(one, other) for one, other in graph.overlay().pairs() if one < other}
        assert graph.edges == len(pairs)
        found.append(pairs)
    return found


moments = st.integers(0, 12).map(float)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), moments, st.integers(1, 5)).filter(
            lambda each: each[0] != each[1]
        ),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
@examples(60)
def test_an_edge_is_there_while_one_of_its_contacts_is(
    drawn: list[tuple[int, int, float, int]], repeat: bool
) -> None:
    contacts = tuple((a, b, begin, begin + span) for a, b, begin, span in drawn)
    law = Contacts.in_si(contacts=contacts, repeat=20.0 if repeat else 0.0)
    times = [k / 2 for k in range(90)]
    for time, found in zip(times, edges_at(law, 4, times), strict=True):
        at = time % 20 if repeat else time
        expected = {(min(a, b), max(a, b)) for a, b, lo, hi in contacts if lo <= at < hi}
        assert found == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source,target,begin,end\n0,1,5,5\n", "0 <= begin < end"),
        ("source,target,begin,end\n0,0,1,5\n", "two different clients"),
        ("source,target,begin,end\n0,1.5,1,5\n", "counted from 0"),
    ],
)
def test_a_wrong_line_of_contacts_is_named(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "contacts.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2.*" + words):
        read_contacts(path)


def test_contacts_follow_their_file(tmp_path: Path) -> None:
    path = tmp_path / "contacts.csv"
    path.write_text("source,target,begin,end\n0,1,0,10\n2,1,5,20\n", encoding="utf-8")
    law = Contacts(path="contacts.csv").follow(lambda read, name: read(tmp_path / name))
    assert edges_at(law, 3, [0, 5, 10, 20]) == [{(0, 1)}, {(0, 1), (1, 2)}, {(1, 2)}, set()]
    assert law.span == 20


# Motion.


def place(legs: list[MotionLeg], time: float) -> tuple[float, float]:
    leg = next(each for each in legs if each.begin <= time <= each.end)
    return leg.x + leg.vx * (time - leg.begin), leg.y + leg.vy * (time - leg.begin)


def until(legs: Iterator[MotionLeg], end: float) -> list[MotionLeg]:
    made: list[MotionLeg] = []
    while not made or made[-1].end < end:
        made.append(next(legs))
    return made


def test_crossings_are_those_that_bisection_finds() -> None:
    law = RandomWaypoint.in_si(range=150.0, width=400.0, height=300.0, pause=20.0)
    nodes, end, reach = 6, 900.0, 150.0
    walks = [until(legs, end) for legs in law.legs(nodes, RNG(3))]

    def apart(one: int, other: int, time: float) -> float:
        (x, y), (u, v) = place(walks[one], time), place(walks[other], time)
        return sqrt((x - u) ** 2 + (y - v) ** 2) - reach

    expected = []
    for pair in combinations(range(nodes), 2):
        grid = np.linspace(0.0, end, 3001)
        for start, stop in pairwise(grid):
            low, high, before = start, stop, apart(*pair, start) > 0
            if before == (apart(*pair, stop) > 0):
                continue
            for _ in range(60):
                middle = (low + high) / 2
                same = (apart(*pair, middle) > 0) == before
                low, high = (middle, high) if same else (low, middle)
            expected.append((low, *pair, before))
    found = []
    for change in law.changes(nodes, RNG(3)):
        if change.time > end:
            break
        if change.time > 0 and change.one != change.other:
            found.append(change)
    assert len(expected) > 40
    expected.sort()
    # Bisection on a grid misses contacts that are shorter than its step.
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.time == pytest.approx(other[0], abs=1e-9)
        assert one[1:] == other[1:]


def test_mean_distance_is_that_of_drawn_points() -> None:
    ends = RNG(0).random((200_000, 4)) * np.array([3.0, 1.0, 3.0, 1.0])
    drawn = np.hypot(ends[:, 0] - ends[:, 2], ends[:, 1] - ends[:, 3]).mean()
    assert mean_distance(3.0, 1.0) == pytest.approx(drawn, rel=5e-3)


def stationary_degree(reach: float, paused: float) -> float:
    """Return the probability that two nodes in the unit square are in range, by its own draws.

    A node that pauses is anywhere; else at a uniform place of a leg that is drawn in proportion to
    its length.
    """
    rng = RNG(1)

    def places(number: int) -> Array:
        ends = rng.random((6 * number, 4))
        length = np.hypot(ends[:, 0] - ends[:, 2], ends[:, 1] - ends[:, 3])
        kept = ends[rng.random(len(ends)) * sqrt(2) < length][:number]
        share = rng.random((len(kept), 1))
        moving = kept[:, :2] + share * (kept[:, 2:] - kept[:, :2])
        rests = rng.random((len(kept), 1)) < paused
        return np.asarray(np.where(rests, rng.random((len(kept), 2)), moving))

    one, other = places(100_000), places(100_000)
    return float((((one - other) ** 2).sum(axis=1) <= reach**2).mean())


@pytest.mark.parametrize("pause", [0.0, 40.0])
def test_the_mean_degree_of_random_waypoint_is_that_of_its_stationary_law(pause: float) -> None:
    law = RandomWaypoint.in_si(
        range=0.2, width=1.0, height=1.0, min_speed=0.01, max_speed=0.03, pause=pause
    )
    nodes = 40
    degrees = []
    for seed in range(4):
        graph = GraphInTime(nodes, law.changes(nodes, RNG(seed)))
        for time in range(0, 1000, 5):
            graph.advance(float(time))
            degrees.append(2 * graph.edges / nodes)
    travel = 0.521405 * log(3) / 0.02
    expected = (nodes - 1) * stationary_degree(0.2, pause / (pause + travel))
    assert np.mean(degrees) == pytest.approx(expected, rel=0.03)
    # It is stationary from the beginning: 4 x 20 graphs of the first 100 s.
    first = np.array(degrees).reshape(4, -1)[:, :20]
    assert first.mean() == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize("apart", [3.0, 4.999999])
def test_two_nodes_that_pass_are_neighbours_for_the_chord(apart: float) -> None:
    # On parallel lines, range 5 m, at 2 m/s towards each other: 3 m apart, a chord of 8 m.
    points = (
        (0, 0.0, -50.0, 0.0),
        (0, 50.0, 50.0, 0.0),
        (1, 0.0, 50.0, apart),
        (1, 50.0, -50.0, apart),
    )
    law = PositionTraces.in_si(range=5.0, points=points)
    changes = [change for change in law.changes(2, RNG(0)) if change.one != change.other]
    middle, half = 25.0, sqrt(5.0**2 - apart**2) / 4.0
    assert [change[1:] for change in changes] == [(0, 1, True), (0, 1, False)]
    times = [change.time for change in changes]
    assert times == pytest.approx([middle - half, middle + half])


def test_nodes_at_the_range_are_neighbours_and_nodes_that_only_touch_it_never_become_any() -> None:
    still = PositionTraces.in_si(range=5.0, points=((0, 0.0, 0.0, 0.0), (1, 0.0, 3.0, 4.0)))
    assert edges_at(still, 2, [0.0, 1e6]) == [{(0, 1)}] * 2
    points = ((0, 0.0, -50.0, 0.0), (0, 50.0, 50.0, 0.0), (1, 0.0, 0.0, 5.0))
    passing = PositionTraces.in_si(range=5.0, points=points)
    assert [each for each in passing.changes(2, RNG(0)) if each.one != each.other] == []


@every("angle", np.linspace(0.0, 2 * pi, 60).tolist())
def test_who_turns_at_the_very_range_leaves_it_then_and_not_a_rounding_before(angle: float) -> None:
    x, y, turn = cos(angle), sin(angle), 1e-3
    radii = ((0.0, 1.0), (turn, 5.0), (2 * turn, 9.0))
    points = (*[(0, time, r * x, r * y) for time, r in radii], (1, 0.0, 0.0, 0.0))
    changes = [*PositionTraces.in_si(range=5.0, points=points).changes(2, RNG(0))]
    times = [each.time for each in changes]
    assert times == sorted(times)
    assert [each.there for each in changes if each.one != each.other] == [True, False]
    left = next(each.time for each in changes if each.one != each.other and not each.there)
    assert left == pytest.approx(turn, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 40.0])
def test_a_walk_begins_amid_a_leg_as_one_is_met_at_any_moment(pause: float) -> None:
    """Legs in proportion to their length, slow ones for longer, pauses for as long as they take."""
    low, high, nodes = 0.01, 0.03, 8000
    law = RandomWaypoint.in_si(
        range=0.2, width=1.0, height=1.0, min_speed=low, max_speed=high, pause=pause
    )
    first = np.array([next(legs) for legs in law.legs(nodes, RNG(5))])
    spans, speeds = first[:, 1] - first[:, 0], np.hypot(first[:, 4], first[:, 5])
    rests = speeds == 0
    slowness = log(high / low) / (high - low)
    travel = mean_distance(1.0, 1.0) * slowness
    assert rests.mean() == pytest.approx(pause / (pause + travel), abs=0.02)
    if pause:
        assert spans[rests].mean() == pytest.approx(pause / 2, rel=0.05)
    moves = ~rests
    assert speeds[moves].mean() == pytest.approx(1 / slowness, rel=0.02)
    # Of a leg of length l that is met, l / 2 is left on average, and l^2 is 1/3 on average.
    left = (1 / 3) / (2 * mean_distance(1.0, 1.0))
    assert (spans * speeds)[moves].mean() == pytest.approx(left, rel=0.04)


def test_positions_follow_their_file_and_rest_at_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "places.csv"
    text = "client,time,x,y\n1,0,0,0\n0,10,0,10\n0,20,0,0\n"
    path.write_text(text, encoding="utf-8")
    law = PositionTraces(range="5 m", path="places.csv")
    law = law.follow(lambda read, name: read(tmp_path / name))
    assert edges_at(law, 2, [0.0, 14.9, 15.0, 1e6]) == [set(), set(), {(0, 1)}, {(0, 1)}]
    path.write_text("client,time,x,y\n0,0,1,1\n0,0,2,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="one place at a time"):
        read_positions(path)


# The graph at a time.


def test_weights_are_those_of_metropolis_at_every_time() -> None:
    law = RandomWaypoint.in_si(range=200.0, width=500.0, height=500.0)
    graph = GraphInTime(12, law.changes(12, RNG(0)))
    for time in range(0, 600, 7):
        graph.advance(float(time))
        now = Overlay(graph.overlay().neighbours)
        assert [graph.weights(node) for node in range(12)] == [now.weights(n) for n in range(12)]
        now.check("symmetric")
    graph.remove(3)
    assert graph.neighbours(3) == ()
    assert all(3 not in graph.weights(node) for node in range(12))
    graph.advance(1e4)
    assert graph.neighbours(3) == ()


def test_check_finds_what_share_of_time_a_graph_is_connected() -> None:
    law = Contacts.in_si(contacts=((0, 1, 0.0, 30.0), (1, 2, 10.0, 40.0)), repeat=40.0)
    facts = facts_in_time(OverlayInTime(3, law, lambda: RNG(0)))
    assert facts.connected == pytest.approx(20 / 40)
    assert facts.degree == pytest.approx(2 * (30 + 30) / 40 / 3)
    assert facts.alone == pytest.approx((10 + 0 + 10) / 40 / 3)
