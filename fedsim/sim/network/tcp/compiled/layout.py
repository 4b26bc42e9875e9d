"""Where the compiled form of TCP keeps what: records of a buffer, by their offsets.

One buffer of 64-bit words holds a world: a header, links, ways, messages, events and what waits. It
is seen as an array of integers, `W`, and as one of doubles, `F`. A record is the index of its first
word; `F[m + SIZE]` is the window of the message `m`. Names are those of the classes that the
records stand for, which say what they mean.
"""

# Header.
TOP, END, HEAP, LENGTH, ROOM, SERIAL, CANCELLED = range(7)
"""The first unused word, the number of all words, the heap of events, its entries and the most of
them, the next serial number, and the entries of timers that were cancelled."""
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
SLOTS = 48
"""By the power of two that its segments are at most: the list of unused messages."""
HEADER = 96

# Entries of the heap.
KEY, KIND, ABOUT, WITH = range(1, 5)
ENTRY = 5
NORMAL, SETTLE = 1 << 56, 2 << 56
"""The priorities of the calendar, above all serial numbers."""
(FORWARD, SYN_AGAIN, SYN_ENDS, ACKNOWLEDGED, ALL_ACKNOWLEDGED, LATE_ONE, FINISH, TIMES_OUT) = range(
    8
)
FLOWS_SETTLE, FLOW_ENDS = 8, 9

# Nodes: segments on their way, acknowledgements, what waits, what has arrived, and flows.
NODE = 10
LINK = 0
NUMBER, COUNT, BITS, SENT, PACE, FIRST, LAST, HOP = range(1, 9)
TIMES, BETWEEN, ECHO, ECHO_NEXT, EACH_TIME = 2, 3, 4, 6, 7
EARLY = 2
START, SLOT = 3, 4
FLOW_BEFORE, FLOW_BITS, FLOW_CAP, FLOW_CAPPED, FLOW_MARK, FLOW_MOVED, FLOW_LINK, FLOW_SERIAL = (
    range(1, 9)
)
FLOW_OWNER = 9

# Queues of links.
RATE, LIMIT, FLOWS, CLAIMED, CROWDED, FREE, WAIT_FIRST, WAIT_LAST, WAITING = range(9)
STREAMS, WINDOWS, PIPE = range(9, 12)
SERIALS, SETTLING, END_TIMER, VIRTUAL, VIRTUAL_AT, SHARE, SHARING, CAPACITY = range(12, 20)
TARGETED, TARGET, DEMAND, CAPPED, NEW_FIRST, NEW_LAST, FLOW_FIRST, MANAGED = range(20, 28)
LASTS = 28
QUEUE = 29

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

# Messages.
PATH, TOTAL, EACH, SHORT, ALL, SEGMENTS_SENT, OVER, TIMER, TIMER_WHEN, WAITS, CLAIM = range(11)
PENDING, CLASS, RELEASED, NEXT_MESSAGE, NEXT_FREE = range(11, 16)
PASSED, LOG_FIRST, LOG_LAST, CONFIRMED, STREAM_LOGGED = range(16, 21)
ANSWERED, SYN_OVER, BEGUN, SYN_TIMEOUT, LINEAR = range(21, 26)
EARLIES, PIECES, ECHOED, SAID, UNSAID, AWAITED, DUE = range(26, 33)
STATE, DUPLICATES, RECOVER, RECOVERS, PARTIAL, TIMED, DEADLINE = range(33, 40)
PROBE, UNSURE, PROBED, SENT_AGAIN_AT, OVERTAKEN_BY = range(40, 45)
UNKNOWN, NEXT, ARRIVED, LOST, AGAIN, EDGE, HIGHEST = range(45, 52)
HIGHESTS, REPEATS, DELIVERED, LATE_AT, HINT = range(54, 59)
SIZE, THRESHOLD, TIMEOUT, LAST_SENT, FLIGHT, OUT, ARRIVALS = range(59, 66)
MEAN_TRIP, VARIATION, LAST_TRIP, LEAST_TRIP, SHORTEST, FOUND = range(66, 72)
ROUND_END, ROUND_START, LAST_NEAR, ROUND_TRIP, SAMPLES = range(72, 77)
PEAK, EPOCH, ORIGIN, INFLECTION, CREDIT = range(77, 82)
SIZE_BEFORE, THRESHOLD_BEFORE, PEAK_BEFORE = range(82, 85)
STREAM, STREAM_AT, STREAM_WINDOW, STREAM_FLOW, STREAMED = range(85, 90)
FOUND_LOST, NEWEST_TRIP, RETRIES, DOUBTS, ONLY_NEW = range(90, 95)
MESSAGE = 95
"""The segments follow: four words each."""

IS, ORDER, PLACE, SENT_AT = range(4)
"""What is known of a segment, in which order it was sent again, where in the list of those that
were, and when it was last sent."""
PER_SEGMENT = 4
HAS_ARRIVED, IS_LOST, IS_AGAIN, IS_EARLY, IS_REPEATED = 1, 2, 4, 8, 16

OPEN, DISORDER, RECOVERY, LOSS = range(4)
SYN, ANSWER = -2, -1

NOTHING, ALONE, IN_ORDER = 0, 1, -1
ON_SHARE, ON_CAP = 0, 1
SPARE = 32
"""Numbers that are handed over: a constant in a call would be compiled once more for itself."""
