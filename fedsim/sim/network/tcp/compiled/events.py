"""The calendar of a compiled world and its nodes: see `Calendar`."""

from fedsim.sim.network.tcp.compiled import layout as at
from fedsim.sim.network.tcp.compiled.compiler import part
from fedsim.sim.network.tcp.compiled.kinds import Integers, Reals

FEW = 256
"""Cancelled timers that are not worth a clean-up; see `Calendar`."""


@part
def take_node(W: Integers) -> int:
    """Return a node that is not in use: there is one, see `enough`."""
    W[at.NODES_USED] += 1
    found = W[at.NODE_FREE]
    if found:
        W[at.NODE_FREE] = W[found + at.LINK]
        return found
    if W[at.NODE_NEXT] == W[at.NODE_END]:
        use_block(W, W[W[at.BLOCK]])
    found = W[at.NODE_NEXT]
    W[at.NODE_NEXT] = found + at.NODE
    return found


@part
def use_block(W: Integers, block: int) -> None:
    """Take nodes from a block, which begins with the next one and the number of its nodes."""
    W[at.BLOCK], W[at.NODE_NEXT] = block, block + 2
    W[at.NODE_END] = block + 2 + W[block + 1] * at.NODE


@part
def free_node(W: Integers, node: int) -> None:
    """Let a node be used for something else."""
    W[at.NODES_USED] -= 1
    W[node + at.LINK] = W[at.NODE_FREE]
    W[at.NODE_FREE] = node


@part
def enough(W: Integers, events: int, nodes: int) -> bool:
    """Make room for some more events and nodes; return whether the buffer has any."""
    if W[at.LENGTH] + events > W[at.ROOM]:
        room = 2 * (W[at.LENGTH] + events)
        if W[at.TOP] + room * at.ENTRY > W[at.END]:
            W[at.WANTED] = room * at.ENTRY
            return False
        old, new = W[at.HEAP], W[at.TOP]
        for k in range(W[at.LENGTH] * at.ENTRY):
            W[new + k] = W[old + k]
        W[at.HEAP], W[at.ROOM], W[at.TOP] = new, room, new + room * at.ENTRY
    if W[at.NODES] - W[at.NODES_USED] < nodes:
        many = max(nodes, W[at.NODES])
        if W[at.TOP] + 2 + many * at.NODE > W[at.END]:
            W[at.WANTED] = 2 + many * at.NODE
            return False
        block = W[at.TOP]
        W[at.TOP] = block + 2 + many * at.NODE
        W[block], W[block + 1] = 0, many
        W[W[at.BLOCK_LAST]] = block
        W[at.BLOCK_LAST] = block
        W[at.NODES] += many
    return True


@part
def push(
    W: Integers, F: Reals, when: float, priority: int, kind: int, about: int, node: int
) -> int:
    """Let something happen; return the key of the event."""
    key = priority + W[at.SERIAL]
    W[at.SERIAL] += 1
    n, heap = W[at.LENGTH], W[at.HEAP]
    W[at.LENGTH] = n + 1
    while n > 0:
        above = (n - 1) >> 1
        other = heap + above * at.ENTRY
        if F[other] < when or (F[other] == when and W[other + at.KEY] < key):
            break
        _move(W, other, heap + n * at.ENTRY)
        n = above
    e = heap + n * at.ENTRY
    F[e] = when
    W[e + at.KEY], W[e + at.KIND], W[e + at.ABOUT], W[e + at.WITH] = key, kind, about, node
    return key


@part
def call(W: Integers, F: Reals, when: float, kind: int, m: int, node: int) -> int:
    """Let something happen to a message, which is kept until then; return the key of the event."""
    W[m + at.PENDING] += 1
    return push(W, F, when, at.NORMAL, kind, m, node)


@part
def _move(W: Integers, source: int, target: int) -> None:
    for k in range(at.ENTRY):
        W[target + k] = W[source + k]


@part
def _later_first(W: Integers, F: Reals, e: int, other: int) -> int:
    """Return 1 if the second of two entries comes first, else 0, without a branch.

    Which of two it is cannot be foretold, and a processor that does it wrongly loses more time.
    """
    same = (F[other] == F[e]) & (W[other + at.KEY] < W[e + at.KEY])
    return int((F[other] < F[e]) | same)


