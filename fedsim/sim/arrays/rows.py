"""Rows of the log, made as columns and put in order at once."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.record.log import Rows
from fedsim.record.schema import NO_PEER, ROW_DTYPE
from fedsim.sim.arrays.order import Numbers

_AT_ONCE = 2**18
"""So many rows are put together at once."""

_EMPTY = {"peer": NO_PEER, "message": -1, "state_of_charge": np.nan, "detail": -1}
"""The columns that are not 0 where nothing is to be said."""

SPENT = "spent"
"""Not a column: what the run has spent, J, as a row is written, where it is not what that says."""


class _Block(NamedTuple):
    events: Numbers
    columns: dict[str, object]


class RowBlocks:
    """Rows in blocks of one kind each; an event has one row of a block at most."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def add(
        self, events: Numbers, event: int, nodes: NDArray[np.int64] | int, **columns: object
    ) -> None:
        """Add a block.

        Args:
            events: the number of the event in which each row is written, shape (n,). Rows of one
                event stand in the order in which they were added.
            event: what they say, see `fedsim.record.schema.Event`.
            nodes: which each is about, shape (n,), or one for all.
            columns: others, each of shape (n,) or one figure for all; see also `SPENT`.
        """
        if len(events):
            self._blocks.append(_Block(events, {"event": event, "node": nodes, **columns}))

    def in_order(self, places: Numbers) -> "OrderedRows":
        """Return all rows, given the place of each event, and forget them here."""
        written = np.zeros(len(places) + 1, np.int64)
        for block in self._blocks:
            written[places[block.events] + 1] += 1
        begins, ordered = np.cumsum(written), list[_Placed]()
        for block in self._blocks:
            own = places[block.events]
            ordered.append(_Placed(begins[own], block.columns))
            begins[own] += 1
        self._blocks.clear()
        return OrderedRows(ordered, int(written.sum()))


class _Placed(NamedTuple):
    at: Numbers
    columns: dict[str, object]


class OrderedRows:
    """Rows in the order of the log, which are put together piece by piece.

    Args:
        blocks: the columns of rows of one kind, and where these stand.
        count: how many rows there are.
    """

    def __init__(self, blocks: Sequence[_Placed], count: int) -> None:
        self._blocks = blocks
        self._count = count

    def __iter__(self) -> Iterator[tuple[Rows, Array]]:
        """Yield rows, and what the run has spent as each was written, J."""
        for begin in range(0, self._count, _AT_ONCE):
            rows = np.zeros(min(_AT_ONCE, self._count - begin), ROW_DTYPE)
            for name, value in _EMPTY.items():
                rows[name] = value
            spent = dict[int, Array]()
            for number, (at, columns) in enumerate(self._blocks):
                some: Any = slice(None)
                if self._count > _AT_ONCE:
                    some = np.flatnonzero((at >= begin) & (at < begin + len(rows)))
                places = at[some] - begin
                for name, column in columns.items():
                    figures: Any = column
                    if np.size(figures) > 1:
                        figures = np.asarray(figures)[some]
                    if name == SPENT:
                        spent[number] = np.broadcast_to(figures, places.shape)
                    else:
                        rows[name][places] = figures
            joules = np.asarray(rows["joules"] + rows["peer_joules"])
            for number, figures in spent.items():
                at = self._blocks[number].at
                joules[at[(at >= begin) & (at < begin + len(rows))] - begin] = figures
            yield rows, joules
