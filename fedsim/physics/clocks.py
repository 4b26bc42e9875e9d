"""Times in files of numbers: from the start of the run, since 1970, or as dates.

Dates and times since 1970 belong to a recording. The run then starts at the first of them, and a
remark says so. Dates are in ISO 8601, or have day and month in an order that the file makes
unambiguous.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array

if TYPE_CHECKING:  # importing pandas takes 0.3 s: only where there are dates
    import pandas as pd

_EPOCH = 5e8, 5e10
"""Seconds since 1970 in this range count as dates, which begin in 1985. No run lasts 16 years."""

_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_ZONE = re.compile(r"(?:Z|[+-]\d\d(?::?\d\d)?)\s*$")
_HOURS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
_ORDERS = {
    "day, month, year": ("%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y"),
    "month, day, year": ("%m/%d/%Y", "%m.%d.%Y", "%m-%d-%Y"),
}
_ENDLESS = frozenset(("inf", "infinity"))


class Clock(NamedTuple):
    """How a file counts time since 1970.

    Attributes:
        origin: the first time, in this unit.
        unit: the unit of the numbers.
    """

    origin: float
    unit: str


def find_epoch(first: float, unit: str, seconds: float, *, stated: bool) -> Clock | None:
    """Return how a file counts time since 1970; None if its times start with the run.

    Args:
        first: the first of the numbers.
        unit: the unit of the numbers, if the file states it.
        seconds: the length of one such unit, s.
        stated: whether the file states the unit.

    >>> find_epoch(1.7e12, "s", 1.0, stated=False)
    Clock(origin=1700000000000.0, unit='ms')
    """
    low, high = _EPOCH
    if stated and low <= first * seconds < high:
        return Clock(first, unit)
    for name, count in _PER_SECOND.items() if not stated else ():
        if low * count <= first < high * count:
            return Clock(first, name)
    return None


def say_epoch(clock: Clock, seconds: float) -> str:
    """Return the remark on times since 1970; `seconds` is the first of them, s."""
    first = np.datetime64(round(seconds * 1e3), "ms")
    return f"times are in {clock.unit} since 1970: the run starts at the first, {_said(first)} UTC"


def is_date(text: str) -> bool:
    """Return whether a text begins like a date: three numbers separated by -, / or points.

    >>> is_date("2024-01-01T00:00Z"), is_date("17"), is_date("x")
    (True, False, False)
    """
    return re.match(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}", text) is not None


class DateError(ValueError):
    """Dates that cannot be read.

    Attributes:
        row: the first row with such a date.
    """

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


def read_dates(columns: Sequence[Sequence[str]]) -> tuple[list[Array], str]:
    """Return times as seconds since the earliest one, and a remark.

    Args:
        columns: the texts of each column; "inf" is infinity.

    Returns:
        One array per column, s, and the remark.

    Raises:
        DateError: a text is no date, or the order of day and month is ambiguous.
    """
    endless = [np.array([cell.lower() in _ENDLESS for cell in cells]) for cells in columns]
    texts = [
        [cell for cell, never in zip(cells, ends.tolist(), strict=True) if not never]
        for cells, ends in zip(columns, endless, strict=True)
    ]
    parsed, order = _parse(texts, endless)
    first = min(int(column.min()) for column in parsed if column.size)
    times = []
    for ends, nanoseconds in zip(endless, parsed, strict=True):
        seconds = np.full(len(ends), np.inf)
        seconds[~ends] = (nanoseconds - first) / 1e9
        times.append(seconds)
    zone = "" if _ZONE.search(next(filter(None, texts))[0]) else "; without a zone, they are UTC"
    text = (
        f"times are dates{order}: the run starts at the first, {_said(np.datetime64(first, 'ns'))}"
    )
    return times, f"{text} UTC{zone}"


def _said(time: np.datetime64) -> str:
    text = str(time.astype("datetime64[ms]")).replace("T", " ")
    return text.removesuffix(".000")


def _parse(
    texts: Sequence[Sequence[str]], endless: Sequence[NDArray[np.bool_]]
) -> tuple[list[NDArray[np.int64]], str]:
    """Return the columns in nanoseconds since 1970, and the order of day and month that was found.

    Raises:
        DateError: a text is no date, or the order is ambiguous.
    """
    iso = [_stamps(cells, "ISO8601") for cells in texts]
    if not any(column.isna().any() for column in iso):
        return [_nanoseconds(column) for column in iso], ""
    readings = {name: reading for name in _ORDERS if (reading := _ordered(texts, name)) is not None}
    if not readings:
        column = next(n for n, each in enumerate(iso) if each.isna().any())
        row = int(np.flatnonzero(~endless[column])[int(np.argmax(iso[column].isna()))])
        raise DateError(row, "expected a date such as 2024-01-31 12:00:00, or with its zone +01:00")
    name, *others = readings
    # Both orders are possible: this is an error unless they mean the same dates, such as
    # 02/02/2024.
    if any(
        not np.array_equal(a, b)
        for other in others
        for a, b in zip(readings[name], readings[other], strict=True)
    ):
        raise DateError(0, "day and month cannot be told apart; expected 2024-01-31 12:00:00")
    return readings[name], f" ({name})"


def _ordered(texts: Sequence[Sequence[str]], order: str) -> list[NDArray[np.int64]] | None:
    """Return dates with a given order of day and month in ns; None if one has another form."""
    for form in (day + hour for day in _ORDERS[order] for hour in _HOURS):
        stamps = [_stamps(cells, form) for cells in texts]
        if not any(column.isna().any() for column in stamps):
            return [_nanoseconds(column) for column in stamps]
    return None


def _stamps(cells: Sequence[str], form: str) -> "pd.DatetimeIndex":
    import pandas as pd

    return pd.to_datetime(list(cells), format=form, utc=True, errors="coerce")


def _nanoseconds(stamps: "pd.DatetimeIndex") -> NDArray[np.int64]:
    return stamps.tz_localize(None).to_numpy(dtype="datetime64[ns]").astype(np.int64)
