"""Record layout of the compiled TCP world: offsets of fields in a buffer.

One buffer of 64-bit words holds a world: a header, queues of links, paths, messages, events and
waiting packets. The buffer has two views: `W` as integers, `F` as doubles. A record is referred to
by the index of its first word, so that `F[m + SIZE]` is the window of the message `m`. By
convention `m` is a message, `p` a path, `s` a stage of a path, `q` a queue, and `node` an event or
another list node. Fields correspond to attributes of the Python classes, which document them.
"""

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
NOW, BETA, LEAST_TIMEOUT, INITIAL, DELAY, COMPENSATED = range(16, 22)
CUBIC, LINUX, TRAIN, LATE, LOW, HIGH, SMOOTHED, SETTLED = range(22, 30)
POWERS = 30
"""1/3, 3, 2 and 4: exponents kept in memory, so that no compiler replaces the power of C's library,
which Python calls, too."""
HEAPED, SLICES, SLICE, FINE, UNTIL_TUNED, TUNED_AT = range(34, 40)
"""Events in the heap, lists of the other events, last slice of time that is in the heap, slices per
second, events until the next choice of slices, and time of the last one; see `events`."""
SLOTS = 48
"""Lists of freed message records, by the power of two of their capacity in segments."""
HEADER = 96
LINE, WORD = 8, 8
"""Words per cache line, with which blocks of nodes and messages are aligned; bytes per word."""

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
# used. UNKNOWN: first unacknowledged segment; SAID: last acknowledged number; EACH, SHORT, ALL:
# bits of a segment, of the last one, and of the message; CLAIM: segments claimed in queues.
PATH, OVER, PENDING, TOTAL, AWAITED, EARLIES, DUE, UNSAID = range(8)
SAID, ECHOED, LOG_FIRST, LOG_LAST, LOG_END, WAITS, STREAM, EACH = range(8, 16)
UNKNOWN, NEXT, STATE, ARRIVED, LOST, AGAIN, UNSURE, SIZE = range(16, 24)
THRESHOLD, SIZE_BEFORE, TIMED, RECOVER, DUPLICATES, CLAIM, SEGMENTS_SENT = range(24, 31)
LAST_TRIP, LEAST_TRIP, MEAN_TRIP, VARIATION, TIMEOUT, EPOCH, SHORTEST, FOUND = range(32, 40)
CREDIT, ORIGIN, INFLECTION, PEAK, DEADLINE, LATE_AT, PROBE, PROBED = range(40, 48)
TIMER, TIMER_WHEN, OVERTAKEN_BY, LAST_SENT, ROUND_END, ROUND_START, LAST_NEAR = range(48, 55)
ROUND_TRIP, SAMPLES, SHORT, ALL, CLASS, RELEASED, NEXT_MESSAGE, NEXT_FREE = range(55, 63)
PASSED, CONFIRMED, STREAM_LOGGED, PIECES, ENDS = range(63, 68)
ANSWERED, SYN_OVER, BEGUN, SYN_TIMEOUT, LINEAR, PARTIAL, SENT_AGAIN_AT = range(68, 75)
EDGE, HIGHESTS, HIGHEST = 75, 76, 77
REPEATS, DELIVERED, HINT, FLIGHT, OUT, ARRIVALS, THRESHOLD_BEFORE, PEAK_BEFORE = range(80, 88)
STREAM_AT, STREAM_WINDOW, STREAM_FLOW, STREAMED = range(88, 92)
FOUND_LOST, NEWEST_TRIP, RETRIES, DOUBTS, ONLY_NEW, SPAN = range(92, 98)
OFTEN = 6
"""Number of leading cache lines of a message that most of its events access."""
MESSAGE = 104
"""Columns of a message's segments follow its record: marks (a word of flags), the time each was
last sent, the order of its retransmission, and its place in the list of retransmitted segments.
Most messages never access the last two."""
SENT_AT, ORDER, PLACE = 1, 2, 3
PER_SEGMENT = 4
# Flags of a segment. The sender sets all but IS_EARLY, which is the receiver's.
HAS_ARRIVED, IS_LOST, IS_AGAIN, IS_EARLY, IS_REPEATED, IS_ORDERED = 1, 2, 4, 8, 16, 32

# States of congestion, in this order: `<= DISORDER` means that nothing is being repaired.
OPEN, DISORDER, RECOVERY, LOSS = range(4)
SYN, ANSWER = -2, -1

NOTHING, ALONE, IN_ORDER = 0, 1, -1
ON_SHARE, ON_CAP = 0, 1
SPARE = 32
"""Named constants for arguments: Numba would compile a function again for a literal argument."""
