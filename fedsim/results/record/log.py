"""Writer of the event log: rows packed in memory, flushed to Parquet in chunks.

Every event appends a row, so `struct` packs it into one bytearray: there is no object per row, and
NumPy reads all rows at once when they are flushed. A delivered message is one record for its two
rows (`append_message`), which `RowColumns` separates.
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

from fedsim.core.errors import OutputError
from fedsim.core.ports import Array, node_name
from fedsim.results.record.background import Background
from fedsim.results.record.emissions import Emissions
from fedsim.results.record.nodes import NodeNames, as_category
from fedsim.results.record.parts import PartWriter
from fedsim.results.record.schema import (
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

_SMALL = 1024
"""Batches below this size are copied into the buffer; larger ones are kept by reference."""


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
        rows: the number of rows on disk, or being written.
        emissions: prices rows in grams of CO2; None if emissions are not tracked.
        metered: whether energy is known; otherwise joules are NaN in the file.
        first_gateway: the number of the first node that is a gateway; infinite if there is
            none.
        word: returns the number of a message's name or of a detail; -1 for an empty one.
    """

    def __init__(self, folder: Path, clients: int, audit: Callable[[RowColumns], None]) -> None:
        self.rows = 0
        self._flushed = 0  # records
        self.emissions: Emissions | None = None
        self.metered = True
        self.first_gateway = inf
        self._grams: list[Array] = []  # grams of the first rows in memory, those that are priced
        self._priced = 0  # size of these records in memory, bytes
        self._parts = PartWriter(folder, "events")
        self._writer = Background("events")
        self._audit = audit
        self._digest = hashlib.sha256()
        self._words = _Words()
        self._names = NodeNames(clients)
        self.word: Callable[[str], int] = self._words.__getitem__
        self._held: list[Rows] = []  # records in memory that came before those in the buffer
        self._buffer = bytearray()
        self._size = _FIRST_CHUNK * ROW.size  # bytes of a chunk
        self._limit = self._size  # bytes left for the buffer: held records are in the chunk, too
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
        """Add a row; for the columns see `fedsim.results.record.schema`, for numbers `word`."""
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
        """Add many records at once: rows, and delivered messages as in `append_message`.

        Chunks end at the same rows as with single records.

        Args:
            records: contiguous, shape (n,). They may be kept by reference, so they must not
                change.
        """
        start = 0
        while start < len(records):
            room = -(-(self._limit - len(self._buffer)) // ROW.size)
            part = records[start : start + room]
            start += room
            if len(part) < _SMALL:
                self._buffer += part.tobytes()
            else:
                self._hold_buffer()
                self._held.append(part)
                self._limit -= part.nbytes
            if len(self._buffer) >= self._limit:
                self.flush()

    def _hold_buffer(self) -> None:
        """Move the records of the buffer to `_held`."""
        if self._buffer:
            self._held.append(np.frombuffer(self._buffer, ROW_DTYPE))
            self._limit -= len(self._buffer)
            self._buffer = bytearray()

    def foresee(self, texts: Iterable[str]) -> dict[str, int]:
        """Return the numbers that texts will get if they are used next in this order."""
        numbers = dict[str, int]()
        new = len(self._words)
        for text in texts:
            if text and text not in numbers:
                numbers[text] = self._words.get(text, new)
                # A new text takes the next number; `numbers` makes sure that it takes it once.
                new += numbers[text] == new
        return numbers

    @property
    def records(self) -> int:
        """The number of records so far; a delivered message is one record."""
        return self._flushed + (self._size - self._limit + len(self._buffer)) // ROW.size

    def pending(self) -> Rows:
        """Return the rows in memory that are not on disk yet."""
        return RowColumns(self._unwritten()).pack()

    def _unwritten(self, begin: int = 0) -> Rows:
        """Return a copy of the records in memory, from a byte offset on."""
        chunks = list[memoryview]()
        for chunk in (*(rows.view(np.uint8).data for rows in self._held), memoryview(self._buffer)):
            chunks.append(chunk[begin:])
            begin = max(0, begin - len(chunk))
        return np.frombuffer(b"".join(chunks), dtype=ROW_DTYPE)

    def total_emissions(self) -> float | None:
        """Return total emissions so far in grams, or None if emissions are not tracked."""
        if self.emissions is None:
            return None
        self._grams.append(self.emissions.price(RowColumns(self._unwritten(self._priced))))
        self._priced = self._size - self._limit + len(self._buffer)
        return self.emissions.total

    def flush(self) -> None:
        """Write the rows in memory as a part.

        Raises:
            OutputError: it cannot be written.
        """
        if not (self._buffer or self._held):
            return
        # An interrupt or a full disk may end this anywhere. `_cut` then stays set, and `abandon`
        # writes nothing more: rows that were taken from memory may or may not be on disk.
        self._cut = True
        if self._priced:
            self.total_emissions()  # prices the rest
        self._hold_buffer()
        records, self._held = self._held, []
        count = sum(map(len, records))
        rows = RowColumns(*records)
        self._flushed += count
        if self.emissions is not None and not self._priced:
            self._grams.append(self.emissions.price(rows))
        self._priced = 0
        grams = np.concatenate(self._grams) if self._grams else None
        self._grams.clear()
        self._limit = self._size = min(_GROWTH * self._size, _LARGEST_CHUNK * ROW.size)
        self._audit(rows)
        first, self.rows = self.rows, self.rows + len(rows)
        words = pa.array(self._words, pa.string())  # words known at this time
        work = partial(self._encode, records, rows, first, words, grams)
        if count >= _LARGEST_CHUNK:
            self._writer.start(work)
        else:  # small: starting a thread takes longer, and a slow run should show early
            self._writer.wait()
            work()
        self._cut = False

    def _encode(
        self, records: list[Rows], rows: Chunk, first: int, words: pa.Array, grams: Array | None
    ) -> None:
        """Hash records and write their rows; runs on a thread for large chunks."""
        for part in records:
            self._digest.update(part.view(np.uint8).data)
        self._parts.write(self._table(rows, first, words, grams))

    def close(self) -> None:
        """Write the rest and join the parts into `events.parquet`."""
        self.flush()
        self._writer.wait()
        self._parts.close()

    def abandon(self) -> None:
        """Write the remaining rows of a run that ends early, if possible; see `PartWriter`."""
        try:
            with suppress(OutputError):  # the reason of the run's end is reported already
                if not self._cut:
                    self.flush()
        finally:
            self._writer.settle()
            self._parts.abandon()

    @property
    def sha256(self) -> str:
        """A hash of all rows and words so far, the same for the same run on every machine.

        It covers the packed rows. The bytes of Parquet files depend on the version of the library.
        """
        self._writer.wait()
        digest = self._digest.copy()
        digest.update(self._unwritten().view(np.uint8).data)
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
        columns["event"] = as_category(rows["event"], pa.array(EVENT_NAMES))
        columns["node"], columns["peer"] = self._names.columns(rows, self.first_gateway)
        columns["message"] = as_category(rows["message"], words)
        columns["detail"] = as_category(rows["detail"], words)
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def name(self, node: int) -> str:
        """Return the name of a node."""
        return node_name(node, self.first_gateway)
