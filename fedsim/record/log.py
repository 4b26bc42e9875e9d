"""The event log's writer: rows packed in memory, flushed to Parquet in chunks.

Every event appends a row, so a row is packed by `struct` into one bytearray: there is no object for
each, and NumPy reads all of them at once when they are flushed. A delivered message is one record
for its two rows (`append_message`), which `RowColumns` separates.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from math import inf, nan
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedsim.errors import OutputError
from fedsim.ports import Array, node_name
from fedsim.record.background import Background
from fedsim.record.emissions import Emissions
from fedsim.record.parts import PartWriter
from fedsim.record.schema import (
    ARROW_SCHEMA,
    EVENT_NAMES,
    GRAMS,
    MESSAGE,
    NO_PEER,
    ROW,
    ROW_DTYPE,
    SCHEMA_WITH_GRAMS,
    Chunk,
    RowColumns,
)

Rows = NDArray[np.void]
"""Records or rows of the log, of dtype `ROW_DTYPE`."""

_PACK = ROW.pack

_FIRST_CHUNK, _LARGEST_CHUNK, _GROWTH = 256, 65536, 4

_CATEGORIES = "event", "node", "peer", "message", "detail"

_ALL_NAMED = 20
"""The names of all nodes are kept, 16 B each, once a chunk has one in so many of them."""


class _Words(dict[str, int]):
    """Numbers of strings, in order of first use; -1 for the empty string."""

    def __missing__(self, text: str) -> int:
        if not text:
            return -1
        number = self[text] = len(self)
        return number


class EventLog:
    """The log of one run: rows are appended in time order, then it is closed once.

    The first chunks are small so that a slow run shows early, and the sizes depend on the
    rows alone, so that the same run writes the same bytes.

    Args:
        folder: the run's folder.
        clients: the number of clients.
        audit: called with every chunk before it is written to disk.

    Attributes:
        rows: the number on disk, or on the way there.
        emissions: prices rows in grams of CO2; None if emissions are not tracked.
        metered: whether energy is known; if not, joules are NaN in the file.
        first_gateway: the number of the first node that is a gateway; infinite without gateways.
        word: returns the number of a message's name or a detail; -1 for an empty one.
    """

    def __init__(self, folder: Path, clients: int, audit: Callable[[RowColumns], None]) -> None:
        self.rows = 0
        self._flushed = 0  # records
        self.emissions: Emissions | None = None
        self.metered = True
        self.first_gateway = inf
        self._grams: list[Array] = []  # of the rows in memory that are priced, the first ones
        self._priced = 0  # size of these rows in the buffer, bytes
        self._parts = PartWriter(folder, "events")
        self._aside = Background("events")
        self._audit = audit
        self._digest = hashlib.sha256()
        self._clients = clients
        self._words = _Words()
        self._names: pa.Array | None = None  # of all nodes
        self.word: Callable[[str], int] = self._words.__getitem__
        self._buffer = bytearray()
        self._limit = _FIRST_CHUNK * ROW.size
        self._cut = False  # a flush was interrupted: later rows would follow a gap

    def append(
        self,
        t: float,
        duration: float,
        event: int,
        node: int,
        peer: int = NO_PEER,
        round_number: int = 0,
        message: int = -1,
        payload_bits: int = 0,
        header_bits: int = 0,
        transport_bits: int = 0,
        joules: float = 0.0,
        state_of_charge: float = nan,
        detail: int = -1,
        operations: float = 0.0,
        samples: float = 0.0,
    ) -> None:
        """Add a row; see `fedsim.record.schema` for the columns, `word` for their numbers."""
        self._buffer += _PACK(
            t,
            duration,
            event,
            node,
            peer,
            round_number,
            message,
            payload_bits,
            header_bits,
            transport_bits,
            joules,
            0.0,
            state_of_charge,
            operations,
            samples,
            detail,
        )
        if len(self._buffer) >= self._limit:
            self.flush()

    def append_message(
        self,
        t: float,
        duration: float,
        sender: int,
        receiver: int,
        round_number: int,
        message: int,
        payload_bits: int,
        header_bits: int,
        transport_bits: int,
        sender_joules: float,
        receiver_joules: float,
    ) -> None:
        """Add the two rows of a message that has arrived: the sender's, then the receiver's."""
        self._buffer += _PACK(
            t,
            duration,
            MESSAGE,
            sender,
            receiver,
            round_number,
            message,
            payload_bits,
            header_bits,
            transport_bits,
            sender_joules,
            receiver_joules,
            nan,
            0.0,
            0.0,
            -1,
        )
        if len(self._buffer) >= self._limit:
            self.flush()

    def extend(self, records: Rows) -> None:
        """Add many records at once: rows, and delivered messages as `append_message` does.

        They are flushed where they would be if they came one by one.
        """
        at = 0
        while at < len(records):
            room = -(-(self._limit - len(self._buffer)) // ROW.size)
            some = records[at : at + room]
            at += room
            if not self._buffer and len(some) == room:  # a whole chunk need not be copied
                self._write(np.ascontiguousarray(some))
                continue
            self._buffer += some.tobytes()
            if len(self._buffer) >= self._limit:
                self.flush()

    def foresee(self, texts: Iterable[str]) -> dict[str, int]:
        """Return the numbers that texts have, or will get if they are used in this order."""
        numbers = dict[str, int]()
        new = len(self._words)
        for text in texts:
            if text and text not in numbers:
                numbers[text] = self._words.get(text, new)
                new += numbers[text] == new
        return numbers

    @property
    def records(self) -> int:
        """The number of records so far, of which a delivered message is one."""
        return self._flushed + len(self._buffer) // ROW.size

    def pending(self) -> Rows:
        """Return the rows in memory that are not on disk yet."""
        return RowColumns(self._unwritten()).pack()

    def _unwritten(self, begin: int = 0) -> Rows:
        """Return a copy of the records in memory, from a byte of the buffer on."""
        return np.frombuffer(bytes(memoryview(self._buffer)[begin:]), dtype=ROW_DTYPE)

    def total_emissions(self) -> float | None:
        """Return total emissions so far in grams, or None if emissions are not tracked."""
        if self.emissions is None:
            return None
        self._grams.append(self.emissions.price(RowColumns(self._unwritten(self._priced))))
        self._priced = len(self._buffer)
        return self.emissions.total

    def flush(self) -> None:
        """Write the rows in memory as a part.

        Raises:
            OutputError: it cannot be written.
        """
        if self._buffer:
            self._cut = True  # see `_write`
            self.total_emissions()
            records = self._unwritten()
            self._buffer.clear()
            self._priced = 0
            self._write(records, priced=True)

    def _write(self, records: Rows, *, priced: bool = False) -> None:
        """Write records as a part; those before them are written.

        Args:
            records: contiguous, shape (n,).
            priced: whether their emissions are known.
        """
        # An interrupt or a full disk may end this anywhere. `_cut` then stays set, and `abandon`
        # writes nothing more: rows that were taken from the buffer may or may not be on disk.
        self._cut = True
        rows = RowColumns(records)
        self._flushed += len(records)
        if self.emissions is not None and not priced:
            self._grams.append(self.emissions.price(rows))
        grams = np.concatenate(self._grams) if self._grams else None
        self._grams.clear()
        self._limit = min(_GROWTH * self._limit, _LARGEST_CHUNK * ROW.size)
        self._audit(rows)
        first, self.rows = self.rows, self.rows + len(rows)
        words = pa.array(self._words, pa.string())  # those that are known by now
        work = partial(self._encode, records, rows, first, words, grams)
        if len(records) >= _LARGEST_CHUNK:
            self._aside.start(work)
        else:  # a thread would take longer to start, and a slow run is to show early
            self._aside.wait()
            work()
        self._cut = False

    def _encode(
        self, records: Rows, rows: Chunk, first: int, words: pa.Array, grams: Array | None
    ) -> None:
        """Hash records, and write their rows; on a thread, where they are many."""
        self._digest.update(records.view(np.uint8).data)
        self._parts.write(self._table(rows, first, words, grams))

    def close(self) -> None:
        """Write the rest and join the parts into `events.parquet`."""
        self.flush()
        self._aside.wait()
        self._parts.close()

    def abandon(self) -> None:
        """Write the remaining rows of a run that ends early, if possible; see `PartWriter`."""
        try:
            with suppress(OutputError):  # the reason of the run's end is reported already
                if not self._cut:
                    self.flush()
        finally:
            self._aside.settle()
            self._parts.abandon()

    @property
    def sha256(self) -> str:
        """A hash of all rows and words so far, the same for the same run on every machine.

        It is of the packed rows, not of Parquet files, whose bytes depend on the library's version.
        """
        self._aside.wait()
        digest = self._digest.copy()
        digest.update("\n".join(self._words).encode())
        return digest.hexdigest()

    def _table(self, rows: Chunk, first: int, words: pa.Array, grams: Array | None) -> pa.Table:
        columns: dict[str, pa.Array] = {
            name: pa.array(rows[name])
            for name in ROW_DTYPE.names or ()
            if name in ARROW_SCHEMA.names and name not in _CATEGORIES
        }
        schema = ARROW_SCHEMA
        if grams is not None:
            schema, columns[GRAMS] = SCHEMA_WITH_GRAMS, pa.array(grams)
        if not self.metered:
            columns["joules"] = pa.array(np.full(len(rows), np.nan))
        columns["seq"] = pa.array(np.arange(first, first + len(rows)))
        columns["event"] = _category(rows["event"], pa.array(EVENT_NAMES))
        columns["node"], columns["peer"] = self._name_nodes(rows["node"], rows["peer"])
        columns["message"] = _category(rows["message"], words)
        columns["detail"] = _category(rows["detail"], words)
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def _name_nodes(self, *columns: NDArray[np.int32]) -> list[pa.Array]:
        """Return columns of nodes as dictionaries of the names that occur in the chunk."""
        # Shifted so that the missing peer (-2) is 0: it sorts first, and has no name.
        most = self._clients - NO_PEER
        found = [number_ids(column - NO_PEER, most) for column in columns]
        if self._names is None:
            every = np.union1d(*(nodes for nodes, _ in found))
            if most < _ALL_NAMED * len(every):
                every = np.arange(most)
            names = pa.array([self.name(node) for node in (every + NO_PEER).tolist()])
            if len(every) == most:
                self._names = names
        named = []
        for nodes, numbers in found:
            without_node = int(len(nodes) > 0 and nodes[0] == 0)
            own = nodes[without_node:]
            if self._names is None:
                own = np.searchsorted(every, own)
            held = (names if self._names is None else self._names).take(pa.array(own))
            named.append(_category(numbers - without_node, held))
        return named

    def name(self, node: int) -> str:
        """Return the name of a node."""
        return node_name(node, self.first_gateway)


def number_ids(ids: NDArray[np.integer], most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the distinct ids in order, and the number of each id among them.

    As `numpy.unique` with its inverse, but in time linear in `most`, without sorting.

    Args:
        ids: from 0, in any order, shape (n,).
        most: they are all below this.
    """
    there = np.zeros(most, np.bool_)
    there[ids] = True
    present = np.flatnonzero(there)
    place = np.empty(most, np.intp)  # no memory is touched but that of the ids
    place[present] = np.arange(len(present))
    return present, place[ids]


def _category(codes: NDArray[np.integer], names: pa.Array) -> pa.Array:
    """Return the names of the codes; a code below zero is null."""
    known = codes >= 0
    valid = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [valid, pa.py_buffer(codes.astype(np.int32))]
    indices = pa.Array.from_buffers(pa.int32(), len(codes), buffers)
    return pa.DictionaryArray.from_arrays(indices, names)
