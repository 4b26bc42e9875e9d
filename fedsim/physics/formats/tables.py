"""Tables with a header, of which some columns are wanted, whatever else there is and in what order.

A fault names the file, the line, the column, the text seen and what is accepted.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import NoReturn

import numpy as np

from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_bytes
from fedsim.core.ports import Array

_TIMES = 60
"""The bytes of memory that a byte of a table takes: each cell is a text of its own."""

_SHOWN = 60  # characters of what is at fault


@dataclass(frozen=True, slots=True)
class TextColumns:
    """The wanted columns of a table, as texts.

    Attributes:
        path: the file.
        key: that faults are at.
        lines: the number of each row's line, from 1.
        cells: the cells of each wanted column, its texts by row.
    """

    path: Path
    key: str
    lines: Sequence[int]
    cells: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.lines)

    def numbers(self, name: str, least: float = 0.0) -> Array:
        """Return a column of finite numbers, shape (rows,).

        Raises:
            DataError: a cell is no number, not finite, or below the least.
        """
        accepted = f"a finite number of {least:g} or more" if isfinite(least) else "a finite number"
        return np.array(self.parse(name, lambda text: _number(text, least), accepted))

    def parse(self, name: str, parse: Callable[[str], float], accepted: str) -> list[float]:
        """Return what a function makes of each cell of a column.

        Args:
            name: the name of the column.
            parse: raises a ValueError where a cell is not what it should be.
            accepted: what a cell would have to be.

        Raises:
            DataError: it raised one; the line is named.
        """
        found = []
        for row, text in enumerate(self.cells[name]):
            try:
                found.append(parse(text))
            except ValueError:
                self.fail(row, f"{name} is {accepted}", text)
        return found

    def fail(self, row: int, accepted: str, seen: str) -> NoReturn:
        """Raise a DataError for a row."""
        text = seen if len(seen) <= _SHOWN else f"{seen[:_SHOWN]} ..."
        raise DataError(self.key, f"{self.path}, line {self.lines[row]}: {accepted}; got {text!r}")

    def rows(self, kept: Sequence[int]) -> "TextColumns":
        """Return some of the rows."""
        cells = {name: [texts[row] for row in kept] for name, texts in self.cells.items()}
        return TextColumns(self.path, self.key, [self.lines[row] for row in kept], cells)


def _number(text: str, least: float) -> float:
    number = float(text)
    if not (isfinite(number) and number >= least):
        raise ValueError
    return number


def read_columns(path: Path, wanted: Sequence[str], key: str) -> TextColumns:
    """Read the wanted columns of a table of separated values; it may be packed, as gzip packs.

    Args:
        path: the file.
        wanted: the names that its header has to have.
        key: that faults are at.

    Raises:
        DataError: it cannot be read, is no such table, or has no row.
    """
    content = decompress(read_bytes(path, key, _TIMES), path, key, _TIMES)
    text = content.decode("utf-8-sig", "backslashreplace")
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row:
                lines.append(reader.line_num)
                rows.append(row)
    except csv.Error as error:
        at = f"{path}, line {reader.line_num}"
        raise DataError(key, f"{at}: no table of separated values ({error})") from error
    places = _places(rows[0] if rows else [], wanted, path, key)
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(rows[0]):
            seen = f"got {len(row)} values, but the header has {len(rows[0])}"
            raise DataError(key, f"{path}, line {line}: {seen}; a line has a value for each column")
    if len(rows) == 1:
        raise DataError(key, f"{path} has a header alone; a row is {', '.join(wanted)}")
    cells = {
        name: [row[place].strip() for row in rows[1:]]
        for name, place in zip(wanted, places, strict=True)
    }
    return TextColumns(path, key, lines[1:], cells)


def _places(header: Sequence[str], wanted: Sequence[str], path: Path, key: str) -> list[int]:
    """Return where the wanted columns are.

    Raises:
        DataError: one is not there; its first line is shown.
    """
    names = [name.strip() for name in header]
    missing = [name for name in wanted if name not in names]
    if missing:
        seen = ", ".join(names) or "nothing"
        seen = seen if len(seen) <= 2 * _SHOWN else f"{seen[: 2 * _SHOWN]} ..."
        text = f"{path} has no column {' and no column '.join(missing)}; its first line is {seen!r}"
        raise DataError(key, f"{text}, and a header with {', '.join(wanted)} is accepted")
    return [names.index(name) for name in wanted]
