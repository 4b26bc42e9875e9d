"""Envelopes: a message on its way, with what its header says."""

from fedsim.ports import Beacon, Message

BEACON = Beacon()
"""The empty message: one object, whoever sends it."""


class Envelope:
    """A message and what is charged for it; a broadcast is one envelope with many readers.

    Attributes:
        message: what is said.
        round: the round it belongs to.
        exchange: the number of the exchange that it opens or answers.
        payload_bits, header_bits, bits: what is charged, and the sum.
        data: the message as bytes, where it goes as such.
        word: the number of what is said, for a world that keeps a log; -1 where none does.
    """

    __slots__ = (
        "bits",
        "data",
        "exchange",
        "header_bits",
        "message",
        "payload_bits",
        "round",
        "word",
    )

    def __init__(
        self, message: Message, round_number: int, exchange: int, header_bits: int, word: int = -1
    ) -> None:
        self.message = message
        self.round = round_number
        self.exchange = exchange
        self.payload_bits = message.bits
        self.header_bits = header_bits
        self.bits = self.payload_bits + header_bits
        self.word = word
        self.data = b""

    def saying(self, message: Message) -> "Envelope":
        """Return the envelope with its message as a receiver has read it."""
        return Envelope(message, self.round, self.exchange, self.header_bits, self.word)


# Whose fault it is when the protocol is broken.


class LocalProtocolError(RuntimeError):
    """This end was asked for what the protocol does not allow now."""


class RemoteProtocolError(RuntimeError):
    """The other end has sent what the protocol does not allow."""
