"""The tables of a page, their cells, and the choices of its menus."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsim.core.text import format_number
from fedsim.results.analysis import quantity
from fedsim.results.analysis.plots.amounts import BARS

NOT_REACHED = "not reached"
"""What a cell says of a run that never got there."""


_MISSING = frozenset({"-", NOT_REACHED})


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table.

    Attributes:
        text: shown.
        value: the figure behind it, in the unit of its column; None for words.
        colour: of the mark in front of it; empty for none.
        under: a second line, in small letters.
        folded: shown in place of the text until the reader opens it; empty for the text.
    """

    text: str
    value: float | None = None
    colour: str = ""
    under: str = ""
    folded: str = ""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table: its caption, the heads of its columns, and its rows."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[TableCell]]

    def numeric(self, column: int) -> bool:
        """Whether a column is of figures: all of its cells are one, or say that it is missing."""
        cells = [row[column] for row in self.rows]
        return all(cell.value is not None or cell.text in _MISSING for cell in cells)


def number(value: float, unit: str = "") -> TableCell:
    """Return the cell of a figure: a count, or a quantity with an SI prefix."""
    return TableCell(quantity(float(value), unit), float(value) if np.isfinite(value) else None)


def digits(value: float, most: int = 3) -> TableCell:
    """Return the cell of a figure without a unit, with so many digits."""
    return (
        TableCell(format_number(value, f",.{most}g"), float(value))
        if np.isfinite(value)
        else TableCell("-")
    )


def words(*texts: object) -> list[TableCell]:
    """Return the cells of some words."""
    return [TableCell(str(text)) for text in texts]


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
