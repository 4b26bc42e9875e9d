"""Rows of the log, made as columns and put in order at once."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.columns import is_one
from fedsim.ports import Array
from fedsim.record.log import EventLog, Rows
from fedsim.record.schema import NO_PEER, ROW_DTYPE
from fedsim.sim.arrays.order import Numbers

_AT_ONCE = 8192
"""So many rows are put together at once: they stay in the cache as one column after the other is
entered."""

_MANY = 4096
"""Columns of at least so many rows are looked at, whether one figure stands for all."""

_EMPTY = {"peer": NO_PEER, "message": -1, "state_of_charge": np.nan, "detail": -1}
"""The columns that are not 0 where nothing is to be said."""


def _blank_row() -> bytearray:
    """Return a row of which nothing is said yet, as it is packed."""
    row = np.zeros(1, ROW_DTYPE)
    for name, value in _EMPTY.items():
        row[name] = value
    return bytearray(row.tobytes())


_BLANK = _blank_row()

_CHARGE = "state_of_charge"

SPENT = "spent"
"""Not a column: what the run has spent, J, as a row is written, where it is not what that says."""


Enter = Callable[[Sequence[int]], None]
"""Enters the numbers of names where they are to stand in rows; -1 for one that is not used."""


class _Block(NamedTuple):
    events: Numbers
    columns: dict[str, object]


class _Names(NamedTuple):
    events: Numbers
    names: Sequence[str]
    which: Numbers
    enter: Enter


class RowBlocks:
    """Rows in blocks of one kind each; an event has one row of a block at most."""

    def __init__(self) -> None:
        self._blocks: list[_Block | _Names] = []

    def name(self, events: Numbers, names: Sequence[str], which: Numbers, enter: Enter) -> None:
        """Let names be used, of which the log numbers those that it has not seen in their order.

        Args:
            events: in which each is used, after the rows of that event that were added so far,
                shape (n,).
            names: the names.
            which: the place among them of each that is used; below 0 for none, shape (n,).
            enter: gets their numbers, once the order of events is known.
        """
        if len(events):
            self._blocks.append(_Names(events, names, which, enter))

    def add(
        self, events: Numbers, event: int, nodes: NDArray[np.int64] | int, **columns: object
    ) -> None:
        """Add a block.

        Args:
            events: the number of the event in which each row is written, shape (n,). Rows of one
                event stand in the order in which they were added.
            event: what they say, see `fedsim.record.schema.Event`.
            nodes: which each is about, shape (n,), or one for all.
            columns: others, each of shape (n,) or one figure for all; see also `SPENT`. In place
                of states of charge there are their slots: see `in_order`.
        """
        if len(events):
            every = {"event": event, "node": nodes, **columns}
            # Of clients that are alike, many figures are the same for all.
            own = {name: _shorten(column) for name, column in every.items()}
            self._blocks.append(_Block(events, own))

    def in_order(
        self, places: Numbers, log: EventLog, charges: Array | None = None
    ) -> "OrderedRows":
        """Return all rows, given the place of each event, and forget them here.

        Args:
            places: of the events, shape (n,).
            log: where they will be written.
            charges: the states of charge by slot; needed where rows have slots.
        """
        begins, count = self._count_before(places)
        ordered, uses, named = list[_Placed](), list[_Use](), list[_Names]()
        blocks = deque(self._blocks)
        self._blocks.clear()
        while blocks:  # each is forgotten as it gets its places
            block = blocks.popleft()
            own = places[block.events]
            if isinstance(block, _Block):
                if charges is not None and _CHARGE in block.columns:
                    slots: Any = block.columns[_CHARGE]
                    block.columns[_CHARGE] = _shorten(charges[slots])
                ordered.append(_Placed(begins[own], block.columns))
                begins[own] += 1
                continue
            named.append(block)
            for number in np.unique(block.which[block.which >= 0]).tolist():
                place = int(own[block.which == number].min())
                uses.append(_Use(place, int(begins[place]), block.names[number]))
        uses.sort(key=itemgetter(0))  # of one event in the order of their blocks
        known = log.foresee([use.name for use in uses])
        for names in named:
            names.enter([known.get(name, -1) for name in names.names])
        if count > _AT_ONCE:  # not before: `enter` fills columns in the order of their blocks
            ordered = [block.ascending() for block in ordered]
        return OrderedRows(ordered, count, [use[1:] for use in uses])

    def _count_before(self, places: Numbers) -> tuple[Numbers, int]:
        """Return how many rows come before those of each event, by place, and how many in all."""
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
        """Return the same rows in the order of the log."""
        if (self.at[1:] > self.at[:-1]).all():
            return self
        order = np.argsort(self.at)
        for name, column in self.columns.items():
            if isinstance(column, np.ndarray) and column.size > 1:
                self.columns[name] = column[order]
        return _Placed(self.at[order], self.columns)

    def pieces(self) -> Iterator[tuple[int, slice]]:
        """Yield which of the rows stand in each of the log's pieces that has some."""
        numbers = range(int(self.at[0]) // _AT_ONCE, int(self.at[-1]) // _AT_ONCE + 1)
        ends = np.searchsorted(self.at, [_AT_ONCE * (number + 1) for number in numbers]).tolist()
        for number, begin, end in zip(numbers, [0, *ends], ends, strict=False):
            if begin < end:
                yield number, slice(begin, end)


def _shorten(column: object) -> object:
    """Return the one figure of a column in which all are the same, to the bit; else the column.

    Whole numbers stay as they are: some are entered later, as names get theirs.
    """
    if not (isinstance(column, np.ndarray) and column.size >= _MANY and column.dtype == float):
        return column
    if is_one(column):
        return column[:1].copy()
    bits = column.view(np.int64)
    alike = bits[0] == bits[-1] and bits[0] == bits[len(bits) // 2] and (bits == bits[0]).all()
    return column[:1].copy() if alike else column


class OrderedRows:
    """Rows in the order of the log, which are put together piece by piece.

    Args:
        blocks: the columns of rows of one kind, and where these stand.
        count: how many rows there are.
        uses: names that are first used, and before which rows, in order.
    """

    def __init__(
        self, blocks: Sequence[_Placed], count: int, uses: Sequence[tuple[int, str]]
    ) -> None:
        self._blocks = blocks
        self._count = count
        self._uses = uses

    def write(self, log: EventLog) -> Iterator[Array]:
        """Write the rows and forget them; yield what the run has spent by each, J, shape (n,)."""
        at, uses = 0, deque(self._uses)
        for rows, spent in self._pieces():
            begin, at = at, at + len(rows)
            while uses and (uses[0][0] < at or at == self._count):
                row, name = uses.popleft()
                log.extend(rows[: row - begin])
                log.word(name)
                rows, begin = rows[row - begin :], row  # noqa: PLW2901 - the rest of them
            log.extend(rows)
            yield spent
        self._blocks = ()

    def _by_piece(self) -> Iterator[tuple[int, list[tuple[_Placed, slice]]]]:
        """Yield where each piece begins, and the rows that blocks have in it."""
        starts = range(0, max(self._count, 1), _AT_ONCE)
        whose: list[list[tuple[_Placed, slice]]] = [[] for _ in starts]
        for block in self._blocks:
            if len(starts) == 1:
                whose[0].append((block, slice(None)))
                continue
            for number, some in block.pieces():
                whose[number].append((block, some))
        yield from zip(starts, whose, strict=True)

    def _pieces(self) -> Iterator[tuple[Rows, Array]]:
        for begin, blocks in self._by_piece():
            # As bytes: NumPy would copy rows of several fields field by field.
            rows = np.frombuffer(_BLANK * min(_AT_ONCE, self._count - begin), ROW_DTYPE)
            spent = list[tuple[Numbers | slice, Any]]()
            for (at, columns), some in blocks:
                places = _as_slice(at[some] - begin)
                for name, column in columns.items():
                    figures: Any = column
                    if np.size(figures) > 1:
                        figures = np.asarray(figures)[some]
                    if name == SPENT:
                        spent.append((places, figures))
                    else:
                        rows[name][places] = figures
            joules = np.add(rows["joules"], rows["peer_joules"])
            for places, figures in spent:
                joules[places] = figures
            yield rows, joules


def _as_slice(places: Numbers) -> Numbers | slice:
    """Return places as a slice if they are equally far apart, as of clients that are alike."""
    if len(places) < 2:
        return places
    begin, step, end = int(places[0]), int(places[1] - places[0]), int(places[-1])
    apart = step > 0 and end - begin == step * (len(places) - 1)
    return slice(begin, end + 1, step) if apart and (np.diff(places) == step).all() else places
