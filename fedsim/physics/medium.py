"""The shared medium of peers: which nodes are in range of each other, and which may send at a time.

Two transmissions interfere if they share a node, or if a sender or receiver of one is in range of
the sender of the other. Under `csma` a node waits as long as its transmission would interfere.
Under `tdma` nodes at most two hops apart have different slots, so transmissions never interfere.
Moving nodes may come into range while both are on the air. Under `csma` their transmissions may
then interfere; under `tdma` every moving node therefore has a slot of its own.
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
"""How nodes take turns, if they do."""

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
"""The largest number of transmissions of a message per hop."""

_GRAPH = "the nodes in range of each other; by default the graph of neighbours"

AnyRange = Given[Annotated[Neighbours, OneOf(OVERLAYS)] | None, Neighbours | Block | None]
"""A field for a graph of nodes in range."""


class Medium(Spec):
    """The medium that nodes in range of each other share. A message is sent once on each hop.

    `csma` is an ideal carrier sense with reservations. A transmission begins as soon as no node in
    range of its sender sends or receives, and no node in range of its receivers sends. Of several
    waiting nodes the longest-waiting one comes first, then the one with the lowest number.
    Contention takes no time. So simultaneous transmissions are at least three hops apart (Gupta,
    Kumar, "The Capacity of Wireless Networks", IEEE Trans. Inf. Theory 2000, the protocol model,
    with reservations by senders).

    `tdma` colours the graph that joins nodes at most two hops apart (Ramanathan, "A unified
    framework and algorithm for channel assignment in wireless networks", Wireless Networks 1999),
    greedily, nodes of high degree first. Under `node-exclusive` each transmission has its own
    channel (Hajek, Sasaki, "Link Scheduling in Polynomial Time", IEEE Trans. Inf. Theory 1988).

    Under `aloha` a node sends as soon as it has a message (Abramson, "The ALOHA System", AFIPS
    1970), under `slotted-aloha` in the next slot. A receiver misses a message that overlaps with
    another transmission in its range, or with its own. Senders learn at no cost which receivers
    missed a message, and send it again after a backoff.
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
        """Omit the keys of aloha under other access, so that older scenarios keep their bytes."""
        written: dict[str, object] = write(self)
        return {key: value for key, value in written.items() if self.random or key not in _AT_WILL}

    @property
    def random(self) -> bool:
        """Whether nodes send at will, so that transmissions collide."""
        return self.access in {"aloha", "slotted-aloha"}

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that nodes share the medium."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """The nature of the medium: nodes in range slow each other down."""
        return Nature(shares="nodes in range of each other share a medium")

    @property
    def slotted(self) -> bool:
        """Whether a transmission of aloha begins with a slot."""
        return self.access == "slotted-aloha"

    @property
    def most_tries(self) -> int | None:
        """The largest number of transmissions of a message per hop; None for no limit."""
        return None if self.tries == UNLIMITED else int(self.tries)


@dataclass(frozen=True, slots=True)
class RadioGraph:
    """The nodes in range of each other, and the medium that they share.

    Attributes:
        medium: the law of the medium.
        near: the nodes in range of each node, in order; at time 0, if they move.
        colours: the slot of each node in a frame, from 0, under `tdma`; empty otherwise.
        moves: the graph in time, if nodes move into range and out of it.
    """

    medium: Medium
    near: tuple[tuple[ClientId, ...], ...]
    colours: tuple[int, ...] = ()
    moves: OverlayInTime | None = None

    @classmethod
    def of(cls, medium: Medium, overlay: Overlay | OverlayInTime) -> "RadioGraph":
        """Return the radio graph in which both ends of each edge are in range of each other."""
        if isinstance(overlay, OverlayInTime):
            first = overlay.play()
            first.advance(0.0)
            # In a graph that changes, any two nodes may come into range, so each has its own slot.
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
        """The number of slots in a frame under `tdma`."""
        return max(self.colours, default=-1) + 1

    def turns(self, node: ClientId) -> Signal:
        """Return when a node may send: 1 in its own slots, 0 in those of others."""
        slots, slot, colour = self.slots, self.medium.slot, self.colours[node]
        if slots == 1:
            return Constant(1.0)
        values = [float(slot_number == colour) for slot_number in range(slots)]
        return Steps([number * slot for number in range(slots)], values, period=slots * slot)

    def parents(self, source: ClientId) -> list[ClientId]:
        """Return each node's predecessor on the path from a source; see `fewest_hops`."""
        return fewest_hops(self.near, source)

    def relays(self, pairs: Iterable[tuple[ClientId, ClientId]]) -> Iterator[ClientId]:
        """Yield the nodes that forward messages from senders to receivers, again for each pair.

        If nodes move, any of them may have to forward, and all are returned.
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
        """Return a description of the medium."""
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
    """Return each node's predecessor on a path with the fewest hops from a source.

    Of several such paths the first one found is taken, with nodes in the order of `near`. The
    predecessor of the source is the source itself; that of an unreachable node is this node.

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
    """Return a colour for each node, from 0, different for nodes at most two hops apart.

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
    """Which transmissions may begin, in view of those on the air.

    Args:
        graph: the graph of the nodes in range.
        near: the nodes currently in range of each node, if they move; the caller reports changes.
    """

    def __init__(self, graph: RadioGraph, near: Sequence[Sequence[ClientId]] | None = None) -> None:
        nodes = len(graph.near)
        self._graph = graph
        self._near = graph.near if near is None else near
        self._alone = graph.medium.access != "csma"
        self._slots = graph.medium.access == "tdma"
        self._turns: dict[ClientId, Signal] = {}
        self._own = [0] * nodes  # whether a node sends
        self._sends = [0] * nodes  # the number of senders in range of a node, itself included
        self._receives = [0] * nodes  # the number of receivers in range of a node, itself included
        self._busy = [0] * nodes  # whether a node receives

    def _around(self, node: ClientId) -> Sequence[ClientId]:
        """Return the nodes that notice a transmission or reception of a node."""
        return (node,) if self._alone else (node, *self._near[node])

    def may_begin(self, sender: ClientId, receivers: Sequence[ClientId]) -> bool:
        """Return whether a transmission would interfere with none on the air."""
        if self._slots:
            return True
        return not (
            self._sends[sender]
            or self._receives[sender]
            or any(self._sends[receiver] or self._busy[receiver] for receiver in receivers)
        )

    def begin(self, sender: ClientId, receivers: Sequence[ClientId], step: int = 1) -> None:
        """Register a transmission that begins; with a step of -1, remove one."""
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
        # Nodes two hops away may have waited because a receiver of theirs was in range of the
        # sender.
        freed = {neighbour for node in (sender, *receivers) for neighbour in self._around(node)}
        return freed | {neighbour for node in freed for neighbour in near[node]}

    def change(self, one: ClientId, other: ClientId, *, there: bool) -> None:
        """Register that two nodes have come into range of each other, or left it."""
        step = 1 if there else -1
        for node, noticed in () if self._alone else ((one, other), (other, one)):
            self._sends[noticed] += step * self._own[node]
            self._receives[noticed] += step * self._busy[node]

    def next_turn(self, sender: ClientId, now: float) -> float:
        """Return the first time from now on at which a sender's slot is active, s."""
        turns = self._signal(sender)
        return now if turns.at(now) else turns.next_change(now)

    def span(self, sender: ClientId, now: float, seconds: float) -> tuple[float, float]:
        """Return the begin and the end of a transmission that may begin from now on, s.

        Args:
            sender: its sender, in whose slots it is on the air.
            now: the current time, s.
            seconds: its time on the air, s.
        """
        if not self._slots or seconds == inf:
            return now, now + seconds
        began = self.next_turn(sender, now)
        return began, self._signal(sender).when(began, seconds)

    def seconds_on_air(self, sender: ClientId, began: float, now: float) -> float:
        """Return the time for which a transmission has been on the air so far, s."""
        if now <= began:
            return 0.0
        return self._signal(sender).integral(began, now) if self._slots else now - began

    def _signal(self, node: ClientId) -> Signal:
        if node not in self._turns:
            self._turns[node] = self._graph.turns(node)
        return self._turns[node]
