"""The messages of one direction of an exchange."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.radios.base import header_bits
from fedsim.ports import SERVER, ClientId
from fedsim.protocol.transport import Envelope
from fedsim.record.log import EventLog
from fedsim.record.schema import MESSAGE
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.order import Numbers
from fedsim.sim.arrays.radios import Passage
from fedsim.sim.arrays.rows import RowBlocks

Bits = NDArray[np.int64]


class MessageBatch:
    """A message from or to each of some clients.

    Args:
        clients: their numbers, shape (n,).
        envelopes: of the messages.
        kinds: which of the envelopes stands for each message, shape (n,), where they are equal but
            for their content; None where each has its own.

    Attributes:
        clients, envelopes: see the arguments.
        bits: of each, without framing, shape (n,) or ().
    """

    def __init__(
        self, clients: Ids, envelopes: Sequence[Envelope], kinds: Numbers | None = None
    ) -> None:
        self.clients = clients
        self.envelopes = envelopes
        self._kinds: Any = slice(None) if kinds is None else kinds
        self._payload: Bits = self._each(lambda envelope: envelope.payload_bits)
        self._words: Bits = self._each(lambda envelope: envelope.word)
        self.bits: Bits = self._payload + (envelopes[0].header_bits if envelopes else 0)

    def _each(self, of: Callable[[Envelope], int]) -> Bits:
        """Return a figure of each message, shape (n,), or (1,) where there is one for all."""
        figures: Bits = np.array([of(each) for each in self.envelopes], np.int64)[self._kinds]
        return figures

    @classmethod
    def of_post(cls, post: Sequence[tuple[Sequence[ClientId], Envelope]]) -> Self:
        """Return the messages of a server."""
        clients = np.array([client for some, _ in post for client in some], np.int64)
        if len(post) == 1:
            return cls(clients, [post[0][1]])
        return cls(clients, [envelope for some, envelope in post for _ in some])

    @property
    def every(self) -> Sequence[Envelope]:
        """The envelope of each message of a server, shape (n,)."""
        count = len(self.clients)
        return self.envelopes if len(self.envelopes) == count else [self.envelopes[0]] * count

    @property
    def total(self) -> int:
        """The bits of all messages, without framing."""
        return int(np.broadcast_to(self.bits, self.clients.shape).sum())

    @property
    def filled(self) -> int:
        """How many carry something."""
        return int(np.count_nonzero(np.broadcast_to(self._payload, self.clients.shape)))

    def framing(self, table: ClassTable) -> Bits:
        """Return the bits of the headers of their packets, shape (n,) or (1,)."""
        ids = self.clients
        return header_bits(self.bits, table.of("overhead", ids), table.of("packet", ids))

    def name(self, log: EventLog, places: Numbers) -> None:
        """Give the messages the numbers of their names in the log.

        Args:
            log: counts names as they are first used.
            places: of the events in which they were sent.
        """
        labels = [envelope.message.label for envelope in self.envelopes]
        if len(set(labels)) > 1:
            whose = np.arange(len(labels))[self._kinds]
            first = np.full(len(labels), len(places) + int(places.max()) + 1)
            np.minimum.at(first, whose, places)
            for kind in np.argsort(first).tolist():
                log.word(labels[kind])
        for envelope, label in zip(self.envelopes, labels, strict=True):
            envelope.word = log.word(label)
        self._words[:] = self._each(lambda envelope: envelope.word)

    def write(self, moved: Passage, framing: Bits, rows: RowBlocks, *, up: bool) -> None:
        """Write the rows of messages that have arrived."""
        sender, receiver = (self.clients, SERVER) if up else (SERVER, self.clients)
        rows.add(
            moved.events,
            MESSAGE,
            sender,
            peer=receiver,
            t=moved.over,
            duration=moved.over - moved.began,
            round=self.envelopes[0].round,
            message=self._words,
            payload_bits=self._payload,
            header_bits=self.bits - self._payload,
            transport_bits=framing,
            joules=moved.joules if up else 0.0,
            peer_joules=0.0 if up else moved.joules,
        )
