"""The event log's schema, version 5: one row per span.

A row is written when its span ends, so `t` never runs back; the span began at
`t - duration`. Bits stand in a `send` row of the sender and in a `receive` row of the
receiver; joules stand in the row of the node that spent them. Their sum over all rows is
the energy of the run: the idle energy of the fleet is in the `round` and `stop` rows.

A run's decisions can be read off its log, apart from their times and costs: the recipients and
messages of every exchange, what each client computed and what it replied. See
`fedsim.addons.repricing`.

Bits that are sent are received, lost or, at the end, in flight. Retransmitted packets repeat bits
that were lost: their bits are in a `retransmit` row, which counts as sent and as lost. A broadcast
to the clients of a cell is sent once, to no particular peer, and received by each of them.

In a live run (`fedsim.addons.live`) times are seconds of the server's clock, a message's duration
is from its writing to its arrival, and joules are NaN unless every client has a meter.

| column | type | meaning |
|---|---|---|
| seq | int64 | the row's number, from 0 |
| t | float64, s | simulated time at the end of the span |
| duration | float64, s | length of the span; for a message the time its bits flow |
| event | category | see `Event` |
| node | category | the node that the row is about, such as "server" or "client-3" |
| peer | category | the other end of a message, which may be any other node; null elsewhere |
| round | int32 | the round, from 1, which a reply answers; 0 in rows of no round, as of batteries |
| message | category | the message's class in lower case; null elsewhere |
| payload_bits | int64 | the encoding of what the message carries |
| header_bits | int64 | the application's header, of 19 bytes |
| transport_bits | int64 | framing of the transport; retransmitted packets |
| joules | float64, J | energy spent in the span beyond the device's idle power |
| grams | float64, g | CO2 that these joules emit; only where a group of the fleet has `carbon` |
| state_of_charge | float64 | share of the battery left; NaN on mains, in `silent` and `late` rows |
| operations | float64 | floating-point operations of work that was finished; 0 elsewhere |
| samples | float64 | number of samples that this work processed; 0 elsewhere |
| detail | category | further words; null for nearly all rows |
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SCHEMA_VERSION = 6
ROUNDS_VERSION = 3
"""The version of round tables. In the first one, which manifests do not name, each tail or message
counted in the round in which it ended; in the second one, a round had the energy that was spent in
it. The third one also has what radios take after a round until they sleep.
"""


class Event(IntEnum):
    """The kind of a row; the log has its name in lower case."""

    COMPUTE = 0
    """A client worked on its data."""
    SEND = 1
    """A message left its sender; the detail says where it was not delivered: "in flight" at
    the end of the run, "lost" for good, "aborted" because either end could not go on."""
    RECEIVE = 2
    """A message reached its receiver. With a detail and no bits: what a download that was not
    delivered has cost its receiver; after "collision" and "missed" it is sent again."""
    LOST = 3
    """A message was lost for good; the detail says why."""
    RETRANSMIT = 4
    """Packets were sent again: their bits, and their share of the message's time and joules."""
    SILENT = 5
    """A client had nothing worth sending."""
    SAMPLED = 6
    """A client was drawn into the cohort."""
    SKIPPED = 7
    """A client was left out by the participation policy; the detail says why."""
    LATE = 8
    """A reply came after its round had closed, or before it was given up; the detail says what
    became of it."""
    OFFLINE = 9
    """A client became unreachable, or was so when the run began; its work and its messages, if
    any, are lost."""
    ONLINE = 10
    """A client became reachable; the duration is how long it was not."""
    DEPLETED = 11
    """A battery reached its cut-off; the client is off until it has charged."""
    CHARGED = 12
    """A battery reached the level at which its client starts again; the duration is how long it
    was off."""
    ROUND = 13
    """A round was committed; its joules are what the fleet drew at rest since the last one."""
    EVALUATE = 14
    """The observer evaluated something; the detail says what and how."""
    STOP = 15
    """The run ended; the detail says why, the joules are the fleet's at rest since the round."""
    PROMOTION = 16
    """A radio left its idle state, or another that bits cannot flow in."""
    TAIL = 17
    """A radio was connected, or paged, while no bits flowed; the detail says in which stage, where
    it has several. "poll" is an empty frame of a LoRa radio with its windows, "windows" those of
    another frame, without their time."""
    EXCHANGE = 18
    """The server opened an exchange with a cohort: one message for all, or one for each if the row
    names no message. The rows up to the next such row belong to this exchange, except for late
    replies and asynchronous servers."""
    ABANDONED = 19
    """A round was no step of the algorithm: it was given up, since too few clients had reported, or
    it closed without a single report. The model stays, and the next round asks anew; the detail
    says which clients were missing, the duration is the time since its broadcast."""
    FORWARD = 20
    """A client has forwarded a message of others, to its peer or from it, that goes through its own
    node of a graph; the bits are those of the message with the framing of this client's radio."""


