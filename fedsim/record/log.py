"""The event log's writer: rows packed in memory, flushed to Parquet in chunks.

Every event appends a row, so a row is packed by `struct` into one bytearray: there is no object for
each, and NumPy reads all of them at once when they are flushed. A delivered message is one record
for its two rows (`append_message`), which `expand_rows` separates.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf, nan
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedsim.errors import OutputError
from fedsim.ports import Array, node_name
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
    expand_rows,
)

Rows = NDArray[np.void]
"""A chunk of the log, of dtype `ROW_DTYPE`."""

_PACK = ROW.pack

_FIRST_CHUNK, _LARGEST_CHUNK, _GROWTH = 256, 65536, 4

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
        rows: the number on disk.
        emissions: prices rows in grams of CO2; None if emissions are not tracked.
        metered: whether energy is known; if not, joules are NaN in the file.
        first_gateway: the number of the first node that is a gateway; infinite without gateways.
        word: returns the number of a message's name or a detail; -1 for an empty one.
    """

    def __init__(self, folder: Path, clients: int, audit: Callable[[Rows], None]) -> None:
        self.rows = 0
        self._flushed = 0  # records
        self.emissions: Emissions | None = None
        self.metered = True
        self.first_gateway = inf
        self._grams: list[Array] = []  # of the rows in memory that are priced, the first ones
        self._priced = 0  # size of these rows in the buffer, bytes
        self._parts = PartWriter(folder, "events")
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
            self._buffer += records[at : at + room].tobytes()
            at += room
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
        return expand_rows(np.frombuffer(bytes(self._buffer), dtype=ROW_DTYPE))

    def total_emissions(self) -> float | None:
        """Return total emissions so far in grams, or None if emissions are not tracked."""
        if self.emissions is None:
            return None
        records = np.frombuffer(bytes(self._buffer[self._priced :]), dtype=ROW_DTYPE)
        self._grams.append(self.emissions.price(expand_rows(records)))
        self._priced = len(self._buffer)
        return self.emissions.total

    def flush(self) -> None:
        """Write the rows in memory as a part.

        Raises:
            OutputError: it cannot be written.
        """
        if not self._buffer:
            return
        # An interrupt or a full disk may end this anywhere. `_cut` then stays set, and `abandon`
        # writes nothing more: rows that were taken from the buffer may or may not be on disk.
        self._cut = True
        self._digest.update(self._buffer)
        rows = self.pending()
        self._flushed += len(self._buffer) // ROW.size
        self.total_emissions()
        self._buffer.clear()
        self._priced = 0
        self._limit = min(_GROWTH * self._limit, _LARGEST_CHUNK * ROW.size)
        self._audit(rows)
        self._parts.write(self._table(rows))
        self.rows += len(rows)
        self._cut = False

    def close(self) -> None:
        """Write the rest and join the parts into `events.parquet`."""
        self.flush()
        self._parts.close()

    def abandon(self) -> None:
        """Write the remaining rows of a run that ends early, if possible; see `PartWriter`."""
        with suppress(OutputError):  # the reason of the run's end is reported already
            if not self._cut:
                self.flush()
        self._parts.abandon()

    @property
    def sha256(self) -> str:
        """A hash of all rows and words so far, the same for the same run on every machine.

        It is of the packed rows, not of Parquet files, whose bytes depend on the library's version.
        """
        digest = self._digest.copy()
        digest.update("\n".join(self._words).encode())
        return digest.hexdigest()

    def _table(self, rows: Rows) -> pa.Table:
        words = pa.array(self._words, pa.string())
        columns: dict[str, pa.Array] = {
            name: pa.array(np.ascontiguousarray(rows[name]))
            for name in ROW_DTYPE.names or ()
            if name in ARROW_SCHEMA.names
        }
        schema = ARROW_SCHEMA
        if self.emissions is not None:
            schema, columns[GRAMS] = SCHEMA_WITH_GRAMS, pa.array(np.concatenate(self._grams))
            self._grams.clear()
        if not self.metered:
            columns["joules"] = pa.array(np.full(len(rows), np.nan))
        columns["seq"] = pa.array(np.arange(self.rows, self.rows + len(rows)))
        columns["event"] = _category(rows["event"], pa.array(EVENT_NAMES))
        columns["node"], columns["peer"] = self._name_nodes(rows["node"], rows["peer"])
        columns["message"] = _category(rows["message"], words)
        columns["detail"] = _category(rows["detail"], words)
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def _name_nodes(self, *columns: NDArray[np.int32]) -> list[pa.Array]:
        """Return columns of nodes as dictionaries of the names that occur in the chunk."""
        # Shifted so that the missing peer (-2) is 0: it sorts first, and has no name.
        most, shifted = self._clients - NO_PEER, [column - NO_PEER for column in columns]
        every, _ = number_ids(np.concatenate(shifted), most)
        names = self._names_of(every)
        named = []
        for column in shifted:
            nodes, numbers = number_ids(column, most)
            without_node = int(len(nodes) > 0 and nodes[0] == 0)
            own = names.take(pa.array(np.searchsorted(every, nodes[without_node:])))
            named.append(_category(numbers - without_node, own))
        return named

    def name(self, node: int) -> str:
        """Return the name of a node."""
        return node_name(node, self.first_gateway)

    def _names_of(self, every: NDArray[np.intp]) -> pa.Array:
        """Return the names of nodes, shifted as above; those of all nodes are kept where many."""
        most = self._clients - NO_PEER
        if self._names is None and most < _ALL_NAMED * len(every):
            self._names = pa.array([self.name(node) for node in range(NO_PEER, self._clients)])
        if self._names is None:
            return pa.array([self.name(node) for node in (every + NO_PEER).tolist()])
        return self._names.take(pa.array(every))


def number_ids(ids: NDArray[np.integer], most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the distinct ids in order, and the number of each id among them.

    As `numpy.unique` with its inverse, but in time linear in `most`, without sorting.

    Args:
        ids: from 0, in any order, shape (n,).
        most: they are all below this.
    """
    place = np.zeros(most, np.intp)
    place[ids] = 1
    present = np.flatnonzero(place)
    place[present] = np.arange(len(present))
    return present, place[ids]


def _category(codes: NDArray[np.integer], names: pa.Array) -> pa.Array:
    """Return the names of the codes; a code below zero is null."""
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, names)
