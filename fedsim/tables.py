"""Tables of texts, as rich draws them in a terminal, and as HTML for a notebook."""

import re
from collections.abc import Sequence
from html import escape as escaped
from io import StringIO
from math import isinf, isnan
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedsim.fitted import Fitted
from fedsim.visible import visible

if TYPE_CHECKING:  # importing pandas takes half a second: whoever has a table has it
    import pandas as pd

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)")

_PREFIXES = (*"qryzafpnµm", "", *"kMGTPEZYRQ")
"""Of units, for each third power of ten, from -30 to 30."""


_FORMULA = re.compile(r"[=+\-@\t\r]")


def as_csv(frame: "pd.DataFrame") -> bytes:
    """Return a table as comma-separated values, without its index.

    A text that a spreadsheet would take for a formula (it begins with = + - or @, a tab or a
    carriage return) has an apostrophe before it, which spreadsheets do not show. Numbers stay as
    they are, negative ones among them.
    """
    named = frame.rename(columns=_inert)
    for column in named.columns:
        if named[column].dtype.kind not in "biufcmM":
            named[column] = named[column].map(_inert)
    return named.to_csv(index=False).encode()


def _inert(cell: object) -> object:
    """Return a cell that no spreadsheet computes.

    >>> [_inert(cell) for cell in ("=1+1", "-", -1.5, "gd", "-2")]
    ["'=1+1", '-', -1.5, 'gd', '-2']
    """
    if not isinstance(cell, str) or len(cell) == 1 or not _FORMULA.match(cell):
        return cell
    return cell if _NUMBER.fullmatch(cell) else f"'{cell}"


def plain(title: str, keys: int = 1) -> Table:
    """Return a table in the common style, without columns.

    Args:
        title: above it.
        keys: how many columns, from the left, say what a row is of.
    """
    table = Fitted(title=escape(title), box=SIMPLE, padding=(0, 1, 0, 0))
    table.keys = keys
    return table


def listing(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], keys: int = 1
) -> Table:
    """Return a plain table of texts; `keys` columns, from the left, say what a row is of."""
    table = plain(title, keys)
    for head in heads:
        table.add_column(head)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def quantity(value: float, unit: str = "") -> str:
    """Return a figure for reading: a count, or three digits of a quantity with an SI prefix.

    >>> quantity(1062), quantity(2.5e6, "bit"), quantity(float("nan"), "s")
    ('1,062', '2.5 Mbit', '-')
    """
    if isnan(value):
        return "-"
    if isinf(value):
        text = f"{value:g} {unit}".rstrip()
    elif unit:
        digits, power = f"{value or 0.0:.2e}".split("e")
        step = max(-10, min(int(power) // 3, 10))
        scaled = float(f"{digits}e{int(power) - 3 * step}")
        text = f"{scaled:g} {_PREFIXES[step + 10]}{unit}"
    else:
        text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return text.replace("-", "\N{MINUS SIGN}")


def as_text(table: Table, width: int = 100) -> str:
    """Return a table as lines of text, at most `width` characters wide."""
    stream = StringIO()
    Console(file=stream, width=width, color_system=None, force_jupyter=False).print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def as_html(table: Table) -> str:
    """Return a table as HTML, for a notebook: texts alone, numbers to the right."""
    sides = ["right" if column.justify == "right" else "left" for column in table.columns]
    heads = _row("th", [str(column.header) for column in table.columns], sides)
    columns = [list(map(str, column.cells)) for column in table.columns]
    lines = [_row("td", cells, sides) for cells in zip(*columns, strict=True)]
    above, below = (_line(text) for text in (table.title, table.caption))
    body = "".join(f"{line}\n" for line in lines)
    return f"{above}<table>\n<thead>{heads}</thead>\n<tbody>\n{body}</tbody>\n</table>\n{below}"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    pairs = zip(cells, sides, strict=True)
    parts = [f'<{tag} style="text-align: {side}">{_shown(cell)}</{tag}>' for cell, side in pairs]
    return f"<tr>{''.join(parts)}</tr>"


def _line(text: object) -> str:
    return f"<p>{_shown(str(text))}</p>\n" if text else ""


def _shown(markup: str) -> str:
    return escaped(visible(Text.from_markup(markup).plain))