NO_PEER = -2
"""The peer of a row that has none; nodes are numbered from -1, the server."""

MESSAGE = -1
"""In memory, the event of one record that stands for both rows of a message."""

ROW = struct.Struct("<ddbiiihqqqdddddi")
"""One row in memory: everything but `seq`, with categories as numbers, and `peer_joules`."""

ROW_DTYPE = np.dtype(
    [
        ("t", "<f8"),
        ("duration", "<f8"),
        ("event", "i1"),
        ("node", "<i4"),
        ("peer", "<i4"),
        ("round", "<i4"),
        ("message", "<i2"),
        ("payload_bits", "<i8"),
        ("header_bits", "<i8"),
        ("transport_bits", "<i8"),
        ("joules", "<f8"),
        ("peer_joules", "<f8"),
        ("state_of_charge", "<f8"),
        ("operations", "<f8"),
        ("samples", "<f8"),
        ("detail", "<i4"),
    ]
)
"""The same row for NumPy."""


class Chunk(Protocol):
    """Rows of the log: as many entries of each column of `ROW_DTYPE`, by name."""

    def __len__(self) -> int: ...

    def __getitem__(self, name: str, /) -> NDArray[Any]: ...


_IN_CACHE = 4096
"""Number of records separated at once. Their fields are read one after the other, and a pass over a
whole chunk would fetch each record from memory again."""


class _Piece:
    """The rows of a few records."""

    def __init__(self, records: NDArray[np.void]) -> None:
        self._records = records
        self._whose = np.flatnonzero(records["event"] == MESSAGE)  # the records of messages
        self._receivers = self._whose + np.arange(1, 1 + len(self._whose))  # their second rows
        self.size = len(records) + len(self._whose)

    @cached_property
    def _from(self) -> NDArray[np.intp]:
        """The record of each row."""
        of = np.ones(self.size, np.intp)
        of[0] = 0
        of[self._receivers] = 0
        return np.cumsum(of, out=of)

    def column(self, name: str) -> NDArray[Any]:
        column = np.empty(self.size, ROW_DTYPE[name])
        self.fill(column, name)
        return column

    def fill(self, column: NDArray[Any], name: str) -> None:
        """Enter a column in an array of its type, shape (size,)."""
        if not len(self._whose):
            column[:] = self._records[name]
            return
        # "clip" writes to `out` as it goes; other modes make a copy first.
        np.take(np.array(self._records[name]), self._from, out=column, mode="clip")
        receivers = self._receivers
        if name == "event":
            column[receivers - 1], column[receivers] = Event.SEND, Event.RECEIVE
        elif name in _OF_RECEIVERS:
            column[receivers] = self._records[_OF_RECEIVERS[name]][self._whose]


