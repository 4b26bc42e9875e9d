"""A link shared by streams: see `FairLink`. Its heaps are linear lists here."""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import part
from fedsim.addons.tcp.compiled.events import forget, free_node, push, take_node
from fedsim.addons.tcp.compiled.kinds import Integers, Reals


@part
def open_flows(W: Integers, F: Reals, q: int) -> None:
    """Initialise the sharing of a link."""
    W[q + at.STREAMS] = 1
    F[q + at.CAPACITY] = F[q + at.RATE]
    W[q + at.SERIALS] = W[q + at.SETTLING] = W[q + at.END_TIMER] = W[q + at.SHARING] = 0
    W[q + at.TARGETED] = W[q + at.CAPPED] = 0
    W[q + at.NEW_FIRST] = W[q + at.NEW_LAST] = W[q + at.FLOW_FIRST] = 0
    F[q + at.VIRTUAL] = F[q + at.VIRTUAL_AT] = F[q + at.DEMAND] = 0.0
    F[q + at.SHARE] = inf


@part
def add_flow(W: Integers, F: Reals, q: int, bits: float, cap: float, owner: int) -> int:
    """Start a flow of at most `cap` bit/s, owned by a message or by none."""
    node = take_node(W)
    F[node + at.FLOW_BITS], F[node + at.FLOW_CAP], F[node + at.FLOW_MARK] = bits, cap, inf
    W[node + at.FLOW_CAPPED] = W[node + at.FLOW_MOVED] = W[node + at.LINK] = 0
    W[node + at.FLOW_LINK] = q
    W[node + at.FLOW_OWNER] = owner
    W[node + at.FLOW_SERIAL] = W[q + at.SERIALS]
    W[q + at.SERIALS] += 1
    # New flows are admitted together at the end of the instant; see `settle`.
    if W[q + at.NEW_FIRST]:
        W[W[q + at.NEW_LAST] + at.LINK] = node
    else:
        W[q + at.NEW_FIRST] = node
    W[q + at.NEW_LAST] = node
    _touch(W, F, q)
    return node


@part
def _touch(W: Integers, F: Reals, q: int) -> None:
    # One settlement per instant, whatever happens in it.
    if not W[q + at.SETTLING]:
        W[q + at.SETTLING] = 1
        node = push(W, F, F[at.NOW], at.SETTLE, at.FLOWS_SETTLE, at.NOTHING)
        W[node + at.NUMBER] = q


@part
def remove_flow(W: Integers, F: Reals, node: int) -> None:
    """Cancel an unfinished flow."""
    q = W[node + at.FLOW_LINK]
    _advance(W, F, q)
    left = _remaining(W, F, q, node)
    if W[node + at.FLOW_MOVED]:
        if W[node + at.FLOW_CAPPED]:
            _leave_capped(W, F, q, node)
        else:
            W[q + at.SHARING] -= 1
        _unlink(W, q, node)
    else:
        _unlink_new(W, q, node)
    W[node + at.FLOW_LINK] = 0
    # The mark of a removed flow holds its remaining bits; see `CompiledWorld._bits_of_flow`.
    F[node + at.FLOW_MARK] = left
    _touch(W, F, q)


@part
def _unlink_new(W: Integers, q: int, node: int) -> None:
    before, other = 0, W[q + at.NEW_FIRST]
    while other != node:
        before, other = other, W[other + at.LINK]
    behind = W[node + at.LINK]
    if before:
        W[before + at.LINK] = behind
    else:
        W[q + at.NEW_FIRST] = behind
    if not behind:
        W[q + at.NEW_LAST] = before


@part
def _link(W: Integers, q: int, node: int) -> None:
    first = W[q + at.FLOW_FIRST]
    W[node + at.LINK], W[node + at.FLOW_BEFORE] = first, 0
    if first:
        W[first + at.FLOW_BEFORE] = node
    W[q + at.FLOW_FIRST] = node


@part
def _unlink(W: Integers, q: int, node: int) -> None:
    before, behind = W[node + at.FLOW_BEFORE], W[node + at.LINK]
    if before:
        W[before + at.LINK] = behind
    else:
        W[q + at.FLOW_FIRST] = behind
    if behind:
        W[behind + at.FLOW_BEFORE] = before


@part
def _remaining(W: Integers, F: Reals, q: int, node: int) -> float:
    now = F[at.NOW]
    if not W[node + at.FLOW_MOVED]:
        return F[node + at.FLOW_BITS]
    # The mark of a capped flow is the time of its end; that of a sharing one a virtual time.
    if W[node + at.FLOW_CAPPED]:
        return F[node + at.FLOW_CAP] * (F[node + at.FLOW_MARK] - now)
    served = F[q + at.SHARE] * (now - F[q + at.VIRTUAL_AT])
    return F[node + at.FLOW_MARK] - F[q + at.VIRTUAL] - served


@part
def settle(W: Integers, F: Reals, q: int) -> None:
    """Admit new flows, recompute the share, and wait for the next end."""
    W[q + at.SETTLING] = 0
    _advance(W, F, q)
    node = W[q + at.NEW_FIRST]
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
    fits = F[q + at.DEMAND] + wanted <= F[q + at.CAPACITY] and not W[q + at.SHARING]
    node = W[q + at.NEW_FIRST]
    # Cleared first: `_link` reuses the field that chains the list.
    W[q + at.NEW_FIRST] = W[q + at.NEW_LAST] = 0
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
def _advance(W: Integers, F: Reals, q: int) -> None:
    """Bring the virtual time up to now."""
    now = F[at.NOW]
    if W[q + at.SHARING]:
        F[q + at.VIRTUAL] += F[q + at.SHARE] * (now - F[q + at.VIRTUAL_AT])
    else:
        # Restarted when nothing shares, which keeps virtual times small and precise.
        F[q + at.VIRTUAL] = 0.0
    F[q + at.VIRTUAL_AT] = now


