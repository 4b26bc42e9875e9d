"""Entry points of the compiled TCP world: start, stop and run messages."""

import gc
from math import inf

import numba
from numba.core.dispatcher import Dispatcher

from fedsim.addons.tcp.compiled import acknowledgements, boards, flows, senders, streams, ways
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
    call,
    drop_first,
    enough,
    forget,
    forget_events,
    free_if_over,
    free_node,
    is_dead,
    on_a_line,
    release,
)
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Train
from fedsim.addons.tcp.compiled.queues import claim
from fedsim.addons.tcp.compiled.receivers import count_arrived
from fedsim.addons.tcp.compiled.windows import measure, reset_window, restore_timeout
from fedsim.addons.tcp.handshake import FIRST_TIMEOUT, OPTIONS
from fedsim.addons.tcp.handshake import LINEAR as LINEAR_TIMEOUTS
from fedsim.addons.tcp.queue import NEVER

FULL = -1
"""Return value of a kernel that needs a longer buffer. The caller grows it and calls again."""

MOST_SEARCHED = 256
"""Above this number of messages the earliest end is not searched for."""

SURELY = 1 - 1e-9
"""Factor that keeps a lower bound of a duration below any rounding of it."""

# Handshakes: see `Handshake`.


@part
def _send_syn(W: Integers, F: Reals, m: int) -> None:
    """Send a SYN, and schedule its repetition; see `Handshake`."""
    if W[m + at.SYN_OVER] or W[m + at.ANSWERED]:
        return
    p, now = W[m + at.PATH], F[at.NOW]
    F[m + at.BEGUN] = now
    empty = True
    for k in range(W[p + at.STAGES]):
        s = p + at.WAY + k * at.STAGE
        # Packets of other lanes may enter a shared queue later. So only idle queues without other
        # users allow the closed form.
        empty = empty and not W[s + at.SHARED] and F[W[s + at.AT] + at.FREE] <= now
    if empty:
        # Nothing can delay the handshake: its end is computed at once.
        longer = OPTIONS * (F[p + at.BACK_BIT] + F[p + at.FREE_BIT])
        longer += streams.sum_over(W, F, p, at.NOTHING, OPTIONS)
        call(W, F, now + F[p + at.TRIP] + longer, at.SYN_ENDS, m)
        return
    call(W, F, now + F[m + at.SYN_TIMEOUT], at.SYN_AGAIN, m)
    # Linux repeats the SYN at a constant interval first, and doubles it only afterwards.
    if W[m + at.LINEAR]:
        W[m + at.LINEAR] -= 1
    else:
        F[m + at.SYN_TIMEOUT] *= 2
    ways.forward_one(W, F, m, at.SYN, F[p + at.HEAD] + OPTIONS, now, now, at.NOTHING)


@piece
def _end_handshake(W: Integers, F: Reals, m: int) -> None:
    if W[m + at.SYN_OVER]:
        return
    p, now = W[m + at.PATH], F[at.NOW]
    # The confirmation leaves before the first data, on the same path, and takes its place in the
    # queues.
    ways.forward_one(W, F, m, at.ANSWER, F[p + at.HEAD], now, now, at.NOTHING)
    W[m + at.SYN_OVER] = 1
    measure(F, m, F[m + at.BEGUN], now)
    restore_timeout(W, F, m)
    senders.send(W, F, m, now, 0.0)


# Messages.


@part
def _make_message(W: Integers, total: int) -> int:
    """Return a cleared message record, or `FULL`."""
    size = 0
    # Records are reused by capacity class: the least power of two that holds all segments.
    while (1 << size) < total:
        size += 1
    words = at.MESSAGE + (at.PER_SEGMENT << size)
    m = W[at.SLOTS + size]
    if m:
        W[at.SLOTS + size] = W[m + at.NEXT_FREE]
    else:
        m = on_a_line(W)
        if m + words > W[at.END]:
            # The caller reads from the header how much longer the buffer has to be.
            W[at.WANTED] = words + at.LINE
            return FULL
        W[at.TOP] = m + words
        W[m + at.NEXT_MESSAGE] = W[at.MESSAGES]
        W[at.MESSAGES] = m
    others = W[m + at.NEXT_MESSAGE]
    # Besides the record only flags have to be cleared: the other columns are written before they
    # are read.
    for k in range(at.MESSAGE + total):
        W[m + k] = 0
    W[m + at.NEXT_MESSAGE], W[m + at.CLASS], W[m + at.TOTAL] = others, size, total
    W[m + at.SPAN] = 1 << size
    return m


@part
def _reset_sender(W: Integers, F: Reals, m: int) -> None:
    reset_window(W, F, m)
    # As if two segments waited: a new connection acknowledges its first segment at once.
    W[m + at.UNSAID] = 2
    W[m + at.PARTIAL] = 1
    W[m + at.DELIVERED] = boards.NOTHING
    F[m + at.DUE] = F[m + at.DEADLINE] = F[m + at.PROBE] = F[m + at.OVERTAKEN_BY] = inf
    F[m + at.SENT_AGAIN_AT], F[m + at.ENDS] = -inf, inf


