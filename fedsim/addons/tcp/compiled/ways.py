"""Paths of segments, and their arrival: see `TcpLane` and `TcpTransfer`."""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part, piece
from fedsim.addons.tcp.compiled.events import call, free_node, take_node
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record, Train
from fedsim.addons.tcp.compiled.queues import is_crowded
from fedsim.addons.tcp.compiled.receivers import (
    acknowledge_late,
    take_segment,
    take_train,
)
from fedsim.addons.tcp.handshake import OPTIONS
from fedsim.addons.tcp.queue import carry, carry_one, room
from fedsim.addons.tcp.receiver import count_arrived


@inline
def _over(m: Record, number: int) -> int:
    """Return whether the owner of a packet is over."""
    # Negative numbers are packets of the handshake.
    if number >= 0:
        over: int = m.over
        return over
    return m.syn_over if number == at.SYN else 0


@part
def _push_train(W: Integers, F: Reals, m: Record, train: Train, hop: int) -> None:
    """Schedule the arrival of segments at a queue."""
    node = call(W, F, train.first, at.FORWARD, m)
    W[node + at.NUMBER], W[node + at.COUNT], W[node + at.HOP] = train.number, train.segments, hop
    F[node + at.BITS], F[node + at.SENT], F[node + at.PACE] = train.bits, train.sent, train.pace
    F[node + at.LAST] = train.last


@part
def forward_one(
    W: Integers, F: Reals, m: Record, number: int, bits: float, sent: float, first: float, hop: int
) -> None:
    """Move a segment to the next queue that others use, or to its receiver."""
    if _over(m, number):
        return
    p, now = m.path, F[at.NOW]
    while hop < len(p.stages):
        s = p.stages[hop]
        # Others may come first: the packet is an event of its own. Other queues are computed ahead
        # of time.
        if first > now and s.shared:
            node = call(W, F, first, at.FORWARD_ONE, m)
            W[node + at.NUMBER], W[node + at.HOP] = number, hop
            F[node + at.SENT], F[node + at.BITS] = sent, bits
            return
        through = carry_one(s.queue, first, bits, p.leads[hop])
        if through < 0:
            return  # tail drop
        first = through + s.delay
        hop += 1
    # Delays include the transmission of a full segment on links without a queue.
    if bits < p.segment:
        first = max(first - _swifter(W, F, p, bits, number), now)
    _deliver_packet(W, F, m, number, bits, sent, first)


@part
def _swifter(W: Integers, F: Reals, p: Record, bits: float, number: int) -> float:
    """Return how much earlier than a full segment a shorter one arrives: `TcpPath.swifter`."""
    gain = (p.segment - bits) * p.free_bit
    if number <= 0:
        return gain
    # Behind full segments: what is gained on free links may be lost again at the radio.
    if p.radio:
        return min(gain, 0.0)
    radio = p.stages[0].queue
    return min(gain, max(bits / radio.rate - bits * p.free_bit, 0.0))


@piece
def _deliver_packet(
    W: Integers, F: Reals, m: Record, number: int, bits: float, sent: float, time: float
) -> None:
    """Deliver a segment, or a packet of the handshake."""
    if number >= 0:
        _deliver_one(W, F, m, number, bits, sent, time)
    elif number == at.ANSWER:
        m.confirmed = 1
    elif not m.answered:
        m.answered = 1
        p = m.path
        # The answer has options, too, and does not queue.
        answer = p.back + OPTIONS * p.back_bit
        call(W, F, time + answer, at.SYN_ENDS, m)


@part
def forward(W: Integers, F: Reals, m: Record, train: Train, hop: int) -> None:
    """Move a train to the next queue that others use, or to its receiver."""
    number, count, bits, sent, pace, first, last = train
    if count == 1:
        forward_one(W, F, m, number, bits, sent, first, hop)
        return
    # Only a message sends trains: a handshake has single packets.
    if m.over:
        return
    p, now = m.path, F[at.NOW]
    while hop < len(p.stages):
        s = p.stages[hop]
        q = s.queue
        if first > now and s.shared:
            _push_train(W, F, m, Train(number, count, bits, sent, pace, first, last), hop)
            return
        space = 0.0
        # A train stays whole if none of its segments can be dropped, or if all arrive at one
        # instant: then the rest of the queue decides at once.
        whole = not q.crowded or first == last
        if whole:
            space = room(q, first, p.leads[hop])
            whole = space >= count or first == last
        if not whole:
            _split(W, F, m, Train(number, count, bits, sent, pace, first, last), hop)
            return
        # Only for trains of one instant: the tail is dropped.
        if space < count:
            if space < 1:
                return  # tail drop
            count = int(space)
        first, last = carry(q, first, last, count, bits)
        first, last = first + s.delay, last + s.delay
        hop += 1
    if count > 1:
        _deliver(W, F, m, Train(number, count, bits, sent, pace, first, last))
    else:  # the others were tail-dropped
        _deliver_one(W, F, m, number, bits, sent, first)


