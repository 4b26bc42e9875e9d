"""Files of numbers: traces of rates and powers, and their reader.

An error names the file, the line, its text and what is accepted. Blank lines are skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import DataError
from fedsim.files import read_bytes
from fedsim.physics.signals import Steps
from fedsim.ports import Array

OPPORTUNITY = 12000
"""The bits of one delivery opportunity in a Mahimahi trace: 1500 bytes."""

_TIMES = 100
"""The bytes of memory needed for a byte of a file: lines are stored for messages."""

_SHOWN = 60  # characters of a malformed line in a message


@dataclass(frozen=True, slots=True)
class TraceTable:
    """The columns of a file, and the line of each row.

    Attributes:
        path: the file.
        key: the key of the scenario in errors.
        lines: the text of each row.
        numbers: the line number of each row, from 1.
        columns: arrays of shape (rows,).
    """

    path: Path
    key: str
    lines: Sequence[str]
    numbers: Sequence[int]
    columns: tuple[Array, ...]

    def refuse(self, wrong: NDArray[np.bool_], accepted: str) -> None:
        """Raise a DataError for the first row that is wrong, if there is one.

        Args:
            wrong: shape (rows,).
            accepted: the condition on a row.
        """
        if wrong.any():
            self.fail(int(np.argmax(wrong)), accepted)

    def fail(self, row: int, accepted: str) -> NoReturn:
        """Raise a DataError for a row."""
        _fail(self.path, self.key, self.numbers[row], self.lines[row], accepted)


def _fail(path: Path, key: str, number: int, line: str, accepted: str) -> NoReturn:
    shown = line.strip() if len(line) <= _SHOWN else f"{line[:_SHOWN].strip()} ..."
    raise DataError(key, f"{path}, line {number}: {accepted}; got {shown!r}")


def read_table(
    path: Path, names: tuple[str, ...], key: str, *, whole: bool = False, header: bool = True
) -> TraceTable:
    """Read numbers separated by commas.

    Args:
        path: the file.
        names: of the columns.
        key: the key of the scenario in errors.
        whole: whether all numbers must be integers.
        header: whether a first line without a number is skipped. If it has all the names in
            another order, the columns are in that order.

    Raises:
        DataError: the file cannot be read, has no row, or a row with another number of numbers
            than there are names.
    """
    rows = [(n, line) for n, line in enumerate(_text(path, key).split("\n"), 1) if line.strip()]
    order = list(range(len(names)))
    if header and rows and not any(map(_is_number, titles := _fields(rows[0][1]))):
        del rows[0]
        if sorted(titles) == sorted(name.lower() for name in names):
            order = [titles.index(name.lower()) for name in names]
    accepted = f"expected {', '.join(names[place] for place in np.argsort(order))}"
    accepted += " in whole numbers" if whole else " in numbers"
    if not rows:
        raise DataError(key, f"{path} has no row of numbers; {accepted}")
    numbers, lines = zip(*rows, strict=True)
    cells = _parse(lines, len(names), whole=whole)
    if cells is None:
        row = _first_fault(lines, len(names), whole=whole)
        _fail(path, key, numbers[row], lines[row], accepted)
    return TraceTable(path, key, lines, numbers, tuple(cells[:, place] for place in order))


def _text(path: Path, key: str) -> str:
    return read_bytes(path, key, times=_TIMES).decode("utf-8-sig", "backslashreplace")


def _fields(line: str) -> list[str]:
    return [field.strip().lower() for field in line.split(",")]


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _parse(lines: Sequence[str], columns: int, *, whole: bool) -> Array | None:
    """Return the numbers of all lines, shape (lines, columns); None if a line is malformed."""
    kind = np.int64 if whole else np.float64
    try:
        cells = np.loadtxt(lines, kind, delimiter=",", comments=None, ndmin=2)
    except (ValueError, OverflowError):
        return None
    return cells.astype(np.float64) if cells.shape[1] == columns else None


def _first_fault(lines: Sequence[str], columns: int, *, whole: bool) -> int:
    """Return the first malformed line, by bisection."""
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        if _parse(lines[low:middle], columns, whole=whole) is None:
            high = middle
        else:
            low = middle
    return low


def read_mahimahi(path: Path) -> Steps:
    """Read a Mahimahi trace: one line for each delivery opportunity, at a millisecond.

    An opportunity delivers 1500 bytes. They are spread over the millisecond that ends at its time.
    The trace repeats, with the last time as its period; so an opportunity at 0 coincides with the
    end of a cycle, and belongs to that cycle's last millisecond. Netravali et al., "Mahimahi:
    Accurate Record-and-Replay for HTTP", USENIX ATC 2015.

    Returns:
        The rate, bit/s.

    Raises:
        DataError: the file cannot be read, a line is not an integer of at least 0 and at least
            the previous one, or the last is 0.
    """
    table = read_table(path, ("milliseconds",), "trace", whole=True, header=False)
    (times,) = table.columns
    table.refuse(times < 0, "times are at least 0 ms")
    table.refuse(np.diff(times, prepend=0.0) < 0, "times never fall")
    last = times[-1]
    if last == 0:
        table.fail(len(times) - 1, "a trace lasts for 1 ms at least")
    begins, count = np.unique(np.where(times == 0, last, times) - 1, return_counts=True)
    edges = np.unique(np.concatenate([[0.0], begins, begins + 1]))
    rates = np.zeros(edges.size)
    rates[np.searchsorted(edges, begins)] = OPPORTUNITY * 1000 * count
    return Steps(edges / 1000, rates, period=last / 1000)


def read_csv(path: Path, repeat: bool) -> Steps:  # noqa: FBT001 - as the scenario says it
    """Read a trace of rates: CSV with columns seconds, Mbit/s, and a header or none.

    A rate applies until the next row's time; times increase from 0.

    Args:
        path: the file.
        repeat: whether the trace repeats; the last rate then lasts as long as the previous one (1 s
            if it is alone). Otherwise the last rate stays.

    Returns:
        The rate, bit/s.

    Raises:
        DataError: the file cannot be read, or a line is malformed or out of order.
    """
    return _series(path, "Mbit/s", 1e6, repeat=repeat)


def read_power(path: Path, repeat: bool) -> Steps:  # noqa: FBT001 - as the scenario says it
    """Read a trace of powers: CSV with columns seconds, W; all else as in `read_csv`."""
    return _series(path, "W", 1.0, repeat=repeat)


def read_intensity(path: Path, repeat: bool) -> Steps:  # noqa: FBT001 - as the scenario says it
    """Read a carbon intensity: CSV with columns hours, g/kWh; all else as in `read_csv`."""
    return _series(path, "g/kWh", 1.0, repeat=repeat, clock=("hours", "h", 3600.0))


def _series(
    path: Path,
    unit: str,
    scale: float,
    *,
    repeat: bool,
    clock: tuple[str, str, float] = ("seconds", "s", 1.0),
) -> Steps:
    column, short, seconds = clock
    table = read_table(path, (column, unit), "trace")
    times, values = table.columns
    if times[0] != 0:
        table.fail(0, f"times begin at 0 {short}")
    rises = (np.diff(times, prepend=-1.0) > 0) & np.isfinite(times)
    table.refuse(~rises, "times rise")
    table.refuse(~((values >= 0) & (values < inf)), f"a value is at least 0 {unit} and finite")
    gap = times[-1] - times[-2] if len(times) > 1 else 1.0
    period = float(seconds * (times[-1] + gap)) if repeat else inf
    return Steps(seconds * times, values * scale, period)
