"""The sender of a message's segments: see `TcpTransfer`."""

from math import inf

from fedsim.addons.tcp import congestion
from fedsim.addons.tcp import senders as sending
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part, piece
from fedsim.addons.tcp.compiled.events import call, forget
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record, Train
from fedsim.addons.tcp.compiled.queues import claim, is_crowded
from fedsim.addons.tcp.compiled.records import method
from fedsim.addons.tcp.compiled.streams import begin_stream, may_flow, narrow_link
from fedsim.addons.tcp.compiled.ways import forward
from fedsim.addons.tcp.receiver import TrainAcknowledgement, count_arrived
from fedsim.addons.tcp.sender import (
    acknowledge,
    acknowledge_in_order,
    acknowledge_train,
    time_out,
)
from fedsim.addons.tcp.senders import CLOSE
from fedsim.addons.tcp.stream import LEAST
from fedsim.addons.tcp.transfer import AHEAD, LEAST_TRAIN, LOOKED_AT, SHARE

for _law in (
    congestion.measure,
    congestion.restore_timeout,
    congestion.note_acknowledgement,
    congestion.grow,
    congestion.enter_recovery,
    congestion.recover,
    congestion.count_sent,
    congestion.leave_recovery,
    congestion.time_out,
    congestion.undo_time_out,
):
    method("message", _law.__name__)(_law)


@method("message", "note_sent")
def _note_sent(m: Record, count: int, now: float) -> None:
    for number in range(m.next, m.next + count):
        m.sent[number] = now


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


@method("message", "launch")
def _launch_one(m: Record, number: int, now: float) -> None:
    _launch(m.words, m.reals, m, number, at.ALONE, now, 0.0)


@part
def send(W: Integers, F: Reals, m: Record, now: float, span: float) -> None:
    """Send what the window allows, spread over the time of the acknowledgements."""
    if sending.is_steady(m):
        send_new(W, F, m, now, span)
    else:
        sending.send(m, now)
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
    sending.begin(m, todo, now)
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
        time_out(m, F[at.NOW])
    _set_timer(W, F, m)


# Acknowledgements.


@piece
def take_acknowledgement(W: Integers, F: Reals, m: Record, node: int) -> None:
    """Process an acknowledgement, and send what it allows."""
    # Window and timer no longer matter once the rest flows as a stream.
    if m.over or m.stream:
        return
    now, number, early = F[at.NOW], W[node + at.NUMBER], W[node + at.EARLY]
    if early < 0 and sending.is_steady(m):
        acknowledge_in_order(m, number, F[node + at.ECHO], now)
        send_new(W, F, m, now, 0.0)
    else:
        acknowledge(m, number, early, F[node + at.ECHO], now)
        send(W, F, m, now, 0.0)


@piece
def take_acknowledgements(W: Integers, F: Reals, m: Record, node: int) -> None:
    """Process several acknowledgements, the first of which arrives now, and send."""
    if m.over or m.stream:
        return
    now, times, between = F[at.NOW], W[node + at.TIMES], F[node + at.BETWEEN]
    acknowledgement = TrainAcknowledgement(
        W[node + at.NUMBER],
        times,
        between,
        F[node + at.ECHO],
        F[node + at.ECHO_NEXT],
        F[node + at.PACE],
        W[node + at.EACH_TIME],
    )
    acknowledge_train(m, acknowledgement, now)
    send(W, F, m, now, between * (times - 1))
