"""The sender of a message's segments: see `Sender`, `RackSender` and `TcpTransfer`."""

from math import inf

from fedsim.addons.tcp.compiled import boards, windows
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part, piece
from fedsim.addons.tcp.compiled.events import call, forget
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Train
from fedsim.addons.tcp.compiled.queues import claim, is_crowded
from fedsim.addons.tcp.compiled.receivers import count_arrived
from fedsim.addons.tcp.compiled.streams import begin_stream, may_flow, narrow_link
from fedsim.addons.tcp.compiled.ways import forward
from fedsim.addons.tcp.rack import GRAIN, PROBE, REORDERING
from fedsim.addons.tcp.scoreboard import DUPLICATES
from fedsim.addons.tcp.sender import CLOSE
from fedsim.addons.tcp.stream import LEAST
from fedsim.addons.tcp.transfer import AHEAD, LEAST_TRAIN, LOOKED_AT, SHARE


@inline
def is_steady(W: Integers, m: int) -> bool:
    """Return whether no loss is known, no repair is pending, and no loss was dismissed."""
    if W[m + at.STATE] != at.OPEN or not boards.is_clean(W, m):
        return False
    return W[m + at.UNKNOWN] >= W[m + at.UNSURE]


# Segments on their way.


@piece
def _launch(
    W: Integers, F: Reals, m: int, number: int, count: int, start: float, pace: float
) -> None:
    """Send segments; the last one of a message may be shorter."""
    end = start + pace * (count - 1)
    # In a crowded queue packets are dropped one by one, so the shorter last segment travels alone.
    if number + count == W[m + at.TOTAL] and count > 1 and is_crowded(W, m):
        _launch_part(W, F, m, number, count - 1, start, pace)
        _launch_part(W, F, m, number + count - 1, at.ALONE, end, 0.0)
    else:
        _launch_part(W, F, m, number, count, start, pace)


@inline
def _launch_part(
    W: Integers, F: Reals, m: int, number: int, count: int, start: float, pace: float
) -> None:
    W[m + at.SEGMENTS_SENT] += count
    bits, end = F[m + at.EACH], start + pace * (count - 1)
    F[m + at.LAST_SENT] = end
    if number + count == W[m + at.TOTAL]:
        # A train has one size: the mean, which is exact in total.
        bits += (F[m + at.SHORT] - bits) / count
    train = Train(number, count, bits, start, pace, start, end)
    forward(W, F, m, train, at.NOTHING)


@part
def send(W: Integers, F: Reals, m: int, now: float, span: float) -> None:
    """Send what the window allows, spread over the time of the acknowledgements."""
    if is_steady(W, m):
        send_new(W, F, m, now, span)
    else:
        _send_any(W, F, m, now)
        _set_timer(W, F, m)


@inline
def send_new(W: Integers, F: Reals, m: int, now: float, span: float) -> None:
    """Send new segments, in a state without known losses."""
    size = F[m + at.SIZE]
    left, flight = W[m + at.TOTAL] - W[m + at.NEXT], W[m + at.NEXT] - W[m + at.UNKNOWN]
    allowed = int(size + CLOSE) - flight
    todo = min(allowed, left)
    if todo <= 0:
        _set_timer(W, F, m)
        return
    # Only a long rest can flow as a stream: checked before anything is sent.
    if left >= LEAST and _flows_on(W, F, m, left):
        return
    # Claims shrink as segments are acknowledged, which makes room for other messages.
    if left + flight != W[m + at.CLAIM]:
        _claim_anew(W, F, m, left + flight)
    number = W[m + at.NEXT]
    W[m + at.NEXT] = number + todo
    if W[at.LINUX]:
        for index in range(number, number + todo):
            F[boards.about(W, m, index, at.SENT_AT)] = now
    _arm(W, F, m, now)
    _set_timer(W, F, m)
    most = _longest_train(W, F, m, todo, span)
    # Segments leave at the pace of the acknowledgements that allow them.
    pace, start = span / allowed, now
    while todo > 0:
        count = min(most, todo)
        _launch(W, F, m, number, count, start, pace)
        number += count
        todo -= count
        start += pace * count


@part
def _claim_anew(W: Integers, F: Reals, m: int, count: int) -> None:
    claim(W, F, m, count - W[m + at.CLAIM], at.NOTHING)
    W[m + at.CLAIM] = count


