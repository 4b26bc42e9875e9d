"""The handshake of a TCP connection: a round trip of small packets, which queues may drop."""

from collections.abc import Callable

from fedsim.sim.network.tcp.path import TcpLane
from fedsim.sim.network.tcp.queue import SegmentTrain

FIRST_TIMEOUT = 1.0
"""Of a SYN, s; doubled each time: RFC 6298."""

LINEAR = 4
"""The timeouts behind which Linux waits no longer than before: `tcp_syn_linear_timeouts`."""

OPTIONS = 8 * 4.0
"""The bits by which a SYN and its answer are longer than other packets without payload: it permits
selective acknowledgements (RFC 2018), and scales windows (RFC 7323)."""

SYN, ANSWER = -2, -1
"""The numbers of its packets, which are no segments of a message."""


class Handshake:
    """A SYN on its way, sent again until it is answered; and what answers that, before any data.

    Args:
        lane: whose connection it opens.
        opened: called with the time at which the SYN was sent, s, when its answer has come.

    Attributes:
        over: whether it is answered, or was given up.
        confirmed: whether the packet has arrived that the sender acknowledges the answer with.
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
        """Send it, and again when the time for its answer is over."""
        if self.over or self._answered:
            return
        lane = self._lane
        now, path = lane.calendar.now, lane.path
        self._begun = now
        if lane.loss is None and not path.shared and all(each.free <= now for each in path.queues):
            # No other may hold it up.
            longer = OPTIONS * (path.back_bit + path.free_bit)
            longer += sum([stage.queue.lasts(OPTIONS) for stage in path.stages])
            lane.calendar.call(now + path.trip + longer, self._end, None)
            return
        lane.calendar.call(now + self._timeout, self._send, None)
        if self._linear:
            self._linear -= 1
        else:
            self._timeout *= 2
        bits = path.header + OPTIONS
        lane.forward(SegmentTrain(self, SYN, 1, bits, now, 0.0, now, now))

    def deliver_one(self, number: int, bits: float, sent: float, at: float) -> None:  # noqa: ARG002
        """Let a packet arrive: see `TcpTransfer.deliver_one`."""
        if number == SYN and not self._answered:
            self._answered = True
            path = self._lane.path
            answer = path.back + OPTIONS * path.back_bit
            self._lane.calendar.call(at + answer, self._end, None)

    def _end(self, _: None) -> None:
        if self.over:
            return
        lane, now = self._lane, self._lane.calendar.now
        last = _Confirmation(self)
        lane.forward(SegmentTrain(last, ANSWER, 1, lane.path.header, now, 0.0, now, now))
        self.over = True
        self._opened(self._begun)


class _Confirmation:
    """The owner of the last packet of a handshake, which goes ahead of the data."""

    __slots__ = ("_handshake",)

    over = False

    def __init__(self, handshake: Handshake) -> None:
        self._handshake = handshake

    def deliver_one(self, number: int, bits: float, sent: float, at: float) -> None:  # noqa: ARG002
        """Let it arrive."""
        self._handshake.confirmed = True
