"""The queues of links: see `LinkQueue`."""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part
from fedsim.addons.tcp.compiled.events import free_node, take_node
from fedsim.addons.tcp.compiled.flows import add_flow
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.addons.tcp.queue import FILLED, TOGETHER


@part
def claim(W: Integers, F: Reals, m: Record, count: int, flows: int) -> None:
    """Add the claims of a message to the queues of its path; see `LinkQueue.claim`."""
    p = m.path
    for k in range(W[p + at.STAGES]):
        q = W[p + at.WAY + k * at.STAGE + at.AT]
        W[q + at.FLOWS] += flows
        W[q + at.CLAIMED] += count
        W[q + at.CROWDED] = W[q + at.CLAIMED] > F[q + at.LIMIT] + 1


@inline
def is_crowded(W: Integers, m: Record) -> bool:
    """Return whether other messages may make queues drop segments of this one."""
    p = m.path
    for k in range(W[p + at.STAGES]):
        if W[W[p + at.WAY + k * at.STAGE + at.AT] + at.CROWDED]:
            return True
    return False


@part
def standing(F: Reals, q: int) -> float:
    """Return the packets that streams keep in a queue; see `LinkQueue.standing`."""
    if F[q + at.WINDOWS] == 0.0:
        return 0.0
    # Windows beyond the bandwidth-delay product stand in the queue, up to a mean filling.
    return min(max(F[q + at.WINDOWS] - F[q + at.PIPE], 0.0), FILLED * F[q + at.LIMIT])


@part
def forget_waits(W: Integers, q: int) -> None:
    """Empty the list of waiting packets."""
    node = W[q + at.WAIT_FIRST]
    while node:
        behind = W[node + at.LINK]
        free_node(W, node)
        node = behind
    W[q + at.WAIT_FIRST] = W[q + at.WAIT_LAST] = W[q + at.WAITING] = 0


@inline
def _wait(W: Integers, F: Reals, q: int, start: float, slot: float, count: int) -> None:
    # A node holds several trains; the queue refers to the first and the last used item.
    if not W[q + at.WAIT_FIRST] or W[q + at.WAIT_END] == at.ITEMS:
        node = take_node(W)
        W[node + at.LINK], W[q + at.WAIT_END] = 0, 0
        if W[q + at.WAIT_FIRST]:
            W[W[q + at.WAIT_LAST] + at.LINK] = node
        else:
            W[q + at.WAIT_FIRST], W[q + at.WAIT_BEGIN] = node, 0
        W[q + at.WAIT_LAST] = node
    item = W[q + at.WAIT_LAST] + at.ITEM * W[q + at.WAIT_END]
    F[item + at.START], F[item + at.SLOT], W[item + at.WAITERS] = start, slot, count
    W[q + at.WAIT_END] += 1
    W[q + at.WAITING] += count


@inline
def _drop_wait(W: Integers, q: int) -> None:
    """Remove the first train from the waiting packets."""
    node = W[q + at.WAIT_FIRST]
    W[q + at.WAIT_BEGIN] += 1
    # The last node may be partly filled.
    last = node == W[q + at.WAIT_LAST]
    if W[q + at.WAIT_BEGIN] == (W[q + at.WAIT_END] if last else at.ITEMS):
        W[q + at.WAIT_FIRST], W[q + at.WAIT_BEGIN] = W[node + at.LINK], 0
        free_node(W, node)


@inline
def _leaves_by(slot: float, now: float, lead: float) -> float:
    """Return the time up to which departures precede an arrival; see `LinkQueue.room`."""
    return now - TOGETHER if lead > slot else now + TOGETHER


@inline
def room(W: Integers, F: Reals, q: int, now: float, lead: float) -> float:
    """Return how many packets may arrive at `now`; see `LinkQueue.room`."""
    while W[q + at.WAIT_FIRST]:
        item = W[q + at.WAIT_FIRST] + at.ITEM * W[q + at.WAIT_BEGIN]
        start, slot, count = F[item + at.START], F[item + at.SLOT], W[item + at.WAITERS]
        by = _leaves_by(slot, now, lead)
        if start + slot * (count - 1) > by:
            gone = min(int((by - start) / slot), count - 2) + 1 if start <= by else 0
            if gone:
                F[item + at.START], W[item + at.WAITERS] = start + gone * slot, count - gone
                W[q + at.WAITING] -= gone
            break
        W[q + at.WAITING] -= count
        _drop_wait(W, q)
    idle = F[q + at.FREE] <= _leaves_by(F[q + at.LASTS], now, lead)
    # The packet in transmission has left the queue: an idle link takes one more.
    left = F[q + at.LIMIT] - W[q + at.WAITING] + (1.0 if idle else 0.0)
    if F[q + at.WINDOWS] != 0.0 and not W[q + at.MANAGED]:
        return left - standing(F, q)
    return left


@part
def carry(
    W: Integers, F: Reals, q: int, first: float, last: float, count: int, bits: float
) -> tuple[float, float]:
    """Transmit packets that find room; return when the first and the last one are through, s."""
    start = max(first, F[q + at.FREE])
    F[q + at.LASTS] = slot = bits / F[q + at.RATE]
    free = start + count * slot
    F[q + at.FREE] = free
    # The last packet leaves after it has come, and after the queue before it.
    end = max(last + slot, free)
    begun = start + slot
    if start > first or count > 1:
        _wait(W, F, q, start, slot, count)
    if F[q + at.WINDOWS] != 0.0 and W[q + at.STREAMS]:
        lag = standing(F, q) * slot
        # The packets take their share from the streams on this link.
        add_flow(W, F, q, count * bits, inf, at.NOTHING)
        return begun + lag, end + lag
    return begun, end


@inline
def carry_one(W: Integers, F: Reals, q: int, first: float, bits: float, lead: float) -> float:
    """Transmit a packet; return when it is through, s, or -1 if it is dropped."""
    free = F[q + at.FREE]
    if F[q + at.WINDOWS] != 0.0:
        if room(W, F, q, first, lead) < 1:
            return -1.0
        return carry(W, F, q, first, first, at.ALONE, bits)[0]
    slot, before = bits / F[q + at.RATE], F[q + at.LASTS]
    # The link is idle: whatever is still listed as waiting has left.
    if free <= _leaves_by(before, first, lead):  # nothing waits
        # The list is freed, not only its count, as its nodes are shared with all other lists.
        if W[q + at.WAITING]:
            forget_waits(W, q)
        F[q + at.LASTS], F[q + at.FREE] = slot, first + slot
        return first + slot
    # The list of waiting packets is brought up to date only if the queue may be full.
    if W[q + at.WAITING] >= F[q + at.LIMIT] and room(W, F, q, first, lead) < 1:
        return -1.0
    _wait(W, F, q, free, before, at.ALONE)
    free = max(free, first) + slot
    F[q + at.LASTS], F[q + at.FREE] = slot, free
    return free
