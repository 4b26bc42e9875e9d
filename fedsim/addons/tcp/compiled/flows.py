"""A link shared by streams: see `FairLink`. Its heaps are linear lists here."""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import part
from fedsim.addons.tcp.compiled.events import forget, free_node, push, take_node
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.addons.tcp.compiled.records import place_of, queue


@part
def open_flows(q: Record) -> None:
    """Initialise the sharing of a link."""
    q.streams = 1
    q.capacity = q.rate
    q.serials = q.settling = q.end_timer = q.sharing = 0
    q.targeted = q.capped = 0
    q.new_first = q.new_last = q.flow_first = 0
    q.virtual = q.virtual_at = q.demand = 0.0
    q.share = inf


@part
def add_flow(W: Integers, F: Reals, q: Record, bits: float, cap: float, owner: int) -> int:
    """Start a flow of at most `cap` bit/s, owned by a message or by none."""
    node = take_node(W)
    F[node + at.FLOW_BITS], F[node + at.FLOW_CAP], F[node + at.FLOW_MARK] = bits, cap, inf
    W[node + at.FLOW_CAPPED] = W[node + at.FLOW_MOVED] = W[node + at.LINK] = 0
    W[node + at.FLOW_LINK] = place_of(q)
    W[node + at.FLOW_OWNER] = owner
    W[node + at.FLOW_SERIAL] = q.serials
    q.serials += 1
    # New flows are admitted together at the end of the instant; see `settle`.
    if q.new_first:
        W[q.new_last + at.LINK] = node
    else:
        q.new_first = node
    q.new_last = node
    _touch(W, F, q)
    return node


@part
def _touch(W: Integers, F: Reals, q: Record) -> None:
    # One settlement per instant, whatever happens in it.
    if not q.settling:
        q.settling = 1
        node = push(W, F, F[at.NOW], at.SETTLE, at.FLOWS_SETTLE, at.NOTHING)
        W[node + at.NUMBER] = place_of(q)


@part
def remove_flow(W: Integers, F: Reals, node: int) -> None:
    """Cancel an unfinished flow."""
    q = queue(W, W[node + at.FLOW_LINK])
    _advance(F, q)
    left = _remaining(W, F, q, node)
    if W[node + at.FLOW_MOVED]:
        if W[node + at.FLOW_CAPPED]:
            _leave_capped(F, q, node)
        else:
            q.sharing -= 1
        _unlink(W, q, node)
    else:
        _unlink_new(W, q, node)
    W[node + at.FLOW_LINK] = 0
    # The mark of a removed flow holds its remaining bits; see `CompiledWorld._bits_of_flow`.
    F[node + at.FLOW_MARK] = left
    _touch(W, F, q)


@part
def _unlink_new(W: Integers, q: Record, node: int) -> None:
    before, other = 0, q.new_first
    while other != node:
        before, other = other, W[other + at.LINK]
    behind = W[node + at.LINK]
    if before:
        W[before + at.LINK] = behind
    else:
        q.new_first = behind
    if not behind:
        q.new_last = before


@part
def _link(W: Integers, q: Record, node: int) -> None:
    first = q.flow_first
    W[node + at.LINK], W[node + at.FLOW_BEFORE] = first, 0
    if first:
        W[first + at.FLOW_BEFORE] = node
    q.flow_first = node


@part
def _unlink(W: Integers, q: Record, node: int) -> None:
    before, behind = W[node + at.FLOW_BEFORE], W[node + at.LINK]
    if before:
        W[before + at.LINK] = behind
    else:
        q.flow_first = behind
    if behind:
        W[behind + at.FLOW_BEFORE] = before


@part
def _remaining(W: Integers, F: Reals, q: Record, node: int) -> float:
    now = F[at.NOW]
    if not W[node + at.FLOW_MOVED]:
        return F[node + at.FLOW_BITS]
    # The mark of a capped flow is the time of its end; that of a sharing one a virtual time.
    if W[node + at.FLOW_CAPPED]:
        return F[node + at.FLOW_CAP] * (F[node + at.FLOW_MARK] - now)
    served = q.share * (now - q.virtual_at)
    left: float = F[node + at.FLOW_MARK] - q.virtual - served
    return left