@piece
def _split(W: Integers, F: Reals, m: Record, train: Train, hop: int) -> None:
    """Forward the segments of a train one by one."""
    number, count, bits, sent, pace, first, last = train
    between = (last - first) / max(count - 1, 1)
    for n in range(count):
        forward_one(W, F, m, number + n, bits, sent + n * pace, first + n * between, hop)


# The receiver.


@piece
def _deliver(W: Integers, F: Reals, m: Record, train: Train) -> None:
    """Deliver a train of several segments."""
    number, count, _, sent, pace, first, last = train
    before = count_arrived(m)
    # A retransmission after the end.
    if before == m.total:
        return
    # A delayed acknowledgement was due before this train: sent at its own time.
    if m.due < first:
        acknowledge_late(W, F, m, m.due)
    if number == m.awaited and not m.earlies and not is_crowded(m):
        take_train(W, F, m, train)
    else:
        between = (last - first) / max(count - 1, 1)
        for n in range(count):
            take_segment(W, F, m, number + n, sent + n * pace, first + n * between)
    after = count_arrived(m)
    if after > before:
        _note(W, F, m, first - (last - first) / (count - 1), last, after - before)
    _wait_for_more(W, F, m, last)


@inline
def _deliver_one(
    W: Integers, F: Reals, m: Record, number: int, bits: float, sent: float, time: float
) -> None:
    """Deliver a segment."""
    before = count_arrived(m)
    if before == m.total:
        return
    if m.due < time:
        acknowledge_late(W, F, m, m.due)
    take_segment(W, F, m, number, sent, time)
    after = count_arrived(m)
    if after > before:
        p = m.path
        # The first bits of the segment came one slot of the radio before its end.
        radio = p.stages[p.radio].queue
        _note(W, F, m, time - bits / radio.rate, time, at.ALONE)
    if after == m.total or m.due < inf:
        _wait_for_more(W, F, m, time)


@inline
def _wait_for_more(W: Integers, F: Reals, m: Record, last: float) -> None:
    """Finish with the last segment, or wait to acknowledge a single one."""
    if count_arrived(m) == m.total:
        # A stream may have set an earlier end already.
        m.ends = min(m.ends, last)
        call(W, F, last, at.FINISH, m)
    # One check at a time: it moves on if the deadline has moved.
    elif m.due < inf and not m.waits:
        m.waits = 1
        call(W, F, m.due, at.LATE_ONE, m)


@part
def look_for_late(W: Integers, F: Reals, m: Record) -> None:
    """Acknowledge a segment that no other has followed in time."""
    m.waits = 0
    due, now = m.due, F[at.NOW]
    if m.over or due == inf:
        return
    if due <= now:
        acknowledge_late(W, F, m, now)
    else:
        m.waits = 1
        call(W, F, due, at.LATE_ONE, m)


@inline
def _note(W: Integers, F: Reals, m: Record, first: float, last: float, count: int) -> None:
    """Log the arrival of segments: see `TcpArrivals.note`."""
    now = F[at.NOW]
    # A node of the log holds ITEMS entries.
    if not m.log_first or m.log_end == at.ITEMS:
        _add_page(W, F, m, now)
    item = m.log_last + at.ITEM * m.log_end
    F[item + at.FROM], F[item + at.TO] = max(now, first), last
    W[item + at.ARRIVED_THEN] = count
    m.log_end += 1


@part
def _add_page(W: Integers, F: Reals, m: Record, now: float) -> None:
    """Append a node to the log of arrivals, and drop nodes whose arrivals are past."""
    new = take_node(W)
    W[new + at.LINK], m.log_end = 0, 0
    if m.log_first:
        W[m.log_last + at.LINK] = new
    else:
        m.log_first = new
    m.log_last = new
    while m.log_first != new:
        page, latest, count = m.log_first, 0.0, 0
        for k in range(at.ITEMS):
            latest = max(latest, F[page + at.ITEM * k + at.TO])
            count += W[page + at.ITEM * k + at.ARRIVED_THEN]
        # Later nodes may only be summed up after all earlier ones.
        if latest > now:
            break
        m.passed += count
        m.log_first = W[page + at.LINK]
        free_node(W, page)


@part
def forget_log(W: Integers, m: Record) -> None:
    """Free the log of arrivals."""
    node = m.log_first
    while node:
        behind = W[node + at.LINK]
        free_node(W, node)
        node = behind
    m.log_first = 0
