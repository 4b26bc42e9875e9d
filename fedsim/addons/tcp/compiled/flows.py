"""What a queue has for the sharing of its link by streams: see `link_share`, whose laws it is for.

Its flows are in one list, in the order of arrival. Flows that are not admitted yet are at its end.
There is no heap, since few flows share a link: only long messages become streams.
"""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.events import forget, free_node, push, take_node
from fedsim.addons.tcp.compiled.kinds import Record
from fedsim.addons.tcp.compiled.records import flow, method, place_of, queue
from fedsim.sim.network.link_share import CAPPED_CAPS, CAPPED_ENDS, SHARING_CAPS, all_fit, enter


@method("queue", "open_streams", inlined=False)
def _open_streams(q: Record, _: Record) -> None:
    if q.streams:
        return
    q.streams = 1
    q.capacity = q.rate
    q.serials = q.settling = q.end_timer = q.sharing = q.capped = 0
    q.flow_first = q.flow_last = q.new_first = 0
    q.virtual = q.virtual_at = q.demand = 0.0
    q.share = q.target = inf


@method("queue", "add_flow", inlined=False)
def _add_flow(q: Record, bits: float, cap: float, owner: int) -> int:
    """Start a flow of at most `cap` bit/s, owned by a message or by none."""
    node = take_node(q.words)
    f = flow(q.words, node)
    f.bits, f.cap, f.mark, f.capped, f.moves = bits, cap, inf, 0, 0
    f.link, f.owner, f.serial = q, owner, q.serials
    f.before, f.after = q.flow_last, 0
    if q.flow_last:
        flow(q.words, q.flow_last).after = node
    else:
        q.flow_first = node
    q.flow_last = node
    if not q.new_first:
        q.new_first = node
    q.serials += 1
    q.touch()
    return node


@method("queue", "touch", inlined=False)
def _touch(q: Record) -> None:
    if not q.settling:
        q.settling = 1
        node = push(q.words, q.reals, q.now, at.SETTLE, at.FLOWS_SETTLE, at.NOTHING)
        q.words[node + at.NUMBER] = place_of(q)


@method("queue", "admit", inlined=False)
def _admit(q: Record) -> None:
    W, node = q.words, q.new_first
    # Neumaier summation, as in `sum` of Python 3.12 and later.
    wanted = lost = 0.0  # lost: rounding error
    while node:
        cap = flow(W, node).cap
        total = wanted + cap
        if total < inf:
            lost += (wanted - total) + cap if abs(wanted) >= abs(cap) else (cap - total) + wanted
        wanted = total
        node = flow(W, node).after
    if W[at.COMPENSATED]:
        wanted += lost
    capped = all_fit(q, wanted)
    node, q.new_first = q.new_first, 0
    while node:
        f = flow(W, node)
        enter(q, f, f.bits, capped)
        node = f.after


@method("queue", "add_demand")
def _add_demand(q: Record, cap: float, _: int) -> None:
    q.demand += cap


@method("queue", "check_whole")
@method("queue", "hold")
def _pass(q: Record, f: Record) -> None:
    """Do nothing: each flow is a single one, and stays where it is in the list."""


@method("queue", "first", inlined=False)
def _first(q: Record, order: int) -> Record:
    capped, by_cap = order >= CAPPED_ENDS, order in (SHARING_CAPS, CAPPED_CAPS)
    first, least, node = 0, inf, q.flow_first
    while node != q.new_first:
        f = flow(q.words, node)
        if f.capped == capped:
            key = f.mark
            if by_cap:
                key = -f.cap if capped else f.cap
            if not first or key < least:
                first, least = node, key
        node = f.after
    return flow(q.words, first)


@method("queue", "await_end", inlined=False)
def _await_end(q: Record, end: float) -> None:
    W, F = q.words, q.reals
    if q.end_timer:
        q.end_timer = 0
        forget(W, F)
    if end < inf:
        node = push(W, F, max(end, q.now), at.NORMAL, at.FLOW_ENDS, at.NOTHING)
        W[node + at.NUMBER], q.end_timer = place_of(q), W[node + at.EVENT_KEY]


@method("queue", "end", inlined=False)
def _end(q: Record, ended: Record) -> None:
    """Drop a complete flow. If a message owns it, list it among the ended flows.

    That list is in the order of serial numbers, which is the order of arrival.
    """
    W, node = q.words, place_of(ended)
    q.drop(ended, 0.0)
    if not ended.owner:
        # A flow without a message stands for single packets: nobody reads it any more.
        free_node(W, node)
        return
    before, after = 0, q.ended
    while after and flow(W, after).serial < ended.serial:
        before, after = after, flow(W, after).after
    ended.after = after
    if before:
        flow(W, before).after = node
    else:
        q.ended = node


@method("queue", "drop", inlined=False)
def _drop(q: Record, dropped: Record, left: float) -> None:
    W, before, after = q.words, dropped.before, dropped.after
    if before:
        flow(W, before).after = after
    else:
        q.flow_first = after
    if after:
        flow(W, after).before = before
    else:
        q.flow_last = before
    if q.new_first == place_of(dropped):
        q.new_first = after
    # Without a link its mark holds the remaining bits; see `SharedTransfer.passed`.
    dropped.link, dropped.mark = queue(W, 0), left
