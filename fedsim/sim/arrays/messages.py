"""The messages of one direction of an exchange."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import SERVER, ClientId
from fedsim.physics.radios.channel import header_bits
from fedsim.protocol.transport import Envelope
from fedsim.results.record.schema import MESSAGE, Event
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.order import Numbers
from fedsim.sim.arrays.radios import Passage
from fedsim.sim.arrays.rows import SPENT, RowBlocks
from fedsim.sim.arrays.supplies import NO_SLOT

Bits = NDArray[np.int64]


class MessageBatch:
    """One message per client, all to the server or all from it.

    Args:
        clients: the numbers of the clients, shape (n,).
        envelopes: the envelopes, or representatives that differ from the others in content only.
        kinds: the index of each message's representative, shape (n,); None without representatives.

    Attributes:
        clients, envelopes: see the arguments.
        bits: the bits of each message without framing, shape (n,) or (1,).
    """

    def __init__(
        self, clients: Ids, envelopes: Sequence[Envelope], kinds: Numbers | None = None
    ) -> None:
        self.clients = clients
        self.envelopes = envelopes
        self._parts = list[MessageBatch]()
        self._kinds: Any = slice(None) if kinds is None else kinds
        self._payload: Bits = self._column(lambda envelope: envelope.payload_bits)
        self._words: Bits = self._column(lambda envelope: envelope.word)
        self.bits: Bits = self._payload + (envelopes[0].header_bits if envelopes else 0)

    def _column(self, quantity: Callable[[Envelope], int]) -> Bits:
        """Return a quantity of each message, shape (n,), or (1,) if one envelope serves all."""
        # `_kinds` expands representatives to messages; a slice keeps the values as they are.
        column: Bits = np.array([quantity(envelope) for envelope in self.envelopes], np.int64)[
            self._kinds
        ]
        return column

    @classmethod
    def of_post(cls, post: Sequence[tuple[Sequence[ClientId], Envelope]]) -> Self:
        """Return the buffered messages of a server."""
        clients = np.concatenate([_numbers(receivers) for receivers, _ in post])
        if len(post) == 1:
            return cls(clients, [post[0][1]])
        # Several messages were sent in one instant: one envelope per client.
        return cls(clients, [envelope for receivers, envelope in post for _ in receivers])

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
        """The number of messages with a payload, which are no beacons."""
        return int(np.count_nonzero(np.broadcast_to(self._payload, self.clients.shape)))

    def framing(self, table: ClassTable) -> Bits:
        """Return the bits of packet headers, shape (n,) or (1,)."""
        ids = self.clients
        return header_bits(self.bits, table.of("overhead", ids), table.of("packet", ids))

    def name(self, events: Numbers, rows: RowBlocks) -> None:
        """Register the names of the messages with the log, in the events of sending."""
        labels = [envelope.message.label for envelope in self.envelopes]
        names = list(dict.fromkeys(labels))
        which = np.array([names.index(label) for label in labels])[self._kinds]

        def enter(numbers: Sequence[int]) -> None:
            words = dict(zip(names, numbers, strict=True))
            for envelope, label in zip(self.envelopes, labels, strict=True):
                envelope.word = words[label]
            self.enter_words()

        rows.name(events, names, np.broadcast_to(which, events.shape), enter)

    def enter_words(self) -> None:
        """Fill in the numbers of the messages' names; rows that hold the array change, too."""
        # In place, since rows refer to this array.
        self._words[:] = self._column(lambda envelope: envelope.word)
        for part in self._parts:
            part.enter_words()

    def write(self, moved: Passage, framing: Bits, rows: RowBlocks, *, up: bool) -> None:
        """Write the rows of messages that have arrived."""
        again = np.broadcast_to(moved.again > 0, self.clients.shape)
        apart = again if moved.slots is None else again | (moved.slots != NO_SLOT)
        if not apart.any():
            self.write_whole(moved, framing, rows, up=up)
            return
        # Three blocks: messages in one record; retransmitted ones; and those of battery clients,
        # whose rows show a state of charge.
        for mask, whole in ((~apart, True), (again, False), (apart & ~again, False)):
            if mask.any():
                batch = self._take(np.flatnonzero(mask))
                write = batch.write_whole if whole else batch.write_apart
                write(moved.take(mask), _some(framing, mask), rows, up=up)

    def _take(self, indices: Numbers) -> "MessageBatch":
        """Return some of the messages; `enter_words` reaches them, too."""
        all_indices = np.arange(len(self.clients))
        # If each message has an envelope of its own, the part keeps all envelopes and picks its own
        # by index, so that `enter_words` finds the numbers there.
        kinds = (
            all_indices
            if isinstance(self._kinds, slice) and len(self.envelopes) > 1
            else self._kinds
        )
        kinds = kinds[indices] if isinstance(kinds, np.ndarray) else None
        batch = MessageBatch(self.clients[indices], self.envelopes, kinds)
        self._parts.append(batch)
        return batch

    def write_whole(self, moved: Passage, framing: Bits, rows: RowBlocks, *, up: bool) -> None:
        """Write messages without retransmissions: one record for sending and receiving."""
        sender, receiver = (self.clients, SERVER) if up else (SERVER, self.clients)
        rows.add(
            moved.events,
            MESSAGE,
            sender,
            peer=receiver,
            t=moved.over,
            duration=moved.over - moved.began,
            **self._identity(framing),
            joules=moved.joules if up else 0.0,
            peer_joules=0.0 if up else moved.joules,
        )

    def write_apart(self, moved: Passage, framing: Bits, rows: RowBlocks, *, up: bool) -> None:
        """Write messages in separate rows; either all have retransmissions or none has.

        See `fedsim.sim.network.message_log.MessageLog`.
        """
        ends = (self.clients, SERVER) if up else (SERVER, self.clients)
        (sender, receiver), events = ends, moved.events
        bits, spans = self.bits + framing, moved.over - moved.began
        repeats = bool(moved.again.any())
        # Time and energy are split between first transmission and retransmission by their bits.
        first = bits / (bits + moved.again) if repeats else np.ones(1)
        sender_joules = moved.joules if up else np.zeros(len(spans))
        times = {"t": moved.over, "round": self.envelopes[0].round, "message": self._words}
        sent = self._identity(framing)
        charge = {} if moved.slots is None else {"state_of_charge": moved.slots}
        # Only the client has a battery: the sender of an uplink, the receiver of a downlink.
        sender_charge, later = charge if up else {}, {"peer": receiver, SPENT: 0.0}
        # The SEND row carries the energy of the whole message for the run's sum (`SPENT`), and
        # later rows carry 0. So sums of joules round once per message, as event by event.
        costs = {"joules": sender_joules * first, SPENT: moved.joules, **sender_charge}
        rows.add(
            events, Event.SEND, sender, **later | sent | costs, t=moved.over, duration=spans * first
        )
        if repeats:
            rows.add(
                events,
                Event.RETRANSMIT,
                sender,
                **later | times | sender_charge,
                duration=spans * (1 - first),
                transport_bits=moved.again,
                joules=sender_joules * (1 - first),
            )
        received = {"joules": moved.joules - sender_joules, SPENT: 0.0, "peer": sender}
        received |= {} if up else charge
        rows.add(events, Event.RECEIVE, receiver, **sent | received, t=moved.over, duration=spans)

    def _identity(self, framing: Bits) -> dict[str, object]:
        """Return the columns that identify messages and count their bits."""
        return {
            "round": self.envelopes[0].round,
            "message": self._words,
            "payload_bits": self._payload,
            "header_bits": self.bits - self._payload,
            "transport_bits": framing,
        }


def _numbers(clients: Sequence[ClientId]) -> Ids:
    """Return the numbers of clients as an array."""
    if isinstance(clients, range):  # a whole fleet
        return np.arange(clients.start, clients.stop, clients.step)
    return np.array(clients, np.int64)


def _some(bits: Bits, mask: NDArray[np.bool_]) -> Bits:
    """Return the bits of some messages, or the single value that serves all."""
    return bits[mask] if len(bits) > 1 else bits
