"""Record layout of the compiled TCP world: offsets of fields in a buffer.

One buffer of 64-bit words holds a world: a header, queues of links, paths, messages, events and
waiting packets. The buffer has two views: `W` as integers, `F` as doubles. A record is referred to
by the index of its first word. Kernels see queues, paths and messages as records with named fields:
see `records`. By convention `m` is a message, `p` a path, `s` a stage of a path, `q` a queue, and
`node` the index of an event or of another list node. Fields correspond to attributes of the Python
classes, which document them.
"""

from typing import Any, NamedTuple

import numpy as np

LINE, WORD = 8, 8
"""Words per cache line, with which blocks of nodes and messages are aligned; bytes per word."""


class Layout(NamedTuple):
    """The fields of a record.

    Attributes:
        fields: the type and the offset in bytes of each.
        references: fields that refer to another record, by its word, and the kind of that record.
        parts: attributes that are the same record, seen as another kind.
        absent: attributes that are None: what kernels do not implement.
        constants: attributes that are the same integer in all records.
        columns: arrays, with the types of their elements.
        words: the length of the record.
    """

    fields: Any
    references: dict[str, str]
    parts: dict[str, str]
    absent: tuple[str, ...]
    constants: dict[str, int]
    columns: dict[str, str]
    words: int


def _record(
    fields: str,
    parts: dict[str, str] | None = None,
    absent: tuple[str, ...] = (),
    constants: dict[str, int] | None = None,
    columns: dict[str, str] | None = None,
) -> Layout:
    """Return the layout of words: `name`, `name.f` for a double, `name.kind` for a reference."""
    pairs = [field.partition(".")[::2] for field in fields.split()]
    kinds = [(name, "f8" if kind == "f" else "i8") for name, kind in pairs]
    dtype = np.dtype(kinds, align=True)
    references = {name: kind for name, kind in pairs if kind not in {"", "f"}}
    words = dtype.itemsize // WORD
    return Layout(
        dtype.fields, references, parts or {}, absent, constants or {}, columns or {}, words
    )


def word(kind: str, name: str) -> int:
    """Return the place of a field in a record."""
    return int(RECORDS[kind].fields[name][1]) // WORD


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
EVENTS = (
    "move_segment",
    "move_train",
    "send_syn",
    "end_handshake",
    "take_acknowledgement",
    "take_acknowledgements",
    "look_for_late",
    "finish",
    "look",
)
"""The events of a message, by the names of their laws; those of a link follow."""
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
) = range(len(EVENTS))
FLOWS_SETTLE, FLOW_ENDS = 9, 10

# Nodes serve as events, lists of waiting packets, logs of arrivals, and flows. Each use has its own
# fields, which share offsets.
NODE = 16
LINK = 0
WHEN, EVENT_KEY, ABOUT = 1, 2, 3
NUMBER = 4
"""The first argument of an event; the others follow."""
ITEMS, ITEM = 5, 3
"""A node of waiting packets or arrivals: its number of items, and the words per item."""
START, SLOT, WAITERS = 1, 2, 3
FROM, TO, ARRIVED_THEN = 1, 2, 3

# Records. `wait_begin` and `wait_end` are the first used item of the first node of waiting packets,
# and the end of the used items of the last node; from `serials` on: see `link_share` and `flows`.
_QUEUE = """
rate.f limit.f flows claimed crowded free.f slot.f waiting
wait_first wait_last wait_begin wait_end windows.f pipe.f managed streams
serials settling end_timer virtual.f virtual_at.f share.f sharing capacity.f
target.f demand.f capped flow_first flow_last new_first ended
"""
_PATH = """
hops radio back.f back_bit.f header.f segment.f narrow trip.f
used next_used free_bit.f payload own.queue
"""
# Fields that are used together share a cache line, in the order of how often they are used. said:
# last acknowledged number; each, short, bits: bits of a segment, of the last one, and of the
# message; claim: segments claimed in queues.
_MESSAGE = """
path.path over pending total awaited earlies due.f unsaid
said echoed.f log_first log_last log_end waits stream each.f
first next state arrived lost again unsure size.f
threshold.f size_before.f timed least_timeout.f cubic claim segments_sent linux
last_trip.f least_trip.f trip.f variation.f timeout.f epoch.f shortest.f pipe_full
credit origin inflection.f peak deadline.f late_at.f probe.f probed
timer timer_when.f overtaken_by.f last_sent.f round_end round_start.f last_near.f round_trip.f
samples short.f bits.f capacity released next_message next_free passed.f
confirmed stream_logged blocks ends.f answered syn_over begun.f syn_timeout.f
linear partial sent_again_at.f edge highests highest_1 highest_2 highest_3
repeats delivered hint duplicates recovery_point prr_out prr_delivered recover_fs
threshold_before.f peak_before stream_at stream_window.f stream_flow streamed found_lost
newest_trip.f retries doubts only_new payload initial delay.f grows alone
"""
"""Columns of a message's segments follow its record: marks (a word of flags), the time each was
last sent, the order of its retransmission, and its place in the list of retransmitted segments.
Most messages never access the last two."""
COLUMNS = {"marks": "i8", "sent": "f8", "orders": "i8", "places": "i8"}
PER_SEGMENT = len(COLUMNS)
ARRAYS = {"highest": "highest_1"}
"""Arrays among the fields of a message, and the first field of each."""

RECORDS = {
    "queue": _record(_QUEUE, parts={"waits": "waits", "calendar": "queue"}, absent=("signal",)),
    # A node, whose first word is `LINK`.
    "flow": _record(
        "after before bits.f cap.f capped mark.f moves link.queue serial owner",
        constants={"count": 1},
    ),
    "waits": _record(_QUEUE),
    "path": _record(_PATH, parts={"stages": "stages", "leads": "leads"}),
    "stages": _record(_PATH),
    "leads": _record(_PATH),
    "stage": _record("queue.queue delay.f shared lead.f", absent=("fair",)),
    "message": _record(
        _MESSAGE,
        parts=dict.fromkeys(
            ("window", "board", "receiver", "sender", "lane", "log", "calendar"), "message"
        ),
        absent=("loss",),
        constants={
            "listens": 0,
            "watched": 0,
            "holds": 0,
            **{name: kind for kind, name in enumerate(EVENTS)},
        },
        columns={**COLUMNS, "highest": "i8"},
    ),
}
"""All kinds of records: see `LinkQueue`, `SharedTransfer`, `TcpPath` (its stages follow it), and
`TcpStage`."""
QUEUE, WAY, STAGE, WORDS = [RECORDS[kind].words for kind in ("queue", "path", "stage", "message")]
"""The lengths of a queue, of a path without its stages, of a stage, and of a message."""
OFTEN = 6
"""Number of leading cache lines of a message that most of its events access."""

NOTHING, WHOLE = 0, 1
SPARE = 32
"""Named constants for arguments: Numba would compile a function again for a literal argument."""
