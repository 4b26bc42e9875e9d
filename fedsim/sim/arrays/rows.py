"""Rows of the log, collected as columns and sorted once the order of events is known."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.columns import is_one
from fedsim.core.ports import Array
from fedsim.results.record.log import EventLog, Rows
from fedsim.results.record.schema import NO_PEER, ROW_DTYPE
from fedsim.sim.arrays.order import Numbers

_AT_ONCE = 8192
"""Number of rows assembled at once: they stay in the cache while their columns are filled in."""

_MANY = 4096
"""From this many rows on, a column of equal values is stored as one value."""

_EMPTY = {"peer": NO_PEER, "message": -1, "state_of_charge": np.nan, "detail": -1}
"""Columns whose blank value is not 0."""


def _blank_row() -> bytearray:
    row = np.zeros(1, ROW_DTYPE)
    for name, value in _EMPTY.items():
        row[name] = value
    return bytearray(row.tobytes())


_BLANK = _blank_row()

_CHARGE = "state_of_charge"

SPENT = "spent"
"""Not a column of the log: the energy that a row adds to the run's sum, J, if it differs from the
sum of the row's joules."""


Enter = Callable[[Sequence[int]], None]
"""Writes the numbers of names into rows; receives -1 for a name that is not used."""


class _Block(NamedTuple):
    events: Numbers
    columns: dict[str, object]


class _Names(NamedTuple):
    events: Numbers
    names: Sequence[str]
    which: Numbers
    enter: Enter


class RowBlocks:
    """Blocks of rows of one kind each; an event has at most one row per block."""

    def __init__(self) -> None:
        self._blocks: list[_Block | _Names] = []

    def name(self, events: Numbers, names: Sequence[str], which: Numbers, enter: Enter) -> None:
        """Register uses of names; the log numbers new names in the order of their first use.

        Args:
            events: the event of each use, shape (n,). A use comes after the rows of its event that
                were added so far.
            names: the names.
            which: the index of the name of each use; negative for none, shape (n,).
            enter: receives the numbers of `names` once the order of events is known.
        """
        if len(events):
            self._blocks.append(_Names(events, names, which, enter))

    def add(
        self, events: Numbers, event: int, nodes: NDArray[np.int64] | int, **columns: object
    ) -> None:
        """Add a block.

        Args:
            events: the number of the event that writes each row, shape (n,). Rows of one event stay
                in the order in which they were added.
            event: the kind of all rows, see `fedsim.results.record.schema.Event`.
            nodes: the node of each row, shape (n,), or one for all.
            columns: other columns, each of shape (n,) or one value for all; see also `SPENT`. The
                column of states of charge holds slots: see `in_order`.
        """
        if len(events):
            table = {"event": event, "node": nodes, **columns}
            # Similar clients have equal values in many columns.
            shortened = {name: _shorten(column) for name, column in table.items()}
            self._blocks.append(_Block(events, shortened))

    def in_order(
        self, places: Numbers, log: EventLog, charges: Array | None = None
    ) -> "OrderedRows":
        """Return all rows in the order of the log, and release them here.

        Args:
            places: the places of the events, shape (n,).
            log: the log to which the rows will be written.
            charges: the states of charge by slot; required if rows have slots.
        """
        begins, count = self._count_before(places)
        ordered, uses, named = list[_Placed](), list[_Use](), list[_Names]()
        blocks = deque(self._blocks)
        self._blocks.clear()
        while blocks:  # popped one by one, so that memory is freed as blocks are placed
            block = blocks.popleft()
            ranks = places[block.events]  # an event's place is its index in `begins`
            if isinstance(block, _Block):
                if charges is not None and _CHARGE in block.columns:
                    slots: Any = block.columns[_CHARGE]
                    block.columns[_CHARGE] = _shorten(charges[slots])
                # `begins` points to the next free row of each event: blocks fill an event in the
                # order in which they were added.
                ordered.append(_Placed(begins[ranks], block.columns))
                begins[ranks] += 1
                continue
            named.append(block)
            for number in np.unique(block.which[block.which >= 0]).tolist():
                place = int(ranks[block.which == number].min())
                # The first use in the order of events decides where the log numbers a name.
                uses.append(_Use(place, int(begins[place]), block.names[number]))
        uses.sort(key=itemgetter(0))  # stable: uses of one event stay in the order of their blocks
        # Numbers of new names are needed now, before the rows that precede them are written.
        known = log.foresee([use.name for use in uses])
        for names in named:
            names.enter([known.get(name, -1) for name in names.names])
        # Sorted only after `enter`, which fills columns in the order of their blocks.
        if count > _AT_ONCE:
            ordered = [block.ascending() for block in ordered]
        return OrderedRows(ordered, count, [use[1:] for use in uses])

    def _count_before(self, places: Numbers) -> tuple[Numbers, int]:
        """Return the number of rows before each event, by place, and the number of all rows."""
        written = np.zeros(len(places) + 1, np.int32)
        for block in self._blocks:
            if isinstance(block, _Block):
                written[places[block.events] + 1] += 1
        count = int(written.sum())
        kind: Any = np.int32 if count < 2**31 else np.int64
        return np.cumsum(written, dtype=kind), count


