"""The tables of a page, their cells, and the choices of its menus."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

import numpy as np
import pandas as pd
from markupsafe import Markup, escape

from fedsim.core.text import breaks, format_number, in_unit, shared_unit, visible
from fedsim.results.analysis import quantity
from fedsim.results.analysis.plots.amounts import BARS

NOT_REACHED, FAILED = "not reached", "failed"
"""What a cell says of a run that did not reach its target, or failed."""


_MISSING = frozenset({"-", NOT_REACHED, FAILED})

MOST_LETTERS = 360
"""Longest text that is shown at once, in letters; of a longer one its begin is, and a reader opens
the rest."""

_LINE = 36  # letters beyond which the words of a cell go on in a second line


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table.

    Attributes:
        text: shown.
        value: the figure behind it, in the unit of its column; None for words.
        colour: of the mark in front of it; empty for none.
        under: a second line, in small letters.
        folded: shown in place of the text until the reader opens it; empty for the text.
        unit: of the value, without a prefix; empty for counts and words.
        ends: of the interval below the value; empty for none.
        sign: behind the value; empty for none.
    """

    text: str
    value: float | None = None
    colour: str = ""
    under: str = ""
    folded: str = ""
    unit: str = ""
    ends: tuple[float, ...] = ()
    sign: str = ""

    def read_in(self, unit: tuple[float, str]) -> "TableCell":
        """Return the cell with value and interval in a unit."""
        if not self.unit or self.value is None:
            return self
        texts = [in_unit(each, unit) for each in (self.value, *self.ends)]
        mean, ends = texts[0], texts[1:]
        numbers = [each.rpartition(" ")[0] for each in ends[:-1]]
        under = " to ".join([*numbers, *ends[-1:]]) if len(set(ends)) > 1 else ""
        return replace(self, text=f"{mean} {self.sign}".rstrip(), under=under or self.under)

    @property
    def wide(self) -> bool:
        """Whether it holds words that need several lines."""
        return self.value is None and " " in self.text and len(self.text) > _LINE

    @property
    def phrase(self) -> bool:
        """Whether it holds words that take two lines on a telephone."""
        return self.value is None and " " in self.text and len(self.text) > _LINE // 3


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table.

    Attributes:
        caption: above it.
        heads: of the columns.
        rows: the cells.
        note: below it; empty for none.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[TableCell]]
    note: str = ""

    def __post_init__(self) -> None:
        """Write the amounts of a column in one unit, if all can be read in it."""
        columns = (_in_one_unit(column) for column in zip(*self.rows, strict=True))
        object.__setattr__(self, "rows", [list(row) for row in zip(*columns, strict=True)])

    def numeric(self, column: int) -> bool:
        """Whether a column is of figures: all of its cells are one, or say that it is missing."""
        cells = [row[column] for row in self.rows]
        return all(cell.value is not None or cell.text in _MISSING for cell in cells)


def _in_one_unit(column: Sequence[TableCell]) -> Sequence[TableCell]:
    """Return the cells of a column, in one unit if there is one for all of them."""
    units = {cell.unit for cell in column if cell.value is not None}
    if len(units) != 1:
        return column
    values = [
        each for cell in column if cell.value is not None for each in (cell.value, *cell.ends)
    ]
    shared = shared_unit(values, units.pop())
    return column if shared is None else [cell.read_in(shared) for cell in column]


def number(value: float, unit: str = "") -> TableCell:
    """Return the cell of a figure: a count, or a quantity with an SI prefix."""
    known = float(value) if np.isfinite(value) else None
    return TableCell(quantity(float(value), unit), known, unit=unit)


def digits(value: float, most: int = 3) -> TableCell:
    """Return the cell of a figure without a unit, with so many digits."""
    return (
        TableCell(format_number(value, f",.{most}g"), float(value))
        if np.isfinite(value)
        else TableCell("-")
    )


def words(*texts: object) -> list[TableCell]:
    """Return the cells of some words; a long text waits until a reader opens it."""
    return [
        TableCell(text, folded=shortened(text) if len(text) > MOST_LETTERS else "")
        for text in map(str, texts)
    ]


def shortened(text: str) -> str:
    """Return the begin of a text of more than `MOST_LETTERS`."""
    return shorten(text, MOST_LETTERS // 3, placeholder=" \N{HORIZONTAL ELLIPSIS}")


def sentence(text: str, names: Iterable[str]) -> str:
    """Return a text with a capital letter in front, unless it begins with an identifier.

    Args:
        text: whose first word is one of the language, a name, or has a sign such as `_` or `=`.
        names: of variants.

    >>> sentence("the lowest gap", ["chb"]), sentence("chb reaches it", ["chb"])
    ('The lowest gap', 'chb reaches it')
    >>> sentence("test_accuracy=0.9: all", [])
    'test_accuracy=0.9: all'
    """
    word = text.partition(" ")[0].rstrip(",:;.")
    named = not word.isalpha() or any(re.match(rf"{re.escape(each)}\b", text) for each in names)
    return text if named else f"{text[:1].upper()}{text[1:]}"


def with_names(text: str, names: Iterable[str]) -> Markup:
    """Return a text as HTML in which identifiers are set as code.

    >>> print(with_names("gd < chb-2, chb", ["chb", "gd"]))
    <code>gd</code> &lt; chb-2, <code>chb</code>
    >>> print(with_names("runs/gd/seed-1 of gd", ["gd"]))
    runs/gd/seed-1 of <code>gd</code>
    """
    known = sorted({str(escape(visible(each))) for each in names}, key=len, reverse=True)
    if not known:
        return escape(visible(text))
    found = rf"(?<![\w&/-])({'|'.join(map(re.escape, known))})(?![\w/-])"
    marked = re.sub(found, _as_code, str(escape(visible(text))))
    return Markup(marked)  # noqa: S704 - escaped


def _as_code(found: re.Match[str]) -> str:
    mark = ' class="name"' if breaks(found[0]) else ""
    return f"<code{mark}>{found[0]}</code>"


def client_table(caption: str, amounts: pd.DataFrame, unit: str) -> PageTable | None:
    """Return the amounts of a few clients; None of many, who are told by their boxes.

    Args:
        caption: of the table.
        amounts: a row a client, its index what the client is called; a column a part.
        unit: of the amounts.
    """
    if len(amounts) > BARS:
        return None
    rows = [
        [*words(name), *(number(float(amount), unit) for amount in own)]
        for name, own in zip(amounts.index, amounts.to_numpy(), strict=True)
    ]
    return PageTable(caption, ("client", *amounts), rows)


def options(names: Iterable[tuple[object, str]]) -> list[tuple[str, str]]:
    """Return the choices of a menu: what names a figure, and what is read."""
    return [(str(value), text) for value, text in names]
