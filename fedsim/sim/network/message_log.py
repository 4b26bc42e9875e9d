"""The log rows of messages, delivered or not, and the totals of their bits."""

from fedsim.core.ports import ClientId
from fedsim.protocol.transport import Envelope
from fedsim.results.record.log import EventLog
from fedsim.results.record.schema import Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.lane_states import LaneState
from fedsim.sim.network.lanes import Lane
from fedsim.sim.power.supply import Supply, state_of_charge

# Read once, as looking up a member of an enumeration takes time.
DOOMED = LaneState.DOOMED
SEND, RECEIVE, RETRANSMIT = Event.SEND, Event.RECEIVE, Event.RETRANSMIT

LOST, ABORTED, IN_FLIGHT = "lost", "aborted", "in flight"
"""Outcomes of a message that does not arrive."""

RowBits = tuple[int, int, int]
"""The bits of a row: payload, header, and framing or retransmitted bits."""

NO_BITS: RowBits = (0, 0, 0)


def append_row(
    log: EventLog,
    now: float,
    span: float,
    event: Event,
    node: ClientId,
    peer: ClientId,
    envelope: Envelope,
    bits: RowBits,
    joules: float,
    supply: Supply | None,
    detail: str = "",
) -> None:
    """Add a row of a message; `supply` is the battery of the node, if it has one."""
    # Positional arguments: under TCP most messages have three rows, and keywords are slower.
    payload_bits, header_bits, other_bits = bits
    log.append(
        now,
        span,
        event,
        node,
        peer,
        envelope.round,
        envelope.word,
        payload_bits,
        header_bits,
        other_bits,
        joules,
        state_of_charge(supply),
        log.word(detail),
    )


class MessageLog:
    """Writes the log rows of messages, and adds up their bits.

    Attributes:
        delivered: received bits; a broadcast counts once.
        repeated_receptions: received bits of the other listeners of a broadcast.
        lost: abandoned bits, and retransmitted bits.
        in_flight: bits in transit at the end.
    """

    def __init__(self, calendar: Calendar, log: EventLog) -> None:
        self.delivered = 0
        self.repeated_receptions = 0
        self.lost = 0
        self.in_flight = 0
        self._calendar = calendar
        self._log = log
        self._append = log.append_message

    def deliver(self, lane: Lane, envelope: Envelope, now: float, joules: float) -> None:
        """Record a message that has arrived without retransmissions."""
        self.delivered += envelope.bits + lane.framing_bits
        self._append(
            now,
            now - lane.began,
            lane.sender,
            lane.receiver,
            envelope.round,
            envelope.word,
            envelope.payload_bits,
            envelope.header_bits,
            lane.framing_bits,
            joules if lane.up else 0.0,
            0.0 if lane.up else joules,
        )

    def close(self, lane: Lane, envelope: Envelope, joules: float) -> None:
        """Record a message whose last bit has flowed."""
        if lane.again_bits or lane.state is DOOMED or lane.radio.supply is not None:
            self._close_in_full(lane, envelope, joules)
        else:
            self.deliver(lane, envelope, self._calendar.now, joules)

    def _close_in_full(self, lane: Lane, envelope: Envelope, joules: float) -> None:
        """Record a message with its retransmissions, and whether it was lost.

        Time and energy are split between first transmission and retransmissions by their bits. The
        receiver's energy is in one row.
        """
        bits, again = envelope.bits + lane.framing_bits, lane.again_bits
        span = self._calendar.now - lane.began
        first = bits / (bits + again) if again else 1.0
        sender_joules = joules if lane.up else 0.0
        doomed = lane.state is DOOMED
        detail = LOST if doomed else ""
        sent = (envelope.payload_bits, envelope.header_bits, lane.framing_bits)
        times, costs = (
            (span * first, span * (1 - first)),
            (sender_joules * first, sender_joules * (1 - first)),
        )
        self._row(lane, envelope, SEND, times[0], sent, costs[0], detail)
        self._repeat(lane, envelope, times[1], costs[1])
        if doomed:
            self._lose(lane, envelope, bits, LOST, span, joules - sender_joules)
            return
        self.delivered += bits
        self._row(lane, envelope, RECEIVE, span, sent, joules - sender_joules)

    def log_undelivered(
        self, lane: Lane, envelope: Envelope, span: float, joules: float, why: str
    ) -> None:
        """Record a message that will not arrive, with its cost so far.

        Its energy is that of the sending or receiving client; its bits are the sender's.
        """
        sender_joules = joules if lane.up else 0.0
        framing = lane.count_framing(envelope.bits)
        sent = (envelope.payload_bits, envelope.header_bits, framing)
        self._row(lane, envelope, SEND, span, sent, sender_joules, why)
        if envelope is lane.current:  # a queued message has no retransmissions
            self._repeat(lane, envelope, 0.0, 0.0)
        bits = envelope.bits + framing
        if why == IN_FLIGHT:
            self.in_flight += bits
            self._spend(lane, envelope, span, joules - sender_joules, why)
        else:
            self._lose(lane, envelope, bits, why, span, joules - sender_joules)

    def _repeat(self, lane: Lane, envelope: Envelope, span: float, joules: float) -> None:
        """Record the retransmissions of the current message, if any."""
        if lane.again_bits:
            self.lost += lane.again_bits
            bits = (0, 0, lane.again_bits)
            self._row(lane, envelope, RETRANSMIT, span, bits, joules)

    def _lose(
        self, lane: Lane, envelope: Envelope, bits: int, why: str, span: float, joules: float
    ) -> None:
        self.lost += bits
        self._spend(lane, envelope, span, joules, why)
        # `bits` less the message is the framing with which it was charged, which may be that of
        # another radio than the lane's.
        sent = (envelope.payload_bits, envelope.header_bits, bits - envelope.bits)
        self._row(lane, envelope, Event.LOST, 0.0, sent, 0.0, why)

    def _spend(self, lane: Lane, envelope: Envelope, span: float, joules: float, why: str) -> None:
        """Record the receiver's cost of a download that is not delivered."""
        if joules:
            self._row(lane, envelope, RECEIVE, span, NO_BITS, joules, why)

    def _row(
        self,
        lane: Lane,
        envelope: Envelope,
        event: Event,
        span: float,
        bits: RowBits,
        joules: float,
        detail: str = "",
    ) -> None:
        # Most rows belong to the sender of a message, and rows of receptions to the receiver.
        node, peer = self._ends(lane, envelope)
        if event is RECEIVE:
            node, peer = peer, node
        supply = lane.radio.supply if node == lane.client else None
        now = self._calendar.now
        append_row(self._log, now, span, event, node, peer, envelope, bits, joules, supply, detail)

    def _ends(self, lane: Lane, envelope: Envelope) -> tuple[ClientId, ClientId]:
        """Return sender and receiver of a message."""
        return lane.sender, lane.receiver