@part
def settle(W: Integers, F: Reals, q: Record) -> None:
    """Admit new flows, recompute the share, and wait for the next end."""
    q.settling = 0
    _advance(F, q)
    node = q.new_first
    wanted = 0.0
    # Neumaier summation, as in `sum` of Python 3.12 and later.
    lost = 0.0  # rounding error
    while node:
        cap = F[node + at.FLOW_CAP]
        total = wanted + cap
        if total < inf:
            lost += (wanted - total) + cap if abs(wanted) >= abs(cap) else (cap - total) + wanted
        wanted = total
        node = W[node + at.LINK]
    if W[at.COMPENSATED]:
        wanted += lost
    # If all caps fit, new flows run at their caps, without a detour over sharing, which would
    # round.
    fits = q.demand + wanted <= q.capacity and not q.sharing
    node = q.new_first
    # Cleared first: `_link` reuses the field that chains the list.
    q.new_first = q.new_last = 0
    while node:
        behind = W[node + at.LINK]
        # At the front, so the list is in no particular order. `_find` breaks ties by serial.
        _link(W, q, node)
        if fits:
            _to_capped(W, F, q, node, F[node + at.FLOW_BITS])
        else:
            _to_sharing(W, F, q, node, F[node + at.FLOW_BITS])
        node = behind
    _balance(W, F, q)
    _wait(W, F, q)


@part
def _advance(F: Reals, q: Record) -> None:
    """Bring the virtual time up to now."""
    now = F[at.NOW]
    if q.sharing:
        q.virtual += q.share * (now - q.virtual_at)
    else:
        # Restarted when nothing shares, which keeps virtual times small and precise.
        q.virtual = 0.0
    q.virtual_at = now


@part
def _find(W: Integers, F: Reals, q: Record, capped: int, word: int, sign: float) -> int:
    """Return the flow of a side with the least signed number, ties by serial; 0 if none."""
    # A search of all flows, not a heap: few streams share a link, as only long messages become one.
    first, least = 0, inf
    node = q.flow_first
    while node:
        if W[node + at.FLOW_CAPPED] == capped:
            number = sign * F[node + word]
            if (
                not first
                or number < least
                or (number == least and W[node + at.FLOW_SERIAL] < W[first + at.FLOW_SERIAL])
            ):
                first, least = node, number
        node = W[node + at.LINK]
    return first


@part
def _balance(W: Integers, F: Reals, q: Record) -> None:
    """Move flows between the sides until all rates are min(cap, share)."""
    now = F[at.NOW]
    share = _fair_share(q)
    # Largest cap first: moving a flow changes the share that the next one is compared with.
    while q.capped:
        node = _find(W, F, q, at.ON_CAP, at.FLOW_CAP, -1.0)
        if not F[node + at.FLOW_CAP] > share:
            break
        left = F[node + at.FLOW_CAP] * (F[node + at.FLOW_MARK] - now)
        _leave_capped(F, q, node)
        _to_sharing(W, F, q, node, left)
        share = _fair_share(q)
    # Smallest cap first, for the same reason.
    while q.sharing:
        node = _find(W, F, q, at.ON_SHARE, at.FLOW_CAP, 1.0)
        if not F[node + at.FLOW_CAP] < share:
            break
        left = F[node + at.FLOW_MARK] - q.virtual
        q.sharing -= 1
        _to_capped(W, F, q, node, left)
        share = _fair_share(q)
    q.share = share


@part
def _fair_share(q: Record) -> float:
    if not q.sharing:
        return inf
    share: float = (q.capacity - q.demand) / q.sharing
    return share


