"""Reader of files with columns of numbers, used for all traces and lists of clients.

An error names the file, the line, its text and what would be accepted. Blank lines are skipped.
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from fedsim.core.blocks.wording import listed, numbers_columns, printable
from fedsim.core.errors import DataError
from fedsim.core.files import read_bytes
from fedsim.core.ports import Array
from fedsim.core.remarks import remark
from fedsim.physics.clocks import DateError, find_epoch, is_date, read_dates, say_epoch
from fedsim.physics.headers import (
    Choice,
    Column,
    HeaderError,
    are_named,
    choose_columns,
    is_documented,
    split_cells,
)

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}

_TIMES = 100
"""Bytes of memory per byte of a file, since lines are kept for messages."""

_SHOWN = 60  # characters of a malformed line in a message, at most
_MOST = 4  # clients listed in a message, at most
_LATEST = 5e10  # s; no run lasts as long, so later times must have another unit


@dataclass(frozen=True, slots=True)
class TraceTable:
    """The columns of a file, and the line of each row.

    Attributes:
        path: the file.
        key: the key of the scenario, for errors.
        lines: the text of each row.
        numbers: the line number of each row, from 1.
        wanted: the columns that the reader needs.
        raw: their numbers in the units of the file, arrays of shape (rows,).
        scales: the conversion of each column to its base unit.
    """

    path: Path
    key: str
    lines: Sequence[str]
    numbers: Sequence[int]
    wanted: Sequence[Column]
    raw: tuple[Array, ...]
    scales: tuple[Callable[[Array], Array], ...]

    @property
    def columns(self) -> tuple[Array, ...]:
        """The columns in their base units, arrays of shape (rows,)."""
        return tuple(scale(each) for scale, each in zip(self.scales, self.raw, strict=True))

    def refuse(self, wrong: NDArray[np.bool_], accepted: str) -> None:
        """Check that all rows meet a condition.

        Args:
            wrong: whether each row violates it, shape (rows,).
            accepted: the condition, for the error.

        Raises:
            DataError: a row violates it; the error names the first one.
        """
        if wrong.any():
            self.fail(int(np.argmax(wrong)), accepted)

    def refuse_clients(self, clients: Array) -> None:
        """Raise a DataError if a client is not a whole number of at least 0."""
        # Up to 2**53 all whole numbers are exact in float64.
        wrong = ~((clients >= 0) & (clients < 2**53) & (clients == np.floor(clients)))
        self.refuse(
            wrong, "a client must be a whole number of at least 0, as clients are counted from 0"
        )

    def fail(self, row: int, accepted: str) -> NoReturn:
        """Raise a DataError for a row."""
        _fail(self.path, self.key, self.numbers[row], self.lines[row], accepted)


def _fail(path: Path, key: str, number: int, line: str, accepted: str) -> NoReturn:
    shown = line.strip() if len(line) <= _SHOWN else f"{line[:_SHOWN].strip()} ..."
    raise DataError(key, f"{path}, line {number}: {accepted}; got {shown!r}")


def read_table(
    path: Path,
    wanted: Sequence[Column],
    key: str,
    *,
    other: Sequence[Column] = (),
    lines: Sequence[tuple[int, str]] | None = None,
) -> TraceTable:
    """Read columns of numbers separated by commas, and remark on assumptions.

    A first line without a number is a header. Then columns are found by their names and units, in
    any order and among others, and their numbers are converted. Times since 1970 and dates are
    counted from the first. Without a header, columns and units must be as documented.

    Args:
        path: the file.
        wanted: the columns.
        key: the key of the scenario, for errors.
        other: alternative columns, used if a header names all of them.
        lines: the numbered lines, if they were read already; else those of the file.

    Raises:
        DataError: the file cannot be read or has no row; a column is missing or has a unit of
            another dimension; or a row has the wrong number of cells, or a cell is not a number.
    """
    rows = _rows(path, key) if lines is None else [*lines]
    columns, width, remarks = wanted, len(wanted), list[str]()
    if rows and width > 1 and (found := _other_separator(rows[0][1])):
        number, line = rows[0]
        _fail(path, key, number, line, f"expected cells separated by commas, not by {found}")
    choices = [Choice(n, each.unit) for n, each in enumerate(wanted)]
    if rows and not any(map(_is_number, titles := split_cells(rows[0][1]))):
        number, line = rows.pop(0)
        try:
            columns = other if other and are_named(titles, other) else wanted
            choices, remarks = choose_columns(titles, columns)
        except HeaderError as error:
            _fail(path, key, number, line, str(error))
        width = len(titles)
    elif rows and width > 2 and numbers_columns(titles := split_cells(rows[0][1])):
        shown = ",".join(titles)
        remarks.append(f"the first line, {shown}, is taken for a row, not for numbers of columns")
    if not rows:
        names = ", ".join(column.name for column in columns)
        raise DataError(key, f"{path} has no row of numbers; expected {names} in numbers")
    numbers, lines = zip(*rows, strict=True)
    shape = _Shape(path, key, numbers, lines, columns, choices, width)
    raw, choices, dated = shape.read()
    for text in (*remarks, *_unstated(choices, columns, dated=bool(dated)), *dated):
        remark(f"{printable(path.name)}: {text}")
    scales = tuple(each.scale(choice.unit) for each, choice in zip(columns, choices, strict=True))
    return TraceTable(path, key, lines, numbers, columns, raw, scales)


def read_whole(path: Path, name: str, key: str) -> TraceTable:
    """Read a file without a header that has one whole number per line.

    Args:
        path: the file.
        name: the name of the numbers, for errors.
        key: the key of the scenario, for errors.

    Raises:
        DataError: the file cannot be read or has no row, or a line is not an integer.
    """
    rows = _rows(path, key)
    accepted = f"expected {name} in whole numbers"
    if not rows:
        raise DataError(key, f"{path} has no row of numbers; {accepted}")
    numbers, lines = zip(*rows, strict=True)
    times = _parse(lines, 1, whole=True)
    if times is None:
        row = _first_fault(lines, 1, whole=True)
        _fail(path, key, numbers[row], lines[row], accepted)
    return TraceTable(path, key, lines, numbers, (), (times[:, 0],), ())


def _rows(path: Path, key: str) -> list[tuple[int, str]]:
    """Return the lines of a file that are not blank, with their numbers."""
    # Invalid bytes are replaced, so that an error can still show their line.
    text = read_bytes(path, key, times=_TIMES).decode("utf-8-sig", "backslashreplace")
    return [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]


def _other_separator(line: str) -> str:
    """Return what seems to separate the cells of a line without commas; empty if unknown."""
    if "," in line:
        return ""
    return next((name for sign, name in _SEPARATORS.items() if sign in line.strip()), "")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return is_date(field)
    return True


def _unstated(
    choices: Sequence[Choice], columns: Sequence[Column], *, dated: bool
) -> Iterator[str]:
    """Yield a remark on columns whose unit is neither in the header nor documented."""
    open_ones = [
        (choice.title, choice.unit)
        for choice, column in zip(choices, columns, strict=True)
        if choice.title and column.unit and column.unit != "deg" and not choice.stated
        if not (is_documented(choice.title, column) or (dated and column.is_time))
    ]
    if open_ones:
        titles, units = zip(*open_ones, strict=True)
        have, plural = ("have", "are") if len(titles) > 1 else ("has", "is")
        yield f"{' and '.join(titles)} {have} no unit, and {plural} taken in {' and '.join(units)}"


class _Shape(NamedTuple):
    """The rows of a file, and which of their cells are wanted.

    Attributes:
        path: the file.
        key: the key of the scenario, for errors.
        numbers: the numbers of the lines.
        lines: the texts of the lines.
        columns: the wanted columns.
        choices: the column of the file chosen for each of them.
        width: the number of cells per row.
    """

    path: Path
    key: str
    numbers: Sequence[int]
    lines: Sequence[str]
    columns: Sequence[Column]
    choices: Sequence[Choice]
    width: int

    @property
    def accepted(self) -> str:
        """The accepted form of a row, for errors."""
        if self.width > len(self.columns):
            return f"expected {self.width} cells, with {self._names} in numbers"
        return f"expected {self._names} in numbers"

    @property
    def _names(self) -> str:
        order = np.argsort([choice.place for choice in self.choices])
        return ", ".join(self.columns[n].name for n in order)

    def read(self) -> tuple[tuple[Array, ...], list[Choice], list[str]]:
        """Return the numbers of each column, the columns with their units, and remarks on times."""
        timed = [n for n, each in enumerate(self.columns) if each.is_time]
        first = split_cells(self.lines[0])
        if len(first) == self.width and any(is_date(first[self.choices[n].place]) for n in timed):
            return self._dated(timed)
        raw = self._numbers([choice.place for choice in self.choices])
        return self._since_1970(raw, timed)

    def _numbers(self, places: Sequence[int]) -> list[Array]:
        """Return the numbers in some columns of all rows."""
        whole = sorted(places) == list(range(self.width))
        numbers = _parse(self.lines, self.width, None if whole else places)
        if numbers is None:
            row = _first_fault(self.lines, self.width, None if whole else places)
            _fail(self.path, self.key, self.numbers[row], self.lines[row], self.accepted)
        return [numbers[:, place if whole else n] for n, place in enumerate(places)]

    def _dated(self, timed: Sequence[int]) -> tuple[tuple[Array, ...], list[Choice], list[str]]:
        """Return all columns, with dates converted to seconds since the earliest one."""
        cells = [split_cells(line) for line in self.lines]
        if short := [n for n, row in enumerate(cells) if len(row) != self.width]:
            _fail(self.path, self.key, self.numbers[short[0]], self.lines[short[0]], self.accepted)
        others = [n for n in range(len(self.columns)) if n not in timed]
        values = dict(
            zip(others, self._numbers([self.choices[n].place for n in others]), strict=True)
        )
        try:
            times, text = read_dates([[row[self.choices[n].place] for row in cells] for n in timed])
        except DateError as error:
            number, line = self.numbers[error.row], self.lines[error.row]
            _fail(self.path, self.key, number, line, str(error))
        values.update(zip(timed, times, strict=True))
        choices = [
            choice._replace(unit="s") if n in timed else choice
            for n, choice in enumerate(self.choices)
        ]
        return tuple(values[n] for n in range(len(self.columns))), choices, [text]

    def _since_1970(
        self, raw: list[Array], timed: Sequence[int]
    ) -> tuple[tuple[Array, ...], list[Choice], list[str]]:
        """Return all columns, with times since 1970 converted to times since the first one."""
        choices = list(self.choices)
        if not timed:
            return tuple(raw), choices, []
        first = min(float(raw[n].min()) for n in timed)
        choice, column = choices[timed[0]], self.columns[timed[0]]
        seconds = float(column.scale(choice.unit)(np.array(1.0)))
        clock = find_epoch(first, choice.unit, seconds, stated=choice.stated)
        if clock is None:
            if first * seconds >= _LATEST:
                row = int(np.argmin(raw[timed[0]]))
                text = f"times in {choice.unit} are of a run, or since 1970"
                _fail(self.path, self.key, self.numbers[row], self.lines[row], text)
            return tuple(raw), choices, []
        for n in timed:
            raw[n] = raw[n] - clock.origin
            choices[n] = choices[n]._replace(unit=clock.unit)
        since = float(column.scale(clock.unit)(np.array(clock.origin)))
        return tuple(raw), choices, [say_epoch(clock, since)]


def _parse(
    lines: Sequence[str], width: int, places: Sequence[int] | None = None, *, whole: bool = False
) -> Array | None:
    """Return the numbers of all lines; None if a line is malformed.

    Args:
        lines: the lines.
        width: the number of cells in each line.
        places: the positions of the wanted cells; None for all.
        whole: whether all numbers must be integers.

    Returns:
        Shape (lines, places).
    """
    # NumPy checks the number of cells only if it reads all of them.
    if places is not None and any(len(split_cells(line)) != width for line in lines):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # before 2.3, NumPy reads 2.5 as 2
            cells = np.loadtxt(
                lines,
                np.int64 if whole else np.float64,
                delimiter=",",
                comments=None,
                ndmin=2,
                usecols=places,
                quotechar='"',
            )
    except (ValueError, OverflowError, DeprecationWarning):
        return None
    expected = width if places is None else len(places)
    return cells.astype(np.float64) if cells.shape[1] == expected else None


def _first_fault(
    lines: Sequence[str], width: int, places: Sequence[int] | None = None, *, whole: bool = False
) -> int:
    """Return the index of the first malformed line, by bisection with NumPy's fast reader."""
    low, high = 0, len(lines)
    # Throughout, lines[:low] can be parsed and lines[:high] cannot.
    while high - low > 1:
        middle = (low + high) // 2
        if _parse(lines[low:middle], width, places, whole=whole) is None:
            high = middle
        else:
            low = middle
    return low


