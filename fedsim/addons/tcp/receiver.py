"""Receiver of a message's segments: reordering and acknowledgements."""

from math import inf
from typing import NamedTuple

EVERY = 2
"""Segments in order per acknowledgement: RFC 1122, RFC 5681."""

QUICK = 16
"""Segments that Linux acknowledges one by one after a pause (TCP_MAX_QUICKACKS)."""


GROWS = 60
"""First segments of a connection, which Linux acknowledges one by one while its receive window
grows (`tcp_grow_window`). Measured with a buffer of 1 MB. Kept connections ignore it, since it
covers a small part of them."""


class Acknowledgement(NamedTuple):
    """An acknowledgement.

    Attributes:
        number: the number below which all segments have arrived.
        early: the segment out of order that has triggered it, or -1.
        echo: the time at which the acknowledged segment was sent, s: the echoed timestamp of RFC
            7323.
    """

    number: int
    early: int
    echo: float


class TrainAcknowledgement(NamedTuple):
    """Acknowledgements of a train in order: one per segment, or one per two.

    Attributes:
        number: the number of the first acknowledgement.
        times: the number of acknowledgements.
        between: the time from one to the next, s.
        sent, next_sent: the send times that the first and the second one echo, s.
        pace: the time between the send times that later ones echo, s.
        every: the segments per acknowledgement.
    """

    number: int
    times: int
    between: float
    sent: float
    next_sent: float
    pace: float
    every: int = EVERY


class Receiver:
    """The receiver of one message.

    Args:
        delay: the delay of the acknowledgement of a single segment, s.
        quick: whether the first segment is acknowledged at once, as on a new connection.
        alone: the number of segments acknowledged one by one, as Linux does after a pause.
        grows: the number of first segments acknowledged one by one; see `GROWS`.

    Attributes:
        alone: the remaining ones of these.
        next: the number below which all segments have arrived.
        blocks: the contiguous blocks that have arrived out of order.
        due: the time at which a single segment is acknowledged, s; infinite if none waits.
        waits: the segments that are not acknowledged yet.
    """

    __slots__ = (
        "_acknowledged",
        "_delay",
        "_early",
        "_echo",
        "_grows",
        "alone",
        "blocks",
        "due",
        "next",
        "waits",
    )

    def __init__(self, delay: float, *, quick: bool, alone: int = 0, grows: int = 0) -> None:
        self._delay, self._grows = delay, grows
        self.alone = alone
        self._early = set[int]()
        self.blocks = 0
        self._echo, self._acknowledged = 0.0, 0
        self.waits = EVERY if quick else 0
        self.next, self.due = 0, inf

    @property
    def missing(self) -> bool:
        """Whether segments have arrived out of order."""
        return bool(self._early)

    @property
    def arrived(self) -> int:
        """The number of segments that have arrived."""
        return self.next + len(self._early)

    def take(self, number: int, sent: float, now: float) -> Acknowledgement | None:
        """Receive a segment; return the acknowledgement to send at once, if any."""
        if number != self.next:
            # A duplicate, and any segment out of order, is acknowledged at once (RFC 5681, section
            # 4.2).
            if number < self.next or number in self._early:
                return self._acknowledge(-1)
            # The segment starts a block, extends one, or joins the two beside it: one block more,
            # as many, or one fewer.
            self.blocks += 1 - (number - 1 in self._early) - (number + 1 in self._early)
            self._early.add(number)
            return self._acknowledge(number)
        # RFC 7323, section 4.3: the echoed timestamp is that of the first segment since the last
        # acknowledgement, so that round trips include the delay of acknowledgements.
        if number <= self._acknowledged:
            self._echo = sent
        self.next += 1
        if self._early:
            early = self._early
            # The segment has filled a gap: the block behind it, if it begins right there, is in
            # order now.
            self.blocks -= self.next in early
            while self.next in early:
                early.remove(self.next)
                self.next += 1
            return self._acknowledge(-1)
        self.waits += 1
        if self.alone:
            self.alone -= 1
        elif self.waits < EVERY and self.next > self._grows:
            self.due = now + self._delay
            return None
        return self._acknowledge(-1)

    def every(self, end: int) -> int:
        """Return the segments per acknowledgement, for a train that ends before segment `end`."""
        return 1 if end <= self._grows else EVERY

    def take_train(
        self, number: int, count: int, sent: tuple[float, float], end: float
    ) -> tuple[int, int, tuple[float, float]]:
        """Receive several segments in order, with none missing before them.

        Args:
            number: the number of the first segment.
            count: the number of segments.
            sent: the send time of the first one, and the time from one to the next, s.
            end: the arrival of the last one, s.

        Returns:
            The index of the first segment that triggers an acknowledgement, the number of
            acknowledgements, and the send times that the first two of them echo, s.
        """
        started, pace = sent
        every = self.every(number + count)
        # `waits` segments of the train before count towards the first acknowledgement.
        first = max(every - 1 - self.waits, 0)
        acknowledged = 1 + (count - 1 - first) // every if first < count else 0
        if number <= self._acknowledged:
            self._echo = started
        echo = self._echo
        self.next = number + count
        if not acknowledged:
            self.waits, self.due = self.waits + count, end + self._delay
            return first, 0, (echo, echo)
        # Segments after the last one that has triggered an acknowledgement.
        behind = count - 1 - first - every * (acknowledged - 1)
        self.waits, self._acknowledged = behind, self.next - behind
        self._echo = started + pace * (count - behind)
        # The segments after the last acknowledgement wait for a second one, or for the delay.
        self.due = end + self._delay if behind else inf
        return first, acknowledged, (echo, started + pace * (first + 1))

    def acknowledge_late(self) -> Acknowledgement:
        """Acknowledge a single segment after the delay for a second one."""
        return self._acknowledge(-1)

    def _acknowledge(self, early: int) -> Acknowledgement:
        self.waits, self.due, self._acknowledged = 0, inf, self.next
        return Acknowledgement(self.next, early, self._echo)
