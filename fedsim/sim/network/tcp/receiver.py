"""The receiver of a message's segments: what arrives early, and when it acknowledges."""

from math import inf
from typing import NamedTuple

EVERY = 2
"""The segments in order that are acknowledged at once: RFC 1122, RFC 5681."""

QUICK = 16
"""The segments that Linux acknowledges one by one after a pause (TCP_MAX_QUICKACKS)."""


GROWS = 60
"""The first segments of a connection, which Linux acknowledges one by one while the window that it
offers grows (tcp_grow_window): so many with a buffer of 1 MB, as measured. Left out where
connections are kept, of which these are a small part."""


class Acknowledgement(NamedTuple):
    """What a receiver says.

    Attributes:
        number: all segments before this one have arrived.
        early: the segment that has made it say so, where one before it is missing; else -1.
        echo: when the segment was sent that it has waited for, s: RFC 7323's echoed timestamp.
    """

    number: int
    early: int
    echo: float


class TrainAcknowledgement(NamedTuple):
    """What a receiver says of a train in order: an acknowledgement for each segment, or two.

    Attributes:
        number: what the first of these has as its number.
        times: how many these acknowledgements are.
        between: the time from one to the next, s.
        sent, next_sent: when the segments were sent that the first and the second have waited for,
            s.
        pace: the same from one to the next behind these, s.
        every: how many segments more each one acknowledges than the one before.
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
        delay: how long it waits for a second segment, s.
        quick: whether it acknowledges the first one at once, as that of a new connection does.
        alone: how many it acknowledges one by one, as Linux does after a pause.
        grows: how many of the first ones, as Linux does while its window grows.

    Attributes:
        alone: how many of these are to come.
        next: all segments before this one have arrived.
        blocks: the pieces of the message that have arrived behind that.
        due: when it acknowledges a single segment, s; infinite where none waits for that.
    """

    __slots__ = (
        "_delay",
        "_early",
        "_echo",
        "_grows",
        "_said",
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
        self._echo, self._said = 0.0, 0
        self.waits = EVERY if quick else 0  # segments that were not acknowledged
        self.next, self.due = 0, inf

    @property
    def missing(self) -> bool:
        """Whether segments have arrived before one that has not."""
        return bool(self._early)

    @property
    def arrived(self) -> int:
        """The number of segments that have arrived."""
        return self.next + len(self._early)

    def take(self, number: int, sent: float, now: float) -> Acknowledgement | None:
        """Take a segment; return what is said at once, if anything."""
        if number != self.next:
            if number < self.next or number in self._early:
                return self._say(-1)
            self.blocks += 1 - (number - 1 in self._early) - (number + 1 in self._early)
            self._early.add(number)
            return self._say(number)
        if number <= self._said:
            self._echo = sent
        self.next += 1
        if self._early:
            early = self._early
            self.blocks -= self.next in early
            while self.next in early:
                early.remove(self.next)
                self.next += 1
            return self._say(-1)
        self.waits += 1
        if self.alone:
            self.alone -= 1
        elif self.waits < EVERY and self.next > self._grows:
            self.due = now + self._delay
            return None
        return self._say(-1)

    def every(self, end: int) -> int:
        """Return how many segments are acknowledged at once, of a train that ends before one."""
        return 1 if end <= self._grows else EVERY

    def take_train(
        self, number: int, count: int, sent: tuple[float, float], end: float
    ) -> tuple[int, int, tuple[float, float]]:
        """Take several segments in order, with none missing before them.

        Args:
            number: of the first one.
            count: of them.
            sent: when the first one was sent, and each one after the one before it, s.
            end: when the last one arrives, s.

        Returns:
            Which of them, from 0, is the first that is acknowledged at once, how many are, and
            when the segments were sent that the first and the second of these acknowledgements
            have waited for, s.
        """
        started, pace = sent
        every = self.every(number + count)
        first = max(every - 1 - self.waits, 0)
        acknowledged = 1 + (count - 1 - first) // every if first < count else 0
        if number <= self._said:
            self._echo = started
        echo = self._echo
        self.next = number + count
        if not acknowledged:
            self.waits, self.due = self.waits + count, end + self._delay
            return first, 0, (echo, echo)
        behind = count - 1 - first - every * (acknowledged - 1)
        self.waits, self._said = behind, self.next - behind
        self._echo = started + pace * (count - behind)
        self.due = end + self._delay if behind else inf
        return first, acknowledged, (echo, started + pace * (first + 1))

    def say_late(self) -> Acknowledgement:
        """Acknowledge a single segment that no second one has followed in time."""
        return self._say(-1)

    def _say(self, early: int) -> Acknowledgement:
        self.waits, self.due, self._said = 0, inf, self.next
        return Acknowledgement(self.next, early, self._echo)
