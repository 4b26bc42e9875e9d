"""The rest of a long message as a stream: see `fedsim.addons.tcp.stream`."""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import part
from fedsim.addons.tcp.compiled.events import call, free_node
from fedsim.addons.tcp.compiled.flows import add_flow, open_flows, remove_flow
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.addons.tcp.compiled.records import place_of
from fedsim.addons.tcp.congestion import utilisation
from fedsim.addons.tcp.receiver import count_arrived
from fedsim.addons.tcp.stream import APART, LATE, WIDEST, WINDOWS


@part
def may_flow(F: Reals, m: Record, p: Record, left: int) -> bool:
    """Return whether the rest of a message may flow as a stream; see `stream.may_flow`."""
    size = m.size
    if size < WIDEST or size < m.threshold or left < WINDOWS * size:
        return False
    holds: bool = m.trip > LATE * p.trip
    return holds


@part
def _share(W: Integers, F: Reals, p: Record, number: int) -> float:
    q = p.stages[number].queue
    return q.rate / max(q.flows, 1)


@part
def narrow_link(W: Integers, F: Reals, p: Record) -> int:
    """Return the only bottleneck of a path, or -1; see `stream.narrow_link`."""
    stages, any_shared = len(p.stages), False
    for k in range(stages):
        # If some links are shared, only these are candidates.
        any_shared = any_shared or p.stages[k].shared != 0
    least, lowest = -1, inf
    for k in range(stages):
        if any_shared and not p.stages[k].shared:
            continue
        share = _share(W, F, p, k)
        if least < 0 or share < lowest:
            least, lowest = k, share
    if lowest == inf:
        return -1
    other = inf
    for k in range(stages):
        if k != least and p.stages[k].shared:
            other = min(other, _share(W, F, p, k))
    if other < APART * lowest:
        return -1
    q = p.stages[least].queue
    fits = q.limit + q.rate * p.trip / p.segment
    return least if q.managed or fits >= WIDEST * q.flows else -1


@part
def begin_stream(W: Integers, F: Reals, m: Record, number: int, left: int) -> None:
    """Start a stream at the fair share of a link that windows can fill."""
    p = m.path
    q = p.stages[number].queue
    pipe = q.rate * p.trip / p.segment
    filled = 1.0 if q.managed else utilisation(m, q.limit / pipe)
    # The other links bound the rate of the stream.
    cap = inf
    for k in range(len(p.stages)):
        if k != number:
            cap = min(cap, p.stages[k].queue.rate)
    if not q.streams:
        open_flows(W, F, q)
    now = F[at.NOW]
    if q.windows == 0.0 and q.free > now:  # packets before the stream
        add_flow(W, F, q, (q.free - now) * q.rate, inf, at.NOTHING)
    q.windows += m.size
    q.pipe = pipe
    m.stream, m.stream_at, m.stream_window = 1, number, m.size
    m.streamed = left
    # Scaled up by the share of time in which cut windows leave the link idle.
    _flow(W, F, m, q, left * m.each / filled, cap, left)


@part
def _flow(W: Integers, F: Reals, m: Record, q: Record, bits: float, cap: float, count: int) -> None:
    """Start a flow of segments after those before it: see `TcpArrivals.follow`."""
    m.passed += m.stream_logged
    m.stream_flow = add_flow(W, F, q, bits, cap, place_of(m))
    m.stream_logged = count


@part
def end_stream(W: Integers, F: Reals, m: Record) -> None:
    """Complete a stream, after retransmissions of segments lost before it."""
    p = m.path
    q = p.stages[m.stream_at].queue
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
def _rest(W: Integers, F: Reals, p: Record, number: int, bits: float) -> float:
    """Return how long a segment takes from a stage to its receiver, s: see `TcpPath.rest`."""
    delays = sum_over(W, F, p, number, 0.0)
    return delays + sum_over(W, F, p, number + 1, bits)


@part
def sum_over(W: Integers, F: Reals, p: Record, first: int, bits: float) -> float:
    """Return the sum of transmission times from stage `first` on, s; of delays if `bits` is 0.

    It is summed as Python's `sum` does, which compensates rounding from 3.12 on.
    """
    total = lost = 0.0
    for k in range(first, len(p.stages)):
        s = p.stages[k]
        term = bits / s.queue.rate if bits > 0 else s.delay
        added = total + term
        if added < inf:
            lost += (total - added) + term if abs(total) >= abs(term) else (term - added) + total
        total = added
    return total + lost if W[at.COMPENSATED] else total


@part
def leave_stream(W: Integers, F: Reals, m: Record, whole: int) -> None:
    """Remove the window of a stream from its link."""
    p = m.path
    q = p.stages[m.stream_at].queue
    flow = m.stream_flow
    # A flow that has ended is in no list, even if its message is stopped before its last segment
    # has arrived.
    if not whole and W[flow + at.FLOW_LINK]:
        remove_flow(W, F, flow)
    free_node(W, flow)
    m.stream_flow = 0
    q.windows -= m.stream_window
    # Sums of windows do not cancel exactly.
    if q.windows < 1e-6:
        q.windows = 0.0
