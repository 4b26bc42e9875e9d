"""Envelopes: a message in transit with the contents of its header."""

from fedsim.ports import Beacon, Message

BEACON = Beacon()
"""The empty message, a shared singleton."""


class Envelope:
    """A message and its charged size; a broadcast is one envelope with several receivers.

    Attributes:
        message: the content.
        round: the round it belongs to.
        exchange: the number of the exchange that it opens or answers.
        payload_bits, header_bits, bits: what is charged, and the sum.
        data: the message as bytes, where it goes as such.
        word: the log's number of the message name; -1 without a log.
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
        """Return the envelope with its message as decoded by a receiver."""
        return Envelope(message, self.round, self.exchange, self.header_bits, self.word)


# Protocol violations, by the endpoint that caused them.


class LocalProtocolError(RuntimeError):
    """This endpoint was called in a way that the protocol does not allow in its state."""


class RemoteProtocolError(RuntimeError):
    """The remote endpoint sent something that the protocol does not allow."""
