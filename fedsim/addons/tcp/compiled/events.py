"""Calendar of a compiled world, and its list nodes: see `Calendar`.

Events of the present slice of time, and of earlier ones, are in a heap. Those of later slices are
in one list per slice, and enter the heap slice by slice. With a few events per slice, the heap fits
into the first-level cache, which saves half of the run time with hundreds of messages in progress.
Slices never affect the order of events, which is by time and key. Their length is adapted to the
rate of events from time to time. Small calendars do without slices.
"""

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.addons.tcp.compiled.records import message, place_of, queue

FEW = 256
"""Number of cancelled timers up to which no clean-up pays; see `Calendar`."""

MANY = 64
"""Number of events from which on slices are used."""

LISTS = 1024
"""Number of lists, a power of two. Slices that are LISTS apart share a list."""

IN_A_SLICE = 6.0
"""Target number of events per slice."""

STEPS = 2048
"""Number of executed events between adaptations of the slices."""


@inline
def take_node(W: Integers) -> int:
    """Return an unused node; `enough` has made sure that there is one."""
    W[at.NODES_USED] += 1
    node = W[at.NODE_FREE]
    if node:
        W[at.NODE_FREE] = W[node + at.LINK]
        return node
    # The next block exists: `enough` has counted free nodes before this event.
    if W[at.NODE_NEXT] == W[at.NODE_END]:
        use_block(W, W[W[at.BLOCK]])
    node = W[at.NODE_NEXT]
    W[at.NODE_NEXT] = node + at.NODE
    return node


@part
def use_block(W: Integers, block: int) -> None:
    """Take nodes from a block; its first two words are the next block and its number of nodes."""
    W[at.BLOCK], W[at.NODE_NEXT] = block, block + at.LINE
    W[at.NODE_END] = block + at.LINE + W[block + 1] * at.NODE


@inline
def free_node(W: Integers, node: int) -> None:
    """Return a node to the list of free ones."""
    W[at.NODES_USED] -= 1
    W[node + at.LINK] = W[at.NODE_FREE]
    W[at.NODE_FREE] = node


