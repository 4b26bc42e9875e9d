"""Acknowledgements at the sender: see `Sender.acknowledge` and `RackSender`."""

from math import inf

from fedsim.addons.tcp import boards, congestion
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled import senders
from fedsim.addons.tcp.compiled.compiler import part, piece
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.addons.tcp.rack import GRAIN


@part
def acknowledge(
    W: Integers, F: Reals, m: Record, number: int, early: int, echo: float, now: float
) -> None:
    """Process an acknowledgement."""
    if number < m.first:
        return
    if number > m.first:
        # Karn: no RTT sample from a retransmitted segment; the first newly acknowledged one
        # decides.
        timed = max(m.first, m.timed)
        if timed < number and not boards.has(m, timed, boards.IS_AGAIN):
            congestion.measure(m, echo, now)
            congestion.restore_timeout(m)
    # Read before `boards` change: the count of losses tells later whether this acknowledgement has
    # revealed new ones, and `_was_early` needs the old marks.
    count, losses_before = number - m.first, m.found_lost
    was_early = _was_early(m, number, early, echo)
    news = 1 if early >= 0 and boards.take(m, early, now) else 0
    delivered, repaired = news, 0
    if count:
        more, repaired = boards.acknowledge(m, number, now)
        delivered += more
    if m.linux:
        # After `boards` have taken the acknowledgement: what is left to repair is dismissed then.
        if was_early:
            _undo(m)
        behind = 1 if news and m.sent[early] < m.sent[number] else 0
        _repair_by_rack(W, F, m, count, delivered, news, losses_before, behind, now)
    else:
        _repair(W, F, m, count, delivered, repaired, news, now)


@part
def _undo(m: Record) -> None:
    """Restore the state before a spurious timeout: see `RackSender._undo`."""
    boards.lose_none(m)
    congestion.undo_time_out(m)
    m.state = at.OPEN
    m.timed = m.doubts = 0
    m.unsure = m.next


@piece
def _repair_by_rack(
    W: Integers,
    F: Reals,
    m: Record,
    count: int,
    delivered: int,
    news: int,
    losses_before: int,
    behind: int,
    now: float,
) -> None:
    """Find and repair losses: see `RackSender.acknowledge`."""
    if count:
        m.retries = 0
    _change_state(m, count, news)
    due = senders.look_for_losses(m, now)
    if m.state <= at.DISORDER and boards.first_lost(m) >= 0:
        senders.begin_repair(W, F, m, delivered, now)
        return
    if count:
        congestion.note_acknowledgement(m, m.first, m.next, now)
    if m.state == at.RECOVERY:
        # PRR may exceed the delivered segments only if this acknowledgement reveals no further
        # loss.
        clear = 1 if count and m.found_lost == losses_before else 0
        congestion.recover(m, delivered, boards.flight(m), clear)
    elif count:
        congestion.grow(m, delivered, m.first, m.next, now)
    if due < inf:
        m.overtaken_by = m.deadline = min(due + GRAIN, now + m.timeout)
        m.probe = inf
    elif count or behind:
        senders.restart_timer(m, now)


@part
def _was_early(m: Record, number: int, early: int, echo: float) -> bool:
    """Return whether the last timeout was spurious: see `RackSender._was_early`."""
    if m.state != at.LOSS:
        return False
    # RFC 3522: the echoed timestamp is older than the retransmission, so the original has arrived.
    if number > m.first and echo < m.sent_again_at:
        return True
    if not m.doubts:
        return False
    # F-RTO (RFC 5682): a segment that was never retransmitted has arrived after all.
    for index in range(m.first, min(number, m.timed)):
        if boards.is_first_news(m, index):
            return True
    return 0 <= early < m.timed and boards.is_first_news(m, early)


@part
def _change_state(m: Record, count: int, news: int) -> None:
    """Leave a finished recovery, and detect reordering: see `RackSender`."""
    if m.state >= at.RECOVERY and m.first >= m.recover:
        if m.state == at.RECOVERY:
            congestion.leave_recovery(m)
        m.state = at.OPEN
    if m.state <= at.DISORDER:
        m.state = at.DISORDER if m.arrived else at.OPEN
    elif m.state == at.LOSS and m.doubts:
        if m.next > m.recover:
            m.doubts = 1 - news
        elif count:
            more = 1 if m.next < m.total else 0
            m.only_new = m.doubts = more


