"""Rows of the log, made as columns and put in order at once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.record.log import Rows
from fedsim.record.schema import NO_PEER, ROW_DTYPE
from fedsim.sim.arrays.order import Numbers

_EMPTY = {"peer": NO_PEER, "message": -1, "state_of_charge": np.nan, "detail": -1}
"""The columns that are not 0 where nothing is to be said."""


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
            columns: others, each of shape (n,) or one figure for all.
        """
        if len(events):
            self._blocks.append(_Block(events, {"event": event, "node": nodes, **columns}))

    def in_order(self, places: Numbers) -> Rows:
        """Return all rows, given the place of each event."""
        written = np.zeros(len(places) + 1, np.int64)
        for block in self._blocks:
            written[places[block.events] + 1] += 1
        begins = np.cumsum(written)
        rows = np.zeros(int(begins[-1]), ROW_DTYPE)
        for name, value in _EMPTY.items():
            rows[name] = value
        for block in self._blocks:
            own = places[block.events]
            at = begins[own]
            begins[own] += 1
            for name, column in block.columns.items():
                rows[name][at] = column
        self._blocks.clear()
        return rows


def joules_of(rows: Rows) -> Array:
    """Return the joules of each row, of a message with its receiver's."""
    return np.asarray(rows["joules"] + rows["peer_joules"])
