"""Nodes in range of each other, for good or over time, and the routes among them."""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from math import inf

from fedsim.core.ports import ClientId
from fedsim.physics.failures import OverlayInTime
from fedsim.physics.graphs_in_time import EdgeChange
from fedsim.physics.medium import RadioGraph, fewest_hops
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.lazy import LazyTable
from fedsim.sim.network.hops import Onward, divide


class StandingRange:
    """A constant graph: a message follows the fewest hops from its origin.

    Args:
        graph: the graph of nodes in range.

    Attributes:
        near: the nodes in range of each node, in order.
    """

    def __init__(self, graph: RadioGraph) -> None:
        self.near = graph.near
        self._parents = LazyTable(graph.parents)
        self._sets = LazyTable(lambda node: frozenset(graph.near[node]))

    def onward(self, origin: ClientId, node: ClientId, targets: Sequence[ClientId]) -> Onward:
        """Return the next hops of a message from a node, with the receivers behind each."""
        near = self._sets[node]

        def next_to(target: ClientId) -> ClientId:
            # Walk back from the target along the tree of the origin, until a node in range.
            while target not in near:
                target = self._parents[origin][target]
            return target

        return divide(targets, next_to)


class MovingRange:
    """Nodes that come into range of each other and leave it.

    The graph is brought up to date when it is read. Its changes are events only while messages are
    on their way, so that a run without messages costs nothing.

    Args:
        moves: the graph over time.
        calendar: the calendar.
        changed: called with each edge after it has appeared or vanished.
        wanted: returns whether changes have to be events.

    Attributes:
        near: the nodes in range of each node now, in order.
    """

    def __init__(
        self,
        moves: OverlayInTime,
        calendar: Calendar,
        changed: Callable[[EdgeChange], None],
        wanted: Callable[[], bool],
    ) -> None:
        self.near: list[list[ClientId]] = [[] for _ in range(moves.nodes)]
        self._graph = moves.play()
        self._calendar = calendar
        self._changed = changed
        self._wanted = wanted
        self._watched = False
        # Without `changed`: the edges at the start are no events.
        self._graph.advance(calendar.now, self._enter)

    def advance(self) -> None:
        """Bring the graph up to date."""
        self._graph.advance(self._calendar.now, self._apply)

    def watch(self) -> None:
        """Schedule the next change as an event, if there is one."""
        if not self._watched and (when := self._graph.next_time) < inf:
            self._watched = True
            self._calendar.call(max(when, self._calendar.now), self._on_change, None)

    def _on_change(self, _: None) -> None:
        self._watched = False
        self.advance()
        if self._wanted():
            self.watch()

    def _apply(self, change: EdgeChange) -> None:
        self._enter(change)
        self._changed(change)

    def _enter(self, change: EdgeChange) -> None:
        for node, other in ((change.one, change.other), (change.other, change.one)):
            near = self.near[node]
            if change.there:
                insort(near, other)
            else:
                del near[bisect_left(near, other)]

    def remove(self, node: ClientId) -> None:
        """Remove a node for good."""
        for other in [*self.near[node]]:
            self._apply(EdgeChange(self._calendar.now, node, other, there=False))
        self._graph.remove(node)

    def onward(self, node: ClientId, targets: Sequence[ClientId]) -> Onward:
        """Return the next hops from a node to reachable receivers."""
        near = set(self.near[node])
        if near.issuperset(targets):
            return {target: (target,) for target in sorted(targets)}
        before = fewest_hops(self.near, node)

        def next_to(target: ClientId) -> ClientId | None:
            while target not in near:
                if before[target] == target:
                    return None
                target = before[target]
            return target

        return divide(targets, next_to)
