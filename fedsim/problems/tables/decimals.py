"""The decimal sign of a table: one for the whole table, since one column settles it for others.

"1.188" is a little more than one, or German for a thousand. A cell such as "0,09" in any column
says which; where none does, the reading is noted.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

from fedsim.problems.tables import cells

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""One group of three digits after a sign: a decimal, or thousands."""

_POINT = re.compile(
    r"[+-]?(?:(?:\d*\.\d+|\d+\.)(?:e[+-]?\d+)?|\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,})",
    re.IGNORECASE,
)
_COMMA = re.compile(
    r"[+-]?(?:\d*,\d+(?:e[+-]?\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,})", re.IGNORECASE
)
_WHOLE = re.compile(r"[+-]?\d+")
_MOST = 0.5  # share of the texts of a column that may be none of these


class Seen(NamedTuple):
    """What the texts of a column say of the decimal sign.

    Attributes:
        point, comma: a text that has the one or the other; empty if there is none.
        either: one that may have a decimal sign or divide thousands; empty likewise.
    """

    point: str
    comma: str
    either: str


class Decimal(NamedTuple):
    """The decimal sign of a table.

    Attributes:
        sign: None where each column decides by itself.
        notes: which cells could be read otherwise; a sentence for each column.
    """

    sign: str | None
    notes: tuple[str, ...] = ()


def find_decimal(frame: "pd.DataFrame", given: str | None, *, thousands: bool = False) -> Decimal:
    """Return the decimal sign of a table of cleaned cells.

    Args:
        frame: the table; its columns of numbers say nothing.
        given: the sign that the scenario gives; then nothing is looked for.
        thousands: see `cells.numbers`.
    """
    if given is not None:
        return Decimal(given)
    seen = {str(name): found for name in frame.columns if (found := _look(frame[name]))}
    points = {name: each.point for name, each in seen.items() if each.point and not each.comma}
    commas = {name: each.comma for name, each in seen.items() if each.comma and not each.point}
    sure = {".": points, ",": commas}
    sign = next((one for one, other in (".,", ",.") if sure[one] and not sure[other]), None)
    doubtful = {
        name: each.either
        for name, each in seen.items()
        if each.either and not each.point and not each.comma
        if sign is None or sign not in each.either  # else it is read as it looks, and settled
    }
    why = next(iter(sure[sign].items())) if sign else None
    notes = []
    for name, text in doubtful.items():
        read = cells.numbers(frame[name], sign, thousands=thousands).numbers
        notes.append(_note(name, text, float(read[frame[name].tolist().index(text)]), why))
    return Decimal(sign, tuple(notes))


def _look(column: "pd.Series") -> Seen | None:
    """Return what the texts of a column say; None if few of them are numbers."""
    if column.dtype.kind in "iufbM":
        return None
    texts = [text for text in dict.fromkeys(column.tolist()) if isinstance(text, str)]
    either = [text for text in texts if _EITHER.fullmatch(text)]
    points = [text for text in texts if _POINT.fullmatch(text) and not _EITHER.fullmatch(text)]
    commas = [text for text in texts if _COMMA.fullmatch(text) and not _EITHER.fullmatch(text)]
    whole = sum(_WHOLE.fullmatch(text) is not None for text in texts)
    if len(either) + len(points) + len(commas) + whole <= _MOST * len(texts):
        return None
    first = [next(iter(found), "") for found in (points, commas, either)]
    return Seen(*first) if any(first) else None


def _note(name: str, text: str, value: float, why: tuple[str, str] | None) -> str:
    said = f"the column {name!r}: {text} is read as {value:g}"
    if why is not None:
        return f"{said}, since the column {why[0]!r} has {why[1]}; `decimal` says otherwise"
    whole = float(re.sub(r"[.,]", "", text))
    other = whole if value != whole else whole / 1000
    return f"{said}, though {other:g} would be possible, too; `decimal` says which"
