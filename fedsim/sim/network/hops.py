"""Messages among peers that share a medium: where each goes on, and what is on the air."""

from collections.abc import Iterable, Sequence

from fedsim.ports import ClientId
from fedsim.protocol.transport import Envelope
from fedsim.record.schema import NO_PEER
from fedsim.sim.engine.calendar import Timer
from fedsim.sim.network.message_log import RowBits

Hops = dict[ClientId, tuple[ClientId, ...]]
"""Where a message goes on from each node that has it."""


class Packet:
    """A message on its way from one node to one or several others.

    Attributes:
        envelope: what is sent.
        origin: its sender.
        framing: the bits that its sender's radio adds, with which it is charged.
        targets: its receivers, of which it has not been decided yet.
        hops: see `Hops`.
        peer: its receiver in rows of its sender; none of several.
        holders: the nodes that have it and are to send it.
        sent: whether its sender has sent it, or been charged for it.
        received: how many have received it.
    """

    __slots__ = (
        "envelope",
        "framing",
        "holders",
        "hops",
        "origin",
        "peer",
        "received",
        "sent",
        "targets",
    )

    def __init__(
        self,
        envelope: Envelope,
        origin: ClientId,
        framing: int,
        targets: Sequence[ClientId],
        hops: Hops,
    ) -> None:
        self.envelope = envelope
        self.origin = origin
        self.framing = framing
        self.targets = set(targets)
        self.hops = hops
        self.peer = targets[0] if len(targets) == 1 else NO_PEER
        self.holders: dict[ClientId, None] = {}
        self.sent = False
        self.received = 0

    @property
    def bits(self) -> int:
        """The bits with which it is charged."""
        return self.envelope.bits + self.framing

    def parts(self, framing: int) -> RowBits:
        """Return its bits with so many of framing."""
        return self.envelope.payload_bits, self.envelope.header_bits, framing

    @property
    def charged(self) -> RowBits:
        """The same, with the framing with which it is charged."""
        return self.parts(self.framing)

    def beyond(self, node: ClientId) -> list[ClientId]:
        """Return the receivers that its paths reach over a node, itself included, in order."""
        found, waits = set(), [node]
        while waits:
            one = waits.pop()
            found.add(one)
            waits += self.hops.get(one, ())
        return sorted(found & self.targets)


class OnAir:
    """A packet on the air from one node to those in its range that it is for.

    Attributes:
        packet, sender: see above.
        receivers: those that are left.
        reserved: all that the medium is reserved for.
        bits: on the air.
        seconds: on the air.
        began: s.
        timer: of its end.
        collided: nodes at which another transmission disturbs it.
        deaf: since when a receiver sends itself, s.
    """

    __slots__ = (
        "began",
        "bits",
        "collided",
        "deaf",
        "packet",
        "receivers",
        "reserved",
        "seconds",
        "sender",
        "timer",
    )

    timer: Timer

    def __init__(
        self,
        packet: Packet,
        sender: ClientId,
        receivers: Sequence[ClientId],
        bits: int,
        seconds: float,
        began: float,
    ) -> None:
        self.packet = packet
        self.sender = sender
        self.receivers = list(receivers)
        self.reserved = tuple(receivers)
        self.bits = bits
        self.seconds = seconds
        self.began = began
        self.collided: set[ClientId] = set()
        self.deaf: dict[ClientId, float] = {}

    def share_received(self, node: ClientId) -> float:
        """Return the share of it in which a receiver does not send itself."""
        return (self.deaf[node] - self.began) / self.seconds if node in self.deaf else 1.0


def find_hops(parents: Sequence[ClientId], source: ClientId, targets: Iterable[ClientId]) -> Hops:
    """Return where a message goes on from each node on its paths to its receivers."""
    on: dict[ClientId, set[ClientId]] = {}
    for target in targets:
        node = target
        while node != source:
            before = parents[node]
            if node in on.setdefault(before, set()):
                break
            on[before].add(node)
            node = before
    return {node: tuple(sorted(others)) for node, others in on.items()}
