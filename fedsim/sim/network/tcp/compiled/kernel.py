"""The kernel: what happens in a compiled world up to some time, message by message."""

import gc
from math import inf

import numba
from numba.core.dispatcher import Dispatcher

from fedsim.sim.network.tcp.compiled import acknowledgements, boards, flows, senders, streams, ways
from fedsim.sim.network.tcp.compiled import layout as at
from fedsim.sim.network.tcp.compiled.compiler import (
    integers_at,
    kernel,
    part,
    piece,
    prefetch,
    reals_at,
)
from fedsim.sim.network.tcp.compiled.events import (
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
from fedsim.sim.network.tcp.compiled.kinds import Integers, Reals
from fedsim.sim.network.tcp.compiled.queues import claim
from fedsim.sim.network.tcp.compiled.receivers import count_arrived
from fedsim.sim.network.tcp.compiled.windows import measure, reset_window, restore_timeout
from fedsim.sim.network.tcp.handshake import FIRST_TIMEOUT, OPTIONS
from fedsim.sim.network.tcp.handshake import LINEAR as LINEAR_TIMEOUTS
from fedsim.sim.network.tcp.queue import NEVER

FULL = -1
"""What a kernel returns where the buffer has to be longer."""

LOOKED_THROUGH = 256
"""The messages that are looked through for the one that may end first: of more, none is."""

SURELY = 1 - 1e-9
"""The part of a time that passes in any case, however it is rounded."""

# Handshakes: see `Handshake`.


@part
def _send_syn(W: Integers, F: Reals, m: int) -> None:
    """Send a SYN, and again when the time for its answer is over."""
    if W[m + at.SYN_OVER] or W[m + at.ANSWERED]:
        return
    p, now = W[m + at.PATH], F[at.NOW]
    F[m + at.BEGUN] = now
    empty = True
    for k in range(W[p + at.STAGES]):
        s = p + at.WAY + k * at.STAGE
        empty = empty and not W[s + at.SHARED] and F[W[s + at.AT] + at.FREE] <= now
    if empty:
        longer = OPTIONS * (F[p + at.BACK_BIT] + F[p + at.FREE_BIT])
        longer += streams.sum_over(W, F, p, at.NOTHING, OPTIONS)
        call(W, F, now + F[p + at.TRIP] + longer, at.SYN_ENDS, m)
        return
    call(W, F, now + F[m + at.SYN_TIMEOUT], at.SYN_AGAIN, m)
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
    ways.forward_one(W, F, m, at.ANSWER, F[p + at.HEAD], now, now, at.NOTHING)
    W[m + at.SYN_OVER] = 1
    measure(F, m, F[m + at.BEGUN], now)
    restore_timeout(W, F, m)
    senders.send(W, F, m, now, 0.0)


# Messages.


@part
def _make_message(W: Integers, total: int) -> int:
    """Return the record of a new message, or `FULL`."""
    size = 0
    while (1 << size) < total:
        size += 1
    words = at.MESSAGE + (at.PER_SEGMENT << size)
    m = W[at.SLOTS + size]
    if m:
        W[at.SLOTS + size] = W[m + at.NEXT_FREE]
    else:
        m = on_a_line(W)
        if m + words > W[at.END]:
            W[at.WANTED] = words + at.LINE
            return FULL
        W[at.TOP] = m + words
        W[m + at.NEXT_MESSAGE] = W[at.MESSAGES]
        W[at.MESSAGES] = m
    others = W[m + at.NEXT_MESSAGE]
    for k in range(at.MESSAGE + total):
        W[m + k] = 0
    W[m + at.NEXT_MESSAGE], W[m + at.CLASS], W[m + at.TOTAL] = others, size, total
    W[m + at.SPAN] = 1 << size
    return m


@part
def _reset_sender(W: Integers, F: Reals, m: int) -> None:
    reset_window(W, F, m)
    W[m + at.UNSAID] = 2
    W[m + at.PARTIAL] = 1
    W[m + at.DELIVERED] = boards.NOTHING
    F[m + at.DUE] = F[m + at.DEADLINE] = F[m + at.PROBE] = F[m + at.OVERTAKEN_BY] = inf
    F[m + at.SENT_AGAIN_AT], F[m + at.ENDS] = -inf, inf


@kernel
def begin(buffer: int, p: int, total: int, each: float, short: float, bits: float) -> int:
    """Let a message begin now; return its record, or `FULL` before anything has happened.

    Args:
        buffer: its address.
        p: the record of its way.
        total: its segments.
        each: the bits of one of them.
        short: those of the last one.
        bits: of all.
    """
    W = integers_at(buffer)
    F = reals_at(buffer)
    if not enough(W, at.SPARE, at.SPARE):
        return FULL
    m = _make_message(W, total)
    if m == FULL:
        return FULL
    W[m + at.PATH] = p
    if not W[p + at.USED]:
        W[p + at.USED], W[p + at.NEXT_USED], W[at.PATHS] = 1, W[at.PATHS], p
    F[m + at.EACH], F[m + at.SHORT], F[m + at.ALL] = each, short, bits
    _reset_sender(W, F, m)
    W[m + at.CLAIM] = total
    claim(W, F, m, W[m + at.CLAIM], at.ALONE)
    F[m + at.SYN_TIMEOUT] = FIRST_TIMEOUT
    W[m + at.LINEAR] = LINEAR_TIMEOUTS if W[at.LINUX] else 0
    _send_syn(W, F, m)
    return m


@part
def _close(W: Integers, F: Reals, m: int, whole: int) -> None:
    """Let a message be over, and leave the queues to the others."""
    W[m + at.OVER] = 1
    ways.forget_log(W, m)
    claim(W, F, m, -W[m + at.CLAIM], at.IN_ORDER)
    W[m + at.SYN_OVER] = 1
    if W[m + at.STREAM]:
        streams.leave_stream(W, F, m, whole)
    if W[m + at.TIMER]:
        W[m + at.TIMER] = 0
        forget(W, F)


@kernel
def stop(buffer: int, m: int) -> int:
    """Stop a message that is not over; return 0, or `FULL` before anything has happened."""
    W = integers_at(buffer)
    F = reals_at(buffer)
    if not enough(W, at.SPARE, at.SPARE):
        return FULL
    _close(W, F, m, at.NOTHING)
    free_if_over(W, m)
    return 0


# What happens.


@part
def _burst(W: Integers, F: Reals, kind: int, m: int, q: int) -> int:
    """Return how many segments an event may send, or flows, at most."""
    if kind == at.FORWARD_ONE:
        return at.SPARE
    if kind >= at.FLOWS_SETTLE:
        return W[q + at.SHARING] + W[q + at.CAPPED] + at.SPARE
    on_way = W[m + at.NEXT] - W[m + at.UNKNOWN]
    most = 2 * (int(F[m + at.SIZE]) + on_way) + int(F[m + at.SIZE_BEFORE])
    if F[m + at.THRESHOLD] < inf:
        most += int(F[m + at.THRESHOLD])
    return min(most, 2 * W[m + at.TOTAL]) + at.SPARE


@part
def _has_room(W: Integers, F: Reals, kind: int, m: int, node: int) -> bool:
    """Make room for all that an event may bring; return whether the buffer has any."""
    most = _burst(W, F, kind, m, W[node + at.NUMBER])
    stages = W[W[m + at.PATH] + at.STAGES] if m else 1
    return enough(W, 2 * most, (stages + 2) * most)


@piece
def _happen(W: Integers, F: Reals, kind: int, m: int, node: int) -> bool:
    """Let an event happen; return whether its message has arrived with it."""
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
        ways.forward(
            W,
            F,
            m,
            W[node + at.NUMBER],
            W[node + at.COUNT],
            F[node + at.BITS],
            F[node + at.SENT],
            F[node + at.PACE],
            F[at.NOW],
            F[node + at.LAST],
            W[node + at.HOP],
        )
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
        _happen_rarely(W, F, kind, m, node)
    return False


@piece
def _happen_rarely(W: Integers, F: Reals, kind: int, m: int, node: int) -> None:
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
    """Let the message of the next event be on its way to the processor while this one happens."""
    if W[at.HEAPED]:
        m = W[W[W[at.HEAP] + at.NODE_OF] + at.ABOUT]
        for line in range(at.OFTEN):
            prefetch(buffer + at.WORD * (m + at.LINE * line))


@kernel
def run(buffer: int, when: float, other: float, since: float) -> int:
    """Let happen what is due before a time, up to the end of a message.

    Args:
        buffer: its address.
        when: the time, s.
        other: when something is due on a calendar that stands still meanwhile, s: what is due
            before happens, too. Infinite where nothing is, -infinite where it does not matter.
        since: the time of that calendar that is 0 here, s.

    Returns:
        The message that has arrived, 0 if nothing more is due, or `FULL`.
    """
    W = integers_at(buffer)
    F = reals_at(buffer)
    while W[at.LENGTH]:
        e = W[at.HEAP]
        now = F[e]
        if now >= when and not now + since < other:
            return 0
        node, kind = W[e + at.NODE_OF], W[e + at.KEY] & (at.KINDS - 1)
        m = W[node + at.ABOUT]
        if is_dead(W, node):
            W[at.CANCELLED] -= 1
            drop_first(W, F)
            free_node(W, node)
            release(W, m)
            continue
        if not _has_room(W, F, kind, m, node):
            return FULL
        drop_first(W, F)
        _prefetch_next(W, buffer)
        F[at.NOW] = now
        ended = _happen(W, F, kind, m, node)
        free_node(W, node)
        release(W, m)
        if ended:
            return m
    return 0


# From the beginning.


@kernel
def clear(buffer: int) -> None:
    """Go back to the beginning, with idle links."""
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
    for size in range(at.HEADER - at.SLOTS):
        W[at.SLOTS + size] = 0
    m = W[at.MESSAGES]
    while m:
        W[m + at.OVER], W[m + at.PENDING], W[m + at.RELEASED] = 1, 0, 0
        free_if_over(W, m)
        m = W[m + at.NEXT_MESSAGE]


@kernel
def quiet(buffer: int) -> float:
    """Return when the last queue of all ways that were used is empty, s."""
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
    """Return before when no message can have arrived, s, whatever else comes; inf for never.

    What has not passed the last link of a way yet still has to, behind all that waits there.
    """
    W = integers_at(buffer)
    F = reals_at(buffer)
    if not W[at.LENGTH]:
        return inf
    due = F[W[at.HEAP]]
    least = inf
    m = W[at.MESSAGES]
    for _ in range(LOOKED_THROUGH):
        if not m:
            return least
        if not W[m + at.OVER]:
            least = min(least, max(due, _ends_after(W, F, m)))
        m = W[m + at.NEXT_MESSAGE]
    return due


@part
def _ends_after(W: Integers, F: Reals, m: int) -> float:
    """Return when the last segment of a message arrives, s, or can have passed the last link."""
    if F[m + at.ENDS] < inf:
        return F[m + at.ENDS]
    left = W[m + at.TOTAL] - count_arrived(W, m) - 1
    if W[m + at.STREAM] or left <= 0:
        return F[at.NOW]
    p = W[m + at.PATH]
    q = W[p + at.WAY + at.STAGE * (W[p + at.STAGES] - 1) + at.AT]
    lasts = left * F[m + at.EACH] / F[q + at.RATE]
    return max(F[q + at.FREE], F[at.NOW]) + SURELY * lasts


def load() -> None:
    """Take all kernels from the user's cache, or compile them.

    The garbage collector waits meanwhile: a compiler makes many objects that stay, which it would
    look through again and again.
    """
    whole, real = numba.int64, numba.float64
    collects = gc.isenabled()
    gc.disable()
    try:
        for each, types in (
            (run, (whole, real, real, real)),
            (begin, (whole, whole, whole, real, real, real)),
            (stop, (whole, whole)),
            (clear, (whole,)),
            (quiet, (whole,)),
            (first_end, (whole,)),
        ):
            if isinstance(each, Dispatcher):  # or else Numba is to compile nothing
                each.compile(types)
    finally:
        if collects:
            gc.enable()
