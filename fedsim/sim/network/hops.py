"""Messages among peers that share a medium: where each goes on, and what is on the air."""

from collections.abc import Callable, Iterable, Sequence

from fedsim.ports import ClientId
from fedsim.protocol.transport import Envelope
from fedsim.record.schema import NO_PEER
from fedsim.sim.engine.calendar import Timer
from fedsim.sim.network.message_log import RowBits

Onward = dict[ClientId, tuple[ClientId, ...]]
"""Which nodes come next on the way of a message, and the receivers that lie behind each of them, a
node itself included where it is one; both in order."""


class Packet:
    """A message on its way from one node to one or several others.

    Attributes:
        envelope: what is sent.
        origin: its sender.
        framing: the bits that its sender's radio adds, with which it is charged.
        targets: its receivers, of which it has not been decided yet.
        peer: its receiver in rows of its sender; none of several.
        holders: the nodes that have it and are to send it, with the way that it had as it came.
        sent: whether its sender has sent it, or been charged for it.
        received: how many have received it.
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
        """The bits with which it is charged."""
        return self.envelope.bits + self.framing

    def parts(self, framing: int) -> RowBits:
        """Return its bits with so many of framing."""
        return self.envelope.payload_bits, self.envelope.header_bits, framing

    @property
    def charged(self) -> RowBits:
        """The same, with the framing with which it is charged."""
        return self.parts(self.framing)


class OnAir:
    """A packet on the air from one node to those in its range that it is for.

    Attributes:
        packet, sender: see above.
        onward: see above; it is also of nodes that had left before.
        receivers: those that are left.
        reserved: all that the medium is reserved for.
        bits: on the air.
        seconds: on the air.
        began: s.
        timer: of its end.
        collided: receivers at which another transmission disturbs it.
        missed: receivers that were out of its range for a while.
        deaf: since when a receiver sends itself, or is out of range, s.
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
        """Return the receivers behind a node, itself included, that it has not been decided of."""
        return [each for each in self.onward[node] if each in self.packet.targets]

    def ends(self, now: float) -> bool:
        """Return whether it is over, but for the rounding of times."""
        return self.timer.when() - now <= _ROUNDING * self.seconds


_ROUNDING = 1e-9
"""The least share of a transmission that counts: less is the rounding of times."""


def divide(targets: Iterable[ClientId], next_to: Callable[[ClientId], ClientId | None]) -> Onward:
    """Return which receivers lie behind which next node, given the next one to each of them.

    Those to which no way leads, for which that is None, are left out.
    """
    found: dict[ClientId, list[ClientId]] = {}
    for target in targets:
        if (node := next_to(target)) is not None:
            found.setdefault(node, []).append(target)
    return {node: tuple(sorted(found[node])) for node in sorted(found)}


def all_of(onward: Onward) -> list[ClientId]:
    """Return all receivers on some ways, by the next nodes."""
    return [each for behind in onward.values() for each in behind]
