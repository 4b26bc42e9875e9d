"""The client's endpoint: received requests, replies, and how silence is signalled."""

from fedsim.ports import SILENCE, ClientId, Message, Payload, Silence
from fedsim.protocol.carriage import VALUES, Carriage, Packing
from fedsim.protocol.envelope import BEACON, Envelope


class ClientProtocol:
    """A client's endpoint of the protocol.

    Args:
        client: its number.
        packing: the packers of its messages.
        beacons: whether silence is signalled by an empty message.
        header_bits: in front of every message.
        carriage: how messages are carried.

    Attributes:
        round: of the message that is being answered; 0 before the first one.
        packing: see above.
    """

    __slots__ = ("_beacons", "_carriage", "_header_bits", "id", "packing", "round")

    def __init__(
        self,
        client: ClientId,
        packing: Packing,
        *,
        beacons: bool,
        header_bits: int,
        carriage: Carriage = VALUES,
    ) -> None:
        self.id = client
        self.round = 0
        self.packing = packing
        self._beacons = beacons
        self._header_bits = header_bits
        self._carriage = carriage

    def open(self, envelope: Envelope) -> Message:
        """Receive an envelope; return its message."""
        self.round = envelope.round
        return envelope.message

    def answer(self, asked: Envelope, reply: Message | Silence) -> Envelope | None:
        """Return the envelope that answers a request; None if nothing is sent.

        Raises:
            TypeError: the reply is neither a message nor `SILENCE`.
        """
        if isinstance(reply, Message):
            said = reply
        elif reply is not SILENCE:
            raise TypeError(f"a handler returns a Message or SILENCE, not {reply!r}")
        elif self._beacons:
            said = BEACON
        else:
            return None
        envelope = Envelope(said, asked.round, asked.exchange, self._header_bits)
        return self._carriage.seal(envelope, self.id)

    def take_back(self, message: Message) -> None:
        """Roll back the packers' state after the loss of a message."""
        payload: Payload
        for payload in message.payloads():
            self.packing.take_back(payload)
