"""The roles of the columns of a table: number, category, date, identifier, free text.

A role follows from the cells alone, by fixed rules, unless the scenario gives it. All columns that
cannot be used are reported together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError
from fedsim.problems.tables import cells

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

Role = Literal[
    "label", "client", "number", "category", "date", "identifier", "text", "empty", "constant",
    "dropped",
]  # fmt: skip

FEATURES: frozenset[str] = frozenset({"number", "category", "date"})
"""The roles of columns that become features."""

_CATEGORIES = 50
"""A column with at most this many distinct texts is a category."""

_SHARE, MOST = 0.1, 500
"""A column with more texts, up to `MOST`, is a category if each has ten rows or more on average."""

ROWS = 20
"""The least number of rows from which distinct cells allow a conclusion."""

_WORDS = 3.0  # words per cell, on average, above which texts are free text
_UNIQUE = 0.95  # share of distinct cells from which texts identify rows
_MARKS = 3  # distinct texts among numbers, at most, that may stand for missing values
_SHOWN = 30  # characters of a cell in a message


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, and its role.

    Attributes:
        name: the name of the column.
        type: the type of its cells: "number", "text", "date", "truth value", "nothing".
        role: what it is used for.
        missing: the number of missing cells.
        reason: why it has this role, or cannot be used; may be empty.
        numbers: of the cells, shape (n,), NaN where missing; in a category, the position of each
            cell's text in `texts`. None if it becomes no feature.
        texts: the distinct texts of a category, ascending.
        marks: the few texts among the numbers of a column, which may stand for missing values.
    """

    name: str
    type: str
    role: Role
    missing: int
    reason: str = ""
    numbers: NDArray[np.float64] | None = None
    texts: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    @property
    def faulty(self) -> bool:
        """Whether it cannot become a feature, and must be left out or given another role."""
        return self.role in {"identifier", "text"} and self.type != "number"


def column_of(
    column: "pd.Series", *, decimal: str | None, wanted: str | None = None, thousands: bool = False
) -> TableColumn:
    """Return a column with its role.

    Args:
        column: cleaned (`cells.clean`).
        decimal: the decimal sign; None to find it.
        wanted: the role that the scenario gives it: number, category or date.
        thousands: see `cells.numbers`.

    Raises:
        DataError: cells do not fit the role that the scenario gives.
    """
    name, missing = str(column.name), int(column.isna().sum())
    if missing == len(column):
        return TableColumn(name, "nothing", "empty", missing, "no cell has a value")
    if wanted == "category":
        return _category(column, "given")
    if wanted == "date":
        return _date(column, required=True)
    parsed = cells.numbers(column, decimal, thousands=thousands)
    if wanted == "number" or cells.is_number_column(parsed):
        return _number(column, parsed)
    if (date := cells.dates(column)) is not None:
        return _date(column, found=date)
    texts = _texts(column)
    # Numbers with a mark for missing ones are reported as such: giving the mark is the remedy.
    return _number(column, parsed) if texts.faulty and _has_marks(column, parsed) else texts


def _has_marks(column: "pd.Series", found: cells.Numbers) -> bool:
    """Return whether most cells are numbers, and all others one of a few texts."""
    others = column[found.wrong].nunique()
    return 0 < others <= _MARKS and 2 * int(found.wrong.sum()) < int(column.notna().sum())


def _number(column: "pd.Series", found: cells.Numbers) -> TableColumn:
    name, missing = str(column.name), int(column.isna().sum())
    if found.wrong.any():
        rows = np.flatnonzero(found.wrong)
        seen = [_shown(column.iloc[int(row)]) for row in rows]
        marks = ", ".join(map(repr, dict.fromkeys(seen)))
        few = "1 cell is" if len(rows) == 1 else f"{len(rows)} cells are"
        reason = f"{few} no number: {marks[:80]}, first in row {rows[0] + 1}"
        texts = tuple(dict.fromkeys(str(column.iloc[int(row)]) for row in rows))
        few_marks = texts if len(texts) <= _MARKS else ()
        return TableColumn(name, "text", "text", missing, reason, marks=few_marks)
    known = found.numbers[~np.isnan(found.numbers)]
    kind = "truth value" if column.dtype.kind == "b" else "number"
    if (known == known[0]).all() and not missing:
        return TableColumn(name, kind, "constant", missing, f"every cell is {known[0]:g}")
    if _counts_rows(name, known, missing):
        text = "a different whole number in every row"
        return TableColumn(name, kind, "identifier", missing, text, found.numbers)
    reason = "decimal comma" if found.comma else ""
    return TableColumn(name, kind, "number", missing, reason, found.numbers)


def _counts_rows(name: str, known: NDArray[np.float64], missing: int) -> bool:
    """Return whether whole numbers identify rows: all differ, and are consecutive or named so."""
    if missing or len(known) < ROWS or not np.array_equal(known, np.rint(known)):
        return False
    if len(np.unique(known)) < len(known):
        return False
    parts = name.lower().replace("-", "_").replace(" ", "_").split("_")
    named = bool({"id", "index", "nr", "no", "number", "key", "uuid", "row"} & set(parts))
    return named or bool(np.ptp(known) == len(known) - 1)


