"""Failures of edges: graphs of peers in which edges are missing at random.

Edges fail independently of each other. Failures are either drawn for each exchange, or follow a
Markov chain in time, whose durations up and down are exponential.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import permutations
from math import inf
from typing import Self, TypeAlias

import numpy as np
from pydantic import model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.quantities import Fraction, Seconds
from fedsim.core.blocks.spec import Spec, as_written
from fedsim.core.ports import ClientId
from fedsim.physics.graphs_in_time import (
    EdgeChange,
    GraphInTime,
    Matchings,
    NeighboursInTime,
    OverlayCycle,
    Stream,
    drawn_once,
)
from fedsim.physics.overlay import Overlay


class EdgeFailures(Spec):
    """Failures of the edges of a graph of peers, independent of each other.

    With a `probability`, failures are drawn for each exchange. Otherwise they are processes in
    time: an edge is up and down for exponential times with the means `up` and `down` (the two
    states of Gilbert, "Capacity of a Burst-Noise Channel", Bell Syst. Tech. J. 1960). Such a
    process is stationary from the start, so an edge is up for the share up / (up + down) of the
    time.
    """

    probability: Fraction = as_written("0 %", "probability that an edge is missing in an exchange")
    up: Seconds = as_written("0 s", "mean time that an edge is up, for failures in time")
    down: Seconds = as_written("0 s", "mean time that an edge is down")
    every: Seconds = as_written(
        "0 s", "shortest time between the starts of two exchanges, for failures in time"
    )

    @model_validator(mode="after")
    def _one_law(self) -> Self:
        if (self.up > 0) != (self.down > 0) or (self.up > 0) == (self.probability > 0):
            text = "give one of the two: a probability above 0, or both up and down above 0 s"
            raise failure(("probability", text, None))
        if self.every and not self.up:
            text = "got a time between exchanges, but edges fail in each exchange; leave it out"
            raise failure(("every", text, None))
        return self

    @property
    def in_time(self) -> bool:
        """Whether edges fail in time."""
        return self.up > 0


@dataclass(frozen=True, slots=True)
class FailingByExchange:
    """The neighbours of peers in a graph whose edges are missing at random in each exchange.

    An undirected edge fails in both directions at once. The weights are computed for the graph that
    remains.

    Attributes:
        base: the graph without failures, which may change with the number of the exchange.
        probability: the probability that an edge is missing.
        stream: returns the random stream of an exchange, from 1.
    """

    base: Overlay | OverlayCycle | Matchings
    probability: float
    stream: Stream
    _known: dict[int, Overlay] = field(default_factory=dict, repr=False, compare=False)

    def of(self, exchange: int) -> Overlay:
        """Return the graph of an exchange, from 1."""
        return drawn_once(self._known, exchange, self._draw)

    def _draw(self, exchange: int) -> Overlay:
        base = self.base if isinstance(self.base, Overlay) else self.base.of(exchange)
        # Both directions of an undirected edge fail together.
        edges = [pair for pair in base.pairs() if base.directed or pair[0] < pair[1]]
        up = self.stream(exchange).random(len(edges)) >= self.probability
        to: list[list[ClientId]] = [[] for _ in base.neighbours]
        back: list[list[ClientId]] = [[] for _ in base.neighbours]
        for (one, other), there in zip(edges, up.tolist(), strict=True):
            if there:
                to[one].append(other)
                back[other].append(one)
        if base.directed:
            return Overlay(_in_order(to), _in_order(back))
        return Overlay(_in_order([a + b for a, b in zip(to, back, strict=True)]))

    def pairs(self) -> Iterator[tuple[ClientId, ClientId]]:
        """Yield the pairs (sender, receiver) that may be joined in some exchange."""
        return self.base.pairs()


def _in_order(near: list[list[ClientId]]) -> tuple[tuple[ClientId, ...], ...]:
    return tuple([tuple(sorted(others)) for others in near])


@dataclass(frozen=True, slots=True)
class FailingInTime:
    """The law of an undirected graph whose edges go up and down in time.

    Attributes:
        base: the edges while they are up; they may themselves change in time.
        failures: the law by which edges fail.
    """

    base: Overlay | NeighboursInTime
    failures: EdgeFailures

    @property
    def every(self) -> float:
        """The shortest time between the starts of two exchanges, s."""
        period = self.base.every if isinstance(self.base, NeighboursInTime) else 0.0
        return max(period, self.failures.every)

    @property
    def span(self) -> float:
        """The time over which `fedsim check` examines the graph, s."""
        return self.base.span if isinstance(self.base, NeighboursInTime) else 3600.0

    def changes(self, nodes: int, rng: np.random.Generator) -> Iterator[EdgeChange]:
        """Yield the changes of the graph in the order of time; see `NeighboursInTime.changes`.

        Each pair of nodes has a failure process of its own, which begins when the pair first has an
        edge.
        """
        # Failures have a stream of their own, so that they do not affect what the base draws from
        # `rng`.
        failures, own = self.failures, np.random.default_rng(rng.integers(2**63))
        share, means = failures.up / (failures.up + failures.down), (failures.down, failures.up)
        wanted: set[tuple[ClientId, ClientId]] = set()  # the edges of the base
        is_up: dict[tuple[ClientId, ClientId], bool] = {}
        turns: list[tuple[float, ClientId, ClientId]] = []
        upcoming = self._upcoming(nodes, rng)
        change = next(upcoming, None)
        while change is not None or turns:
            if change is not None and change.time <= (turns[0][0] if turns else inf):
                pair = min(change[1:3]), max(change[1:3])
                if pair[0] != pair[1]:
                    (wanted.add if change.there else wanted.discard)(pair)
                    if pair not in is_up:
                        is_up[pair] = bool(own.random() < share)
                        span = own.exponential(means[is_up[pair]])
                        heappush(turns, (change.time + span, *pair))
                if pair[0] == pair[1] or is_up[pair]:
                    yield change
                change = next(upcoming, None)
                continue
            time, *pair_of = heappop(turns)
            pair = pair_of[0], pair_of[1]
            is_up[pair] = not is_up[pair]
            heappush(turns, (time + own.exponential(means[is_up[pair]]), *pair))
            if pair in wanted:
                yield EdgeChange(time, *pair, there=is_up[pair])
            else:
                yield EdgeChange(time, pair[0], pair[0], there=False)  # no change, only progress

    def _upcoming(self, nodes: int, rng: np.random.Generator) -> Iterator[EdgeChange]:
        """Yield the changes of the edges of the base, without failures."""
        if isinstance(self.base, NeighboursInTime):
            yield from self.base.changes(nodes, rng)
            return
        for one, other in self.base.pairs():
            if one < other:
                yield EdgeChange(0.0, one, other, there=True)


@dataclass(frozen=True, slots=True)
class OverlayInTime:
    """The neighbours of peers in a graph that changes in time.

    Attributes:
        nodes: the number of nodes.
        law: the law of the changes.
        stream: returns the random stream of the graph, from its start.
    """

    nodes: int
    law: NeighboursInTime | FailingInTime
    stream: Callable[[], np.random.Generator]

    def play(self) -> GraphInTime:
        """Return the graph, before its first changes at time 0."""
        return GraphInTime(self.nodes, self.law.changes(self.nodes, self.stream()))

    def pairs(self) -> Iterator[tuple[ClientId, ClientId]]:
        """Yield all pairs of different nodes: any of them may be joined at some time."""
        return permutations(range(self.nodes), 2)


PeerGraph: TypeAlias = Overlay | OverlayCycle | Matchings | FailingByExchange | OverlayInTime
"""The neighbours of peers: fixed, changing with the exchange, or changing in time."""