@part
def on_a_line(W: Integers) -> int:
    """Return the first unused word at the beginning of a cache line."""
    return -(-W[at.TOP] // at.LINE) * at.LINE


@inline
def enough(W: Integers, events: int, nodes: int) -> bool:
    """Reserve memory for more events and nodes.

    Args:
        W: the buffer.
        events: the events that may be scheduled, each of which takes a node.
        nodes: the nodes that may be needed beside them.

    Returns:
        Whether there is room. Otherwise `WANTED` is set to the missing words.
    """
    if W[at.LENGTH] >= MANY and not W[at.SLICES] and not _make_lists(W):
        return False
    return _enough_events(W, events) and _enough_nodes(W, events + nodes)


@part
def _make_lists(W: Integers) -> bool:
    if W[at.TOP] + LISTS > W[at.END]:
        # The caller grows the buffer by this and calls again.
        W[at.WANTED] = LISTS
        return False
    W[at.SLICES] = W[at.TOP]
    W[at.TOP] += LISTS
    _empty_lists(W)
    return True


@part
def _enough_events(W: Integers, events: int) -> bool:
    if W[at.LENGTH] + events <= W[at.ROOM]:
        return True
    room = 2 * (W[at.LENGTH] + events)
    if W[at.TOP] + room * at.ENTRY > W[at.END]:
        W[at.WANTED] = room * at.ENTRY
        return False
    # The old heap is abandoned: capacity doubles, so that the waste is bounded.
    old, new = W[at.HEAP], W[at.TOP]
    for k in range(W[at.HEAPED] * at.ENTRY):
        W[new + k] = W[old + k]
    W[at.HEAP], W[at.ROOM], W[at.TOP] = new, room, new + room * at.ENTRY
    return True


@part
def _enough_nodes(W: Integers, nodes: int) -> bool:
    if W[at.NODES] - W[at.NODES_USED] >= nodes:
        return True
    many = max(nodes, W[at.NODES])
    block = on_a_line(W)
    end = block + at.LINE + many * at.NODE
    if end > W[at.END]:
        W[at.WANTED] = end - W[at.TOP]
        return False
    W[at.TOP] = end
    # Blocks form a list, as a longer buffer keeps all of them in place.
    W[block], W[block + 1] = 0, many
    W[W[at.BLOCK_LAST]] = block
    W[at.BLOCK_LAST] = block
    W[at.NODES] += many
    return True


@part
def forget_events(W: Integers, F: Reals) -> None:
    """Remove all events and free all nodes."""
    W[at.LENGTH] = W[at.HEAPED] = W[at.CANCELLED] = W[at.SLICE] = 0
    W[at.UNTIL_TUNED], F[at.TUNED_AT], F[at.FINE] = STEPS, 0.0, 0.0
    W[at.NODE_FREE] = W[at.NODES_USED] = 0
    use_block(W, W[at.BLOCK_FIRST])
    if W[at.SLICES]:
        _empty_lists(W)


@part
def _empty_lists(W: Integers) -> None:
    lists = W[at.SLICES]
    for k in range(LISTS):
        W[lists + k] = 0


# Scheduling.


@inline
def call(W: Integers, F: Reals, when: float, kind: int, m: Record) -> int:
    """Schedule an event of a message, whose record is kept until then; return the event."""
    m.pending += 1
    return push(W, F, when, at.NORMAL, kind, place_of(m))


@inline
def push(W: Integers, F: Reals, when: float, priority: int, kind: int, about: int) -> int:
    """Schedule an event; return it."""
    node = take_node(W)
    F[node + at.WHEN] = when
    # The serial number makes ties first-in, first-out, as in the calendar.
    W[node + at.EVENT_KEY] = priority + W[at.SERIAL] * at.KINDS + kind
    W[at.SERIAL] += 1
    W[node + at.ABOUT] = about
    if not W[at.LENGTH]:
        # An empty calendar jumps to the slice of the new event, so that it enters the heap at once.
        W[at.SLICE] = max(W[at.SLICE], int(when * F[at.FINE]))
    W[at.LENGTH] += 1
    _place(W, F, node)
    return node


@inline
def _place(W: Integers, F: Reals, node: int) -> None:
    """Put an event into the list of its slice, or into the heap."""
    number = int(F[node + at.WHEN] * F[at.FINE])
    if number <= W[at.SLICE]:
        _put(W, F, node)
    else:
        _list(W, number, node)


@inline
def _list(W: Integers, number: int, node: int) -> None:
    slot = W[at.SLICES] + (number & (LISTS - 1))
    W[node + at.LINK] = W[slot]
    W[slot] = node


@inline
def _put(W: Integers, F: Reals, node: int) -> None:
    """Put an event into the heap."""
    when, key = F[node + at.WHEN], W[node + at.EVENT_KEY]
    n = W[at.HEAPED]
    W[at.HEAPED] = n + 1
    _rise(W, F, n, when, key, node)


@inline
def _rise(W: Integers, F: Reals, n: int, when: float, key: int, node: int) -> None:
    """Move an entry up from position `n` of the heap to its place, and store it there."""
    heap = W[at.HEAP]
    while n > 0:
        above = (n - 1) >> 1
        other = heap + above * at.ENTRY
        # Strict order: keys are unique.
        if F[other] < when or (F[other] == when and W[other + at.KEY] < key):
            break
        _move(W, other, heap + n * at.ENTRY)
        n = above
    e = heap + n * at.ENTRY
    F[e], W[e + at.KEY], W[e + at.NODE_OF] = when, key, node


@inline
def _move(W: Integers, source: int, target: int) -> None:
    for k in range(at.ENTRY):
        W[target + k] = W[source + k]


@inline
def _later_first(W: Integers, F: Reals, e: int, other: int) -> int:
    """Return 1 if the second of two entries comes first, else 0, without a branch.

    The outcome is random, so that a branch would often be mispredicted.
    """
    same = (F[other] == F[e]) & (W[other + at.KEY] < W[e + at.KEY])
    return int((F[other] < F[e]) | same)


@inline
def drop_first(W: Integers, F: Reals) -> None:
    """Remove the first event; its node stays with the caller.

    The hole sinks to the bottom of the heap, and the last entry rises from there.
    """
    last, heap = W[at.HEAPED] - 1, W[at.HEAP]
    W[at.HEAPED] = last
    W[at.LENGTH] -= 1
    W[at.UNTIL_TUNED] -= 1
    now = F[heap]
    n, below = 0, 1
    # Bottom-up: fewer comparisons than sifting down the last entry, which nearly always returns to
    # the bottom.
    while below < last:
        b = heap + below * at.ENTRY
        if below + 1 < last:
            first = _later_first(W, F, b, b + at.ENTRY)
            below, b = below + first, b + first * at.ENTRY
        _move(W, b, heap + n * at.ENTRY)
        n = below
        below = 2 * n + 1
    if n < last:
        moved = heap + last * at.ENTRY
        _rise(W, F, n, F[moved], W[moved + at.KEY], W[moved + at.NODE_OF])
    if not last and W[at.LENGTH]:
        _go_to_next_slice(W, F)
    if W[at.UNTIL_TUNED] <= 0:
        _tune(W, F, now)


# Slices of time.


@part
def _go_to_next_slice(W: Integers, F: Reals) -> None:
    """Move the events of the next nonempty slice into the heap. There has to be one."""
    fine, number, empty = F[at.FINE], W[at.SLICE], 0
    while not W[at.HEAPED]:
        number += 1
        empty += 1
        # After a full turn of empty lists the next event lies further ahead: search for it.
        if empty > LISTS:
            number, empty = _find_first_slice(W, F), 0
        slot = W[at.SLICES] + (number & (LISTS - 1))
        node = W[slot]
        W[slot] = 0
        while node:
            behind = W[node + at.LINK]
            # Same product as in `_place`, so that an event is found in the slice in which it was
            # put.
            if int(F[node + at.WHEN] * fine) == number:
                _put(W, F, node)
            else:  # slices LISTS apart share a list: this event is of a later slice
                _list(W, number, node)
            node = behind
    W[at.SLICE] = number


@part
def _find_first_slice(W: Integers, F: Reals) -> int:
    any_found, first = False, 0
    for k in range(LISTS):
        node = W[W[at.SLICES] + k]
        while node:
            number = int(F[node + at.WHEN] * F[at.FINE])
            if not any_found or number < first:
                any_found, first = True, number
            node = W[node + at.LINK]
    return first


@part
def _tune(W: Integers, F: Reals, now: float) -> None:
    """Adapt the slices to the rate of events; redistribute events after a large change."""
    span = now - F[at.TUNED_AT]
    W[at.UNTIL_TUNED], F[at.TUNED_AT] = STEPS, now
    fine, new = F[at.FINE], 0.0
    if W[at.LENGTH] >= MANY and W[at.SLICES] and span > 0.0:
        new = STEPS / (span * IN_A_SLICE)
    # Within a factor of 2 a change is not worth the redistribution.
    if fine <= 2 * new and new <= 2 * fine:
        return
    nodes = _take_all(W)
    F[at.FINE], W[at.SLICE] = new, int(now * new)
    while nodes:
        behind = W[nodes + at.LINK]
        _place(W, F, nodes)
        nodes = behind
    if not W[at.HEAPED] and W[at.LENGTH]:
        _go_to_next_slice(W, F)


@part
def _take_all(W: Integers) -> int:
    """Remove all events from heap and lists; return them as a linked list."""
    taken = 0
    if W[at.SLICES]:
        for k in range(LISTS):
            slot = W[at.SLICES] + k
            while W[slot]:
                node = W[slot]
                W[slot], W[node + at.LINK] = W[node + at.LINK], taken
                taken = node
    for n in range(W[at.HEAPED]):
        node = W[W[at.HEAP] + n * at.ENTRY + at.NODE_OF]
        W[node + at.LINK] = taken
        taken = node
    W[at.HEAPED] = 0
    return taken


# Timers, which can be cancelled.


@inline
def is_dead(W: Integers, node: int) -> bool:
    """Return whether an event is a cancelled timer."""
    key = W[node + at.EVENT_KEY]
    kind = key & (at.KINDS - 1)
    if kind == at.TIMES_OUT:
        # A timer is alive as long as its message holds its key, so cancelling it costs one store.
        return bool(message(W, W[node + at.ABOUT]).timer != key)
    return kind == at.FLOW_ENDS and queue(W, W[node + at.NUMBER]).end_timer != key


@part
def forget(W: Integers, F: Reals) -> None:
    """Count a cancelled timer; remove cancelled timers once they are most of the events."""
    W[at.CANCELLED] += 1
    # Cleaning up costs a pass over all events: worth it once half of them are dead.
    if W[at.CANCELLED] <= FEW or 2 * W[at.CANCELLED] <= W[at.LENGTH]:
        return
    W[at.CANCELLED] = 0
    node = _take_all(W)
    while node:
        behind = W[node + at.LINK]
        if is_dead(W, node):
            W[at.LENGTH] -= 1
            # The event will not execute, but has kept the record of its message until now.
            release(W, W[node + at.ABOUT])
            free_node(W, node)
        else:
            _place(W, F, node)
        node = behind
    if not W[at.HEAPED] and W[at.LENGTH]:
        _go_to_next_slice(W, F)


# Messages.


@inline
def release(W: Integers, about: int) -> None:
    """Drop the reference of an event to its message, and free the record if possible."""
    if about:
        m = message(W, about)
        m.pending -= 1
        free_if_over(W, m)


@inline
def free_if_over(W: Integers, m: Record) -> None:
    """Free the record of a message that is over and has no events left."""
    # RELEASED prevents a second release by a later event of the same instant.
    if m.over and not m.pending and not m.released:
        m.released = 1
        slots = at.SLOTS + m.capacity
        m.next_free = W[slots]
        W[slots] = place_of(m)