def _date(
    column: "pd.Series",
    found: "tuple[NDArray[np.float64], str] | None" = None,
    *,
    required: bool = False,
) -> TableColumn:
    name, missing = str(column.name), int(column.isna().sum())
    found = found or cells.dates(column)
    if found is None:
        if not required:
            raise ValueError("no column of dates")
        seen = _shown(column.dropna().iloc[0])
        text = f"{name!r} is given as a date, but its cells, such as {seen!r}, do not all have one"
        raise DataError("data.columns", f"{text} form; expected such as 2021-04-03 or 03.04.2021")
    days, form = found
    reason = "days since 1970"
    if cells.is_ambiguous(column, form):
        reason += "; read as day/month/year, though month/day/year would be possible, too"
    return TableColumn(name, "date", "date", missing, reason, days)


def _shown(cell: object) -> str:
    """Return a cell for a message; a long text ends in "…"."""
    text = str(cell)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1].rstrip()}…"


def _texts(column: "pd.Series") -> TableColumn:
    """Return a column of texts: a category, an identifier, or free text."""
    name, missing = str(column.name), int(column.isna().sum())
    known = column.dropna().astype(str)
    distinct, n = known.nunique(), len(known)
    words = float(known.head(1000).str.count(" ").mean()) + 1
    first = _shown(known.iloc[0])
    if distinct >= _UNIQUE * n and n >= ROWS:
        if words > _WORDS:
            return TableColumn(name, "text", "text", missing, f"free text, such as {first!r}")
        text = f"a different text in nearly every row, such as {first!r}"
        return TableColumn(name, "text", "identifier", missing, text)
    if distinct > _CATEGORIES and (distinct > MOST or distinct > _SHARE * n):
        kind = "free text" if words > _WORDS else f"{distinct} different texts in {n} rows"
        return TableColumn(name, "text", "text", missing, f"{kind}, such as {first!r}")
    if distinct == 1 and not missing:
        return TableColumn(name, "text", "constant", missing, f"every cell is {first!r}")
    return _category(column)


def _category(column: "pd.Series", reason: str = "") -> TableColumn:
    name, missing = str(column.name), int(column.isna().sum())
    codes, texts = number_texts(column)
    few = ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")
    return TableColumn(
        name, "text", "category", missing, reason or f"{len(texts)} kinds: {few}", codes, texts
    )


def number_texts(column: "pd.Series") -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the index of each cell's text, NaN where missing, and the texts, ascending.

    Numbers are ordered as numbers, and everything else as texts.
    """
    known = column.dropna()
    distinct = sorted({as_text(value) for value in known.tolist()}, key=_order)
    places = {text: float(place) for place, text in enumerate(distinct)}
    missing = column.isna().tolist()
    values = [
        np.nan if gone else places[as_text(value)]
        for value, gone in zip(column.tolist(), missing, strict=True)
    ]
    return np.array(values, np.float64), tuple(distinct)


def as_text(value: object) -> str:
    """Return a cell as a text; a whole number without a decimal point.

    >>> as_text(2.0), as_text(2.5), as_text("2.0")
    ('2', '2.5', '2.0')
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _order(text: str) -> tuple[int, float, str]:
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def check_usable(columns: Sequence[TableColumn], where: str, key: str = "data") -> None:
    """Check that all columns that are not left out can become features.

    Raises:
        DataError: some cannot; the text names each with the reason, and the line to write.
    """
    faulty = [column for column in columns if column.faulty]
    if not faulty:
        return
    lines = [f"  {column.name}: {column.reason}" for column in faulty]
    names = ", ".join(quote(column.name) for column in faulty)
    many = "1 column" if len(faulty) == 1 else f"{len(faulty)} columns"
    head = f"{many} of {where} cannot be a feature:"
    advice = [f"leave {'it' if len(faulty) == 1 else 'them'} out with `drop: [{names}]`"]
    if any(" no number: " in column.reason for column in faulty):
        advice.append("or give `missing_marks: [...]`, the texts that stand for a missing value")
    raise DataError(key, "\n".join([head, *lines, "; ".join(advice)]))


def quote(name: str) -> str:
    """Return a name as YAML takes it within brackets.

    >>> quote("patient_id"), quote("a, b"), quote("yes")
    ('patient_id', "'a, b'", "'yes'")
    """
    bare = name.replace("_", "").replace(" ", "").isalnum() and name == name.strip()
    known = name.lower() in {"yes", "no", "true", "false", "null", "on", "off"}
    plain = bare and not known and not name[:1].isdigit()
    return name if plain else "'" + name.replace("'", "''") + "'"


def place_of(frame: "pd.DataFrame", wanted: str | int, key: str, where: str) -> int:
    """Return the index, from 0, of a column given by its name, or by its number from 1.

    Raises:
        DataError: there is no such column, for which the nearest name is suggested; or a number is
            the name of one column and the position of another.
    """
    names = [str(name) for name in frame.columns]
    counted = wanted - 1 if isinstance(wanted, int) and 1 <= wanted <= len(names) else None
    named = names.index(str(wanted)) if str(wanted) in names else None
    if named is not None and counted not in (None, named):
        text = f"got {wanted}, the name of column {named + 1} of {where} and the number of another,"
        raise DataError(f"data.{key}", f"{text} {names[counted or 0]!r}; give a name in quotes,"
                        f" '{wanted}' or {quote(names[counted or 0])}")  # fmt: skip
    for place in (named, counted):
        if place is not None:
            return place
    hint = nearest(str(wanted), names)
    shown = ", ".join(name[:60] for name in names[:8]) + (", ..." if len(names) > 8 else "")
    raise DataError(f"data.{key}", f"{where} has no column {wanted!r}{hint or ';'} it has"
                    f" {len(names)}: {shown}")  # fmt: skip
