"""The sender of a message's segments: see `Sender`, `RackSender` and `TcpTransfer`."""

from math import inf

from fedsim.addons.tcp import boards, congestion
from fedsim.addons.tcp.boards import DUPLICATES
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part, piece
from fedsim.addons.tcp.compiled.events import call, forget
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record, Train
from fedsim.addons.tcp.compiled.queues import claim, is_crowded
from fedsim.addons.tcp.compiled.streams import begin_stream, may_flow, narrow_link
from fedsim.addons.tcp.compiled.ways import forward
from fedsim.addons.tcp.rack import GRAIN, PROBE, REORDERING
from fedsim.addons.tcp.receiver import count_arrived
from fedsim.addons.tcp.sender import CLOSE
from fedsim.addons.tcp.stream import LEAST
from fedsim.addons.tcp.transfer import AHEAD, LEAST_TRAIN, LOOKED_AT, SHARE


@inline
def is_steady(m: Record) -> bool:
    """Return whether no loss is known, no repair is pending, and no loss was dismissed."""
    if m.state != at.OPEN or not boards.is_clean(m):
        return False
    holds: bool = m.first >= m.unsure
    return holds


# Segments on their way.


@piece
def _launch(
    W: Integers, F: Reals, m: Record, number: int, count: int, start: float, pace: float
) -> None:
    """Send segments; the last one of a message may be shorter."""
    end = start + pace * (count - 1)
    # In a crowded queue packets are dropped one by one, so the shorter last segment travels alone.
    if number + count == m.total and count > 1 and is_crowded(m):
        _launch_part(W, F, m, number, count - 1, start, pace)
        _launch_part(W, F, m, number + count - 1, at.ALONE, end, 0.0)
    else:
        _launch_part(W, F, m, number, count, start, pace)


@inline
def _launch_part(
    W: Integers, F: Reals, m: Record, number: int, count: int, start: float, pace: float
) -> None:
    m.segments_sent += count
    bits, end = m.each, start + pace * (count - 1)
    m.last_sent = end
    if number + count == m.total:
        # A train has one size: the mean, which is exact in total.
        bits += (m.short - bits) / count
    train = Train(number, count, bits, start, pace, start, end)
    forward(W, F, m, train, at.NOTHING)


@part
def send(W: Integers, F: Reals, m: Record, now: float, span: float) -> None:
    """Send what the window allows, spread over the time of the acknowledgements."""
    if is_steady(m):
        send_new(W, F, m, now, span)
    else:
        _send_any(W, F, m, now)
        _set_timer(W, F, m)


@inline
def send_new(W: Integers, F: Reals, m: Record, now: float, span: float) -> None:
    """Send new segments, in a state without known losses."""
    size = m.size
    left, flight = m.total - m.next, m.next - m.first
    allowed = int(size + CLOSE) - flight
    todo = min(allowed, left)
    if todo <= 0:
        _set_timer(W, F, m)
        return
    # Only a long rest can flow as a stream: checked before anything is sent.
    if left >= LEAST and _flows_on(W, F, m, left):
        return
    # Claims shrink as segments are acknowledged, which makes room for other messages.
    if left + flight != m.claim:
        _claim_anew(W, F, m, left + flight)
    number = m.next
    m.next = number + todo
    if m.linux:
        for index in range(number, number + todo):
            m.sent[index] = now
    _arm(m, now)
    _set_timer(W, F, m)
    most = _longest_train(W, m, todo, span)
    # Segments leave at the pace of the acknowledgements that allow them.
    pace, start = span / allowed, now
    while todo > 0:
        count = min(most, todo)
        _launch(W, F, m, number, count, start, pace)
        number += count
        todo -= count
        start += pace * count


@part
def _claim_anew(W: Integers, F: Reals, m: Record, count: int) -> None:
    claim(m, count - m.claim, at.NOTHING)
    m.claim = count