class _Use(NamedTuple):
    place: int
    row: int
    name: str


class _Placed(NamedTuple):
    at: Numbers
    columns: dict[str, object]

    def ascending(self) -> "_Placed":
        """Return the block with its rows in the order of the log."""
        if (self.at[1:] > self.at[:-1]).all():
            return self
        order = np.argsort(self.at)
        for name, column in self.columns.items():
            if isinstance(column, np.ndarray) and column.size > 1:
                self.columns[name] = column[order]
        return _Placed(self.at[order], self.columns)

    def pieces(self) -> Iterator[tuple[int, slice]]:
        """Yield the number of each piece of the log with rows of this block, and these rows."""
        numbers = range(int(self.at[0]) // _AT_ONCE, int(self.at[-1]) // _AT_ONCE + 1)
        # `at` ascends, so a piece is a slice.
        ends = np.searchsorted(self.at, [_AT_ONCE * (number + 1) for number in numbers]).tolist()
        for number, begin, end in zip(numbers, [0, *ends], ends, strict=False):
            if begin < end:
                yield number, slice(begin, end)


def _shorten(column: object) -> object:
    """Return one value for a column of bitwise equal floats; otherwise the column.

    Columns of integers stay arrays: `enter` may fill them in later.
    """
    if not (isinstance(column, np.ndarray) and column.size >= _MANY and column.dtype == float):
        return column
    # Broadcast arrays are recognised by their strides, without reading them.
    if is_one(column):
        return column[:1].copy()
    bits = column.view(np.int64)
    # Three cheap comparisons rule out most columns. Bits are compared, so that NaN and -0.0 count
    # as values.
    alike = bits[0] == bits[-1] and bits[0] == bits[len(bits) // 2] and (bits == bits[0]).all()
    return column[:1].copy() if alike else column


class OrderedRows:
    """Rows in the order of the log, assembled piece by piece.

    Args:
        blocks: blocks of rows of one kind, with the positions of the rows.
        count: the number of rows.
        uses: names and the rows before which they are used, in order.
    """

    def __init__(
        self, blocks: Sequence[_Placed], count: int, uses: Sequence[tuple[int, str]]
    ) -> None:
        self._blocks = blocks
        self._count = count
        self._uses = uses

    def write(self, log: EventLog) -> Iterator[Array]:
        """Write and release the rows; yield the energy that each row adds to the run, J, (n,)."""
        # `at` is the number of rows written so far.
        at, uses = 0, deque(self._uses)
        for rows, spent in self._pieces():
            begin, at = at, at + len(rows)
            # A name enters the log right before the row of its first use. Uses after the last row
            # of the exchange come with its last piece.
            while uses and (uses[0][0] < at or at == self._count):
                row, name = uses.popleft()
                log.extend(rows[: row - begin])
                log.word(name)
                rows, begin = rows[row - begin :], row  # noqa: PLW2901 - the remaining rows
            log.extend(rows)
            yield spent
        self._blocks = ()

    def _by_piece(self) -> Iterator[tuple[int, list[tuple[_Placed, slice]]]]:
        """Yield the first row of each piece, and the rows of blocks in it."""
        starts = range(0, max(self._count, 1), _AT_ONCE)
        by_piece: list[list[tuple[_Placed, slice]]] = [[] for _ in starts]
        for block in self._blocks:
            # A single piece needs no sorted blocks.
            if len(starts) == 1:
                by_piece[0].append((block, slice(None)))
                continue
            for number, part in block.pieces():
                by_piece[number].append((block, part))
        yield from zip(starts, by_piece, strict=True)

    def _pieces(self) -> Iterator[tuple[Rows, Array]]:
        for begin, blocks in self._by_piece():
            # From bytes, since NumPy copies structured rows field by field.
            rows = np.frombuffer(_BLANK * min(_AT_ONCE, self._count - begin), ROW_DTYPE)
            spent = list[tuple[Numbers | slice, Any]]()
            for (at, columns), part in blocks:
                places = _as_slice(at[part] - begin)
                for name, column in columns.items():
                    values: Any = column
                    if np.size(values) > 1:
                        values = np.asarray(values)[part]
                    if name == SPENT:
                        spent.append((places, values))
                    else:
                        rows[name][places] = values
            # The run's sum adds one number per row, as the event-by-event run does: joules of the
            # two ends of a message are added to each other first.
            joules = np.add(rows["joules"], rows["peer_joules"])
            for places, values in spent:
                joules[places] = values
            yield rows, joules


def _as_slice(places: Numbers) -> Numbers | slice:
    """Return equidistant positions as a slice, which NumPy assigns much faster."""
    if len(places) < 2:
        return places
    begin, step, end = int(places[0]), int(places[1] - places[0]), int(places[-1])
    apart = step > 0 and end - begin == step * (len(places) - 1)
    return slice(begin, end + 1, step) if apart and (np.diff(places) == step).all() else places
