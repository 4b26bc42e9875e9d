"""Meetings: which nodes exchange with each other in a graph of peers that changes."""

import asyncio
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple, Protocol

from fedsim.core.ports import ClientId
from fedsim.physics.failures import FailingByExchange, OverlayInTime, PeerGraph
from fedsim.physics.graphs_in_time import Matchings, OverlayCycle
from fedsim.physics.overlay import Overlay, Weights
from fedsim.sim.engine.calendar import Calendar, Timer


class Neighbourhood(NamedTuple):
    """A node's neighbours in an exchange, and its row of the mixing matrix.

    Attributes:
        neighbours, senders: the nodes to which it sends, and from which it receives, in order.
        weights: the weights of the senders.
        own_weight: the weight of its own vector.
    """

    neighbours: Sequence[ClientId]
    senders: Sequence[ClientId]
    weights: Weights
    own_weight: float

    @classmethod
    def of(cls, overlay: Overlay, node: ClientId) -> "Neighbourhood":
        """Return the neighbourhood of a node in a graph."""
        ends = overlay.neighbours[node], overlay.received_from[node]
        return cls(*ends, overlay.weights(node), overlay.own_weight(node))


ALONE = Neighbourhood((), (), {}, 1.0)
"""The neighbourhood of a node without neighbours."""


class Meetings(Protocol):
    """Determines the neighbours of a node in an exchange."""

    async def begin(self, node: ClientId, exchange: int) -> Neighbourhood:
        """Wait until a node may begin an exchange, from 1; return its neighbours in it."""
        ...

    def leave(self, node: ClientId) -> None:
        """Handle a node that has left for good."""
        ...


class TakingTurns:
    """Meetings in graphs of exchanges: a node begins an exchange as soon as it is ready."""

    def __init__(self, cycle: OverlayCycle | Matchings | FailingByExchange) -> None:
        self._cycle = cycle

    async def begin(self, node: ClientId, exchange: int) -> Neighbourhood:
        """See `Meetings.begin`."""
        return Neighbourhood.of(self._cycle.of(exchange), node)

    def leave(self, node: ClientId) -> None:
        """See `Meetings.leave`."""


class BeginningTogether:
    """Meetings in a graph that changes over time: all nodes begin an exchange together.

    They begin when the last of them is ready, but no sooner than `every` after the last beginning.

    Args:
        overlay: the graph.
        calendar: the calendar.
        nodes: the nodes that are present.
    """

    def __init__(
        self, overlay: OverlayInTime, calendar: Calendar, nodes: Iterable[ClientId]
    ) -> None:
        self._graph = overlay.play()
        self._every = overlay.law.every
        self._calendar = calendar
        self._present = set(nodes)
        self._ready: dict[ClientId, asyncio.Future[Neighbourhood]] = {}
        self._next = -inf  # the least time of the next exchange, s
        self._timer: Timer | None = None

    async def begin(self, node: ClientId, exchange: int) -> Neighbourhood:
        """See `Meetings.begin`."""
        begun: asyncio.Future[Neighbourhood] = asyncio.get_running_loop().create_future()
        self._ready[node] = begun
        self._look()
        try:
            return await begun
        finally:
            # Still registered only if the wait was cancelled: such a node is not ready.
            if self._ready.get(node) is begun:
                del self._ready[node]

    def leave(self, node: ClientId) -> None:
        """See `Meetings.leave`."""
        self._present.discard(node)
        # A node that leaves may have been the last one that all others waited for, hence `_look`.
        self._ready.pop(node, None)
        self._graph.remove(node)
        self._look()

    def _look(self) -> None:
        """Begin an exchange if all nodes are ready, or wait until it may begin."""
        if not self._present or len(self._ready) < len(self._present) or self._timer is not None:
            return
        if self._next <= self._calendar.now:
            self._begin()
        else:
            self._timer = self._calendar.at(self._next, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._look()

    def _begin(self) -> None:
        now, graph = self._calendar.now, self._graph
        # The graph is moved only here, so all nodes of an exchange see the same state of it.
        graph.advance(now)
        # From this beginning, not from the time at which it could have begun: a late node delays
        # all later exchanges, and they do not catch up.
        self._next = now + self._every
        ready, self._ready = self._ready, {}
        for node in sorted(ready):
            near, weights = graph.neighbours(node), graph.weights(node)
            # Rows of the mixing matrix sum to 1 by construction, whatever edges exist now.
            own_weight = 1 - sum(weights.values())
            if not ready[node].done():  # done: cancelled at this instant
                ready[node].set_result(Neighbourhood(near, near, weights, own_weight))


def meetings(overlay: PeerGraph, calendar: Calendar, nodes: Iterable[ClientId]) -> Meetings | None:
    """Return the meetings in a graph of peers; None if it does not change."""
    if isinstance(overlay, OverlayCycle | Matchings | FailingByExchange):
        return TakingTurns(overlay)
    if isinstance(overlay, OverlayInTime):
        return BeginningTogether(overlay, calendar, nodes)
    return None
