"""The medium of peers in range of each other: the range of each, and which may send at a time.

Two transmissions meet if they share a node, or if a node that sends or receives one of them is in
range of the other's sender. Under `csma` a node waits as long as that would happen; under `tdma`
nodes that are at most two hops apart have slots of their own, so that it never does. Where nodes
move, and so come into range while both are on the air, transmissions may meet under `csma` as well;
under `tdma` every node then has a slot of its own.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from fedsim.core.blocks.choice import OneOf, failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import UNLIMITED, Seconds
from fedsim.core.blocks.spec import Block, Given, Spec, as_written
from fedsim.core.blocks.wording import show
from fedsim.core.ports import ClientId
from fedsim.physics.failures import OverlayInTime
from fedsim.physics.overlay import OVERLAYS, Neighbours, Overlay
from fedsim.physics.signals import Constant, Signal, Steps

Access = Literal["csma", "tdma", "node-exclusive", "aloha", "slotted-aloha"]
"""How nodes take turns, or do not."""

_ACCESS = (
    "csma (one transmission at a time around a node), tdma (slots), node-exclusive (a node sends or"
    " receives one message at a time and disturbs no other), or aloha and slotted-aloha (nodes send"
    " at will, and messages that overlap at a receiver collide)"
)
_WINDOW = (
    "aloha: after its first collision a sender waits for a random time of up to this many lengths"
    " of its message, or slots; each further collision doubles the limit"
)
_TRIES = (
    "aloha: largest number of transmissions of a message; a receiver that misses all never gets it"
)
_AT_WILL = "window", "tries"

Tries = Annotated[int, Field(ge=1)] | Literal["unlimited"]
"""The largest number of transmissions of a message on a hop."""

_GRAPH = "the nodes in range of each other; by default the graph of neighbours"

AnyRange = Given[Annotated[Neighbours, OneOf(OVERLAYS)] | None, Neighbours | Block | None]
"""A field for a graph of nodes in range."""


class Medium(Spec):
    """The medium that nodes in range of each other share. A message is sent once on each hop.

    `csma` is an ideal carrier sense with reservations: a transmission begins as soon as no node in
    range of its sender sends or receives, and no node in range of its receivers sends; of those
    that wait, the one that has waited longest comes first, then the one of the lowest number. It
    takes no time for contention. So two transmissions at a time are at least three hops apart
    (Gupta, Kumar, "The Capacity of Wireless Networks", IEEE Trans. Inf. Theory 2000, the protocol
    model, with reservations by senders). `tdma` colours the graph in which nodes at most two hops
    apart are joined (Ramanathan, "A unified framework and algorithm for channel assignment in
    wireless networks", Wireless Networks 1999), greedily, nodes of high degree first. Under
    `node-exclusive` each transmission has a channel of its own (Hajek, Sasaki, "Link Scheduling in
    Polynomial Time", IEEE Trans. Inf. Theory 1988). Under `aloha` a node sends as soon as it has a
    message (Abramson, "The ALOHA System", AFIPS 1970), under `slotted-aloha` with the next slot;
    a receiver misses what overlaps with another transmission in its range, or with its own. Senders
    know what has been missed, at no cost, and send it again, after a backoff.
    """

    access: Access = Field(default="csma", description=_ACCESS)
    slot: Seconds = as_written("10 ms", "tdma: length of a slot; a longer message takes several")
    window: int = Field(default=16, ge=1, description=_WINDOW)
    tries: Tries = as_written(UNLIMITED, _TRIES)
    broadcast: bool = Field(
        default=True,
        description="whether a message for several neighbours is sent once and received by each",
    )
    graph: AnyRange = as_written(None, _GRAPH)

    @model_validator(mode="after")
    def _has_slots(self) -> Self:
        if self.access in {"tdma", "slotted-aloha"} and not self.slot:
            raise failure(("slot", "got 0 s; give slots a length, such as 10 ms", self.slot))
        return self

    @model_validator(mode="after")
    def _collides(self) -> Self:
        for key in _AT_WILL:
            seen = getattr(self, key)
            if not self.random and seen != type(self).model_fields[key].default:
                text = f"got {show(seen)}, but nothing collides under {self.access}; use aloha"
                raise failure((key, text, seen))
        return self

    @model_serializer(mode="wrap")
    def _without_tries(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what is of aloha alone: scenarios of before keep their bytes."""
        written: dict[str, object] = write(self)
        return {key: value for key, value in written.items() if self.random or key not in _AT_WILL}

    @property
    def random(self) -> bool:
        """Whether nodes send at will, so that transmissions collide."""
        return self.access in {"aloha", "slotted-aloha"}

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield what it is."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """Nodes in range wait for each other."""
        return Nature(shares="nodes in range of each other share a medium")

    @property
    def slotted(self) -> bool:
        """Whether what is sent at will begins with a slot."""
        return self.access == "slotted-aloha"

    @property
    def most_tries(self) -> int | None:
        """The largest number of transmissions of a message on a hop; None for no limit."""
        return None if self.tries == UNLIMITED else int(self.tries)


@dataclass(frozen=True, slots=True)
class RadioGraph:
    """The nodes in range of each other, and the medium that they share.

    Attributes:
        medium: the law of the medium.
        near: the nodes in range of each node, in order; at the beginning, if they move.
        colours: the slot of each node in a frame, from 0, under `tdma`; empty otherwise.
        moves: the graph in time, if nodes move, so that they come into range and leave it.
    """

    medium: Medium
    near: tuple[tuple[ClientId, ...], ...]
    colours: tuple[int, ...] = ()
    moves: OverlayInTime | None = None

    @classmethod
    def of(cls, medium: Medium, overlay: Overlay | OverlayInTime) -> "RadioGraph":
        """Return the nodes in range that the edges of a graph join, in whatever direction."""
        if isinstance(overlay, OverlayInTime):
            first = overlay.play()
            first.advance(0.0)
            colours = tuple(range(overlay.nodes)) if medium.access == "tdma" else ()
            return cls(medium, first.overlay().neighbours, colours, overlay)
        near: list[set[ClientId]] = [set() for _ in overlay.neighbours]
        for one, other in overlay.pairs():
            near[one].add(other)
            near[other].add(one)
        both = tuple([tuple(sorted(others)) for others in near])
        return cls(medium, both, two_hop_colours(both) if medium.access == "tdma" else ())

    @property
    def slots(self) -> int:
        """The slots of a frame under `tdma`."""
        return max(self.colours, default=-1) + 1

    def turns(self, node: ClientId) -> Signal:
        """Return when a node may send: 1 in its slots, 0 in those of others."""
        slots, slot, colour = self.slots, self.medium.slot, self.colours[node]
        if slots == 1:
            return Constant(1.0)
        values = [float(slot_number == colour) for slot_number in range(slots)]
        return Steps([number * slot for number in range(slots)], values, period=slots * slot)

    def parents(self, source: ClientId) -> list[ClientId]:
        """Return each node's predecessor on a path from a source; see `fewest_hops`."""
        return fewest_hops(self.near, source)

    def relays(self, pairs: Iterable[tuple[ClientId, ClientId]]) -> Iterator[ClientId]:
        """Yield the nodes that forward what senders send to receivers, again for each pair.

        Where nodes move, any of them may.
        """
        if self.moves is not None:
            yield from range(len(self.near))
            return
        source, before = -1, list[ClientId]()
        for sender, receiver in pairs:
            if receiver in self.near[sender]:
                continue
            if sender != source:
                source, before = sender, self.parents(sender)
            node = before[receiver]
            while node != sender:
                yield node
                node = before[node]

    def describe(self) -> str:
        """Return what the medium is, as a sentence."""
        degrees = [len(others) for others in self.near] or [0]
        way = "received by all neighbours" if self.medium.broadcast else "sent to each alone"
        least, most = min(degrees), max(degrees)
        count = f"{least}" if least == most else f"{least} to {most}"
        when = "" if self.moves is None else " at the beginning, which come and go"
        text = f"{self.medium.access}, {count} nodes in range{when}; a message for several is {way}"
        if self.colours:
            text += f"; {self.slots} slots of {self.medium.slot:g} s in a frame"
        return text


def fewest_hops(near: Sequence[Sequence[ClientId]], source: ClientId) -> list[ClientId]:
    """Return each node's predecessor on a path of fewest hops from a source, by number.

    Of several the one that is found first, nodes of lower numbers before others; a source is its
    own, and so are nodes that no path leads to.

    >>> fewest_hops([(1, 2), (0, 3), (0, 3), (1, 2), ()], 0)
    [0, 0, 0, 1, 4]
    """
    before = list(range(len(near)))
    seen, waits = {source}, deque([source])
    while waits:
        node = waits.popleft()
        for other in near[node]:
            if other not in seen:
                seen.add(other)
                before[other] = node
                waits.append(other)
    return before


def two_hop_colours(near: Sequence[Sequence[ClientId]]) -> tuple[int, ...]:
    """Return a colour for each node, from 0: nodes at most two hops apart have different ones.

    >>> two_hop_colours([(1, 5), (0, 2), (1, 3), (2, 4), (3, 5), (4, 0)])
    (0, 1, 2, 0, 1, 2)
    """
    import networkx as nx  # importing it takes 0.2 s: only when there is a graph

    square: nx.Graph[int] = nx.Graph()
    square.add_nodes_from(range(len(near)))
    for node, others in enumerate(near):
        square.add_edges_from((node, other) for other in others)
        square.add_edges_from((node, far) for other in others for far in near[other] if far != node)
    colours = nx.greedy_color(square, strategy="largest_first")
    return tuple([colours[node] for node in range(len(near))])


class Contention:
    """Which transmissions may begin, given those on the air.

    Args:
        graph: the graph of the nodes in range.
        near: the nodes in range of each node now, if they move; the caller reports changes.
    """

    def __init__(self, graph: RadioGraph, near: Sequence[Sequence[ClientId]] | None = None) -> None:
        nodes = len(graph.near)
        self._graph = graph
        self._near = graph.near if near is None else near
        self._alone = graph.medium.access != "csma"
        self._slots = graph.medium.access == "tdma"
        self._turns: dict[ClientId, Signal] = {}
        self._own = [0] * nodes  # whether a node sends
        self._sends = [0] * nodes  # how many in range of a node, itself included, send now
        self._receives = [0] * nodes  # and receive
        self._busy = [0] * nodes  # whether it receives itself

    def _around(self, node: ClientId) -> Sequence[ClientId]:
        """Return the nodes that notice what a node does."""
        return (node,) if self._alone else (node, *self._near[node])

    def may_begin(self, sender: ClientId, receivers: Sequence[ClientId]) -> bool:
        """Return whether a transmission meets none that is on the air."""
        if self._slots:
            return True
        return not (
            self._sends[sender]
            or self._receives[sender]
            or any(self._sends[receiver] or self._busy[receiver] for receiver in receivers)
        )

    def begin(self, sender: ClientId, receivers: Sequence[ClientId], step: int = 1) -> None:
        """Register a transmission that is on the air from now on; remove one for a step of -1."""
        self._own[sender] += step
        for node in self._around(sender):
            self._sends[node] += step
        for receiver in receivers:
            self._busy[receiver] += step
            for node in self._around(receiver):
                self._receives[node] += step

    def end(self, sender: ClientId, receivers: Sequence[ClientId]) -> set[ClientId]:
        """Remove a transmission; return the nodes that may be able to send now."""
        self.begin(sender, receivers, -1)
        if self._slots:
            return {sender}
        near = self._near
        freed = {neighbour for node in (sender, *receivers) for neighbour in self._around(node)}
        return freed | {neighbour for node in freed for neighbour in near[node]}

    def change(self, one: ClientId, other: ClientId, *, there: bool) -> None:
        """Register that two nodes come into range of each other, or leave it."""
        step = 1 if there else -1
        for node, noticed in () if self._alone else ((one, other), (other, one)):
            self._sends[noticed] += step * self._own[node]
            self._receives[noticed] += step * self._busy[node]

    def next_turn(self, sender: ClientId, now: float) -> float:
        """Return when a sender's slot is on for the first time from now on, s."""
        turns = self._signal(sender)
        return now if turns.at(now) else turns.next_change(now)

    def span(self, sender: ClientId, now: float, seconds: float) -> tuple[float, float]:
        """Return when a transmission begins that may do so from now on, and when it ends, s.

        Args:
            sender: its sender, in whose slots it is on the air.
            now: s.
            seconds: how long it is on the air.
        """
        if not self._slots or seconds == inf:
            return now, now + seconds
        began = self.next_turn(sender, now)
        return began, self._signal(sender).when(began, seconds)

    def seconds_on_air(self, sender: ClientId, began: float, now: float) -> float:
        """Return how long a transmission has been on the air, s."""
        if now <= began:
            return 0.0
        return self._signal(sender).integral(began, now) if self._slots else now - began

    def _signal(self, node: ClientId) -> Signal:
        if node not in self._turns:
            self._turns[node] = self._graph.turns(node)
        return self._turns[node]
