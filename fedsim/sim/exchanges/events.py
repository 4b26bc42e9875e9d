"""Calendar and rows of the kernel, as in `fedsim.sim.engine.calendar` and `results.record.log`."""

from math import nan
from typing import Any

from fedsim.sim.exchanges.layout import FLOW, KernelTables
from fedsim.sim.kernels import part

# The calendar.


@part
def schedule(tables: KernelTables, t: float, kind: int, which: int, turn: int, key: int) -> None:
    """See `Calendar.call`; `key` is 0, or an addition to the serial number for a late priority."""
    total: Any = tables.total[0]
    events: Any = tables.events
    # The serial makes events of one time and priority first in, first out.
    key += total.serial
    total.serial += 1
    place = total.events
    total.events += 1
    # Sift up; keys are unique, so that the order is total.
    while place > 0:
        above = (place - 1) // 2
        if events[above].t < t or (events[above].t == t and events[above].key < key):
            break
        events[place] = events[above]
        place = above
    events[place].t = t
    events[place].key = key
    events[place].kind = kind
    events[place].which = which
    events[place].turn = turn


@part
def take_next(tables: KernelTables) -> tuple[int, int, int]:
    """Advance to the next event; return its kind, its subject and its turn."""
    total: Any = tables.total[0]
    events: Any = tables.events
    total.now = events[0].t
    kind, which, turn = events[0].kind, events[0].which, events[0].turn
    total.events -= 1
    count = total.events
    # The last event replaces the first one, and is sifted down.
    t, key = events[count].t, events[count].key
    place = 0
    while 2 * place + 1 < count:
        below = 2 * place + 1
        other = below + 1
        if other < count and (
            events[other].t < events[below].t
            or (events[other].t == events[below].t and events[other].key < events[below].key)
        ):
            below = other
        if t < events[below].t or (t == events[below].t and key < events[below].key):
            break
        events[place] = events[below]
        place = below
    events[place] = events[count]
    return kind, which, turn


# Lanes whose bits begin to flow at the same time.


@part
def slot_of(tables: KernelTables, t: float) -> int:
    """Return the slot of a time in an empty table."""
    tables.seconds[0] = t
    # `word` shares memory with `seconds`, so it holds the bits of the double. They are mixed, since
    # the table uses the lowest bits, which are 0 for many times.
    word = tables.word[0]
    word ^= word >> 33
    word *= 7046029254386353131
    word ^= word >> 29
    return int(word & (len(tables.starts) - 1))


@part
def find_start(tables: KernelTables, t: float) -> int:
    """Return the slot of a time in the table, or the slot where it would be inserted."""
    starts: Any = tables.starts
    slot = slot_of(tables, t)
    while starts[slot].first >= 0 and starts[slot].t != t:
        slot = (slot + 1) & (len(starts) - 1)
    return slot


@part
def forget_start(tables: KernelTables, slot: int) -> None:
    """Remove a time from the table, and move up entries that its slot had displaced."""
    starts: Any = tables.starts
    most = len(starts) - 1
    free, seen = slot, slot
    while True:
        seen = (seen + 1) & most
        if starts[seen].first < 0:
            break
        home = slot_of(tables, starts[seen].t)
        # Linear probing without tombstones: an entry moves if its home is not between the hole and
        # itself.
        if ((seen - home) & most) >= ((seen - free) & most):
            starts[free] = starts[seen]
            free = seen
    starts[free].first = -1


@part
def start_at(tables: KernelTables, t: float, lane: int) -> None:
    """See `ServerLanes._wake`: start the bits of a lane at a time, along with those of others."""
    starts: Any = tables.starts
    lanes: Any = tables.lanes
    slot = find_start(tables, t)
    lanes[lane].follows = -1
    if starts[slot].first < 0:
        starts[slot].t = t
        starts[slot].first = lane
        # One event serves all lanes of that time; they flow in the order in which they were added.
        schedule(tables, t, FLOW, lane, 0, 0)
    else:
        lanes[starts[slot].last].follows = lane
    starts[slot].last = lane


# Rows.


@part
def write(
    tables: KernelTables, event: int, node: int, peer: int, number: int, span: float, joules: float
) -> None:
    """Write a row of the log."""
    total: Any = tables.total[0]
    row: Any = tables.rows[total.rows]
    total.rows += 1
    row.t = total.now
    row.duration = span
    row.event = event
    row.node = node
    row.peer = peer
    row.round = number
    row.message = -1
    row.payload_bits = 0
    row.header_bits = 0
    row.transport_bits = 0
    row.joules = joules
    row.peer_joules = 0.0
    row.state_of_charge = nan
    row.operations = 0.0
    row.samples = 0.0
    row.detail = -1