@part
def _to_sharing(W: Integers, F: Reals, q: Record, node: int, left: float) -> None:
    q.sharing += 1
    W[node + at.FLOW_MOVED], W[node + at.FLOW_CAPPED] = 1, 0
    F[node + at.FLOW_MARK] = q.virtual + left


@part
def _to_capped(W: Integers, F: Reals, q: Record, node: int, left: float) -> None:
    q.capped += 1
    q.demand += F[node + at.FLOW_CAP]
    W[node + at.FLOW_MOVED], W[node + at.FLOW_CAPPED] = 1, 1
    F[node + at.FLOW_MARK] = F[at.NOW] + left / F[node + at.FLOW_CAP]


@part
def _leave_capped(F: Reals, q: Record, node: int) -> None:
    q.capped -= 1
    if q.capped:
        q.demand -= F[node + at.FLOW_CAP]
    else:
        # Set exactly, so that rounding errors do not accumulate.
        q.demand = 0.0


@part
def _wait(W: Integers, F: Reals, q: Record) -> None:
    """Set the timer to the next end of either side."""
    if q.end_timer:
        q.end_timer = 0
        forget(W, F)
    q.targeted = 0
    end, now = inf, F[at.NOW]
    if q.capped:
        end = F[_find(W, F, q, at.ON_CAP, at.FLOW_MARK, 1.0) + at.FLOW_MARK]
    if q.sharing:
        mark = F[_find(W, F, q, at.ON_SHARE, at.FLOW_MARK, 1.0) + at.FLOW_MARK]
        shared_end = now + (mark - q.virtual) / q.share
        # On a tie the sharing flow ends first; its target makes that end exact.
        if shared_end <= end:
            end = shared_end
            q.target, q.targeted = mark, 1
    if end < inf:
        node = push(W, F, max(end, now), at.NORMAL, at.FLOW_ENDS, at.NOTHING)
        W[node + at.NUMBER], q.end_timer = place_of(q), W[node + at.EVENT_KEY]


@part
def end_flows(W: Integers, F: Reals, q: Record) -> int:
    """End all flows that are complete; return those of messages, in order of arrival."""
    q.end_timer = 0
    _advance(F, q)
    if q.targeted:
        # The timer was set for this mark. Setting it exactly removes the rounding of the way there.
        q.virtual = q.target
    ended = at.NOTHING
    # Several flows may end in one event: equal ones that started together do.
    while q.capped:
        node = _find(W, F, q, at.ON_CAP, at.FLOW_MARK, 1.0)
        if not F[node + at.FLOW_MARK] <= F[at.NOW]:
            break
        _leave_capped(F, q, node)
        ended = _drop(W, F, q, node, ended)
    while q.sharing:
        node = _find(W, F, q, at.ON_SHARE, at.FLOW_MARK, 1.0)
        if not F[node + at.FLOW_MARK] <= q.virtual:
            break
        q.sharing -= 1
        ended = _drop(W, F, q, node, ended)
    # The rate of the others changes: settled at the end of the instant.
    if q.sharing:
        _touch(W, F, q)
    else:
        _wait(W, F, q)
    return ended


@part
def _drop(W: Integers, F: Reals, q: Record, node: int, ended: int) -> int:
    """End a flow; insert a message's flow into the list of ended ones, by serial."""
    _unlink(W, q, node)
    # Marks the flow as over; `CompiledWorld` then reads its mark as the bits that are left.
    W[node + at.FLOW_LINK] = 0
    F[node + at.FLOW_MARK] = 0.0
    if not W[node + at.FLOW_OWNER]:
        # A flow without a message stands for single packets: nobody reads it any more.
        free_node(W, node)
        return ended
    # Inserted by serial number: callbacks run in the order in which flows were added.
    before, other = 0, ended
    while other and W[other + at.FLOW_SERIAL] < W[node + at.FLOW_SERIAL]:
        before, other = other, W[other + at.LINK]
    W[node + at.LINK] = other
    if not before:
        return node
    W[before + at.LINK] = node
    return ended
