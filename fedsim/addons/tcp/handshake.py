"""Handshake of a TCP connection: a round trip of small packets, which queues may drop."""

from collections.abc import Callable

from fedsim.addons.tcp.path import TcpLane
from fedsim.addons.tcp.queue import SegmentTrain

FIRST_TIMEOUT = 1.0
"""First timeout of a SYN, s; doubled at each repetition: RFC 6298."""

LINEAR = 4
"""Number of timeouts before Linux starts to double them: `tcp_syn_linear_timeouts`."""

OPTIONS = 8 * 4.0
"""Additional bits of a SYN and of its answer: options for selective acknowledgements (RFC 2018) and
window scaling (RFC 7323)."""

SYN, ANSWER = -2, -1
"""The numbers of its packets, which are no segments of a message."""


class Handshake:
    """A SYN that is repeated until it is answered, and the confirmation that precedes data.

    Args:
        lane: the lane whose connection it opens.
        opened: called when the answer has arrived, with the time at which the SYN was sent, s.

    Attributes:
        over: whether the handshake is complete or was given up.
        confirmed: whether the sender's confirmation of the answer has arrived.
    """

    __slots__ = (
        "_answered",
        "_begun",
        "_lane",
        "_linear",
        "_opened",
        "_timeout",
        "confirmed",
        "over",
    )

    def __init__(self, lane: TcpLane, opened: Callable[[float], None]) -> None:
        self._lane, self._opened = lane, opened
        self._timeout = FIRST_TIMEOUT
        self._linear = LINEAR if lane.law.stack == "linux" else 0
        self._begun = 0.0
        self._answered = self.over = self.confirmed = False
        self._send(None)

    def _send(self, _: None) -> None:
        """Send the SYN, and schedule its repetition."""
        if self.over or self._answered:
            return
        lane = self._lane
        now, path = lane.calendar.now, lane.path
        self._begun = now
        if (
            lane.loss is None
            and not path.shared
            and all(queue.free <= now for queue in path.queues)
        ):
            # Nothing can delay the handshake: its end is computed at once.
            longer = OPTIONS * (path.back_bit + path.free_bit)
            longer += sum([stage.queue.lasts(OPTIONS) for stage in path.stages])
            lane.calendar.call(now + path.trip + longer, self._end, None)
            return
        lane.calendar.call(now + self._timeout, self._send, None)
        # Linux repeats the SYN at a constant interval first, and doubles it only afterwards.
        if self._linear:
            self._linear -= 1
        else:
            self._timeout *= 2
        bits = path.header + OPTIONS
        lane.forward(SegmentTrain(self, SYN, 1, bits, now, 0.0, now, now))

    def deliver_one(self, number: int, bits: float, sent: float, at: float) -> None:
        """Receive a packet: see `TcpTransfer.deliver_one`."""
        # The answer takes a fixed time, as all acknowledgements: they do not queue in this model.
        if number == SYN and not self._answered:
            self._answered = True
            path = self._lane.path
            answer = path.back + OPTIONS * path.back_bit
            self._lane.calendar.call(at + answer, self._end, None)

    def _end(self, _: None) -> None:
        # The message may have been stopped meanwhile.
        if self.over:
            return
        lane, now = self._lane, self._lane.calendar.now
        last = _Confirmation(self)
        # The confirmation leaves before the first data, on the same path.
        lane.forward(SegmentTrain(last, ANSWER, 1, lane.path.header, now, 0.0, now, now))
        # Before `_opened`, which sends the first data.
        self.over = True
        self._opened(self._begun)


class _Confirmation:
    """The owner of the last packet of a handshake, which precedes the data."""

    __slots__ = ("_handshake",)

    over = False

    def __init__(self, handshake: Handshake) -> None:
        self._handshake = handshake

    def deliver_one(self, number: int, bits: float, sent: float, at: float) -> None:
        """Receive the packet."""
        self._handshake.confirmed = True
