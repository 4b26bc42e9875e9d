"""Acknowledgements at the sender: see `Sender.acknowledge` and `RackSender`."""

from math import inf

from fedsim.addons.tcp.compiled import boards, senders, windows
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import part, piece
from fedsim.addons.tcp.compiled.kinds import Integers, Reals
from fedsim.addons.tcp.rack import GRAIN


@part
def acknowledge(
    W: Integers, F: Reals, m: int, number: int, early: int, echo: float, now: float
) -> None:
    """Process an acknowledgement."""
    if number < W[m + at.UNKNOWN]:
        return
    if number > W[m + at.UNKNOWN]:
        # Karn: no RTT sample from a retransmitted segment; the first newly acknowledged one
        # decides.
        timed = max(W[m + at.UNKNOWN], W[m + at.TIMED])
        if timed < number and not boards.has(W, m, timed, at.IS_AGAIN):
            windows.measure(F, m, echo, now)
            windows.restore_timeout(W, F, m)
    # Read before `boards` change: the count of losses tells later whether this acknowledgement has
    # revealed new ones, and `_was_early` needs the old marks.
    count, losses_before = number - W[m + at.UNKNOWN], W[m + at.FOUND_LOST]
    was_early = _was_early(W, F, m, number, early, echo)
    news = 1 if early >= 0 and boards.take(W, F, m, early, now) else 0
    delivered, repaired = news, 0
    if count:
        more, repaired = boards.acknowledge(W, F, m, number, now)
        delivered += more
    if W[at.LINUX]:
        # After `boards` have taken the acknowledgement: what is left to repair is dismissed then.
        if was_early:
            _undo(W, F, m)
        behind = 1 if news and _sent_at(W, F, m, early) < _sent_at(W, F, m, number) else 0
        _repair_by_rack(W, F, m, count, delivered, news, losses_before, behind, now)
    else:
        _repair(W, F, m, count, delivered, repaired, news, now)


@part
def _undo(W: Integers, F: Reals, m: int) -> None:
    """Restore the state before a spurious timeout: see `RackSender._undo`."""
    boards.lose_none(W, m)
    windows.undo_time_out(W, F, m)
    W[m + at.STATE] = at.OPEN
    W[m + at.TIMED] = W[m + at.DOUBTS] = 0
    W[m + at.UNSURE] = W[m + at.NEXT]


@piece
def _repair_by_rack(
    W: Integers,
    F: Reals,
    m: int,
    count: int,
    delivered: int,
    news: int,
    losses_before: int,
    behind: int,
    now: float,
) -> None:
    """Find and repair losses: see `RackSender.acknowledge`."""
    if count:
        W[m + at.RETRIES] = 0
    _change_state(W, F, m, count, news)
    due = senders.look_for_losses(W, F, m, now)
    if W[m + at.STATE] <= at.DISORDER and boards.first_lost(W, m) >= 0:
        senders.begin_repair(W, F, m, delivered, now)
        return
    if count:
        windows.note_acknowledgement(W, F, m, now)
    if W[m + at.STATE] == at.RECOVERY:
        # PRR may exceed the delivered segments only if this acknowledgement reveals no further
        # loss.
        clear = 1 if count and W[m + at.FOUND_LOST] == losses_before else 0
        windows.recover(W, F, m, delivered, boards.flight(W, m), clear)
    elif count:
        windows.grow(W, F, m, delivered, W[m + at.UNKNOWN], W[m + at.NEXT], now)
    if due < inf:
        F[m + at.OVERTAKEN_BY] = F[m + at.DEADLINE] = min(due + GRAIN, now + F[m + at.TIMEOUT])
        F[m + at.PROBE] = inf
    elif count or behind:
        senders.restart_timer(W, F, m, now)


@part
def _sent_at(W: Integers, F: Reals, m: int, number: int) -> float:
    return F[boards.about(W, m, number, at.SENT_AT)]


@part
def _was_early(W: Integers, F: Reals, m: int, number: int, early: int, echo: float) -> bool:
    """Return whether the last timeout was spurious: see `RackSender._was_early`."""
    if W[m + at.STATE] != at.LOSS:
        return False
    # RFC 3522: the echoed timestamp is older than the retransmission, so the original has arrived.
    if number > W[m + at.UNKNOWN] and echo < F[m + at.SENT_AGAIN_AT]:
        return True
    if not W[m + at.DOUBTS]:
        return False
    # F-RTO (RFC 5682): a segment that was never retransmitted has arrived after all.
    for index in range(W[m + at.UNKNOWN], min(number, W[m + at.TIMED])):
        if boards.is_first_news(W, m, index):
            return True
    return 0 <= early < W[m + at.TIMED] and boards.is_first_news(W, m, early)


