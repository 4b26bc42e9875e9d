"""Laws of the arrival of segments, and of the acknowledgements that follow."""

from math import inf
from typing import Any

from fedsim.addons.tcp.queue import is_crowded
from fedsim.addons.tcp.receiver import (
    IN_ORDER,
    NOTHING,
    acknowledge,
    every,
    take_segment,
    take_train,
)
from fedsim.core.laws import law, step

BLOCK, BLOCKS = 64.0, 3
"""Additional bits of an acknowledgement per block out of order, and the largest number of such
blocks: RFC 2018, with timestamps."""

OPTIONS = 8 * 4.0
"""Additional bits of a SYN and of its answer: options for selective acknowledgements (RFC 2018) and
window scaling (RFC 7323)."""

SYN, ANSWER = -2, -1
"""The numbers of a handshake's packets, which are no segments of a message."""


@law
def deliver_packet(t: Any, number: int, at: float) -> None:
    """Deliver a packet of a handshake."""
    if number == ANSWER:
        t.confirmed = True
    elif not t.answered:
        t.answered = True
        # The answer takes a fixed time, as all acknowledgements: they do not queue in this model.
        answer = t.path.back + OPTIONS * t.path.back_bit
        t.calendar.call(at + answer, t.end_handshake, None)


@law
def deliver(
    t: Any, number: int, count: int, sent: float, pace: float, first: float, last: float
) -> None:
    """Deliver a train of several segments: see `ways`."""
    r = t.receiver
    before = r.awaited + r.earlies
    # A retransmission after the end.
    if before == t.total:
        return
    due = r.due
    # A delayed acknowledgement was due before this train: it is sent at its own time.
    if due < first:
        _acknowledge_late(t, due)
    if number == r.awaited and not (r.alone or r.earlies or is_crowded(t.path)):
        _deliver_in_order(t, number, count, sent, pace, first, last)
    else:
        between = (last - first) / max(count - 1, 1)
        for n in range(count):
            _take(t, number + n, sent + n * pace, first + n * between)
    arrived = r.awaited + r.earlies
    if arrived > before:
        # `first` is the arrival of the whole first segment; its first bits came one slot earlier.
        t.log.note(first - (last - first) / (count - 1), last, arrived - before)
    _wait_for_more(t, arrived, last)


@law
def deliver_one(t: Any, number: int, bits: float, sent: float, at: float) -> None:
    """Deliver a segment.

    Args:
        t: the message.
        number: the number of the segment.
        bits: the bits of the segment.
        sent: the time at which it was sent, s.
        at: the time at which it arrives, s.
    """
    r = t.receiver
    before = r.awaited + r.earlies
    if before == t.total:
        return
    due = r.due
    if due < at:
        _acknowledge_late(t, due)
    _take(t, number, sent, at)
    arrived = r.awaited + r.earlies
    if arrived > before:
        # The first bits of the segment came one slot of the radio before its end.
        t.log.note(at - t.path.own.lasts(bits), at, 1)
    if arrived == t.total or r.due < inf:
        _wait_for_more(t, arrived, at)


@step
def _take(t: Any, number: int, sent: float, at: float) -> None:
    """Receive a segment, and acknowledge at once if required."""
    early = take_segment(t.receiver, number, sent, at)
    # The last segment ends the message. Its acknowledgement only matters to later messages of the
    # connection.
    if early != NOTHING and (t.receiver.awaited < t.total or t.listens):
        _send_acknowledgement(t, early, at)


@law
def _deliver_in_order(
    t: Any, number: int, count: int, sent: float, pace: float, first: float, last: float
) -> None:
    """Receive a train in order, with none missing before it."""
    r = t.receiver
    skipped, times, echo, next_echo = take_train(r, number, count, sent, pace, last)
    if not times or (r.awaited == t.total and not t.listens):
        return
    between, each = (last - first) / (count - 1), every(r, number + count)
    # One event for all acknowledgements of the train: the sender processes them in a loop.
    numbers = (number + skipped + 1, times, each * between, echo, next_echo, each * pace, each)
    t.calendar.call(first + skipped * between + t.path.back, t.take_acknowledgements, numbers)


@step
def _send_acknowledgement(t: Any, early: int, at: float) -> None:
    """Send an acknowledgement at some time."""
    r, back = t.receiver, t.path.back
    # Blocks out of order are reported in SACK options, which make the packet longer.
    if r.earlies:
        back += t.path.back_bit * BLOCK * min(r.blocks, BLOCKS)
    t.calendar.call(at + back, t.take_acknowledgement, (r.awaited, early, r.echoed))


@law
def _acknowledge_late(t: Any, at: float) -> None:
    """Acknowledge a single segment after the delay for a second one."""
    _send_acknowledgement(t, acknowledge(t.receiver, IN_ORDER), at)


@step
def _wait_for_more(t: Any, arrived: int, last: float) -> None:
    """Finish with the last segment, or wait to acknowledge a single one."""
    r = t.receiver
    if arrived == t.total:
        # A stream may have set an earlier end already.
        t.ends = min(t.ends, last)
        t.calendar.call(last, t.finish, None)
        if not t.listens:
            return
        if t.linux and r.due < inf:
            _acknowledge_late(t, last)  # Linux acknowledges as the end is read
    # One check at a time: it moves on if the deadline has moved.
    if r.due < inf and not t.waits:
        t.waits = True
        t.calendar.call(r.due, t.look_for_late, None)


@law
def look_for_late(t: Any, _: None = None) -> None:
    """Acknowledge a segment that no other has followed in time."""
    t.waits = False
    due, now = t.receiver.due, t.calendar.now
    if due == inf or (t.over and not t.listens):
        return
    if due <= now:
        _acknowledge_late(t, now)
    else:
        t.waits = True
        t.calendar.call(due, t.look_for_late, None)