@part
def _find(W: Integers, F: Reals, q: int, capped: int, word: int, sign: float) -> int:
    """Return the flow of a side with the least signed number, ties by serial; 0 if none."""
    # A search of all flows, not a heap: few streams share a link, as only long messages become one.
    first, least = 0, inf
    node = W[q + at.FLOW_FIRST]
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
def _balance(W: Integers, F: Reals, q: int) -> None:
    """Move flows between the sides until all rates are min(cap, share)."""
    now = F[at.NOW]
    share = _fair_share(W, F, q)
    # Largest cap first: moving a flow changes the share that the next one is compared with.
    while W[q + at.CAPPED]:
        node = _find(W, F, q, at.ON_CAP, at.FLOW_CAP, -1.0)
        if not F[node + at.FLOW_CAP] > share:
            break
        left = F[node + at.FLOW_CAP] * (F[node + at.FLOW_MARK] - now)
        _leave_capped(W, F, q, node)
        _to_sharing(W, F, q, node, left)
        share = _fair_share(W, F, q)
    # Smallest cap first, for the same reason.
    while W[q + at.SHARING]:
        node = _find(W, F, q, at.ON_SHARE, at.FLOW_CAP, 1.0)
        if not F[node + at.FLOW_CAP] < share:
            break
        left = F[node + at.FLOW_MARK] - F[q + at.VIRTUAL]
        W[q + at.SHARING] -= 1
        _to_capped(W, F, q, node, left)
        share = _fair_share(W, F, q)
    F[q + at.SHARE] = share


@part
def _fair_share(W: Integers, F: Reals, q: int) -> float:
    if not W[q + at.SHARING]:
        return inf
    return (F[q + at.CAPACITY] - F[q + at.DEMAND]) / W[q + at.SHARING]


@part
def _to_sharing(W: Integers, F: Reals, q: int, node: int, left: float) -> None:
    W[q + at.SHARING] += 1
    W[node + at.FLOW_MOVED], W[node + at.FLOW_CAPPED] = 1, 0
    F[node + at.FLOW_MARK] = F[q + at.VIRTUAL] + left


@part
def _to_capped(W: Integers, F: Reals, q: int, node: int, left: float) -> None:
    W[q + at.CAPPED] += 1
    F[q + at.DEMAND] += F[node + at.FLOW_CAP]
    W[node + at.FLOW_MOVED], W[node + at.FLOW_CAPPED] = 1, 1
    F[node + at.FLOW_MARK] = F[at.NOW] + left / F[node + at.FLOW_CAP]


@part
def _leave_capped(W: Integers, F: Reals, q: int, node: int) -> None:
    W[q + at.CAPPED] -= 1
    if W[q + at.CAPPED]:
        F[q + at.DEMAND] -= F[node + at.FLOW_CAP]
    else:
        # Set exactly, so that rounding errors do not accumulate.
        F[q + at.DEMAND] = 0.0


@part
def _wait(W: Integers, F: Reals, q: int) -> None:
    """Set the timer to the next end of either side."""
    if W[q + at.END_TIMER]:
        W[q + at.END_TIMER] = 0
        forget(W, F)
    W[q + at.TARGETED] = 0
    end, now = inf, F[at.NOW]
    if W[q + at.CAPPED]:
        end = F[_find(W, F, q, at.ON_CAP, at.FLOW_MARK, 1.0) + at.FLOW_MARK]
    if W[q + at.SHARING]:
        mark = F[_find(W, F, q, at.ON_SHARE, at.FLOW_MARK, 1.0) + at.FLOW_MARK]
        shared_end = now + (mark - F[q + at.VIRTUAL]) / F[q + at.SHARE]
        # On a tie the sharing flow ends first; its target makes that end exact.
        if shared_end <= end:
            end = shared_end
            F[q + at.TARGET], W[q + at.TARGETED] = mark, 1
    if end < inf:
        node = push(W, F, max(end, now), at.NORMAL, at.FLOW_ENDS, at.NOTHING)
        W[node + at.NUMBER], W[q + at.END_TIMER] = q, W[node + at.EVENT_KEY]


@part
def end_flows(W: Integers, F: Reals, q: int) -> int:
    """End all flows that are complete; return those of messages, in order of arrival."""
    W[q + at.END_TIMER] = 0
    _advance(W, F, q)
    if W[q + at.TARGETED]:
        # The timer was set for this mark. Setting it exactly removes the rounding of the way there.
        F[q + at.VIRTUAL] = F[q + at.TARGET]
    ended = at.NOTHING
    # Several flows may end in one event: equal ones that started together do.
    while W[q + at.CAPPED]:
        node = _find(W, F, q, at.ON_CAP, at.FLOW_MARK, 1.0)
        if not F[node + at.FLOW_MARK] <= F[at.NOW]:
            break
        _leave_capped(W, F, q, node)
        ended = _drop(W, F, q, node, ended)
    while W[q + at.SHARING]:
        node = _find(W, F, q, at.ON_SHARE, at.FLOW_MARK, 1.0)
        if not F[node + at.FLOW_MARK] <= F[q + at.VIRTUAL]:
            break
        W[q + at.SHARING] -= 1
        ended = _drop(W, F, q, node, ended)
    # The rate of the others changes: settled at the end of the instant.
    if W[q + at.SHARING]:
        _touch(W, F, q)
    else:
        _wait(W, F, q)
    return ended


@part
def _drop(W: Integers, F: Reals, q: int, node: int, ended: int) -> int:
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