@inline
def _longest_train(W: Integers, m: Record, todo: int, span: float) -> int:
    """Return how many segments travel as one train: see `TcpTransfer._send_new`."""
    if is_crowded(m):
        return 1 if span != 0.0 else todo
    if todo <= LEAST_TRAIN:
        return todo
    p = m.path
    longest = int(m.size)
    # Long trains of others would hide the delay that HyStart looks for.
    if congestion.looks(m):
        for k in range(len(p.stages)):
            s = p.stages[k]
            if s.shared and s.queue.flows > 1:
                longest = LOOKED_AT
    longest_train: int = max(LEAST_TRAIN, min(longest, p.narrow // SHARE))
    return longest_train


@piece
def _flows_on(W: Integers, F: Reals, m: Record, left: int) -> bool:
    """Send the rest as a stream, if possible."""
    p = m.path
    if not may_flow(F, m, p, left):
        return False
    number = narrow_link(W, F, p)
    if number < 0:
        return False
    # All segments count as sent: the stream stands for those that were left.
    m.next = m.total
    _claim_anew(W, F, m, int(AHEAD * m.size))
    m.segments_sent += left
    m.deadline = inf
    begin_stream(W, F, m, number, left)
    return True


# Repair.


@part
def _send_any(W: Integers, F: Reals, m: Record, now: float) -> None:
    """Send what the window allows: lost segments first, then new ones."""
    while m.size - boards.flight(m) >= 1 - CLOSE:
        # F-RTO sends two new segments before it retransmits more.
        number = -1 if m.only_new else boards.first_lost(m)
        if number < 0 and m.next < m.total:
            number = m.next
        # RFC 6675, NextSeg rule 3; Linux leaves these to the probe (`first_unknown` gives -1).
        elif number < 0 and m.state == at.RECOVERY:
            number = boards.first_unknown(m)
        if number < 0:
            break
        _send_one(W, F, m, number, now)
    m.only_new = 0


@part
def _send_one(W: Integers, F: Reals, m: Record, number: int, now: float) -> None:
    if number < m.next:
        if m.linux and number == m.first and m.state != at.OPEN:
            m.deadline = inf  # a retransmission of the first segment restarts the timer
        boards.send_again(m, number, now)
    else:
        m.next = number + 1
        # On every stack, as the column is there; only Linux reads it.
        m.sent[number] = now
    _arm(m, now)
    if m.state == at.RECOVERY:
        congestion.count_sent(m)
    _launch(W, F, m, number, at.ALONE, now, 0.0)


@part
def _retransmit(W: Integers, F: Reals, m: Record, now: float) -> None:
    """Send the first lost segment at once; if none is known, a new or the first one."""
    number = boards.first_lost(m)
    # An acknowledgement has ended the known losses: the window is used for new data.
    if number < 0:
        more = m.next < m.total
        number = m.next if more else m.first
    _send_one(W, F, m, number, now)


@part
def _enter_recovery(W: Integers, F: Reals, m: Record, delivered: int, now: float) -> None:
    boards.lose_first(m)
    m.recover, m.state = m.next, at.RECOVERY
    outstanding = m.next - m.first
    congestion.enter_recovery(m, boards.flight(m), outstanding, delivered)
    _retransmit(W, F, m, now)


@part
def begin_repair(W: Integers, F: Reals, m: Record, delivered: int, now: float) -> None:
    """Start to repair losses: see `RackSender`."""
    m.overtaken_by = m.probe = inf
    m.sent_again_at = now
    m.recover, m.state = m.next, at.RECOVERY
    outstanding = m.next - m.first
    congestion.enter_recovery(m, boards.flight(m), outstanding, delivered)
    _retransmit(W, F, m, now)
    restart_timer(m, now)


@part
def look_for_losses(m: Record, now: float) -> float:
    """Mark losses; return when further overtaken segments count as lost, s."""
    if boards.is_clean(m):
        return inf
    sure = m.state >= at.RECOVERY or m.arrived >= DUPLICATES
    return boards.find_lost(m, 0.0 if sure else REORDERING * m.least_trip, now)


@piece
def take_duplicate(
    W: Integers, F: Reals, m: Record, delivered: int, now: float, repaired: int
) -> None:
    """Process a report of a segment out of order."""
    if m.state == at.LOSS:
        return
    if m.state == at.RECOVERY:
        congestion.recover(m, delivered, boards.flight(m), repaired)
        return
    m.duplicates += 1
    m.state = at.DISORDER
    if m.duplicates == DUPLICATES or boards.outruns_second(m):
        _enter_recovery(W, F, m, delivered, now)


@piece
def repair(
    W: Integers, F: Reals, m: Record, count: int, delivered: int, now: float, repaired: int
) -> None:
    """Process an acknowledgement during a repair."""
    if m.state == at.LOSS:
        congestion.note_acknowledgement(m, m.first, m.next, now)
        congestion.grow(m, count, m.first, m.next, now)
        restart_timer(m, now)
    else:
        congestion.recover(m, delivered, boards.flight(m), repaired)
        if not boards.is_repaired(m, m.first):
            _retransmit(W, F, m, now)
        congestion.note_acknowledgement(m, m.first, m.next, now)
        # RFC 6582, impatient variant: only the first partial acknowledgement restarts the timer.
        if m.partial:
            restart_timer(m, now)
        m.partial = 0


# The timer.


@inline
def _set_timer(W: Integers, F: Reals, m: Record) -> None:
    deadline = m.deadline
    # A timer is only moved forward. If the deadline moves back, the old timer expires and `look`
    # waits on: far cheaper than to reschedule it per acknowledgement.
    if m.timer and deadline < m.timer_when:
        m.timer = 0
        forget(W, F)
    if not m.timer and deadline < inf:
        # A deadline may have passed while the sender was busy.
        when = max(deadline, F[at.NOW])
        m.timer_when = when
        m.timer = W[call(W, F, when, at.TIMES_OUT, m) + at.EVENT_KEY]


@inline
def _arm(m: Record, now: float) -> None:
    """Start the timer; on Linux also postpone the probe, which follows the last segment."""
    if m.deadline == inf:
        m.late_at = now + m.timeout
    elif m.linux and m.probe < inf and m.state == at.OPEN:
        m.late_at = m.sent[m.first] + m.timeout
    else:
        return
    _set_deadline(m, now)


@inline
def _set_deadline(m: Record, now: float) -> None:
    late_at = m.late_at
    m.deadline = late_at
    if not m.linux:
        return
    m.probe = inf
    # No probe after a probe, before the first RTT sample, or during a repair (RFC 8985).
    if m.probed or m.trip == 0.0 or m.state != at.OPEN:
        return
    # The acknowledgement of a single segment may be delayed by its receiver.
    later = m.least_timeout if m.next - m.first <= 1 else GRAIN
    probe = now + PROBE * m.trip + later
    if late_at > now:
        probe = min(probe, late_at)
    m.deadline = m.probe = probe


@inline
def restart_timer(m: Record, now: float) -> None:
    """Restart the timer after an acknowledgement."""
    congestion.restore_timeout(m)
    m.probed, m.overtaken_by = 0, inf
    if m.first >= m.total:
        m.deadline = m.probe = inf
    else:
        m.late_at = now + m.timeout
        _set_deadline(m, now)


@piece
def look(W: Integers, F: Reals, m: Record) -> None:
    """Time out, or keep waiting if the timer was restarted meanwhile."""
    m.timer = 0
    if m.deadline <= F[at.NOW]:
        # Without any packet since the handshake, the receiver repeats its answer, which resets the
        # window.
        reached = m.confirmed or count_arrived(m) > 0
        if not m.linux and not reached:  # see `TcpTransfer._unheard`
            congestion.reopen(m)
        _time_out(W, F, m, F[at.NOW])
    _set_timer(W, F, m)


@piece
def _time_out(W: Integers, F: Reals, m: Record, now: float) -> None:
    """Repair overtaken segments, send a probe, or retransmit after a timeout."""
    if not m.linux:
        flight = boards.flight(m)
        boards.lose_all(m)
        _begin_anew(W, F, m, flight, at.ALONE, now)
    # One timer serves three purposes (RFC 8985): reordering, tail probe, retransmission.
    elif now >= m.overtaken_by:
        m.overtaken_by = inf
        look_for_losses(m, now)
        if boards.first_lost(m) >= 0 and m.state <= at.DISORDER:
            begin_repair(W, F, m, at.ALONE, now)
        else:
            restart_timer(m, now)
    elif now >= m.probe:
        m.probe, m.probed, m.deadline = inf, 1, inf
        more = m.next < m.total
        _send_one(W, F, m, m.next if more else m.next - 1, now)
    else:
        _lose_late(W, F, m, now)


@piece
def _lose_late(W: Integers, F: Reals, m: Record, now: float) -> None:
    """Mark segments as lost after a timeout: see `RackSender._begin_anew`."""
    state, retries, flight = m.state, m.retries, boards.flight(m)
    harmed = state >= at.RECOVERY
    # The threshold is reduced once per episode of losses.
    over = m.first >= m.recover or (state == at.LOSS and not retries)
    if not harmed:
        m.sent_again_at = now
    m.probe = m.overtaken_by = inf
    m.doubts = 1 if not harmed or retries else 0
    m.only_new = m.probed = 0
    m.retries = retries + 1
    boards.lose_late(m, now)
    _begin_anew(W, F, m, flight, at.ALONE if not harmed or over else at.NOTHING, now)


@part
def _begin_anew(W: Integers, F: Reals, m: Record, flight: int, reduces: int, now: float) -> None:
    """Shrink the window and send the first segment."""
    m.duplicates = 0
    m.recover = m.timed = m.next
    # On Linux segments that were sent recently still count as in flight.
    left = boards.flight(m)
    congestion.time_out(m, flight, m.next, now, reduces, left)
    m.state = at.LOSS
    m.deadline = inf
    _send_any(W, F, m, now)