@part
def _change_state(W: Integers, F: Reals, m: int, count: int, news: int) -> None:
    """Leave a finished recovery, and detect reordering: see `RackSender`."""
    if W[m + at.STATE] >= at.RECOVERY and W[m + at.UNKNOWN] >= W[m + at.RECOVER]:
        if W[m + at.STATE] == at.RECOVERY:
            # As `Window.leave_recovery`.
            F[m + at.SIZE] = F[m + at.THRESHOLD]
        W[m + at.STATE] = at.OPEN
    if W[m + at.STATE] <= at.DISORDER:
        W[m + at.STATE] = at.DISORDER if W[m + at.ARRIVED] else at.OPEN
    elif W[m + at.STATE] == at.LOSS and W[m + at.DOUBTS]:
        if W[m + at.NEXT] > W[m + at.RECOVER]:
            W[m + at.DOUBTS] = 1 - news
        elif count:
            more = 1 if W[m + at.NEXT] < W[m + at.TOTAL] else 0
            W[m + at.ONLY_NEW] = W[m + at.DOUBTS] = more


@piece
def _repair(
    W: Integers,
    F: Reals,
    m: int,
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
        if W[m + at.UNKNOWN] < W[m + at.NEXT]:
            windows.note_acknowledgement(W, F, m, now)
    elif W[m + at.UNKNOWN] < W[m + at.RECOVER] and W[m + at.STATE] >= at.RECOVERY:
        senders.repair(W, F, m, count, delivered, now, repaired)
    else:
        _advance(W, F, m, count, now, news)


@piece
def _advance(W: Integers, F: Reals, m: int, count: int, now: float, news: int) -> None:
    """Process an acknowledgement that completes any repair: see `Sender._advance`."""
    number, state = W[m + at.UNKNOWN], W[m + at.STATE]
    if state != at.DISORDER or count >= W[m + at.DUPLICATES]:
        windows.note_acknowledgement(W, F, m, now)
    if state == at.RECOVERY:
        F[m + at.SIZE] = F[m + at.THRESHOLD]
    elif state == at.LOSS:
        # After a timeout only segments beyond the recovery point grow the window.
        count = number - W[m + at.RECOVER]
    if state >= at.RECOVERY:
        W[m + at.PARTIAL] = 1
    if state == at.RECOVERY or not news:
        W[m + at.DUPLICATES] = 0
    if state != at.DISORDER or not news:
        W[m + at.STATE] = at.OPEN
        windows.grow(W, F, m, count, number, W[m + at.NEXT], now)
        senders.restart_timer(W, F, m, now)


@piece
def _acknowledge_in_order(
    W: Integers, F: Reals, m: int, number: int, echo: float, now: float
) -> None:
    """Process an acknowledgement in a steady state: see `Sender.acknowledge_in_order`."""
    first = W[m + at.UNKNOWN]
    if number <= first:
        # No progress: only HyStart sees the acknowledgement.
        if number == first and number < W[m + at.NEXT]:
            windows.note_acknowledgement(W, F, m, now)
        return
    if number > W[m + at.TIMED]:
        windows.measure(F, m, echo, now)
    W[m + at.UNKNOWN] = number
    windows.note_acknowledgement(W, F, m, now)
    windows.grow(W, F, m, number - first, number, W[m + at.NEXT], now)
    senders.restart_timer(W, F, m, now)


@piece
def take_acknowledgement(W: Integers, F: Reals, m: int, node: int) -> None:
    """Process an acknowledgement, and send what it allows."""
    # Window and timer no longer matter once the rest flows as a stream.
    if W[m + at.OVER] or W[m + at.STREAM]:
        return
    now, number, early = F[at.NOW], W[node + at.NUMBER], W[node + at.EARLY]
    if early < 0 and senders.is_steady(W, m):
        _acknowledge_in_order(W, F, m, number, F[node + at.ECHO], now)
        senders.send_new(W, F, m, now, 0.0)
    else:
        acknowledge(W, F, m, number, early, F[node + at.ECHO], now)
        senders.send(W, F, m, now, 0.0)


@piece
def take_acknowledgements(W: Integers, F: Reals, m: int, node: int) -> None:
    """Process several acknowledgements, the first of which arrives now, and send."""
    if W[m + at.OVER] or W[m + at.STREAM]:
        return
    begun = now = F[at.NOW]
    number, sent, steady = W[node + at.NUMBER], F[node + at.ECHO], senders.is_steady(W, m)
    times, between = W[node + at.TIMES], F[node + at.BETWEEN]
    for nth in range(times):
        if not steady:
            acknowledge(W, F, m, number, at.IN_ORDER, sent, now)
        else:  # the same without the steps that have no effect here
            if number > W[m + at.TIMED]:
                windows.measure(F, m, sent, now)
            windows.note_acknowledgement(W, F, m, now)
            count = number - W[m + at.UNKNOWN]
            windows.grow(W, F, m, count, number, W[m + at.NEXT], now)
            W[m + at.UNKNOWN] = number
        sent = F[node + at.ECHO_NEXT] + nth * F[node + at.PACE]
        number, now = number + W[node + at.EACH_TIME], now + between
    # The loop has advanced `now` one interval beyond the last acknowledgement.
    if steady:
        senders.restart_timer(W, F, m, now - between)
    senders.send(W, F, m, begun, between * (times - 1))
