"""Entry points of the compiled TCP world: start, stop and run messages."""

import gc
from math import inf

import numba
from numba.core.dispatcher import Dispatcher

from fedsim.addons.tcp import boards, handshake, receiving, stream, transfers, ways
from fedsim.addons.tcp.compiled import flows, messages, queues
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import (
    integers_at,
    kernel,
    part,
    piece,
    prefetch,
    reals_at,
)
from fedsim.addons.tcp.compiled.events import (
    drop_first,
    enough,
    forget_events,
    free_if_over,
    free_node,
    is_dead,
    on_a_line,
    release,
)
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.addons.tcp.compiled.records import flow, message, path, queue
from fedsim.addons.tcp.congestion import open_window
from fedsim.addons.tcp.handshake import begin_handshake
from fedsim.addons.tcp.queue import claim_path, make_empty
from fedsim.addons.tcp.receiver import EVERY, GROWS, count_arrived
from fedsim.addons.tcp.senders import start_sender
from fedsim.sim.kernels import register_laws
from fedsim.sim.network import link_share

_METHODS = flows, messages, queues
"""Modules that register what records have beyond their fields."""
register_laws()

FULL = -1
"""Return value of a kernel that needs a longer buffer. The caller grows it and calls again."""

MOST_SEARCHED = 256
"""Above this number of messages the earliest end is not searched for."""

SURELY = 1 - 1e-9
"""Factor that keeps a lower bound of a duration below any rounding of it."""

# Messages.


@part
def _make_message(W: Integers, total: int) -> int:
    """Return a cleared message record, or `FULL`."""
    size = 0
    # Records are reused by capacity class: the least power of two that holds all segments.
    while (1 << size) < total:
        size += 1
    words = at.WORDS + (at.PER_SEGMENT << size)
    record = W[at.SLOTS + size]
    m = message(W, record)
    if record:
        W[at.SLOTS + size] = m.next_free
    else:
        record = on_a_line(W)
        if record + words > W[at.END]:
            # The caller reads from the header how much longer the buffer has to be.
            W[at.WANTED] = words + at.LINE
            return FULL
        W[at.TOP] = record + words
        m = message(W, record)
        m.next_message = W[at.MESSAGES]
        W[at.MESSAGES] = record
    others = m.next_message
    # Besides the record only flags have to be cleared: the other columns are written before they
    # are read.
    for k in range(at.WORDS + total):
        W[record + k] = 0
    m.next_message, m.capacity, m.total = others, size, total
    return record


@part
def _reset_sender(W: Integers, F: Reals, m: Record) -> None:
    m.cubic, m.linux, m.initial = W[at.CUBIC], W[at.LINUX], W[at.INITIAL]
    m.payload, m.least_timeout = m.path.payload, F[at.LEAST_TIMEOUT]
    open_window(m)
    # As if two segments waited: a new connection acknowledges its first segment at once.
    m.unsaid = EVERY
    m.delay, m.grows = F[at.DELAY], GROWS if m.linux else 0
    start_sender(m)
    m.delivered = boards.NOTHING
    m.due = m.ends = m.timer_when = inf


@kernel
def begin(
    buffer: int, number: int, total: int, segment_bits: float, short: float, bits: float
) -> int:
    """Start a message now; return its record, or `FULL` with nothing changed.

    Args:
        buffer: the address of the buffer.
        number: the record of the path.
        total: the number of segments.
        segment_bits: the bits of a full segment.
        short: the bits of the last segment.
        bits: the bits of the message.
    """
    W = integers_at(buffer)
    F = reals_at(buffer)
    # Reserved before anything changes, so that the call can be repeated with a longer buffer.
    if not enough(W, at.SPARE, at.SPARE):
        return FULL
    record = _make_message(W, total)
    if record == FULL:
        return FULL
    m = message(W, record)
    m.path = p = path(W, number)
    if not p.used:
        p.used, p.next_used, W[at.PATHS] = 1, W[at.PATHS], number
    m.each, m.short, m.bits = segment_bits, short, bits
    _reset_sender(W, F, m)
    m.claim = total
    claim_path(m.path, total, 1)
    begin_handshake(m)
    return record


@kernel
def stop(buffer: int, record: int) -> int:
    """Cancel a message; return 0, or `FULL` with nothing changed."""
    W = integers_at(buffer)
    if not enough(W, at.SPARE, at.SPARE):
        return FULL
    m = message(W, record)
    transfers.close(m, at.NOTHING)
    free_if_over(W, m)
    return 0


