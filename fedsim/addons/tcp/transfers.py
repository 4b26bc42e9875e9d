"""Laws of a message over TCP: what its sender launches, its acknowledgements, timer and end.

A message is sent as trains of segments. If the queues have room for all segments in flight, a train
is a large part of a window, passes links as one and is acknowledged as one: a few events per round
trip. If segments may be dropped, each travels alone, by RFC 5681, RFC 6675 (selective
acknowledgements), RFC 6937 and RFC 6298.

If the window of a long message fills the queue of its bottleneck, only the share of that link
limits the message. Its rest then flows as one stream.
"""

from math import inf
from typing import Any

from fedsim.addons.tcp import senders
from fedsim.addons.tcp.boards import flight
from fedsim.addons.tcp.congestion import looks
from fedsim.addons.tcp.queue import claim_path, is_crowded, leave
from fedsim.addons.tcp.receiver import TrainAcknowledgement, count_arrived
from fedsim.addons.tcp.sender import (
    acknowledge,
    acknowledge_in_order,
    acknowledge_train,
    time_out,
)
from fedsim.addons.tcp.senders import CLOSE, begin, is_steady
from fedsim.addons.tcp.stream import LEAST, begin_stream, may_flow, narrow_link
from fedsim.addons.tcp.ways import forward, forward_one
from fedsim.core.laws import law, step

AHEAD = 3
"""Number of windows for which a stream claims room in queues."""

LEAST_TRAIN = 2
"""Minimum segments of a train, if the window allows them and none can be dropped."""

LOOKED_AT = 4
"""Segments per train if round trips may end slow start: longer trains of others would hide the
delay."""

SHARE = 16
"""A train is at most 1/SHARE of the shortest queue. A packet that arrives while a train passes
finds all of the train in the queue."""


# Segments.


@law
def launch(t: Any, number: int, start: float, count: int = 1, pace: float = 0.0) -> None:
    """Send segments; the last one of the message may be shorter."""
    if t.over:
        return  # all has arrived: the presumed loss is none
    # In a crowded queue packets are dropped one by one, so the shorter last segment travels alone.
    if number + count == t.total and count > 1 and is_crowded(t.path):
        _launch_part(t, number, count - 1, start, pace)
        _launch_part(t, number + count - 1, 1, start + pace * (count - 1), 0.0)
    else:
        _launch_part(t, number, count, start, pace)


@step
def _launch_part(t: Any, number: int, count: int, start: float, pace: float) -> None:
    t.segments_sent += count
    bits, end, sent = t.each, start + pace * (count - 1), start
    if number + count == t.total:
        bits += (t.short - bits) / count  # mean over a train, exact if none is dropped
    t.window.last_sent = end
    lane = t.lane
    if lane.holds:
        sent, pace = lane.sends(start, pace, count)
        t.window.last_sent = sent + pace * (count - 1)
    if count == 1:
        forward_one(lane, (t, number, bits, sent, start, 0))
    else:
        forward(lane, (t, number, count, bits, sent, pace, start, end, 0))


@law
def send(t: Any, now: float, span: float) -> None:
    """Send what the window allows, spread over the time of the acknowledgements."""
    if is_steady(t.sender):
        send_new(t, now, span)
    else:
        senders.send(t.sender, now)
        if t.listens:
            _note_use(t, now)
        _set_timer(t)


@law
def _note_use(t: Any, now: float) -> None:
    """Report the use of the window of a kept connection."""
    board = t.sender.board
    out = board.next - board.first
    t.window.note_use(flight(board), out, (board.first, board.next), now)


@law
def send_new(t: Any, now: float, span: float) -> None:
    """Send new segments, in a state without known losses."""
    board, size = t.sender.board, t.window.size
    number, total = board.next, t.total
    left, in_flight = total - number, number - board.first
    allowed = int(size + CLOSE) - in_flight
    todo = min(allowed, left)
    if todo <= 0:
        if left and t.listens:
            _note_use(t, now)
        _set_timer(t)  # an acknowledgement may have moved the deadline forward
        return
    # Only a long rest can flow as a stream: checked before anything is sent.
    if left >= LEAST and _flows_on(t, left):
        return
    # Claims shrink as segments are acknowledged, which makes room for other messages.
    if left + in_flight != t.claim:
        _claim_anew(t, left + in_flight)
    begin(t.sender, todo, now)
    _set_timer(t)
    if t.listens:
        _note_use(t, now)
    most = _longest_train(t, todo, span)
    # New segments leave at the pace of the acknowledgements that have allowed them.
    pace, start = span / allowed, now
    while todo > 0:
        count = min(most, todo)
        launch(t, number, start, count, pace)
        number += count
        todo -= count
        start += pace * count