def check_clients(
    clients: Collection[int], count: int, key: str, path: Path | None, own: range | None = None
) -> None:
    """Check the clients of a list of rows against the fleet, and remark on differences.

    The caller has to ignore rows of clients that are not in the fleet.

    Args:
        clients: the clients that have a row.
        count: the number of clients in the fleet, which are numbered from 0.
        key: the key for errors.
        path: the file; None if the rows are in the scenario.
        own: the clients that need a row; None for all.

    Raises:
        DataError: the file counts clients from 1, or a row in the scenario has a client that is not
            in the fleet.
    """
    strangers = sorted(client for client in clients if client >= count)
    # Clients counted from 1 are a common mistake, which would shift all rows by one.
    if strangers == [count] and min(clients) == 1:
        raise DataError(key, f"got clients of 1 to {count}; count them from 0")
    if path is None:
        if strangers:
            text = f"got a row of client {strangers[-1]}; give clients of 0 to {count - 1}"
            raise DataError(key, text)
        return
    name, known = printable(path.name), f"of clients 0 to {count - 1}"
    if strangers:
        rows = listed(strangers, _MOST)
        remark(f"{name}: rows of client {rows} are left out: the fleet is {known}")
    if missing := sorted(set(range(count) if own is None else own).difference(clients)):
        remark(f"{name}: no row of client {listed(missing, _MOST)}, {known}")