@part
def drop_first(W: Integers, F: Reals) -> None:
    """Take the first entry out of the heap.

    Its place goes down to where nothing is below it, and the last entry takes it, or one above.
    """
    last, heap = W[at.LENGTH] - 1, W[at.HEAP]
    W[at.LENGTH] = last
    n, below = 0, 1
    while below < last:
        b = heap + below * at.ENTRY
        if below + 1 < last:
            first = _later_first(W, F, b, b + at.ENTRY)
            below, b = below + first, b + first * at.ENTRY
        _move(W, b, heap + n * at.ENTRY)
        n = below
        below = 2 * n + 1
    moved = heap + last * at.ENTRY
    when, key = F[moved], W[moved + at.KEY]
    while n > 0:
        above = (n - 1) >> 1
        other = heap + above * at.ENTRY
        if F[other] < when or (F[other] == when and W[other + at.KEY] < key):
            break
        _move(W, other, heap + n * at.ENTRY)
        n = above
    if n < last:
        _move(W, moved, heap + n * at.ENTRY)


@part
def _sift_down(W: Integers, F: Reals, e: int, n: int, length: int) -> None:
    """Put the entry at `e` in the place `n`, or where it belongs below that."""
    heap = W[at.HEAP]
    when, key, kind = F[e], W[e + at.KEY], W[e + at.KIND]
    about, node = W[e + at.ABOUT], W[e + at.WITH]
    while True:
        below = 2 * n + 1
        if below >= length:
            break
        b = heap + below * at.ENTRY
        if below + 1 < length and _later_first(W, F, b, b + at.ENTRY):
            below, b = below + 1, b + at.ENTRY
        if when < F[b] or (when == F[b] and key < W[b + at.KEY]):
            break
        _move(W, b, heap + n * at.ENTRY)
        n = below
    e = heap + n * at.ENTRY
    F[e] = when
    W[e + at.KEY], W[e + at.KIND], W[e + at.ABOUT], W[e + at.WITH] = key, kind, about, node


# Timers, which can be cancelled.


@part
def is_dead(W: Integers, e: int) -> bool:
    """Return whether an entry is that of a timer that was cancelled."""
    kind, about = W[e + at.KIND], W[e + at.ABOUT]
    if kind == at.TIMES_OUT:
        return W[about + at.TIMER] != W[e + at.KEY]
    return kind == at.FLOW_ENDS and W[W[e + at.WITH] + at.END_TIMER] != W[e + at.KEY]


@part
def forget(W: Integers, F: Reals) -> None:
    """Count a cancelled timer, and drop them all once they are most of the heap."""
    W[at.CANCELLED] += 1
    if W[at.CANCELLED] <= FEW or 2 * W[at.CANCELLED] <= W[at.LENGTH]:
        return
    heap, left = W[at.HEAP], at.NOTHING
    for n in range(W[at.LENGTH]):
        e = heap + n * at.ENTRY
        if is_dead(W, e):
            release(W, W[e + at.ABOUT])
            continue
        if left < n:
            _move(W, e, heap + left * at.ENTRY)
        left += 1
    W[at.LENGTH] = left
    for n in range(left // 2 - 1, -1, -1):
        _sift_down(W, F, heap + n * at.ENTRY, n, left)
    W[at.CANCELLED] = 0


# Messages.


@part
def release(W: Integers, m: int) -> None:
    """Let go of a message for an event; its record is free once it is over and none is left."""
    if not m:
        return
    W[m + at.PENDING] -= 1
    free_if_over(W, m)


@part
def free_if_over(W: Integers, m: int) -> None:
    """Let the record of a message be used again, where nothing can happen to it any more."""
    if W[m + at.OVER] and not W[m + at.PENDING] and not W[m + at.RELEASED]:
        W[m + at.RELEASED] = 1
        slots = at.SLOTS + W[m + at.CLASS]
        W[m + at.NEXT_FREE] = W[slots]
        W[slots] = m