@law
def _claim_anew(t: Any, count: int) -> None:
    """Change the claims on the queues of the path to `count` segments."""
    claim_path(t.path, count - t.claim, 0)
    t.claim = count


@step
def _longest_train(t: Any, todo: int, span: float) -> int:
    """Return how many segments travel as one train."""
    path = t.path
    if is_crowded(path):
        # Acknowledged segments are replaced one by one, spread over `span`; a burst leaves as one.
        return 1 if span != 0.0 else todo
    if todo <= LEAST_TRAIN:
        return todo
    longest = int(t.window.size)
    # Long trains of others would hide the delay that HyStart looks for.
    if looks(t.window):
        for k in range(len(path.stages)):
            if path.stages[k].shared and path.stages[k].queue.flows > 1:
                longest = LOOKED_AT
    longest_train: int = max(LEAST_TRAIN, min(longest, path.narrow // SHARE))
    return longest_train


@law
def _flows_on(t: Any, left: int) -> bool:
    """Send the rest as a stream, if possible."""
    # A stream has no rates to report, and no single packets to lose.
    if t.log.watched or t.lane.loss is not None:
        return False
    if not may_flow(t.window, left, t.path):
        return False
    number = narrow_link(t.path)
    if number < 0:
        return False
    # All segments count as sent: the stream stands for those that were left.
    t.sender.board.next = t.total
    _claim_anew(t, int(AHEAD * t.window.size))
    t.segments_sent += left
    t.sender.deadline = inf
    begin_stream(t, number, left)
    return True


# Acknowledgements.


@law
def take_acknowledgement(t: Any, acknowledgement: tuple[int, int, float]) -> None:
    """Process an acknowledgement, and send what it allows: see `Acknowledgement`."""
    # Window and timer no longer matter once the rest flows as a stream.
    if t.stream:
        return
    number, early, echo = acknowledgement
    sender, now = t.sender, t.calendar.now
    if t.over:
        # A kept connection: the window still learns from late acknowledgements.
        if t.listens:
            acknowledge(sender, number, early, echo, now)
    elif early < 0 and is_steady(sender):
        acknowledge_in_order(sender, number, echo, now)
        send_new(t, now, 0.0)
    else:
        acknowledge(sender, number, early, echo, now)
        send(t, now, 0.0)


@law
def take_acknowledgements(t: Any, acknowledgement: TrainAcknowledgement) -> None:
    """Process several acknowledgements, and send: see `TrainAcknowledgement`."""
    if t.stream or (t.over and not t.listens):
        return
    _, times, between, _, _, _, _ = acknowledgement
    now = t.calendar.now
    acknowledge_train(t.sender, acknowledgement, now)
    if not t.over:
        send(t, now, between * (times - 1))


# The timer, and the end.


@step
def _set_timer(t: Any) -> None:
    # A deadline that moves back leaves the timer alone: it expires early, and `look` waits on. That
    # is far cheaper than to reschedule it per acknowledgement.
    if t.sender.deadline < t.timer_when:
        t.move_timer(t.sender.deadline)


@law
def look(t: Any, _: None = None) -> None:
    """Time out, or keep waiting if the timer was restarted meanwhile."""
    t.forget_timer()
    now = t.calendar.now
    if t.sender.deadline <= now:
        # Without any packet since the handshake, ns-3's receiver repeats its answer, which resets
        # the window.
        if not (t.linux or t.confirmed or count_arrived(t.receiver)):
            t.window.reopen()
        time_out(t.sender, now)
    _set_timer(t)


@law
def close(t: Any, whole: int) -> None:
    """End a message, whether whole or not: release its claims on queues, and stop all timers."""
    t.over = True
    t.log.close(whole)
    # Exactly what was claimed, so that claims of a link sum to zero without messages.
    claim_path(t.path, -t.claim, -1)
    t.syn_over = True
    if t.stream:
        t.end_flow(whole)
        leave(t.path.stages[t.stream_at].queue, t.stream_window)
    t.cancel_timer()