def _in_cache(records: Sequence[NDArray[np.void]]) -> Iterator[NDArray[np.void]]:
    """Yield parts of records of at most `_IN_CACHE` records."""
    records_in_cache, size = list[NDArray[np.void]](), 0
    for record in records:
        for begin in range(0, len(record), _IN_CACHE):
            some = record[begin : begin + _IN_CACHE]
            if size + len(some) > _IN_CACHE:
                yield _join(records_in_cache)
                records_in_cache, size = [], 0
            records_in_cache.append(some)
            size += len(some)
    yield _join(records_in_cache)


def _join(records: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    if len(records) == 1:
        return records[0]
    return np.frombuffer(b"".join(some.tobytes() for some in records), ROW_DTYPE)


class RowColumns:
    """The rows of records, by column; a message has two rows, its sender's and its receiver's.

    Columns are contiguous, and are created when one is first read: repeating packed records, and
    then reading each field from them, takes several times as long.

    Args:
        records: of dtype `ROW_DTYPE`, shape (n,), in pieces.

    Attributes:
        nodes: cache of `fedsim.results.record.nodes.number_nodes`.
    """

    def __init__(self, *records: NDArray[np.void]) -> None:
        self.nodes = dict[str, tuple[NDArray[np.int64], NDArray[np.intp]]]()
        self._pieces = [_Piece(some) for some in _in_cache(records)]
        self._size = sum(piece.size for piece in self._pieces)
        self._columns = dict[str, NDArray[Any]]()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> NDArray[Any]:
        if not self._columns and len(self._pieces) > 1:
            self._take_apart()
        if name not in self._columns:
            columns = [piece.column(name) for piece in self._pieces]
            self._columns[name] = columns[0] if len(columns) == 1 else np.concatenate(columns)
        return self._columns[name]

    def _take_apart(self) -> None:
        """Create all columns of the table."""
        names = [name for name in ARROW_SCHEMA.names if name in (ROW_DTYPE.names or ())]
        columns = {name: np.empty(self._size, ROW_DTYPE[name]) for name in names}
        begin = 0
        for piece in self._pieces:
            end = begin + piece.size
            for name, column in columns.items():
                piece.fill(column[begin:end], name)
            begin = end
        self._columns = columns

    def pack(self) -> NDArray[np.void]:
        """Return the rows as an array of `ROW_DTYPE`."""
        rows = np.zeros(len(self), ROW_DTYPE)
        for name in ROW_DTYPE.names or ():
            rows[name] = self[name]
        return rows


_OF_RECEIVERS = {"node": "peer", "peer": "node", "joules": "peer_joules"}
"""The fields of a message's record that hold columns of the receiver's row."""


_CATEGORY = pa.dictionary(pa.int32(), pa.string())

_NULLABLE = frozenset(("peer", "message", "detail"))
"""Columns that may be null: Parquet stores for each value whether it is present."""


def _column(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=name in _NULLABLE)


ARROW_SCHEMA = pa.schema(
    [
        _column("seq", pa.int64()),
        _column("t", pa.float64()),
        _column("duration", pa.float64()),
        _column("event", _CATEGORY),
        _column("node", _CATEGORY),
        _column("peer", _CATEGORY),
        _column("round", pa.int32()),
        _column("message", _CATEGORY),
        _column("payload_bits", pa.int64()),
        _column("header_bits", pa.int64()),
        _column("transport_bits", pa.int64()),
        _column("joules", pa.float64()),
        _column("state_of_charge", pa.float64()),
        _column("operations", pa.float64()),
        _column("samples", pa.float64()),
        _column("detail", _CATEGORY),
    ],
    metadata={"fedsim.schema_version": str(SCHEMA_VERSION)},
)
"""The table as Parquet holds it."""

GRAMS = "grams"
"""A column beside joules, present if the electricity of some client is known."""

_PLACE = ARROW_SCHEMA.get_field_index("joules") + 1
SCHEMA_WITH_GRAMS = ARROW_SCHEMA.insert(_PLACE, _column(GRAMS, pa.float64()))
"""The table of such a run."""

EVENT_NAMES = [event.name.lower() for event in Event]
