"""Guesses from a table alone: which columns hold labels and clients, and which are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsim.core.errors import DataError
from fedsim.problems.heterogeneity import CLASSES
from fedsim.problems.samples import Samples
from fedsim.problems.tables import cells, columns
from fedsim.problems.tables.clients import by_cells, by_name, looks_like_clients
from fedsim.problems.tables.columns import TableColumn
from fedsim.problems.tables.formats import Found, Reading, check_names, read_table
from fedsim.problems.tables.rows import (
    Wanted,
    columns_of,
    table_samples,
    without_empty,
)

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

_LABELS = (
    "target", "label", "outcome", "class", "diagnosis", "y", "response", "result", "survived",
    "status", "species", "quality",
)  # fmt: skip
"""Names of label columns, or the first or last words of such names, the most likely first."""

_LAST = "the last column"


@dataclass(frozen=True)
class Guess:
    """A table, and the guessed roles of its columns.

    Attributes:
        found: the table.
        columns: all columns with their roles.
        label: the column taken for labels.
        client: the column taken for clients; empty if there is none.
        why: why this column is taken for labels; empty if it was given.
        why_client: why this column is taken for clients; empty if it was given.
        doubtful: several columns that could hold clients, so that none of them is used.
        marks: texts among numbers that count as missing values, by column.
        drop: columns that are left out: those that were given, and those that cannot become a
            feature.
        duplicates: whether rows repeat.
        samples: the rows.
        header: whether the first line names the columns, if that was given.
    """

    found: Found
    columns: tuple[TableColumn, ...]
    label: str
    client: str
    why: str
    why_client: str
    doubtful: tuple[str, ...]
    marks: Mapping[str, tuple[str, ...]]
    drop: tuple[str, ...]
    duplicates: bool
    samples: Samples
    header: bool | None = None

    @property
    def classes(self) -> int:
        """The number of classes; 0 if labels are amounts."""
        distinct = np.unique(self.samples.y)
        described = self.samples.described
        if described is not None and described.labels:
            return len(distinct)
        whole = np.array_equal(distinct, np.rint(distinct))
        return len(distinct) if whole and len(distinct) <= CLASSES else 0

    @property
    def classes_elsewhere(self) -> tuple[str, ...]:
        """The columns of a few texts, which may be the label, if the last column was taken for it.

        Empty if that column has classes itself.
        """
        if self.why != _LAST or self.classes:
            return ()
        few = (column for column in self.columns if column.role == "category")
        return tuple(column.name for column in few if 1 < len(column.texts) <= CLASSES)


def guess(
    path: Path,
    label: str = "",
    client: str = "",
    drop: tuple[str, ...] = (),
    *,
    header: bool | None = None,
) -> Guess:
    """Read a table and find what its columns are for.

    Args:
        path: the path of the file.
        label: the column of labels, if given.
        client: the column of clients, if given.
        drop: columns that are left out in any case.
        header: whether the first line names the columns; None to find out.

    Raises:
        DataError: the table cannot be read, has no column that could hold labels, or lacks a column
            that is given.
    """
    table = read_table(path, Reading(header=header))
    frame = without_empty(table.frame, [])
    check_names(frame, str(path))
    names = [str(name) for name in frame.columns]
    why, why_client, doubtful = "", "", list[str]()
    if not client and (client := by_name(frame, [label, *drop])):
        why_client = "by its name"
    if not label:
        label, why = _find(names, client), "by its name"
        if not label:
            offered = [name for name in names if name not in drop]
            label, why = _last(offered, frame, client), _LAST
            _check_last(offered, frame, client, label)
    if not client:
        doubtful, why_client = by_cells(frame, [label, *drop])
        client = doubtful[0] if len(doubtful) == 1 else ""
    wanted = Wanted(label, client or None, drop, thousands=table.separator == ",",
                    typed=table.typed)  # fmt: skip
    every = columns_of(frame, wanted, str(path)).found
    marks = _marks(every)
    # In a second reading, the marks found by the first are missing values.
    if marks:
        wanted = replace(wanted, marks=tuple(dict.fromkeys(chain(*marks.values()))))
        every = columns_of(frame, wanted, str(path)).found
    drop = tuple(column.name for column in every if column.faulty or column.role == "dropped")
    wanted = replace(wanted, drop=drop)
    samples = table_samples(table.frame, wanted, str(path))
    again = samples.described is not None and any(
        " an earlier one, so that" in note for note in samples.described.notes
    )
    if again:
        samples = table_samples(table.frame, replace(wanted, distinct=True), str(path))
    several = tuple(doubtful) if len(doubtful) > 1 else ()
    seen = table, tuple(every), label, client, why, why_client if client else "", several, marks
    return Guess(*seen, drop, again, samples, header)


def _marks(every: Sequence[TableColumn]) -> dict[str, tuple[str, ...]]:
    """Return texts among the numbers of columns that no other column has as a value."""
    used = {text for column in every for text in column.texts}
    found = {column.name: column.marks for column in every if column.faulty and column.marks}
    return {name: marks for name, marks in found.items() if used.isdisjoint(marks)}


def _find(names: list[str], client: str) -> str:
    """Return the column whose name fits labels best; empty if there is none."""
    for word in _LABELS:
        for name in names:
            parts = name.lower().replace("-", "_").replace(" ", "_").split("_")
            if name != client and (name.lower() == word or word in {parts[0], parts[-1]}):
                return name
    return ""


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


def _check_last(names: list[str], frame: "pd.DataFrame", client: str, last: str) -> None:
    """Check that the last column holds no clients, so that it is not taken for labels in silence.

    Raises:
        DataError: it looks like clients, and another column may be the label.
    """
    coded, sign = looks_like_clients(frame[last])
    if not sign:
        return
    texts = [name for name in names if name != client and _is_text(frame[name])]
    if len(texts) > 1:
        count = "two" if len(texts) == 2 else "several"
        text = f"{count} columns may be the label ({', '.join(texts)[:200]}): give --target"
        raise DataError("init", f"{text}; {last} may hold clients ({sign})")
    if coded:
        text = f"the last column, {last}, may hold clients ({sign}): give --target"
        raise DataError("init", f"{text}, the column of labels")


def _is_text(column: "pd.Series") -> bool:
    found = columns.column_of(cells.clean(column, frozenset()), decimal=None)
    return found.role == "category"