@kernel
def begin(buffer: int, p: int, total: int, segment_bits: float, short: float, bits: float) -> int:
    """Start a message now; return its record, or `FULL` with nothing changed.

    Args:
        buffer: the address of the buffer.
        p: the record of the path.
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
    m = _make_message(W, total)
    if m == FULL:
        return FULL
    W[m + at.PATH] = p
    if not W[p + at.USED]:
        W[p + at.USED], W[p + at.NEXT_USED], W[at.PATHS] = 1, W[at.PATHS], p
    F[m + at.EACH], F[m + at.SHORT], F[m + at.ALL] = segment_bits, short, bits
    _reset_sender(W, F, m)
    # Kept in the record, since `_close` has to return exactly what is claimed.
    W[m + at.CLAIM] = total
    claim(W, F, m, W[m + at.CLAIM], at.ALONE)
    F[m + at.SYN_TIMEOUT] = FIRST_TIMEOUT
    W[m + at.LINEAR] = LINEAR_TIMEOUTS if W[at.LINUX] else 0
    _send_syn(W, F, m)
    return m


@part
def _close(W: Integers, F: Reals, m: int, whole: int) -> None:
    """End a message, and release its claims on queues."""
    W[m + at.OVER] = 1
    ways.forget_log(W, m)
    # IN_ORDER is -1 here: one flow fewer in each queue.
    claim(W, F, m, -W[m + at.CLAIM], at.IN_ORDER)
    W[m + at.SYN_OVER] = 1
    if W[m + at.STREAM]:
        streams.leave_stream(W, F, m, whole)
    if W[m + at.TIMER]:
        W[m + at.TIMER] = 0
        forget(W, F)


@kernel
def stop(buffer: int, m: int) -> int:
    """Cancel a message; return 0, or `FULL` with nothing changed."""
    W = integers_at(buffer)
    F = reals_at(buffer)
    if not enough(W, at.SPARE, at.SPARE):
        return FULL
    _close(W, F, m, at.NOTHING)
    free_if_over(W, m)
    return 0


# Execution of events.


@part
def _burst(W: Integers, F: Reals, kind: int, m: int, q: int) -> int:
    """Return an upper bound for the segments that an event sends, or the flows it ends."""
    # A single packet triggers at most a few others: an acknowledgement, or a handshake packet.
    if kind == at.FORWARD_ONE:
        return at.SPARE
    # Every flow of the link may end at once, each with the events of its message.
    if kind >= at.FLOWS_SETTLE:
        return W[q + at.SHARING] + W[q + at.CAPPED] + at.SPARE
    on_way = W[m + at.NEXT] - W[m + at.UNKNOWN]
    # The window may double, and an undone timeout may restore an earlier one.
    most = 2 * (int(F[m + at.SIZE]) + on_way) + int(F[m + at.SIZE_BEFORE])
    if F[m + at.THRESHOLD] < inf:
        most += int(F[m + at.THRESHOLD])
    return min(most, 2 * W[m + at.TOTAL]) + at.SPARE


@part
def _has_room(W: Integers, F: Reals, kind: int, m: int, node: int) -> bool:
    """Reserve memory for an event; return whether the buffer has enough."""
    most = _burst(W, F, kind, m, W[node + at.NUMBER])
    stages = W[W[m + at.PATH] + at.STAGES] if m else 1
    # Bounds per segment: two events, and nodes for the queues of the path and for logs.
    return enough(W, 2 * most, (stages + 2) * most)


@piece
def _execute(W: Integers, F: Reals, kind: int, m: int, node: int) -> bool:
    """Execute an event; return whether its message is complete."""
    if kind == at.FORWARD_ONE:
        ways.forward_one(
            W,
            F,
            m,
            W[node + at.NUMBER],
            F[node + at.BITS],
            F[node + at.SENT],
            F[at.NOW],
            W[node + at.HOP],
        )
    elif kind == at.FORWARD:
        train = Train(
            W[node + at.NUMBER],
            W[node + at.COUNT],
            F[node + at.BITS],
            F[node + at.SENT],
            F[node + at.PACE],
            F[at.NOW],
            F[node + at.LAST],
        )
        ways.forward(W, F, m, train, W[node + at.HOP])
    elif kind == at.ACKNOWLEDGED:
        acknowledgements.take_acknowledgement(W, F, m, node)
    elif kind == at.ALL_ACKNOWLEDGED:
        acknowledgements.take_acknowledgements(W, F, m, node)
    elif kind == at.TIMES_OUT:
        senders.look(W, F, m)
    elif kind == at.LATE_ONE:
        ways.look_for_late(W, F, m)
    elif kind == at.FINISH:
        if not W[m + at.OVER]:
            _close(W, F, m, at.ALONE)
            return True
    else:
        _execute_rare(W, F, kind, m, node)
    return False


@piece
def _execute_rare(W: Integers, F: Reals, kind: int, m: int, node: int) -> None:
    if kind == at.SYN_AGAIN:
        _send_syn(W, F, m)
    elif kind == at.SYN_ENDS:
        _end_handshake(W, F, m)
    elif kind == at.FLOWS_SETTLE:
        flows.settle(W, F, W[node + at.NUMBER])
    else:
        _end_flows(W, F, W[node + at.NUMBER])


@piece
def _end_flows(W: Integers, F: Reals, q: int) -> None:
    node = flows.end_flows(W, F, q)
    while node:
        behind = W[node + at.LINK]
        streams.end_stream(W, F, W[node + at.FLOW_OWNER])
        node = behind


@piece
def _prefetch_next(W: Integers, buffer: int) -> None:
    """Load the message of the next event into the cache while this event executes."""
    if W[at.HEAPED]:
        m = W[W[W[at.HEAP] + at.NODE_OF] + at.ABOUT]
        for line in range(at.OFTEN):
            prefetch(buffer + at.WORD * (m + at.LINE * line))


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
        m = W[node + at.ABOUT]
        # A cancelled timer stays in the heap until it is due, or until `forget` cleans up.
        if is_dead(W, node):
            W[at.CANCELLED] -= 1
            drop_first(W, F)
            # The node is freed only now: the event reads its arguments from it.
            free_node(W, node)
            release(W, m)
            continue
        # Memory is reserved before the event changes anything, so that FULL can be answered by a
        # longer buffer and a repeated call. Nothing is allocated while the event executes.
        if not _has_room(W, F, kind, m, node):
            return FULL
        drop_first(W, F)
        # After the removal, when the heap shows which event is next.
        _prefetch_next(W, buffer)
        F[at.NOW] = now
        ended = _execute(W, F, kind, m, node)
        free_node(W, node)
        release(W, m)
        if ended:
            return m
    return 0


# Queries and reset.


@kernel
def clear(buffer: int) -> None:
    """Reset the world to idle links at time 0."""
    W = integers_at(buffer)
    F = reals_at(buffer)
    F[at.NOW] = 0.0
    forget_events(W, F)
    p = W[at.PATHS]
    while p:
        for k in range(W[p + at.STAGES]):
            q = W[p + at.WAY + k * at.STAGE + at.AT]
            F[q + at.FREE] = NEVER
            F[q + at.LASTS] = F[q + at.WINDOWS] = F[q + at.PIPE] = 0.0
            W[q + at.FLOWS] = W[q + at.CLAIMED] = W[q + at.CROWDED] = W[q + at.WAITING] = 0
            W[q + at.WAIT_FIRST] = W[q + at.WAIT_LAST] = W[q + at.STREAMS] = 0
        W[p + at.USED] = 0
        p = W[p + at.NEXT_USED]
    W[at.PATHS] = 0
    # Lists of free records are rebuilt below, from the list of all messages.
    for size in range(at.HEADER - at.SLOTS):
        W[at.SLOTS + size] = 0
    m = W[at.MESSAGES]
    while m:
        W[m + at.OVER], W[m + at.PENDING], W[m + at.RELEASED] = 1, 0, 0
        free_if_over(W, m)
        m = W[m + at.NEXT_MESSAGE]


@kernel
def quiet(buffer: int) -> float:
    """Return when the last queue of all used paths is empty, s."""
    W = integers_at(buffer)
    F = reals_at(buffer)
    latest = F[at.NOW]
    p = W[at.PATHS]
    while p:
        for k in range(W[p + at.STAGES]):
            latest = max(latest, F[W[p + at.WAY + k * at.STAGE + at.AT] + at.FREE])
        p = W[p + at.NEXT_USED]
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
    m = W[at.MESSAGES]
    # The search costs more than an early look if there are many messages: then `due`, the time of
    # the next event, is the bound.
    for _ in range(MOST_SEARCHED):
        if not m:
            return least
        if not W[m + at.OVER]:
            least = min(least, max(due, _ends_after(W, F, m)))
        m = W[m + at.NEXT_MESSAGE]
    return due


@part
def _ends_after(W: Integers, F: Reals, m: int) -> float:
    """Return a lower bound for the completion of a message, s."""
    if F[m + at.ENDS] < inf:
        return F[m + at.ENDS]
    # Minus one, as the last segment may be shorter than the others.
    left = W[m + at.TOTAL] - count_arrived(W, m) - 1
    # A stream may end at any time, by the departure of another one.
    if W[m + at.STREAM] or left <= 0:
        return F[at.NOW]
    p = W[m + at.PATH]
    q = W[p + at.WAY + at.STAGE * (W[p + at.STAGES] - 1) + at.AT]
    lasts = left * F[m + at.EACH] / F[q + at.RATE]
    return max(F[q + at.FREE], F[at.NOW]) + SURELY * lasts


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
