"""Receiver of a message's segments: reordering and acknowledgements."""

from collections.abc import MutableSequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from fedsim.core.laws import law, step

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


TrainAcknowledgement = tuple[int, int, float, float, float, float, int]
"""Acknowledgements of a train in order: one per segment, or one per two. Its items: the number of
the first acknowledgement; the number of acknowledgements; the time from one to the next, s; the
send times that the first and the second one echo, s; the time between the send times that later
ones echo, s; the segments per acknowledgement."""

IS_EARLY = 8
"""Flag of a segment that has arrived out of order."""

IN_ORDER, NOTHING = -1, -2
"""Results of `take_segment`: an acknowledgement of what is in order, and none."""


@dataclass(slots=True, init=False, eq=False, repr=False)
class ReceiverState:
    """The receiver of one message.

    Attributes:
        delay: the delay of the acknowledgement of a single segment, s.
        total: the number of segments of the message.
        grows: the number of first segments acknowledged one by one; see `GROWS`.
        alone: the remaining segments acknowledged one by one, as Linux does after a pause.
        awaited: the number below which all segments have arrived.
        earlies, blocks: the segments that have arrived out of order, and their contiguous blocks.
        due: the time at which a single segment is acknowledged, s; infinite if none waits.
        unsaid: the segments that are not acknowledged yet.
        said, echoed: the number of the last acknowledgement, and the timestamp of the next one, s.
        marks: the flags of each segment.
    """

    delay: float
    total: int
    grows: int
    alone: int
    awaited: int
    earlies: int
    blocks: int
    due: float
    unsaid: int
    said: int
    echoed: float
    marks: MutableSequence[int]


@step
def count_arrived(r: ReceiverState) -> int:
    """Return the number of segments that have arrived."""
    return r.awaited + r.earlies


@step
def take_segment(r: ReceiverState, number: int, sent: float, now: float) -> int:
    """Receive a segment.

    Args:
        r: the receiver.
        number: the number of the segment.
        sent: the time at which it was sent, s.
        now: the time, s.

    Returns:
        What to acknowledge at once: the number of a segment out of order, `IN_ORDER`, or `NOTHING`.
    """
    if number != r.awaited:
        # A duplicate, and any segment out of order, is acknowledged at once (RFC 5681, section
        # 4.2).
        if number < r.awaited or r.marks[number] & IS_EARLY:
            return acknowledge(r, IN_ORDER)
        # The segment starts a block, extends one, or joins the two beside it: one block more, as
        # many, or one fewer.
        r.blocks += 1 - _is_early(r, number - 1) - _is_early(r, number + 1)
        r.marks[number] |= IS_EARLY
        r.earlies += 1
        return acknowledge(r, number)
    # RFC 7323, section 4.3: the echoed timestamp is that of the first segment since the last
    # acknowledgement, so that round trips include the delay of acknowledgements.
    if number <= r.said:
        r.echoed = sent
    r.awaited += 1
    if r.earlies:
        # The segment has filled a gap: the block behind it, if it begins right there, is in order
        # now.
        r.blocks -= _is_early(r, r.awaited)
        while _is_early(r, r.awaited):
            r.marks[r.awaited] &= ~IS_EARLY
            r.earlies -= 1
            r.awaited += 1
        return acknowledge(r, IN_ORDER)
    r.unsaid += 1
    if r.alone:
        r.alone -= 1
    elif r.unsaid < EVERY and r.awaited > r.grows:
        r.due = now + r.delay
        return NOTHING
    return acknowledge(r, IN_ORDER)


@law
def _is_early(r: ReceiverState, number: int) -> int:
    return 1 if number < r.total and r.marks[number] & IS_EARLY else 0


@step
def every(r: ReceiverState, end: int) -> int:
    """Return the segments per acknowledgement, for a train that ends before segment `end`."""
    return 1 if end <= r.grows else EVERY


@law
def take_train(
    r: ReceiverState, number: int, count: int, started: float, pace: float, end: float
) -> tuple[int, int, float, float]:
    """Receive several segments in order, with none missing before them.

    Args:
        r: the receiver.
        number: the number of the first segment.
        count: the number of segments.
        started: the send time of the first one, s.
        pace: the time from one to the next as they were sent, s.
        end: the arrival of the last one, s.

    Returns:
        The index of the first segment that triggers an acknowledgement, the number of
        acknowledgements, and the send times that the first two of them echo, s.
    """
    each = every(r, number + count)
    # `unsaid` segments of the train before count towards the first acknowledgement.
    first = max(each - 1 - r.unsaid, 0)
    acknowledged = 1 + (count - 1 - first) // each if first < count else 0
    if number <= r.said:
        r.echoed = started
    echo = r.echoed
    r.awaited = number + count
    if not acknowledged:
        r.unsaid, r.due = r.unsaid + count, end + r.delay
        return first, 0, echo, echo
    # Segments after the last one that has triggered an acknowledgement.
    behind = count - 1 - first - each * (acknowledged - 1)
    r.unsaid, r.said = behind, r.awaited - behind
    r.echoed = started + pace * (count - behind)
    # The segments after the last acknowledgement wait for a second one, or for the delay.
    r.due = end + r.delay if behind else inf
    return first, acknowledged, echo, started + pace * (first + 1)


@step
def acknowledge(r: ReceiverState, early: int) -> int:
    """Record that all segments so far are acknowledged; return `early`."""
    r.unsaid, r.due, r.said = 0, inf, r.awaited
    return early


class Receiver(ReceiverState):
    """The receiver of one message; see the functions of this file.

    Args:
        delay: the delay of the acknowledgement of a single segment, s.
        total: the number of segments of the message.
        quick: whether the first segment is acknowledged at once, as on a new connection.
        alone: the number of segments acknowledged one by one, as Linux does after a pause.
        grows: the number of first segments acknowledged one by one; see `GROWS`.
    """

    __slots__ = ()

    def __init__(
        self, delay: float, total: int, *, quick: bool, alone: int = 0, grows: int = 0
    ) -> None:
        self.delay, self.total, self.grows, self.alone = delay, total, grows, alone
        self.marks = bytearray(total)
        self.awaited = self.earlies = self.blocks = self.said = 0
        self.unsaid = EVERY if quick else 0
        self.due, self.echoed = inf, 0.0

    def take(self, number: int, sent: float, now: float) -> Acknowledgement | None:
        """Receive a segment; return the acknowledgement to send at once, if any."""
        early = take_segment(self, number, sent, now)
        return None if early == NOTHING else Acknowledgement(self.awaited, early, self.echoed)

    def acknowledge_late(self) -> Acknowledgement:
        """Acknowledge a single segment after the delay for a second one."""
        return Acknowledgement(self.awaited, acknowledge(self, IN_ORDER), self.echoed)
