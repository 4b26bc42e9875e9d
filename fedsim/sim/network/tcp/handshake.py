"""The handshake of a TCP connection: a round trip of small packets, which queues may drop."""

from collections.abc import Callable
from math import inf

from fedsim.sim.network.tcp.path import TcpLane

FIRST_TIMEOUT = 1.0
"""Of a SYN, s; doubled each time: RFC 6298."""


class Handshake:
    """A SYN on its way, sent again until it is answered.

    Args:
        lane: whose connection it opens.
        opened: called with the round trip, s, when the answer has come.

    Attributes:
        over: whether it is answered, or was given up.
    """

    __slots__ = ("_at", "_begun", "_hop", "_lane", "_opened", "_timeout", "over")

    def __init__(self, lane: TcpLane, opened: Callable[[float], None]) -> None:
        self._lane, self._opened = lane, opened
        self._timeout = FIRST_TIMEOUT
        self._begun = self._at = 0.0
        self._hop = 0
        self.over = False
        for queue in lane.path.shared:
            queue.claimed += 1
        self._send(None)

    def give_up(self) -> None:
        """Leave the queues."""
        if not self.over:
            self.over = True
            for queue in self._lane.path.shared:
                queue.claimed -= 1

    def _send(self, _: None) -> None:
        lane = self._lane
        now, path = lane.calendar.now, lane.path
        self._begun = self._at = now
        self._hop = 0
        if self.over:
            return
        if lane.loss is not None and lane.loss.losses(1):
            self._wait()
        elif path.crowded or any(queue.free > now for queue in path.shared):
            self._knock(None)
        else:  # all that may wait together have room, so nothing holds it up
            lane.calendar.call(now + path.trip, self._answer, None)

    def _wait(self) -> None:
        """Send it again when the time for its answer is over."""
        calendar = self._lane.calendar
        calendar.call(max(self._begun + self._timeout, calendar.now), self._send, None)
        self._timeout *= 2

    def _knock(self, _: None) -> None:
        """Go over the links to the next queue that it may meet others in."""
        if self.over:
            return
        calendar, path = self._lane.calendar, self._lane.path
        for stage in path.stages[self._hop :]:
            if stage.shared and self._at > calendar.now:
                calendar.call(self._at, self._knock, None)
                return
            through = stage.queue.knock(self._at, path.header, path.segment)
            if through == inf:
                self._wait()
                return
            self._at = through + stage.delay
            self._hop += 1
        calendar.call(self._at + path.back, self._answer, None)

    def _answer(self, _: None) -> None:
        if not self.over:
            self.give_up()
            self._opened(self._lane.calendar.now - self._begun)
