"""The manifest: what the log and the books say of every message, delivered or not."""

from math import nan

from fedsim.ports import ClientId
from fedsim.protocol.envelope import Envelope
from fedsim.record.log import EventLog
from fedsim.record.schema import Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.lanes import Lane

LOST, ABORTED, IN_FLIGHT = "lost", "aborted", "in flight"
"""What becomes of a message that does not arrive."""


class Manifest:
    """Writes the rows of messages, and adds up their bits.

    Attributes:
        delivered: bits handed over, a broadcast counted once.
        echoed: the same for the other listeners of a broadcast.
        lost: bits given up, and bits sent again.
        in_flight: bits under way at the end.
    """

    def __init__(self, calendar: Calendar, log: EventLog) -> None:
        self.delivered = 0
        self.echoed = 0
        self.lost = 0
        self.in_flight = 0
        self._calendar = calendar
        self._log = log
        self._append = log.append_message

    def deliver(self, lane: Lane, envelope: Envelope, now: float, joules: float) -> None:
        """Write down a message that has arrived, and of which nothing was sent again."""
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
        """Write down a message whose last bit has flowed."""
        if lane.again_bits or lane.doomed or lane.radio.supply is not None:
            self._close_in_full(lane, envelope, joules)
        else:
            self.deliver(lane, envelope, self._calendar.now, joules)

    def _close_in_full(self, lane: Lane, envelope: Envelope, joules: float) -> None:
        """Write down a message with what was sent again of it, and whether it was lost.

        Time and energy are shared between the first transmission and the others by their
        bits; the receiver's energy stands in one row.
        """
        bits, again = envelope.bits + lane.framing_bits, lane.again_bits
        span = self._calendar.now - lane.began
        first = bits / (bits + again) if again else 1.0
        own = joules if lane.up else 0.0
        detail = LOST if lane.doomed else ""
        sent = (envelope.payload_bits, envelope.header_bits, lane.framing_bits)
        times, costs = (span * first, span * (1 - first)), (own * first, own * (1 - first))
        self._row(lane, envelope, Event.SEND, times[0], sent, costs[0], detail)
        self._repeat(lane, envelope, times[1], costs[1])
        if lane.doomed:
            self._lose(lane, envelope, bits, LOST, span, joules - own)
            return
        self.delivered += bits
        self._row(lane, envelope, Event.RECEIVE, span, sent, joules - own)

    def break_off(
        self, lane: Lane, envelope: Envelope, span: float, joules: float, why: str
    ) -> None:
        """Write down a message that will not arrive, with what it has cost so far.

        Its energy is the client's, who sends or receives it; its bits are the sender's.
        """
        own = joules if lane.up else 0.0
        framing = 0 if lane.framing is None else lane.framing.bits(envelope.bits)
        sent = (envelope.payload_bits, envelope.header_bits, framing)
        self._row(lane, envelope, Event.SEND, span, sent, own, why)
        if envelope is lane.current:  # what waits has not been sent, so nothing of it again
            self._repeat(lane, envelope, 0.0, 0.0)
        bits = envelope.bits + framing
        if why == IN_FLIGHT:
            self.in_flight += bits
            self._spend(lane, envelope, span, joules - own, why)
        else:
            self._lose(lane, envelope, bits, why, span, joules - own)

    def _repeat(self, lane: Lane, envelope: Envelope, span: float, joules: float) -> None:
        """Write down what was sent again of the current message, if anything."""
        if lane.again_bits:
            self.lost += lane.again_bits
            bits = (0, 0, lane.again_bits)
            self._row(lane, envelope, Event.RETRANSMIT, span, bits, joules)

    def _lose(
        self, lane: Lane, envelope: Envelope, bits: int, why: str, span: float, joules: float
    ) -> None:
        self.lost += bits
        self._spend(lane, envelope, span, joules, why)
        sent = (envelope.payload_bits, envelope.header_bits, bits - envelope.bits)
        self._row(lane, envelope, Event.LOST, 0.0, sent, 0.0, why)

    def _spend(self, lane: Lane, envelope: Envelope, span: float, joules: float, why: str) -> None:
        """Write down what a download that is not delivered has cost its receiver."""
        if joules:
            self._row(lane, envelope, Event.RECEIVE, span, (0, 0, 0), joules, why)

    def _row(
        self,
        lane: Lane,
        envelope: Envelope,
        event: Event,
        span: float,
        bits: tuple[int, int, int],
        joules: float,
        detail: str = "",
    ) -> None:
        # A message stands in a row of its sender, but for what it is to its receiver.
        ends = self._ends(lane, envelope)
        node, peer = ends[::-1] if event is Event.RECEIVE else ends
        supply = lane.radio.supply
        self._log.append(
            self._calendar.now,
            span,
            event,
            node,
            peer,
            envelope.round,
            envelope.word,
            *bits,
            joules=joules,
            state_of_charge=nan if supply is None or node != lane.client else supply.share,
            detail=self._log.word(detail),
        )

    def _ends(self, lane: Lane, envelope: Envelope) -> tuple[ClientId, ClientId]:  # noqa: ARG002
        """Return who sends a message to whom."""
        return lane.sender, lane.receiver