# Execution of events.


@part
def _burst(W: Integers, kind: int, m: Record, number: int) -> int:
    """Return an upper bound for the segments that an event sends, or the flows it ends."""
    # A single packet triggers at most a few others: an acknowledgement, or a handshake packet.
    if kind == at.FORWARD_ONE:
        return at.SPARE
    # Every flow of the link may end at once, each with the events of its message.
    if kind >= at.FLOWS_SETTLE:
        q = queue(W, number)
        flows_of_link: int = q.sharing + q.capped + at.SPARE
        return flows_of_link
    on_way = m.next - m.first
    # The window may double, and an undone timeout may restore an earlier one.
    most = 2 * (int(m.size) + on_way) + int(m.size_before)
    if m.threshold < inf:
        most += int(m.threshold)
    room: int = min(most, 2 * m.total) + at.SPARE
    return room


@part
def _has_room(W: Integers, kind: int, m: Record, node: int) -> bool:
    """Reserve memory for an event; return whether the buffer has enough."""
    most = _burst(W, kind, m, W[node + at.NUMBER])
    stages = len(m.path.stages) if W[node + at.ABOUT] else 1
    # Bounds per segment: two events, and nodes for the queues of the path and for logs.
    return enough(W, 2 * most, (stages + 2) * most)


@piece
def _execute(W: Integers, F: Reals, kind: int, m: Record, node: int) -> bool:
    """Execute an event; return whether its message is complete."""
    n = node + at.NUMBER  # the arguments, which `messages` has written
    if kind == at.FORWARD_ONE:
        ways.forward_one(m, (m, W[n], F[n + 1], F[n + 2], F[n + 3], W[n + 4]))
    elif kind == at.FORWARD:
        train = (m, W[n], W[n + 1], F[n + 2], F[n + 3], F[n + 4], F[n + 5], F[n + 6], W[n + 7])
        ways.forward(m, train)
    elif kind == at.ACKNOWLEDGED:
        transfers.take_acknowledgement(m, (W[n], W[n + 1], F[n + 2]))
    elif kind == at.ALL_ACKNOWLEDGED:
        acknowledged = (W[n], W[n + 1], F[n + 2], F[n + 3], F[n + 4], F[n + 5], W[n + 6])
        transfers.take_acknowledgements(m, acknowledged)
    elif kind == at.TIMES_OUT:
        transfers.look(m, None)
    elif kind == at.LATE_ONE:
        receiving.look_for_late(m, None)
    elif kind == at.FINISH:
        if not m.over:
            transfers.close(m, at.WHOLE)
            return True
    else:
        _execute_rare(W, kind, m, node)
    return False


@piece
def _execute_rare(W: Integers, kind: int, m: Record, node: int) -> None:
    if kind == at.SYN_AGAIN:
        handshake.send_syn(m, None)
    elif kind == at.SYN_ENDS:
        handshake.end_handshake(m, None)
    elif kind == at.FLOWS_SETTLE:
        link_share.settle(queue(W, W[node + at.NUMBER]))
    else:
        _end_flows(W, queue(W, W[node + at.NUMBER]))


@piece
def _end_flows(W: Integers, q: Record) -> None:
    q.end_timer = q.ended = 0
    link_share.complete(q)
    node = q.ended
    while node:
        ended = flow(W, node)
        node = ended.after  # read before the next flow of the message takes the node
        stream.end_stream(message(W, ended.owner), None)


@piece
def _prefetch_next(W: Integers, buffer: int) -> None:
    """Load the message of the next event into the cache while this event executes."""
    if W[at.HEAPED]:
        record = W[W[W[at.HEAP] + at.NODE_OF] + at.ABOUT]
        for line in range(at.OFTEN):
            prefetch(buffer + at.WORD * (record + at.LINE * line))


