"""Where the compiled form of TCP keeps what: records of a buffer, by their offsets.

One buffer of 64-bit words holds a world: a header, links, ways, messages, events and what waits. It
is seen as an array of integers, `W`, and as one of doubles, `F`. A record is the index of its first
word; `F[m + SIZE]` is the window of the message `m`. Names are those of the classes that the
records stand for, which say what they mean.
"""

# Header.
TOP, END, HEAP, LENGTH, ROOM, SERIAL, CANCELLED = range(7)
"""The first unused word, the number of all words, the heap of events, the number of all events and
the most of them, the next serial number, and the events that are timers that were cancelled."""
NODE_FREE, NODES, NODES_USED, NODE_NEXT, NODE_END, BLOCK, BLOCK_FIRST, BLOCK_LAST = range(7, 15)
"""The list of unused nodes, how many nodes there are and are in use, the part of the present block
of nodes that was not used yet, that block, the first one, and the last one."""
WANTED, PATHS, MESSAGES = range(40, 43)
"""How many words more are needed, the ways that were used, and all messages."""
NOW, BETA, LEAST_TIMEOUT, INITIAL, DELAY, COMPENSATED = range(16, 22)
CUBIC, LINUX, TRAIN, LATE, LOW, HIGH, SMOOTHED, SETTLED = range(22, 30)
POWERS = 30
"""1/3, 3, 2 and 4: exponents that no compiler knows, so that it calls the power of C's library, as
Python does."""
HEAPED, SLICES, SLICE, FINE, UNTIL_TUNED, TUNED_AT = range(34, 40)
"""The events in the heap, the lists of the others, the last slice of time whose events are in the
heap, slices in a second, and how many events and since when until these are chosen anew."""
SLOTS = 48
"""By the power of two that its segments are at most: the list of unused messages."""
HEADER = 96
LINE, WORD = 8, 8
"""The words of a line of a processor's cache: blocks of nodes and messages begin with one; and the
bytes of a word."""

# Entries of the heap.
KEY, NODE_OF = 1, 2
ENTRY = 3
NORMAL, SETTLE = 1 << 56, 2 << 56
"""The priorities of the calendar, above all serial numbers."""
KINDS = 16
"""A key is a priority, a serial number times this, and what happens."""
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

# Nodes: events, what waits, what has arrived, and flows.
NODE = 16
LINK = 0
WHEN, EVENT_KEY, ABOUT = 1, 2, 3
NUMBER = 4
HOP, SENT, BITS, COUNT, PACE, LAST = range(5, 11)
EARLY, ECHO = 5, 6
TIMES, BETWEEN, ECHO_NEXT, EACH_TIME = 5, 7, 8, 9
ITEMS, ITEM = 5, 3
"""Of a node of what waits, or has arrived: its items, and the words of each."""
START, SLOT, WAITERS = 1, 2, 3
FROM, TO, ARRIVED_THEN = 1, 2, 3
FLOW_BEFORE, FLOW_BITS, FLOW_CAP, FLOW_CAPPED, FLOW_MARK, FLOW_MOVED, FLOW_LINK, FLOW_SERIAL = (
    range(1, 9)
)
FLOW_OWNER = 9

# Queues of links.
RATE, LIMIT, FLOWS, CLAIMED, CROWDED, FREE, WAIT_FIRST, WAIT_LAST, WAITING = range(9)
STREAMS, WINDOWS, PIPE = range(9, 12)
SERIALS, SETTLING, END_TIMER, VIRTUAL, VIRTUAL_AT, SHARE, SHARING, CAPACITY = range(12, 20)
TARGETED, TARGET, DEMAND, CAPPED, NEW_FIRST, NEW_LAST, FLOW_FIRST, MANAGED = range(20, 28)
LASTS, WAIT_BEGIN, WAIT_END = range(28, 31)
"""The last two: the first item of the first node of what waits, and behind the last one's last."""
QUEUE = 31

# Ways.
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

# Messages: what belongs together is in one line of a processor's cache.
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
"""The lines of a message that most of its events look at: the first ones."""
MESSAGE = 104
"""What is known of its segments follows: a word of marks for each; then when each was last sent;
then what most messages never look at: the order in which it was sent again, and its place in the
list of those that were."""
SENT_AT, ORDER, PLACE = 1, 2, 3
PER_SEGMENT = 4
HAS_ARRIVED, IS_LOST, IS_AGAIN, IS_EARLY, IS_REPEATED, IS_ORDERED = 1, 2, 4, 8, 16, 32

OPEN, DISORDER, RECOVERY, LOSS = range(4)
SYN, ANSWER = -2, -1

NOTHING, ALONE, IN_ORDER = 0, 1, -1
ON_SHARE, ON_CAP = 0, 1
SPARE = 32
"""Numbers that are handed over: a constant in a call would be compiled once more for itself."""
