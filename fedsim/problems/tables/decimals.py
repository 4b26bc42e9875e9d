"""The decimal sign of a whole table, since one clear column settles it for all others.

"1.188" is a little more than one, or, in German notation, more than a thousand. A cell such as
"0,09" in any column shows which is meant. If there is no such cell, a note says how the cells were
read.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

from fedsim.problems.tables import cells

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""Three digits after a single point or comma, which may be a decimal sign or separate thousands."""

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
    """Texts of a column that show its decimal sign.

    Attributes:
        point: a text with a decimal point; empty if there is none.
        comma: a text with a decimal comma; empty if there is none.
        either: a text whose point or comma may also separate thousands; empty if there is none.
    """

    point: str
    comma: str
    either: str


class Decimal(NamedTuple):
    """The decimal sign of a table.

    Attributes:
        sign: None if each column decides separately.
        notes: which cells could be read otherwise; a sentence for each column.
    """

    sign: str | None
    notes: tuple[str, ...] = ()


def find_decimal(frame: "pd.DataFrame", given: str | None, *, thousands: bool = False) -> Decimal:
    """Return the decimal sign of a table of cleaned cells.

    Args:
        frame: the table; columns that already are numbers do not count.
        given: the sign that the scenario gives, which is then returned.
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
    """Return the texts of a column that show its decimal sign; None if few texts are numbers."""
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