@kernel
def run(buffer: int, when: float, other: float, since: float) -> int:
    """Execute events before a time, up to the completion of a message.

    Args:
        buffer: the address of the buffer.
        when: the end of the simulated time, s, exclusive.
        other: the next event of the calendar of the run, s. Events before it are executed, too,
            as that calendar stands still. Infinite if it has none; -infinite to ignore it.
        since: the time of that calendar at the beginning of this world, s.

    Returns:
        The record of the completed message, 0 if no event is left before the end, or `FULL`.
    """
    W = integers_at(buffer)
    F = reals_at(buffer)
    while W[at.LENGTH]:
        e = W[at.HEAP]
        now = F[e]
        # Same comparison as `Calendar.run_before`, with the same rounding.
        if now >= when and not now + since < other:
            return 0
        node, kind = W[e + at.NODE_OF], W[e + at.KEY] & (at.KINDS - 1)
        about = W[node + at.ABOUT]
        m = message(W, about)
        # A cancelled timer stays in the heap until it is due, or until `forget` cleans up.
        if is_dead(W, node):
            W[at.CANCELLED] -= 1
            drop_first(W, F)
            # The node is freed only now: the event reads its arguments from it.
            free_node(W, node)
            release(W, about)
            continue
        # Memory is reserved before the event changes anything, so that FULL can be answered by a
        # longer buffer and a repeated call. Nothing is allocated while the event executes.
        if not _has_room(W, kind, m, node):
            return FULL
        drop_first(W, F)
        # After the removal, when the heap shows which event is next.
        _prefetch_next(W, buffer)
        F[at.NOW] = now
        ended = _execute(W, F, kind, m, node)
        free_node(W, node)
        release(W, about)
        if ended:
            return about
    return 0


# Queries and reset.


@kernel
def clear(buffer: int) -> None:
    """Reset the world to idle links at time 0."""
    W = integers_at(buffer)
    F = reals_at(buffer)
    F[at.NOW] = 0.0
    number = W[at.PATHS]
    while number:
        p = path(W, number)
        for k in range(len(p.stages)):
            make_empty(p.stages[k].queue)
            p.stages[k].queue.streams = 0
        p.used = 0
        number = p.next_used
    W[at.PATHS] = 0
    # After the queues have freed their nodes.
    forget_events(W, F)
    # Lists of free records are rebuilt below, from the list of all messages.
    for size in range(at.HEADER - at.SLOTS):
        W[at.SLOTS + size] = 0
    record = W[at.MESSAGES]
    while record:
        m = message(W, record)
        m.over, m.pending, m.released = 1, 0, 0
        free_if_over(W, m)
        record = m.next_message


@kernel
def quiet(buffer: int) -> float:
    """Return when the last queue of all used paths is empty, s."""
    W = integers_at(buffer)
    F = reals_at(buffer)
    latest = F[at.NOW]
    number = W[at.PATHS]
    while number:
        p = path(W, number)
        for k in range(len(p.stages)):
            latest = max(latest, p.stages[k].queue.free)
        number = p.next_used
    return latest


@kernel
def first_end(buffer: int) -> float:
    """Return a lower bound for the next completion of a message, s; inf if none is open.

    Segments that have not passed the last link of a path must still do so, behind the queue there.
    """
    W = integers_at(buffer)
    F = reals_at(buffer)
    if not W[at.LENGTH]:
        return inf
    due = F[W[at.HEAP]]
    least = inf
    record = W[at.MESSAGES]
    # The search costs more than an early look if there are many messages: then `due`, the time of
    # the next event, is the bound.
    for _ in range(MOST_SEARCHED):
        if not record:
            return least
        m = message(W, record)
        if not m.over:
            least = min(least, max(due, _ends_after(F, m)))
        record = m.next_message
    return due


@part
def _ends_after(F: Reals, m: Record) -> float:
    """Return a lower bound for the completion of a message, s."""
    if m.ends < inf:
        ends: float = m.ends
        return ends
    # Minus one, as the last segment may be shorter than the others.
    left = m.total - count_arrived(m) - 1
    # A stream may end at any time, by the departure of another one.
    if m.stream or left <= 0:
        return F[at.NOW]
    p = m.path
    q = p.stages[len(p.stages) - 1].queue
    lasts = left * m.each / q.rate
    surely: float = max(q.free, F[at.NOW]) + SURELY * lasts
    return surely


def load() -> None:
    """Load all kernels from the user's cache, or compile them.

    The garbage collector is disabled meanwhile. A compiler allocates many long-lived objects, and
    the collector would traverse them repeatedly.
    """
    integer, real = numba.int64, numba.float64
    collects = gc.isenabled()
    gc.disable()
    try:
        for function, types in (
            (run, (integer, real, real, real)),
            (begin, (integer, integer, integer, real, real, real)),
            (stop, (integer, integer)),
            (clear, (integer,)),
            (quiet, (integer,)),
            (first_end, (integer,)),
        ):
            if isinstance(function, Dispatcher):  # or else Numba is to compile nothing
                function.compile(types)
    finally:
        if collects:
            gc.enable()
