"""Tables with a header, of which only some columns are read, in any order.

An error names the file, the line, the column, the text there and what would be accepted.
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
"""Bytes of memory per byte of a table, since each cell is a separate text."""

_SHOWN = 60  # characters of a malformed text in a message, at most


@dataclass(frozen=True, slots=True)
class TextColumns:
    """The wanted columns of a table, as texts.

    Attributes:
        path: the file.
        key: the key of the scenario, for errors.
        lines: the line number of each row, from 1.
        cells: the texts of each wanted column, by row.
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
            DataError: a cell is no number, not finite, or below `least`.
        """
        accepted = f"a finite number of {least:g} or more" if isfinite(least) else "a finite number"
        return np.array(self.parse(name, lambda text: _number(text, least), accepted))

    def parse(self, name: str, parse: Callable[[str], float], accepted: str) -> list[float]:
        """Apply a function to each cell of a column.

        Args:
            name: the name of the column.
            parse: the function, which raises a ValueError for a malformed cell.
            accepted: what a cell has to be, for the error.

        Raises:
            DataError: a cell is malformed; the text names the line.
        """
        values = []
        for row, text in enumerate(self.cells[name]):
            try:
                values.append(parse(text))
            except ValueError:
                self.fail(row, f"{name} is {accepted}", text)
        return values

    def fail(self, row: int, accepted: str, seen: str) -> NoReturn:
        """Raise a DataError for a row."""
        text = seen if len(seen) <= _SHOWN else f"{seen[:_SHOWN]} ..."
        raise DataError(self.key, f"{self.path}, line {self.lines[row]}: {accepted}; got {text!r}")

    def rows(self, kept: Sequence[int]) -> "TextColumns":
        """Return the table with only some of its rows."""
        cells = {name: [texts[row] for row in kept] for name, texts in self.cells.items()}
        return TextColumns(self.path, self.key, [self.lines[row] for row in kept], cells)


def _number(text: str, least: float) -> float:
    number = float(text)
    if not (isfinite(number) and number >= least):
        raise ValueError
    return number


def read_columns(path: Path, wanted: Sequence[str], key: str) -> TextColumns:
    """Read the wanted columns of a CSV table, which may be compressed by gzip, bzip2 or xz.

    Args:
        path: the file.
        wanted: the names that its header has to have.
        key: the key of the scenario, for errors.

    Raises:
        DataError: the file cannot be read, is no such table, or has no row.
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
    """Return the positions of the wanted columns.

    Raises:
        DataError: a column is missing; the text shows the header.
    """
    names = [name.strip() for name in header]
    missing = [name for name in wanted if name not in names]
    if missing:
        seen = ", ".join(names) or "nothing"
        seen = seen if len(seen) <= 2 * _SHOWN else f"{seen[: 2 * _SHOWN]} ..."
        text = f"{path} has no column {' and no column '.join(missing)}; its first line is {seen!r}"
        raise DataError(key, f"{text}, and a header with {', '.join(wanted)} is accepted")
    return [names.index(name) for name in wanted]
