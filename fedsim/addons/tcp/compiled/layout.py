"""Record layout of the compiled TCP world: offsets of fields in a buffer.

One buffer of 64-bit words holds a world: a header, queues of links, paths, messages, events and
waiting packets. The buffer has two views: `W` as integers, `F` as doubles. A record is referred to
by the index of its first word, so that `F[q + RATE]` is the rate of the queue `q`; a message is
seen as a record with named fields. By convention `m` is a message, `p` a path, `s` a stage of a
path, `q` a queue, and `node` an event or another list node. Fields correspond to attributes of the
Python classes, which document them.
"""

from typing import Any

import numpy as np

LINE, WORD = 8, 8
"""Words per cache line, with which blocks of nodes and messages are aligned; bytes per word."""


def _record(fields: str) -> "np.dtype[np.void]":
    """Return a record of words: integers, and doubles where a name ends with `.f`."""
    names = [field.removesuffix(".f") for field in fields.split()]
    kinds = ["f8" if field.endswith(".f") else "i8" for field in fields.split()]
    return np.dtype(list(zip(names, kinds, strict=True)), align=True)


def word(name: str) -> int:
    """Return the place of a field in the record of a message."""
    fields: Any = MESSAGE.fields
    return int(fields[name][1]) // WORD


# Header.
TOP, END, HEAP, LENGTH, ROOM, SERIAL, CANCELLED = range(7)
"""First unused word, number of words, heap of events, number of events, capacity of the heap, next
serial number, and number of cancelled timers among the events."""
NODE_FREE, NODES, NODES_USED, NODE_NEXT, NODE_END, BLOCK, BLOCK_FIRST, BLOCK_LAST = range(7, 15)
"""List of freed nodes, number of nodes, number in use, unused range of the present block of nodes,
present block, first block, last block."""
WANTED, PATHS, MESSAGES = range(40, 43)
"""Number of missing words after a return of FULL; list of used paths; list of all messages."""
# Constants of TCP. COMPENSATED: whether Python's `sum` of floats compensates rounding (3.12 on).
NOW, LEAST_TIMEOUT, INITIAL, DELAY, COMPENSATED, CUBIC, LINUX = range(16, 23)
HEAPED, SLICES, SLICE, FINE, UNTIL_TUNED, TUNED_AT = range(34, 40)
"""Events in the heap, lists of the other events, last slice of time that is in the heap, slices per
second, events until the next choice of slices, and time of the last one; see `events`."""
SLOTS = 48
"""Lists of freed message records, by the power of two of their capacity in segments."""
HEADER = 96

# Entries of the heap.
KEY, NODE_OF = 1, 2
ENTRY = 3
NORMAL, SETTLE = 1 << 56, 2 << 56
"""The priorities of the calendar, as the high bits of an event's key."""
KINDS = 16
"""A key is priority + serial number * KINDS + kind of event, so that keys compare as the calendar's
(priority, serial)."""
(
    FORWARD_ONE,
    FORWARD,
    SYN_AGAIN,
    SYN_ENDS,
    ACKNOWLEDGED,
    ALL_ACKNOWLEDGED,
    LATE_ONE,
    FINISH,
    TIMES_OUT,
) = range(9)
FLOWS_SETTLE, FLOW_ENDS = 9, 10

# Nodes serve as events, lists of waiting packets, logs of arrivals, and flows. Each use has its own
# fields, which share offsets.
NODE = 16
LINK = 0
WHEN, EVENT_KEY, ABOUT = 1, 2, 3
NUMBER = 4
HOP, SENT, BITS, COUNT, PACE, LAST = range(5, 11)
EARLY, ECHO = 5, 6
TIMES, BETWEEN, ECHO_NEXT, EACH_TIME = 5, 7, 8, 9
ITEMS, ITEM = 5, 3
"""A node of waiting packets or arrivals: its number of items, and the words per item."""
START, SLOT, WAITERS = 1, 2, 3
FROM, TO, ARRIVED_THEN = 1, 2, 3
FLOW_BEFORE, FLOW_BITS, FLOW_CAP, FLOW_CAPPED, FLOW_MARK, FLOW_MOVED, FLOW_LINK, FLOW_SERIAL = (
    range(1, 9)
)
FLOW_OWNER = 9

# Queues of links: see `LinkQueue`, and from SERIALS on `FairLink`.
RATE, LIMIT, FLOWS, CLAIMED, CROWDED, FREE, WAIT_FIRST, WAIT_LAST, WAITING = range(9)
STREAMS, WINDOWS, PIPE = range(9, 12)
SERIALS, SETTLING, END_TIMER, VIRTUAL, VIRTUAL_AT, SHARE, SHARING, CAPACITY = range(12, 20)
TARGETED, TARGET, DEMAND, CAPPED, NEW_FIRST, NEW_LAST, FLOW_FIRST, MANAGED = range(20, 28)
LASTS, WAIT_BEGIN, WAIT_END = range(28, 31)
"""WAIT_BEGIN, WAIT_END: the first used item of the first node of waiting packets, and the end of
the used items of the last node."""
QUEUE = 31

# Paths, followed by their stages: see `TcpPath` and `TcpStage`. HEAD: bits of an empty segment.
(
    STAGES,
    RADIO,
    BACK,
    BACK_BIT,
    HEAD,
    SEGMENT,
    NARROW,
    TRIP,
    USED,
    NEXT_USED,
    FREE_BIT,
    PAYLOAD,
) = range(12)
WAY = 12
AT, AFTER, SHARED, LEAD = range(4)
STAGE = 4

# Messages. Fields that are used together share a cache line, in the order of how often they are
# used. first: first unacknowledged segment; said: last acknowledged number; each, short, bits: bits
# of a segment, of the last one, and of the message; claim: segments claimed in queues.
MESSAGE = _record("""
path over pending total awaited earlies due.f unsaid
said echoed.f log_first log_last log_end waits stream each.f
first next state arrived lost again unsure size.f
threshold.f size_before.f timed least_timeout.f cubic claim segments_sent linux
last_trip.f least_trip.f trip.f variation.f timeout.f epoch.f shortest.f pipe_full
credit origin inflection.f peak deadline.f late_at.f probe.f probed
timer timer_when.f overtaken_by.f last_sent.f round_end round_start.f last_near.f round_trip.f
samples short.f bits.f capacity released next_message next_free passed.f
confirmed stream_logged blocks ends.f answered syn_over begun.f syn_timeout.f
linear partial sent_again_at.f edge highests highest_1 highest_2 highest_3
repeats delivered hint duplicates recover prr_out prr_delivered recover_fs
threshold_before.f peak_before stream_at stream_window.f stream_flow streamed found_lost
newest_trip.f retries doubts only_new payload initial delay.f grows alone
""")
WORDS = MESSAGE.itemsize // WORD
OFTEN = 6
"""Number of leading cache lines of a message that most of its events access."""
"""Columns of a message's segments follow its record: marks (a word of flags), the time each was
last sent, the order of its retransmission, and its place in the list of retransmitted segments.
Most messages never access the last two."""
COLUMNS = {"marks": "i8", "sent": "f8", "orders": "i8", "places": "i8"}
PER_SEGMENT = len(COLUMNS)

# States of congestion, in this order: `<= DISORDER` means that nothing is being repaired.
OPEN, DISORDER, RECOVERY, LOSS = range(4)
SYN, ANSWER = -2, -1

NOTHING, ALONE, IN_ORDER = 0, 1, -1
ON_SHARE, ON_CAP = 0, 1
SPARE = 32
"""Named constants for arguments: Numba would compile a function again for a literal argument."""
