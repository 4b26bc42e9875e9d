"""Laws of a sender of segments: what it sends, its repairs by RFC 6675, and its timer.

Linux finds losses by the order of sending: see `rack`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from fedsim.addons.tcp.boards import (
    DUPLICATES,
    BoardState,
    first_lost,
    first_unknown,
    flight,
    is_clean,
    is_repaired,
    lose_first,
    outruns_second,
    send_again,
)
from fedsim.core.laws import law, step

CLOSE = 1e-9
"""Tolerance for rounding when the window is compared with whole segments."""

PROBE = 2.0
"""Time to a probe of Linux, in round trips: RFC 8985."""

GRAIN = 0.002
"""Added to the time of a probe, s: Linux's shortest timer. If a single segment is in flight, whose
acknowledgement may be delayed, the least timeout is added instead."""

OPEN, DISORDER, RECOVERY, LOSS = range(4)
"""Congestion states of a sender (RFC 5681, RFC 6675). OPEN: no loss is known. DISORDER: segments
have arrived out of order, too few of them to infer a loss. RECOVERY: losses are repaired as later
segments arrive. LOSS: all that was in flight when the timer expired counts as lost. Up to DISORDER
nothing is being repaired."""


@dataclass(slots=True, init=False, eq=False, repr=False)
class SenderState:
    """The sender of one message.

    Attributes:
        linux: whether losses are detected by the order of sending (RFC 8985).
        total: the number of segments of the message.
        window: the congestion window of the connection.
        board: the scoreboard of segments.
        launch: sends the segment of a number, at a time, s.
        state: the congestion state.
        deadline: the time at which the timer expires, s; infinite if it is not set.
        duplicates: the reports of segments out of order since the last repair.
        recovery_point: a repair ends once all segments before this one are acknowledged.
        partial: whether the next partial acknowledgement of a repair is the first one.
        timed: retransmitted after a timeout below this: no RTT samples (Karn).
        late_at: Linux: expiry of the timer of RFC 6298, s.
        probe: Linux: the time of the next probe, s.
        unsure: Linux: a timeout was undone, so that segments below may be lost after all.
        probed: Linux: whether a probe was sent since the last acknowledgement.
        sent_again_at: Linux: the start of the present repair, s.
        overtaken_by: Linux: the time at which overtaken segments count as lost, s.
        retries: Linux: the timeouts since the last new acknowledgement.
        doubts: Linux: whether the last timeout may have been spurious (F-RTO).
        only_new: Linux: whether only new segments are sent now, to find out.
    """

    linux: int
    total: int
    window: Any
    board: BoardState
    launch: Callable[[int, float], None]
    state: int
    deadline: float
    duplicates: int
    recovery_point: int
    partial: int
    timed: int
    late_at: float
    probe: float
    unsure: int
    probed: int
    sent_again_at: float
    overtaken_by: float
    retries: int
    doubts: int
    only_new: int


@law
def start_sender(s: SenderState) -> None:
    """Initialise the sender of a message, whose window, scoreboard and size are set."""
    s.state, s.duplicates, s.recovery_point, s.timed, s.unsure = OPEN, 0, 0, 0, 0
    s.partial = 1
    s.probed = s.retries = s.doubts = s.only_new = 0
    s.deadline = s.late_at = s.probe = s.overtaken_by = inf
    s.sent_again_at = -inf


@step
def is_steady(s: SenderState) -> bool:
    """Return whether no loss is known, no repair is pending, and no loss was dismissed."""
    return s.state == OPEN and is_clean(s.board) and s.board.first >= s.unsure


# Sending.


@step
def begin(s: SenderState, count: int, now: float) -> None:
    """Record new segments that are sent at once."""
    s.board.note_sent(count, now)
    s.board.next += count
    arm(s, now)


@law
def send(s: SenderState, now: float) -> None:
    """Send what the window allows: lost segments first, then new ones (NextSeg, RFC 6675)."""
    board, window = s.board, s.window
    while window.size - flight(board) >= 1 - CLOSE:
        # F-RTO sends two new segments before it retransmits more.
        number = -1 if s.only_new else first_lost(board)
        if number < 0 and board.next < s.total:
            number = board.next
        # RFC 6675, NextSeg rule 3: without new data, a segment of unknown fate is sent again. Linux
        # leaves these to the probe.
        elif number < 0 and s.state == RECOVERY:
            number = first_unknown(board)
        if number < 0:
            break
        send_one(s, number, now)
    s.only_new = 0


@law
def send_one(s: SenderState, number: int, now: float) -> None:
    """Send a segment."""
    board = s.board
    if number < board.next:
        if s.linux and number == board.first and s.state != OPEN:
            s.deadline = inf  # a retransmission of the first segment restarts the timer
        send_again(board, number, now)
    else:
        board.note_sent(1, now)
        board.next = number + 1
    arm(s, now)
    # Counted for proportional rate reduction: prr_out.
    if s.state == RECOVERY:
        s.window.count_sent()
    s.launch(number, now)


@law
def retransmit(s: SenderState, now: float) -> None:
    """Send the first lost segment at once; if none is known, a new or the first one."""
    board = s.board
    number = first_lost(board)
    if number < 0:
        number = board.next if board.next < s.total else board.first
    send_one(s, number, now)


# Repairs.


@law
def take_duplicate(s: SenderState, delivered: int, repaired: int, now: float) -> None:
    """Process a report of a segment out of order."""
    if s.state == LOSS:
        return
    if s.state == RECOVERY:
        s.window.recover(delivered, flight(s.board), repaired)
        return
    s.duplicates += 1
    s.state = DISORDER
    # RFC 6582 prevents a second reduction for losses before the recovery point. Until that is
    # reached, the sender is repairing and does not come here.
    if s.duplicates == DUPLICATES or outruns_second(s.board):
        # The first segment counts as lost even if fewer than three arrived after it.
        lose_first(s.board)
        enter_recovery(s, delivered, now)


@law
def enter_recovery(s: SenderState, delivered: int, now: float) -> None:
    """Reduce the window, and retransmit the first lost segment."""
    board = s.board
    s.recovery_point, s.state = board.next, RECOVERY
    s.window.enter_recovery(flight(board), board.next - board.first, delivered)
    retransmit(s, now)


@law
def repair(s: SenderState, count: int, delivered: int, repaired: int, now: float) -> None:
    """Process an acknowledgement during a repair."""
    board, window = s.board, s.window
    if s.state == LOSS:
        window.note_acknowledgement(board.first, board.next, now)
        window.grow(count, board.first, board.next, now)
        restart_timer(s, now)
        return
    window.recover(delivered, flight(board), repaired)
    if not is_repaired(board, board.first):
        retransmit(s, now)
    window.note_acknowledgement(board.first, board.next, now)
    if s.partial:  # RFC 6582's impatient variant: only the first one restarts it
        restart_timer(s, now)
    s.partial = 0


@law
def advance(s: SenderState, count: int, news: int, now: float) -> None:
    """Process an acknowledgement that completes any repair."""
    board, window, number, state = s.board, s.window, s.board.first, s.state
    # After mere reordering, HyStart ignores acknowledgements of few segments, as ns-3 does.
    if state != DISORDER or count >= s.duplicates:
        window.note_acknowledgement(number, board.next, now)
    if state == RECOVERY:
        window.leave_recovery()
    elif state == LOSS:
        # After a timeout only segments beyond the recovery point grow the window.
        count = number - s.recovery_point
    if state >= RECOVERY:
        s.partial = 1
    if state == RECOVERY or not news:
        s.duplicates = 0
    if state != DISORDER or not news:
        s.state = OPEN
        window.grow(count, number, board.next, now)
        restart_timer(s, now)


@law
def begin_anew(s: SenderState, in_flight: int, reduces: int, now: float) -> None:
    """Shrink the window after a timeout, and send the first segment.

    Args:
        s: the sender, whose segments count as lost by now.
        in_flight: the segments that were in flight.
        reduces: whether the threshold is reduced, which happens once per loss.
        now: the time, s.
    """
    board = s.board
    s.duplicates = 0
    # Everything so far may be retransmitted: no RTT samples below (Karn).
    s.recovery_point = s.timed = board.next
    # On Linux segments that were sent recently still count as in flight.
    s.window.time_out(in_flight, board.next, now, reduces, flight(board))
    s.state = LOSS
    s.deadline = inf
    send(s, now)


# The timer.


@step
def arm(s: SenderState, now: float) -> None:
    """Start the timer unless it runs; on Linux also postpone the probe, which follows the last."""
    if s.deadline == inf:
        s.late_at = now + s.window.timeout
    elif s.linux and s.probe < inf and s.state == OPEN:
        s.late_at = s.board.sent[s.board.first] + s.window.timeout
    else:
        return
    set_deadline(s, now)


@step
def set_deadline(s: SenderState, now: float) -> None:
    """Set the timer to the next probe, or to the timeout."""
    late_at = s.late_at
    s.deadline = late_at
    if not s.linux:
        return
    window, board = s.window, s.board
    s.probe = inf
    # No probe after a probe, before the first RTT sample, or during a repair (RFC 8985).
    if s.probed or window.trip == 0.0 or s.state != OPEN:
        return
    # The acknowledgement of a single segment may be delayed by its receiver.
    later = window.least_timeout if board.next - board.first <= 1 else GRAIN
    probe = now + PROBE * window.trip + later
    if late_at > now:
        probe = min(probe, late_at)
    s.deadline = s.probe = probe


@step
def restart_timer(s: SenderState, now: float) -> None:
    """Restart the timer after an acknowledgement."""
    s.window.restore_timeout()
    s.probed, s.overtaken_by = 0, inf
    if s.board.first >= s.total:
        s.deadline = s.probe = inf
    else:
        s.late_at = now + s.window.timeout
        set_deadline(s, now)
