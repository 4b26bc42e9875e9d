"""Cells of text as values: missing ones, numbers with either decimal sign, dates.

Only the whole column shows whether "1,5" is a number, and "03.04.2021" the third of April.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

MISSING = frozenset(
    {"", "?", "-", "--", ".", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing"}
)
"""Cells, in lower case, that stand for a missing value."""

_POINT = r"\d+\.?\d*|\.\d+"
_NUMBER = re.compile(rf"[+-]?(?:(?:{_POINT})(?:e[+-]?\d+)?|inf(?:inity)?)", re.IGNORECASE)
_COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")

_DATES = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d", "%d.%m.%Y",
    "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M%z", "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%d %H:%M:%S.%f", "%d.%m.%Y %H:%M", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y",
    "%d %B %Y", "%Y%m%d",
)  # fmt: skip
"""Formats of dates, tried in this order; the first one that fits all cells of a column is used."""

_SAMPLE = 1000  # cells that are tried first
_DAY = 86400.0
_MOST = 0.05  # share of faulty cells, at most, in a column that counts as numbers


class Numbers(NamedTuple):
    """A column read as numbers.

    Attributes:
        numbers: NaN where a cell is missing or no number, shape (n,).
        wrong: whether a cell is neither missing nor a number, shape (n,).
        comma: whether the decimal sign of some cell is a comma.
    """

    numbers: NDArray[np.float64]
    wrong: NDArray[np.bool_]
    comma: bool = False


def clean(
    column: "pd.Series", missing: frozenset[str], kept: frozenset[str] = frozenset()
) -> "pd.Series":
    """Return a column of texts without blanks around them, and with missing cells as None.

    Runs of blanks within a text, including non-breaking ones, become one blank.

    Args:
        column: the column. Of numbers and dates, only those that stand for a missing value change.
        missing: further texts that stand for a missing value, as written. A number among them
            matches every cell with the same value, however it is written.
        kept: texts that are values, as written, although `MISSING` contains them.
    """
    marked = _numbers_among(missing)
    if column.dtype.kind in "iuf":
        gone = column.isin(marked)
        return column.mask(gone) if gone.any() else column
    if column.dtype.kind in "bM":
        return column
    texts = [
        None if gone else value
        for value, gone in zip(column.tolist(), column.isna().tolist(), strict=True)
    ]
    # Most columns have few distinct cells, and each of these is cleaned once.
    known: dict[_Cell, object] = {}
    for cell in dict.fromkeys(map(_cell, texts)):
        value = cell.value
        known[cell] = _clean(value, missing, kept) if isinstance(value, str) else value
        if marked and _with_point(str(known[cell])) in marked:
            known[cell] = None
    import pandas as pd

    return pd.Series([known[_cell(value)] for value in texts], index=column.index, dtype=object,
                     name=column.name)  # fmt: skip


class _Cell(NamedTuple):
    """A cell as a key that distinguishes True from 1, which Python considers equal."""

    truth: bool
    value: object


def _cell(value: object) -> _Cell:
    return _Cell(isinstance(value, bool | np.bool_), value)


def _clean(text: str, missing: frozenset[str], kept: frozenset[str]) -> str | None:
    text = " ".join(text.split())
    gone = text in missing or (text.lower() in MISSING and text not in kept)
    return None if gone else text


def _numbers_among(marks: frozenset[str]) -> frozenset[float]:
    """Return the numbers among some texts."""
    return frozenset(number for number in map(_with_point, marks) if not np.isnan(number))


def has(column: "pd.Series", marks: frozenset[str]) -> bool:
    """Return whether a cell is one of the texts, or the same number as one of them."""
    numbers = _numbers_among(marks)
    if column.dtype.kind in "iuf":
        return bool(column.isin(numbers).any())
    for _, value in dict.fromkeys(map(_cell, column.dropna().tolist())):
        if isinstance(value, str) and " ".join(value.split()) in marks:
            return True
        if numbers and _with_point(str(value)) in numbers:
            return True
    return False


def words_for_missing(column: "pd.Series") -> dict[str, int]:
    """Return the words in a column that usually stand for a missing value, with their counts."""
    if column.dtype.kind in "iufbM":
        return {}
    seen: dict[str, int] = {}
    for value in column.tolist():
        if isinstance(value, str) and (text := value.strip()) and text.lower() in MISSING:
            seen[text] = seen.get(text, 0) + 1
    return seen


def numbers(column: "pd.Series", decimal: str | None, *, thousands: bool = False) -> Numbers:
    """Return a cleaned column as numbers.

    Args:
        column: the column from `clean`.
        decimal: the decimal sign; None to find it.
        thousands: whether a comma before exactly three digits in all cells separates thousands, as
            in files whose cells are separated by commas; else it is the decimal sign.
    """
    n = len(column)
    if column.dtype.kind in "iufb":
        return Numbers(column.to_numpy(np.float64, na_value=np.nan), np.zeros(n, np.bool_))
    if column.dtype.kind == "M":
        return Numbers(np.full(n, np.nan), np.ones(n, np.bool_))
    given = [None if value is None else str(value) for value in column.tolist()]
    comma = decimal == "," or (decimal is None and _has_commas(given, thousands=thousands))
    read = _with_comma if comma else _with_point
    known = {text: read(text) for text in dict.fromkeys(given) if text is not None}
    values = np.array([np.nan if t is None else known[t] for t in given], np.float64)
    wrong = np.array([t is not None and np.isnan(known[t]) for t in given], np.bool_)
    return Numbers(values, wrong, comma and any("," in text for text in known))


def _has_commas(given: list[str | None], *, thousands: bool) -> bool:
    """Return whether commas are a column's decimal signs: some cell has one, none a point.

    In a number with two commas, or with a point after a comma, the commas separate thousands.
    """
    with_comma = [text for text in given if text is not None and "," in text]
    if not with_comma or not all(_COMMA.fullmatch(text) for text in with_comma):
        return False
    if thousands and all(_THOUSANDS.fullmatch(text) and text[0] != "0" for text in with_comma):
        return False
    points = (text for text in given if text is not None and "," not in text and "." in text)
    return not any(_NUMBER.fullmatch(text) for text in points)  # "k.A." says nothing of points


def _with_point(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    return float(text.replace(",", "")) if _THOUSANDS.fullmatch(text) else np.nan


def _with_comma(text: str) -> float:
    if _COMMA.fullmatch(text):
        return float(text.replace(".", "").replace(",", "."))
    return np.nan


def is_number_column(found: Numbers) -> bool:
    """Return whether a column consists of numbers, except for a few faulty cells."""
    filled = int((~np.isnan(found.numbers)).sum())
    return filled > 0 and int(found.wrong.sum()) <= _MOST * (filled + int(found.wrong.sum()))


def dates(column: "pd.Series") -> tuple[NDArray[np.float64], str] | None:
    """Return a column of dates as days since 1970, NaN where missing, and the texts' format.

    Times of day with an offset, or with Z, are converted to UTC.

    Returns:
        The days, shape (n,), and the format, empty for typed dates. None if it is no column of
            dates.
    """
    import pandas as pd

    if column.dtype.kind == "M":
        return _days(column), ""
    known = column.dropna()
    if not len(known) or not all(isinstance(value, str) for value in known.head(_SAMPLE)):
        return _python_dates(column)
    for form in _DATES:
        # The first cells refuse most formats, without the cost of reading a whole column.
        for part in (known.head(_SAMPLE), known):
            parsed = pd.to_datetime(part, format=form, errors="coerce", utc=True)
            if parsed.isna().any():
                break
        else:
            whole = pd.to_datetime(column, format=form, errors="coerce", utc=True)
            return _days(whole), form
    return None


def _python_dates(column: "pd.Series") -> tuple[NDArray[np.float64], str] | None:
    """Return Python dates, which workbooks and databases have, as days since 1970."""
    import pandas as pd

    known = column.dropna()
    if not len(known) or not all(hasattr(value, "year") for value in known.head(_SAMPLE)):
        return None
    try:
        return _days(pd.to_datetime(column, utc=True)), ""
    except (ValueError, TypeError, OverflowError):
        return None


def _days(column: "pd.Series") -> NDArray[np.float64]:
    import pandas as pd

    if getattr(column.dt, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    since = column - pd.Timestamp("1970-01-01")
    return np.asarray(since.dt.total_seconds().to_numpy(np.float64, na_value=np.nan) / _DAY)


def is_ambiguous(column: "pd.Series", form: str) -> bool:
    """Return whether dates of the form day/month/year could also be month/day/year."""
    if form != "%d/%m/%Y":
        return False
    import pandas as pd

    other = pd.to_datetime(column.dropna(), format="%m/%d/%Y", errors="coerce")
    return not bool(other.isna().any())
