"""The rest of a long message as a stream: see `fedsim.addons.tcp.stream`."""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import part, place_of
from fedsim.addons.tcp.compiled.events import call, free_node
from fedsim.addons.tcp.compiled.flows import add_flow, open_flows, remove_flow
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.addons.tcp.congestion import utilisation
from fedsim.addons.tcp.receiver import count_arrived
from fedsim.addons.tcp.stream import APART, LATE, WIDEST, WINDOWS


@part
def may_flow(F: Reals, m: Record, p: int, left: int) -> bool:
    """Return whether the rest of a message may flow as a stream; see `stream.may_flow`."""
    size = m.size
    if size < WIDEST or size < m.threshold or left < WINDOWS * size:
        return False
    holds: bool = m.trip > LATE * F[p + at.TRIP]
    return holds


@part
def _share(W: Integers, F: Reals, p: int, number: int) -> float:
    q = W[p + at.WAY + number * at.STAGE + at.AT]
    return F[q + at.RATE] / max(W[q + at.FLOWS], 1)


@part
def narrow_link(W: Integers, F: Reals, p: int) -> int:
    """Return the only bottleneck of a path, or -1; see `stream.narrow_link`."""
    stages, any_shared = W[p + at.STAGES], False
    for k in range(stages):
        # If some links are shared, only these are candidates.
        any_shared = any_shared or W[p + at.WAY + k * at.STAGE + at.SHARED] != 0
    least, lowest = -1, inf
    for k in range(stages):
        if any_shared and not W[p + at.WAY + k * at.STAGE + at.SHARED]:
            continue
        share = _share(W, F, p, k)
        if least < 0 or share < lowest:
            least, lowest = k, share
    if lowest == inf:
        return -1
    other = inf
    for k in range(stages):
        if k != least and W[p + at.WAY + k * at.STAGE + at.SHARED]:
            other = min(other, _share(W, F, p, k))
    if other < APART * lowest:
        return -1
    q = W[p + at.WAY + least * at.STAGE + at.AT]
    fits = F[q + at.LIMIT] + F[q + at.RATE] * F[p + at.TRIP] / F[p + at.SEGMENT]
    return least if W[q + at.MANAGED] or fits >= WIDEST * W[q + at.FLOWS] else -1


@part
def begin_stream(W: Integers, F: Reals, m: Record, number: int, left: int) -> None:
    """Start a stream at the fair share of a link that windows can fill."""
    p = m.path
    q = W[p + at.WAY + number * at.STAGE + at.AT]
    pipe = F[q + at.RATE] * F[p + at.TRIP] / F[p + at.SEGMENT]
    filled = 1.0 if W[q + at.MANAGED] else utilisation(m, F[q + at.LIMIT] / pipe)
    # The other links bound the rate of the stream.
    cap = inf
    for k in range(W[p + at.STAGES]):
        other = W[p + at.WAY + k * at.STAGE + at.AT]
        if other != q:
            cap = min(cap, F[other + at.RATE])
    if not W[q + at.STREAMS]:
        open_flows(W, F, q)
    now = F[at.NOW]
    if F[q + at.WINDOWS] == 0.0 and F[q + at.FREE] > now:  # packets before the stream
        add_flow(W, F, q, (F[q + at.FREE] - now) * F[q + at.RATE], inf, at.NOTHING)
    F[q + at.WINDOWS] += m.size
    F[q + at.PIPE] = pipe
    m.stream, m.stream_at, m.stream_window = 1, number, m.size
    m.streamed = left
    # Scaled up by the share of time in which cut windows leave the link idle.
    _flow(W, F, m, q, left * m.each / filled, cap, left)


@part
def _flow(W: Integers, F: Reals, m: Record, q: int, bits: float, cap: float, count: int) -> None:
    """Start a flow of segments after those before it: see `TcpArrivals.follow`."""
    m.passed += m.stream_logged
    m.stream_flow = add_flow(W, F, q, bits, cap, place_of(W, m))
    m.stream_logged = count


@part
def end_stream(W: Integers, F: Reals, m: Record) -> None:
    """Complete a stream, after retransmissions of segments lost before it."""
    p = m.path
    q = W[p + at.WAY + m.stream_at * at.STAGE + at.AT]
    missing = m.total - m.streamed - count_arrived(m)
    # Segments lost before the stream began have not arrived: they follow as a further stream.
    if missing > 0:
        m.segments_sent += missing
        m.streamed += missing
        # Ended, so no list holds it. Its segments are counted in PASSED by `_flow` below.
        free_node(W, m.stream_flow)
        _flow(W, F, m, q, missing * m.each, inf, missing)
        return
    m.last_sent = F[at.NOW]
    rest = _rest(W, F, p, m.stream_at, m.each)
    # The end is certain now, which `first_end` uses.
    m.ends = F[at.NOW] + rest
    call(W, F, m.ends, at.FINISH, m)


@part
def _rest(W: Integers, F: Reals, p: int, number: int, bits: float) -> float:
    """Return how long a segment takes from a stage to its receiver, s: see `TcpPath.rest`."""
    delays = sum_over(W, F, p, number, 0.0)
    return delays + sum_over(W, F, p, number + 1, bits)


@part
def sum_over(W: Integers, F: Reals, p: int, first: int, bits: float) -> float:
    """Return the sum of transmission times from stage `first` on, s; of delays if `bits` is 0.

    It is summed as Python's `sum` does, which compensates rounding from 3.12 on.
    """
    total = lost = 0.0
    for k in range(first, W[p + at.STAGES]):
        s = p + at.WAY + k * at.STAGE
        term = bits / F[W[s + at.AT] + at.RATE] if bits > 0 else F[s + at.AFTER]
        added = total + term
        if added < inf:
            lost += (total - added) + term if abs(total) >= abs(term) else (term - added) + total
        total = added
    return total + lost if W[at.COMPENSATED] else total


@part
def leave_stream(W: Integers, F: Reals, m: Record, whole: int) -> None:
    """Remove the window of a stream from its link."""
    p = m.path
    q = W[p + at.WAY + m.stream_at * at.STAGE + at.AT]
    flow = m.stream_flow
    # A flow that has ended is in no list, even if its message is stopped before its last segment
    # has arrived.
    if not whole and W[flow + at.FLOW_LINK]:
        remove_flow(W, F, flow)
    free_node(W, flow)
    m.stream_flow = 0
    F[q + at.WINDOWS] -= m.stream_window
    # Sums of windows do not cancel exactly.
    if F[q + at.WINDOWS] < 1e-6:
        F[q + at.WINDOWS] = 0.0