@inline
def _longest_train(W: Integers, F: Reals, m: int, todo: int, span: float) -> int:
    """Return how many segments travel as one train: see `TcpTransfer._send_new`."""
    if is_crowded(W, m):
        return 1 if span != 0.0 else todo
    if todo <= LEAST_TRAIN:
        return todo
    p = W[m + at.PATH]
    longest = int(F[m + at.SIZE])
    # Long trains of others would hide the delay that HyStart looks for.
    if windows.looks(W, F, m):
        for k in range(W[p + at.STAGES]):
            s = p + at.WAY + k * at.STAGE
            if W[s + at.SHARED] and W[W[s + at.AT] + at.FLOWS] > 1:
                longest = LOOKED_AT
    return max(LEAST_TRAIN, min(longest, W[p + at.NARROW] // SHARE))


@piece
def _flows_on(W: Integers, F: Reals, m: int, left: int) -> bool:
    """Send the rest as a stream, if possible."""
    p = W[m + at.PATH]
    if not may_flow(F, m, p, left):
        return False
    number = narrow_link(W, F, p)
    if number < 0:
        return False
    # All segments count as sent: the stream stands for those that were left.
    W[m + at.NEXT] = W[m + at.TOTAL]
    _claim_anew(W, F, m, int(AHEAD * F[m + at.SIZE]))
    W[m + at.SEGMENTS_SENT] += left
    F[m + at.DEADLINE] = inf
    begin_stream(W, F, m, number, left)
    return True


# Repair.


@part
def _send_any(W: Integers, F: Reals, m: int, now: float) -> None:
    """Send what the window allows: lost segments first, then new ones."""
    while F[m + at.SIZE] - boards.flight(W, m) >= 1 - CLOSE:
        # F-RTO sends two new segments before it retransmits more.
        number = -1 if W[m + at.ONLY_NEW] else boards.first_lost(W, m)
        if number < 0 and W[m + at.NEXT] < W[m + at.TOTAL]:
            number = W[m + at.NEXT]
        # RFC 6675, NextSeg rule 3; Linux leaves these to the probe (`first_unknown` gives -1).
        elif number < 0 and W[m + at.STATE] == at.RECOVERY:
            number = boards.first_unknown(W, m)
        if number < 0:
            break
        _send_one(W, F, m, number, now)
    W[m + at.ONLY_NEW] = 0


@part
def _send_one(W: Integers, F: Reals, m: int, number: int, now: float) -> None:
    if number < W[m + at.NEXT]:
        if W[at.LINUX] and number == W[m + at.UNKNOWN] and W[m + at.STATE] != at.OPEN:
            F[m + at.DEADLINE] = inf  # a retransmission of the first segment restarts the timer
        boards.send_again(W, F, m, number, now)
    else:
        W[m + at.NEXT] = number + 1
        # On every stack, as the column is there; only Linux reads it.
        F[boards.about(W, m, number, at.SENT_AT)] = now
    _arm(W, F, m, now)
    if W[m + at.STATE] == at.RECOVERY:
        W[m + at.OUT] += 1
    _launch(W, F, m, number, at.ALONE, now, 0.0)


@part
def _retransmit(W: Integers, F: Reals, m: int, now: float) -> None:
    """Send the first lost segment at once; if none is known, a new or the first one."""
    number = boards.first_lost(W, m)
    # An acknowledgement has ended the known losses: the window is used for new data.
    if number < 0:
        more = W[m + at.NEXT] < W[m + at.TOTAL]
        number = W[m + at.NEXT] if more else W[m + at.UNKNOWN]
    _send_one(W, F, m, number, now)


@part
def _enter_recovery(W: Integers, F: Reals, m: int, delivered: int, now: float) -> None:
    boards.lose_first(W, m)
    W[m + at.RECOVER], W[m + at.STATE] = W[m + at.NEXT], at.RECOVERY
    outstanding = W[m + at.NEXT] - W[m + at.UNKNOWN]
    windows.begin_recovery(W, F, m, boards.flight(W, m), outstanding, delivered)
    _retransmit(W, F, m, now)


@part
def begin_repair(W: Integers, F: Reals, m: int, delivered: int, now: float) -> None:
    """Start to repair losses: see `RackSender`."""
    F[m + at.OVERTAKEN_BY] = F[m + at.PROBE] = inf
    F[m + at.SENT_AGAIN_AT] = now
    W[m + at.RECOVER], W[m + at.STATE] = W[m + at.NEXT], at.RECOVERY
    outstanding = W[m + at.NEXT] - W[m + at.UNKNOWN]
    windows.begin_recovery(W, F, m, boards.flight(W, m), outstanding, delivered)
    _retransmit(W, F, m, now)
    restart_timer(W, F, m, now)


@part
def look_for_losses(W: Integers, F: Reals, m: int, now: float) -> float:
    """Mark losses; return when further overtaken segments count as lost, s."""
    if boards.is_clean(W, m):
        return inf
    sure = W[m + at.STATE] >= at.RECOVERY or W[m + at.ARRIVED] >= DUPLICATES
    return boards.find_lost(W, F, m, 0.0 if sure else REORDERING * F[m + at.LEAST_TRIP], now)


@piece
def take_duplicate(
    W: Integers, F: Reals, m: int, delivered: int, now: float, repaired: int
) -> None:
    """Process a report of a segment out of order."""
    if W[m + at.STATE] == at.LOSS:
        return
    if W[m + at.STATE] == at.RECOVERY:
        windows.recover(W, F, m, delivered, boards.flight(W, m), repaired)
        return
    W[m + at.DUPLICATES] += 1
    W[m + at.STATE] = at.DISORDER
    if W[m + at.DUPLICATES] == DUPLICATES or boards.outruns_second(W, m):
        _enter_recovery(W, F, m, delivered, now)


@piece
def repair(
    W: Integers, F: Reals, m: int, count: int, delivered: int, now: float, repaired: int
) -> None:
    """Process an acknowledgement during a repair."""
    if W[m + at.STATE] == at.LOSS:
        windows.note_acknowledgement(W, F, m, now)
        windows.grow(W, F, m, count, W[m + at.UNKNOWN], W[m + at.NEXT], now)
        restart_timer(W, F, m, now)
    else:
        windows.recover(W, F, m, delivered, boards.flight(W, m), repaired)
        if not boards.is_repaired(W, m, W[m + at.UNKNOWN]):
            _retransmit(W, F, m, now)
        windows.note_acknowledgement(W, F, m, now)
        # RFC 6582, impatient variant: only the first partial acknowledgement restarts the timer.
        if W[m + at.PARTIAL]:
            restart_timer(W, F, m, now)
        W[m + at.PARTIAL] = 0


# The timer.


@inline
def _set_timer(W: Integers, F: Reals, m: int) -> None:
    deadline = F[m + at.DEADLINE]
    # A timer is only moved forward. If the deadline moves back, the old timer expires and `look`
    # waits on: far cheaper than to reschedule it per acknowledgement.
    if W[m + at.TIMER] and deadline < F[m + at.TIMER_WHEN]:
        W[m + at.TIMER] = 0
        forget(W, F)
    if not W[m + at.TIMER] and deadline < inf:
        # A deadline may have passed while the sender was busy.
        when = max(deadline, F[at.NOW])
        F[m + at.TIMER_WHEN] = when
        W[m + at.TIMER] = W[call(W, F, when, at.TIMES_OUT, m) + at.EVENT_KEY]


@inline
def _arm(W: Integers, F: Reals, m: int, now: float) -> None:
    """Start the timer; on Linux also postpone the probe, which follows the last segment."""
    if F[m + at.DEADLINE] == inf:
        F[m + at.LATE_AT] = now + F[m + at.TIMEOUT]
    elif W[at.LINUX] and F[m + at.PROBE] < inf and W[m + at.STATE] == at.OPEN:
        first = boards.about(W, m, W[m + at.UNKNOWN], at.SENT_AT)
        F[m + at.LATE_AT] = F[first] + F[m + at.TIMEOUT]
    else:
        return
    _set_deadline(W, F, m, now)


@inline
def _set_deadline(W: Integers, F: Reals, m: int, now: float) -> None:
    late_at = F[m + at.LATE_AT]
    F[m + at.DEADLINE] = late_at
    if not W[at.LINUX]:
        return
    F[m + at.PROBE] = inf
    # No probe after a probe, before the first RTT sample, or during a repair (RFC 8985).
    if W[m + at.PROBED] or F[m + at.MEAN_TRIP] == 0.0 or W[m + at.STATE] != at.OPEN:
        return
    # The acknowledgement of a single segment may be delayed by its receiver.
    later = F[at.LEAST_TIMEOUT] if W[m + at.NEXT] - W[m + at.UNKNOWN] <= 1 else GRAIN
    probe = now + PROBE * F[m + at.MEAN_TRIP] + later
    if late_at > now:
        probe = min(probe, late_at)
    F[m + at.DEADLINE] = F[m + at.PROBE] = probe


@inline
def restart_timer(W: Integers, F: Reals, m: int, now: float) -> None:
    """Restart the timer after an acknowledgement."""
    windows.restore_timeout(W, F, m)
    W[m + at.PROBED], F[m + at.OVERTAKEN_BY] = 0, inf
    if W[m + at.UNKNOWN] >= W[m + at.TOTAL]:
        F[m + at.DEADLINE] = F[m + at.PROBE] = inf
    else:
        F[m + at.LATE_AT] = now + F[m + at.TIMEOUT]
        _set_deadline(W, F, m, now)


@piece
def look(W: Integers, F: Reals, m: int) -> None:
    """Time out, or keep waiting if the timer was restarted meanwhile."""
    W[m + at.TIMER] = 0
    if F[m + at.DEADLINE] <= F[at.NOW]:
        # Without any packet since the handshake, the receiver repeats its answer, which resets the
        # window.
        reached = W[m + at.CONFIRMED] or count_arrived(W, m) > 0
        if not W[at.LINUX] and not reached:  # see `TcpTransfer._unheard`
            F[m + at.SIZE], F[m + at.THRESHOLD] = W[at.INITIAL], inf
        _time_out(W, F, m, F[at.NOW])
    _set_timer(W, F, m)


@piece
def _time_out(W: Integers, F: Reals, m: int, now: float) -> None:
    """Repair overtaken segments, send a probe, or retransmit after a timeout."""
    if not W[at.LINUX]:
        flight = boards.flight(W, m)
        boards.lose_all(W, m)
        _begin_anew(W, F, m, flight, at.ALONE, now)
    # One timer serves three purposes (RFC 8985): reordering, tail probe, retransmission.
    elif now >= F[m + at.OVERTAKEN_BY]:
        F[m + at.OVERTAKEN_BY] = inf
        look_for_losses(W, F, m, now)
        if boards.first_lost(W, m) >= 0 and W[m + at.STATE] <= at.DISORDER:
            begin_repair(W, F, m, at.ALONE, now)
        else:
            restart_timer(W, F, m, now)
    elif now >= F[m + at.PROBE]:
        F[m + at.PROBE], W[m + at.PROBED], F[m + at.DEADLINE] = inf, 1, inf
        more = W[m + at.NEXT] < W[m + at.TOTAL]
        _send_one(W, F, m, W[m + at.NEXT] if more else W[m + at.NEXT] - 1, now)
    else:
        _lose_late(W, F, m, now)


@piece
def _lose_late(W: Integers, F: Reals, m: int, now: float) -> None:
    """Mark segments as lost after a timeout: see `RackSender._begin_anew`."""
    state, retries, flight = W[m + at.STATE], W[m + at.RETRIES], boards.flight(W, m)
    harmed = state >= at.RECOVERY
    # The threshold is reduced once per episode of losses.
    over = W[m + at.UNKNOWN] >= W[m + at.RECOVER] or (state == at.LOSS and not retries)
    if not harmed:
        F[m + at.SENT_AGAIN_AT] = now
    F[m + at.PROBE] = F[m + at.OVERTAKEN_BY] = inf
    W[m + at.DOUBTS] = 1 if not harmed or retries else 0
    W[m + at.ONLY_NEW] = W[m + at.PROBED] = 0
    W[m + at.RETRIES] = retries + 1
    boards.lose_late(W, F, m, now)
    _begin_anew(W, F, m, flight, at.ALONE if not harmed or over else at.NOTHING, now)


@part
def _begin_anew(W: Integers, F: Reals, m: int, flight: int, reduces: int, now: float) -> None:
    """Shrink the window and send the first segment."""
    W[m + at.DUPLICATES] = 0
    W[m + at.RECOVER] = W[m + at.TIMED] = W[m + at.NEXT]
    # On Linux segments that were sent recently still count as in flight.
    left = boards.flight(W, m)
    windows.shrink(W, F, m, flight, W[m + at.NEXT], now, reduces, left)
    W[m + at.STATE] = at.LOSS
    F[m + at.DEADLINE] = inf
    _send_any(W, F, m, now)
