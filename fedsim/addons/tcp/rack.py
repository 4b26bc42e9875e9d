"""Laws of Linux's sender: loss detection by order of sending, tail probes, spurious timeouts.

RACK-TLP (RFC 8985): a segment counts as lost if a segment sent later has arrived, and it itself has
had a round trip and a reordering window to arrive. Once three segments have arrived out of order,
or during recovery, there is no reordering window. After two round trips of silence, a probe is
sent: a new segment, or the last one again. Its acknowledgement reveals losses before the timer
expires.

A spurious timeout is undone. The echo of an earlier timestamp shows it (RFC 3522), or the arrival
of segments that were not retransmitted (F-RTO, RFC 5682). Losses are repaired at the pace of PRR
(RFC 6937).
"""

from math import inf

from fedsim.addons.tcp.boards import (
    DUPLICATES,
    find_lost,
    first_lost,
    flight,
    is_clean,
    is_first_news,
    lose_late,
    lose_none,
)
from fedsim.addons.tcp.senders import (
    DISORDER,
    GRAIN,
    LOSS,
    OPEN,
    RECOVERY,
    SenderState,
    begin_anew,
    enter_recovery,
    restart_timer,
    send_one,
)
from fedsim.core.laws import law

REORDERING = 1 / 4
"""Reordering window, in minimum round trips: RFC 8985."""

# Acknowledgements.


@law
def was_early(s: SenderState, number: int, early: int, echo: float) -> bool:
    """Return whether an acknowledgement shows that the last timeout was spurious.

    It acknowledges what was sent before the timeout, or what was not retransmitted since.
    """
    board = s.board
    if s.state != LOSS:
        return False
    # RFC 3522: the echoed timestamp is older than the retransmission.
    if number > board.first and echo < s.sent_again_at:
        return True
    if not s.doubts:
        return False
    # F-RTO (RFC 5682): a segment that was never retransmitted has arrived after all.
    for index in range(board.first, min(number, s.timed)):
        if is_first_news(board, index):
            return True
    return 0 <= early < s.timed and is_first_news(board, early)


@law
def undo(s: SenderState) -> None:
    """Restore the state before a spurious timeout."""
    lose_none(s.board)
    s.window.undo_time_out()
    s.state = OPEN
    s.timed = s.doubts = 0
    # Losses among earlier segments are forgotten here, so the simple path has to wait until all are
    # acknowledged.
    s.unsure = s.board.next


@law
def find_and_repair(
    s: SenderState, count: int, delivered: int, early: int, losses_before: int, now: float
) -> None:
    """Find and repair losses after an acknowledgement.

    Args:
        s: the sender, whose scoreboard has taken the acknowledgement.
        count: the number of segments that it acknowledges in order.
        delivered: the number of segments that it newly reports.
        early: the segment out of order that it newly reports, or -1.
        losses_before: the losses that were detected before.
        now: the time, s.
    """
    board, window = s.board, s.window
    _change_state(s, count, early)
    due = look_for_losses(s, now)
    if s.state <= DISORDER and first_lost(board) >= 0:
        begin_repair(s, delivered, now)
        return
    if count:
        window.note_acknowledgement(board.first, board.next, now)
    if s.state == RECOVERY:
        # PRR may exceed the delivered segments only if this acknowledgement reveals no further
        # loss.
        repaired = 1 if count and board.found_lost == losses_before else 0
        window.recover(delivered, flight(board), repaired)
    elif count:
        window.grow(delivered, board.first, board.next, now)
    if due < inf:
        s.overtaken_by = s.deadline = min(due + GRAIN, now + window.timeout)
        s.probe = inf
    elif count or (early >= 0 and board.sent[early] < board.sent[board.first]):
        restart_timer(s, now)


@law
def _change_state(s: SenderState, count: int, early: int) -> None:
    """Leave a finished recovery, and detect reordering."""
    board = s.board
    if s.state >= RECOVERY and board.first >= s.recovery_point:
        if s.state == RECOVERY:
            s.window.leave_recovery()
        s.state = OPEN
    if s.state <= DISORDER:
        s.state = DISORDER if board.arrived else OPEN
    elif s.state == LOSS and s.doubts:
        if board.next > s.recovery_point:
            s.doubts = 0 if early >= 0 else 1
        elif count:  # two new segments reveal whether the others have arrived: RFC 5682
            s.only_new = s.doubts = 1 if board.next < s.total else 0


@law
def look_for_losses(s: SenderState, now: float) -> float:
    """Mark losses; return when further overtaken segments count as lost, s."""
    board = s.board
    if is_clean(board):
        return inf
    # RFC 8985: no reordering window in recovery, or after three segments out of order.
    sure = s.state >= RECOVERY or board.arrived >= DUPLICATES
    return find_lost(board, 0.0 if sure else REORDERING * s.window.least_trip, now)


@law
def begin_repair(s: SenderState, delivered: int, now: float) -> None:
    """Start to repair losses."""
    s.overtaken_by = s.probe = inf
    s.sent_again_at = now
    enter_recovery(s, delivered, now)
    restart_timer(s, now)


# The timer.


@law
def expire(s: SenderState, now: float) -> None:
    """Repair overtaken segments, send a probe, or retransmit after a timeout."""
    board = s.board
    # One timer serves three purposes: reordering, tail probe, retransmission.
    if now >= s.overtaken_by:
        s.overtaken_by = inf
        look_for_losses(s, now)
        if first_lost(board) >= 0 and s.state <= DISORDER:
            begin_repair(s, 1, now)
        else:
            restart_timer(s, now)
    elif now >= s.probe:
        s.probe, s.probed, s.deadline = inf, 1, inf
        # A new segment, or the last one again.
        send_one(s, board.next if board.next < s.total else board.next - 1, now)
    else:
        _time_out(s, now)


@law
def _time_out(s: SenderState, now: float) -> None:
    """Mark segments as lost that had the time to arrive, and send the first one."""
    board, in_flight = s.board, flight(s.board)
    harmed, retries = s.state >= RECOVERY, s.retries
    again = s.state == LOSS and not retries
    # The threshold is reduced once per episode of losses.
    reduces = 1 if not harmed or board.first >= s.recovery_point or again else 0
    if not harmed:
        s.sent_again_at = now
    s.probe = s.overtaken_by = inf
    s.doubts = 1 if not harmed or retries else 0
    s.only_new = s.probed = 0
    s.retries = retries + 1
    lose_late(board, now)
    begin_anew(s, in_flight, reduces, now)
