"""Messages among peers on a shared medium: their next hops, and transmissions."""

from collections.abc import Callable, Iterable, Sequence

from fedsim.core.ports import ClientId
from fedsim.protocol.transport import Envelope
from fedsim.results.record.schema import NO_PEER
from fedsim.sim.engine.calendar import Timer
from fedsim.sim.network.message_log import RowBits

Onward = dict[ClientId, tuple[ClientId, ...]]
"""The next nodes on the route of a message, each with the receivers behind it (itself included if
it is one); both in order."""


class Packet:
    """A message on its way from one node to one or several others.

    Attributes:
        envelope: the envelope.
        origin: the sender.
        framing: the framing of the sender's radio, which is charged.
        targets: the receivers whose outcome is undecided.
        peer: the receiver in rows of the sender; `NO_PEER` for several.
        holders: the nodes that hold it and have to forward it, with the route from each of them.
        sent: whether the sender has sent it, or was charged for it.
        received: the number of receivers that have it.
    """

    __slots__ = (
        "envelope",
        "framing",
        "holders",
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
    ) -> None:
        self.envelope = envelope
        self.origin = origin
        self.framing = framing
        self.targets = set(targets)
        self.peer = targets[0] if len(targets) == 1 else NO_PEER
        self.holders: dict[ClientId, Onward] = {}
        self.sent = False
        self.received = 0

    @property
    def bits(self) -> int:
        """The bits that are charged."""
        return self.envelope.bits + self.framing

    def parts(self, framing: int) -> RowBits:
        """Return the bits of a row with this framing."""
        return self.envelope.payload_bits, self.envelope.header_bits, framing

    @property
    def charged(self) -> RowBits:
        """The bits of a row with the framing that is charged."""
        return self.parts(self.framing)


class OnAir:
    """A transmission of a packet from one node to the next nodes in its range.

    Attributes:
        packet, sender: the packet and the transmitting node.
        onward: the next nodes, including those that have left before.
        receivers: the receivers that are left.
        reserved: all nodes for which the medium is reserved.
        bits: the transmitted bits.
        seconds: the time on the air, s.
        began: the start of the transmission, s.
        timer: the timer of its end.
        collided: receivers at which another transmission interferes.
        missed: receivers that were out of range for a while.
        deaf: receivers that transmit themselves, or are out of range, with the time from which on
            they do not hear it, s.
    """

    __slots__ = (
        "began",
        "bits",
        "collided",
        "deaf",
        "missed",
        "onward",
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
        onward: Onward,
        receivers: Sequence[ClientId],
        bits: int,
        seconds: float,
        began: float,
    ) -> None:
        self.packet = packet
        self.sender = sender
        self.onward = onward
        self.receivers = list(receivers)
        self.reserved = tuple(receivers)
        self.bits = bits
        self.seconds = seconds
        self.began = began
        self.collided: set[ClientId] = set()
        self.missed: set[ClientId] = set()
        self.deaf: dict[ClientId, float] = {}

    def beyond(self, node: ClientId) -> list[ClientId]:
        """Return the undecided receivers behind a node, including the node itself."""
        return [target for target in self.onward[node] if target in self.packet.targets]

    def ends(self, now: float) -> bool:
        """Return whether it is over, up to the rounding of times."""
        return self.timer.when() - now <= _ROUNDING * self.seconds


_ROUNDING = 1e-9
"""Shares of a transmission below this are rounding errors of times."""


def divide(targets: Iterable[ClientId], next_to: Callable[[ClientId], ClientId | None]) -> Onward:
    """Return the receivers behind each next node.

    Args:
        targets: the receivers.
        next_to: returns the next node towards a receiver; None if there is no route. Receivers
            without a route are left out.
    """
    behind: dict[ClientId, list[ClientId]] = {}
    for target in targets:
        if (node := next_to(target)) is not None:
            behind.setdefault(node, []).append(target)
    return {node: tuple(sorted(behind[node])) for node in sorted(behind)}


def all_of(onward: Onward) -> list[ClientId]:
    """Return all receivers of some routes, by next node."""
    return [target for behind in onward.values() for target in behind]
