"""What questions of a log have in common: columns that must be there, and numbers of clients."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.core.ports import Array

SERVER = "server"
BITS = ("payload_bits", "header_bits", "transport_bits")

Table = Literal["events", "rounds", "clients"]

_SOURCES: dict[Table, str] = {
    "events": "the event log of runs: `Result.events`, or events.parquet of a run's folder",
    "rounds": "the round table of runs: `Result.rounds`, or rounds.parquet of a run's folder",
    "clients": "the client table of runs: `Result.clients`, or clients.parquet of a run's folder",
}

Codes = NDArray[np.intp]


def check_columns(frame: pd.DataFrame, table: Table, columns: Sequence[str]) -> None:
    """Check that a table has the columns of a question.

    Args:
        frame: the table.
        table: which one it should be.
        columns: that it should have.

    Raises:
        DataError: some are missing; the text names them, and the source of such a table.
    """
    missing = [name for name in columns if name not in frame]
    if missing:
        noun = "column" if len(missing) == 1 else "columns"
        text = f"the table has no {noun} {', '.join(missing)}; expected {_SOURCES[table]}"
        raise DataError(table, text)


def is_event(events: pd.DataFrame, *names: str) -> NDArray[np.bool_]:
    """Return which rows are of these events, shape (rows,)."""
    return np.asarray(events["event"].isin(names).to_numpy(), dtype=np.bool_)


def total_bits(events: pd.DataFrame) -> NDArray[np.int64]:
    """Return the bits of each row over all layers, shape (rows,)."""
    sums = np.zeros(len(events), dtype=np.int64)
    for name in BITS:
        sums += events[name].to_numpy(np.int64)
    return sums


def clients_in(events: pd.DataFrame) -> list[str]:
    """Return the clients that a run's log mentions, in the order of their numbers."""
    found = set[str]()
    for name in ("node", "peer"):
        used = events[name].astype("category").cat.remove_unused_categories().cat.categories
        found |= set(map(str, used))
    # By number: as texts, client-10 would come before client-2.
    return sorted(found - {SERVER}, key=lambda name: int(name.rpartition("-")[2]))


def opened_by_server(events: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are exchanges of the server, not those of a gateway with nodes below it."""
    server: NDArray[np.bool_] = (events["node"] == SERVER).to_numpy()
    return is_event(events, "exchange") & server


def numbers_of(column: "pd.Series[Any]", names: Sequence[str]) -> Codes:
    """Return the number of each value in `names`, shape (rows,); -1 for all others."""
    own = column.astype("category").cat
    places = pd.Index(names).get_indexer(pd.Index(own.categories.astype(str)))
    # The code of a null is -1, which takes the -1 at the end.
    return np.append(places, -1).astype(np.intp)[own.codes.to_numpy()]


def sums(owner: Codes, count: int, weights: Array | NDArray[np.int64] | None = None) -> Array:
    """Return sums of weights, or counts of rows, by owner, shape (count,); -1 has no owner."""
    known = owner >= 0
    own = None if weights is None else weights[known]
    return np.bincount(owner[known], own, minlength=count).astype(np.float64)


def covered(owner: Codes, begin: Array, end: Array, count: int) -> Array:
    """Return how long each owner has at least one span, s, shape (count,).

    Args:
        owner: of each span, shape (spans,).
        begin: s, of the same shape.
        end: s, of the same shape.
        count: the number of owners.
    """
    order = np.lexsort((begin, owner))
    owner, begin, end = owner[order], begin[order], end[order]
    first = np.append(True, owner[1:] != owner[:-1])[: len(owner)]
    # The latest end of all earlier spans of the same owner: owners are put one after another on
    # one axis, so that a running maximum never reaches over from one owner to the next.
    ranks = np.argsort(np.argsort(end, kind="stable"), kind="stable")
    highest = np.maximum.accumulate(owner * (len(owner) + 1) + ranks) - owner * (len(owner) + 1)
    reached = np.sort(end, kind="stable")[highest] if len(owner) else end
    before = np.where(first, begin, np.append(0.0, reached[:-1])[: len(owner)])
    return sums(owner, count, np.maximum(end - np.maximum(begin, before), 0.0))
