"""What a table shows by itself: which columns hold labels and clients, and which are left out."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsim.errors import DataError
from fedsim.problems.heterogeneity import CLASSES
from fedsim.problems.samples import Samples
from fedsim.problems.tables import cells, columns
from fedsim.problems.tables.columns import TableColumn
from fedsim.problems.tables.formats import Found, Reading, read_table
from fedsim.problems.tables.rows import Wanted, columns_of, table_samples, without_empty

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

_LABELS = (
    "target", "label", "outcome", "class", "diagnosis", "y", "response", "result", "survived",
    "status", "species", "quality",
)  # fmt: skip
_CLIENTS = (
    "client", "hospital", "site", "centre", "center", "clinic", "institution", "practice", "bank",
    "branch", "user", "writer", "device", "sensor", "station", "school", "store", "shop", "company",
    "region", "city", "country",
)  # fmt: skip
"""Names of columns, or their last words, that hold labels and clients, the likeliest first."""

_MOST = 0.2  # clients per row, at most


@dataclass(frozen=True)
class Guess:
    """A table, and what its columns were taken for.

    Attributes:
        found: the table.
        columns: all columns with their roles.
        label, client: the columns taken for labels and clients; no client if empty.
        why: why the label is taken for it; empty if it was given.
        drop: columns that are left out: those that were given, and those of which no feature
            can be made.
        duplicates: whether rows repeat.
        samples: the rows.
    """

    found: Found
    columns: tuple[TableColumn, ...]
    label: str
    client: str
    why: str
    drop: tuple[str, ...]
    duplicates: bool
    samples: Samples

    @property
    def classes(self) -> int:
        """The number of classes; 0 if labels are amounts."""
        distinct = np.unique(self.samples.y)
        described = self.samples.described
        if described is not None and described.labels:
            return len(distinct)
        whole = np.array_equal(distinct, np.rint(distinct))
        return len(distinct) if whole and len(distinct) <= CLASSES else 0


def guess(path: Path, label: str = "", client: str = "", drop: tuple[str, ...] = ()) -> Guess:
    """Read a table and find what its columns are for.

    Args:
        path: of the file.
        label: the column of labels, if given.
        client: the column of clients, if given.
        drop: columns that are left out in any case.

    Raises:
        DataError: it cannot be read, has no column that could hold labels, or none of a name
            that is given.
    """
    found = read_table(path, Reading())
    frame = without_empty(found.frame, [])
    names = [str(name) for name in frame.columns]
    client = client or _find(names, _CLIENTS, frame, clients=True, apart=label)
    why = ""
    if not label:
        label = _find(names, _LABELS, frame, clients=False, apart=client)
        why = "by its name"
        if not label:
            label, why = _last(names, frame, client), "the last column"
    wanted = Wanted(label, client or None, drop, thousands=found.separator == ",")
    _, every = columns_of(frame, wanted, str(path))
    drop = tuple(each.name for each in every if each.faulty or each.role == "dropped")
    wanted = replace(wanted, drop=drop)
    samples = table_samples(found.frame, wanted, str(path))
    again = samples.described is not None and any(
        " an earlier one, so that" in note for note in samples.described.notes
    )
    if again:
        samples = table_samples(found.frame, replace(wanted, distinct=True), str(path))
    return Guess(found, tuple(every), label, client, why, drop, again, samples)


def _find(
    names: list[str], known: tuple[str, ...], frame: "pd.DataFrame", *, clients: bool, apart: str
) -> str:
    """Return the column whose name is the likeliest of some; empty if there is none."""
    for word in known:
        for name in names:
            parts = name.lower().replace("-", "_").replace(" ", "_").split("_")
            if name == apart or not (name.lower() == word or word in {parts[0], parts[-1]}):
                continue
            if not clients or _could_be_clients(frame[name]):
                return name
    return ""


def _could_be_clients(column: "pd.Series") -> bool:
    """Return whether a column has a few distinct values, each in several rows."""
    cleaned = cells.clean(column, frozenset())
    distinct = cleaned.nunique()
    return bool(2 <= distinct <= max(2, _MOST * len(cleaned)))


def _last(names: list[str], frame: "pd.DataFrame", client: str) -> str:
    """Return the last column that could hold labels."""
    for name in reversed(names):
        if name == client:
            continue
        column = columns.column_of(cells.clean(frame[name], frozenset()), decimal=None)
        if column.role in {"number", "category"}:
            return name
    text = "no column could hold labels; name one with --target"
    raise DataError("init", f"{text}; there are {', '.join(names)[:200]}")