@piece
def _repair(
    W: Integers,
    F: Reals,
    m: Record,
    count: int,
    delivered: int,
    repaired: int,
    news: int,
    now: float,
) -> None:
    """Repair losses: see `Sender.acknowledge`."""
    if news:
        senders.take_duplicate(W, F, m, delivered, now, repaired)
    if not count:
        if m.first < m.next:
            congestion.note_acknowledgement(m, m.first, m.next, now)
    elif m.first < m.recover and m.state >= at.RECOVERY:
        senders.repair(W, F, m, count, delivered, now, repaired)
    else:
        _advance(m, count, now, news)


@piece
def _advance(m: Record, count: int, now: float, news: int) -> None:
    """Process an acknowledgement that completes any repair: see `Sender._advance`."""
    number, state = m.first, m.state
    if state != at.DISORDER or count >= m.duplicates:
        congestion.note_acknowledgement(m, m.first, m.next, now)
    if state == at.RECOVERY:
        congestion.leave_recovery(m)
    elif state == at.LOSS:
        # After a timeout only segments beyond the recovery point grow the window.
        count = number - m.recover
    if state >= at.RECOVERY:
        m.partial = 1
    if state == at.RECOVERY or not news:
        m.duplicates = 0
    if state != at.DISORDER or not news:
        m.state = at.OPEN
        congestion.grow(m, count, number, m.next, now)
        senders.restart_timer(m, now)


@piece
def _acknowledge_in_order(m: Record, number: int, echo: float, now: float) -> None:
    """Process an acknowledgement in a steady state: see `Sender.acknowledge_in_order`."""
    first = m.first
    if number <= first:
        # No progress: only HyStart sees the acknowledgement.
        if number == first and number < m.next:
            congestion.note_acknowledgement(m, m.first, m.next, now)
        return
    if number > m.timed:
        congestion.measure(m, echo, now)
    m.first = number
    congestion.note_acknowledgement(m, m.first, m.next, now)
    congestion.grow(m, number - first, number, m.next, now)
    senders.restart_timer(m, now)


@piece
def take_acknowledgement(W: Integers, F: Reals, m: Record, node: int) -> None:
    """Process an acknowledgement, and send what it allows."""
    # Window and timer no longer matter once the rest flows as a stream.
    if m.over or m.stream:
        return
    now, number, early = F[at.NOW], W[node + at.NUMBER], W[node + at.EARLY]
    if early < 0 and senders.is_steady(m):
        _acknowledge_in_order(m, number, F[node + at.ECHO], now)
        senders.send_new(W, F, m, now, 0.0)
    else:
        acknowledge(W, F, m, number, early, F[node + at.ECHO], now)
        senders.send(W, F, m, now, 0.0)


@piece
def take_acknowledgements(W: Integers, F: Reals, m: Record, node: int) -> None:
    """Process several acknowledgements, the first of which arrives now, and send."""
    if m.over or m.stream:
        return
    begun = now = F[at.NOW]
    number, sent, steady = W[node + at.NUMBER], F[node + at.ECHO], senders.is_steady(m)
    times, between = W[node + at.TIMES], F[node + at.BETWEEN]
    for nth in range(times):
        if not steady:
            acknowledge(W, F, m, number, at.IN_ORDER, sent, now)
        else:  # the same without the steps that have no effect here
            if number > m.timed:
                congestion.measure(m, sent, now)
            congestion.note_acknowledgement(m, m.first, m.next, now)
            count = number - m.first
            congestion.grow(m, count, number, m.next, now)
            m.first = number
        sent = F[node + at.ECHO_NEXT] + nth * F[node + at.PACE]
        number, now = number + W[node + at.EACH_TIME], now + between
    # The loop has advanced `now` one interval beyond the last acknowledgement.
    if steady:
        senders.restart_timer(m, now - between)
    senders.send(W, F, m, begun, between * (times - 1))
