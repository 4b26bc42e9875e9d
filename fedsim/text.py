"""Tables of texts, as rich draws them in a terminal, and as HTML for a notebook."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from html import escape as escaped
from io import StringIO
from math import isfinite, isinf, isnan
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

# Tables that stay readable in a narrow terminal: no number and no name is broken in the middle.
#
# If the columns do not fit beside one another, prose is wrapped at its words first; then the table
# continues below in further blocks of columns, which repeat the key columns, as in pandas.

_PROSE = 20  # characters: a longer text with blanks may be wrapped
_LONGEST = 32  # characters of a word; a longer one may be folded


class Fitted(Table):
    """A rich table that is laid out for the width of the terminal.

    Attributes:
        keys: the number of key columns, from the left, which name a row.
    """

    keys: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the title, as wide as the terminal, then block after block."""
        if self.title:
            yield console.render_str(str(self.title), style="table.title", highlight=False)
        for block in self._blocks(console, options.max_width):
            yield from Table.__rich_console__(block, console, options)
        if self.caption:
            yield console.render_str(str(self.caption), style="table.caption", highlight=False)

    def _blocks(self, console: Console, width: int) -> Iterator["Fitted"]:
        """Yield blocks of columns that fit beside one another, each with the key columns."""
        texts = [_texts(console, column) for column in self.columns]
        floors = [_floor(*each) for each in texts]
        whole = [max(map(_widest, (head, *cells))) for head, cells in texts]
        for places in _divide(floors, self.keys, width):
            block = copy(self)
            block.title = block.caption = None
            room = width - _between(len(places))
            fitting = _fitting([whole[n] for n in places], [floors[n] for n in places], room)
            block.columns = [
                replace(self.columns[place], _index=number, width=size, no_wrap=False)
                for number, (place, size) in enumerate(zip(places, fitting, strict=True))
            ]
            for column in block.columns:
                column.overflow = "fold"
            yield block


def _texts(console: Console, column: Column) -> tuple[Text, list[Text]]:
    """Return the rendered head of a column and its cells."""
    head, *cells = (console.render_str(str(text)) for text in (column.header, *column.cells))
    return head, cells


def _floor(head: Text, cells: Sequence[Text]) -> int:
    """Return the smallest width of a column: prose and heads may be wrapped, numbers not."""
    longest = max((_word(cell) if _is_prose(cell) else _widest(cell) for cell in cells), default=1)
    prose = min(_PROSE, max(map(_widest, cells))) if any(map(_is_prose, cells)) else 1
    return max(1, _word(head), prose, min(longest, _LONGEST))


def _is_prose(text: Text) -> bool:
    return _widest(text) > _PROSE and " " in text.plain


def _widest(text: Text) -> int:
    return max((line.cell_len for line in text.split("\n", allow_blank=True)), default=1)


def _word(text: Text) -> int:
    return max((Text(word).cell_len for word in text.plain.split()), default=1)


def _between(columns: int) -> int:
    """Return the width of a table's edges and separators."""
    return 2 * columns + 1


def _divide(floors: Sequence[int], keys: int, width: int) -> Iterator[list[int]]:
    """Yield the numbers of columns that fit beside one another, block by block."""
    first = list(range(min(keys, len(floors))))
    block = list(first)
    for place in range(len(first), len(floors)):
        tried = [*block, place]
        full = sum(floors[n] for n in tried) + _between(len(tried)) > width
        if full and len(block) > len(first):
            yield block
            tried = [*first, place]
        block = tried
    yield block


def _fitting(whole: Sequence[int], floors: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit into a total width; the widest are narrowed first."""
    widths = list(whole)
    while sum(widths) > room:
        wide = [n for n, width in enumerate(widths) if width > floors[n]]
        wide = wide or [n for n, width in enumerate(widths) if width > 1]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


# Escaping of characters that would hide, reorder or restyle text.
#
# Names come from files and folders of unknown origin. A character that is invisible, or reverses
# the direction of the text after it, is replaced by its escape sequence; terminal, page and figures
# all use this.

_KEPT = "\n\u200c\u200d"
"""Line ends, and the zero-width joiners that several scripts need."""


def visible(text: str) -> str:
    r"""Return a text in which every character is visible.

    >>> print(visible("a\u202eb\x1b[1m, \u00e9 \u4e2d"))
    a\u202eb\x1b[1m, é 中
    """
    if text.isprintable():
        return text
    return "".join(each if _is_seen(each) else _escape(each) for each in text)


def _is_seen(character: str) -> bool:
    spaces = unicodedata.category(character) == "Zs"
    return spaces or character in _KEPT or character.isprintable()


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


if TYPE_CHECKING:  # importing pandas takes half a second: callers with a table have it
    import pandas as pd

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)")

_PREFIXES = (*"qryzafpnµm", "", *"kMGTPEZYRQ")
"""SI prefixes, for each third power of ten, from -30 to 30."""


_FORMULA = re.compile(r"[=+\-@\t\r]")


def as_csv(frame: "pd.DataFrame") -> bytes:
    """Return a table as comma-separated values, without its index.

    A text that a spreadsheet would take for a formula (beginning with = + - or @, a tab or a
    carriage return) is preceded by an apostrophe, which spreadsheets do not show. Numbers,
    negative ones included, stay as they are.
    """
    named = frame.rename(columns=_inert)
    for column in named.columns:
        if named[column].dtype.kind not in "biufcmM":
            named[column] = named[column].map(_inert)
    return named.to_csv(index=False).encode()


def _inert(cell: object) -> object:
    """Return a cell that no spreadsheet evaluates.

    >>> [_inert(cell) for cell in ("=1+1", "-", -1.5, "gd", "-2")]
    ["'=1+1", '-', -1.5, 'gd', '-2']
    """
    if not isinstance(cell, str) or len(cell) == 1 or not _FORMULA.match(cell):
        return cell
    return cell if _NUMBER.fullmatch(cell) else f"'{cell}"


def plain(title: str, keys: int = 1) -> Table:
    """Return a table in the common style, without columns.

    Args:
        title: the line above it.
        keys: the number of key columns, from the left.
    """
    table = Fitted(title=escape(title), box=SIMPLE, padding=(0, 1, 0, 0))
    table.keys = keys
    return table


def listing(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], keys: int = 1
) -> Table:
    """Return a plain table of texts, the first `keys` columns of which are keys."""
    table = plain(title, keys)
    for head in heads:
        table.add_column(head)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def format_number(value: float, form: str) -> str:
    """Format a number in so many digits, halves away from zero, as its shortest decimal reads.

    Python itself rounds the binary value, and halves to the even digit: 17.25 to 17.2, but 34.75 to
    34.8, and 2.675, which is a little less in binary, to 2.67.

    Args:
        value: the number; infinite ones and NaN are as Python has them.
        form: of Python's formats that state a precision, with f, e, g or %: ".3g", ",.1f".

    >>> [format_number(value, ".1f") for value in (17.25, 34.75, -0.25)]
    ['17.3', '34.8', '-0.3']
    >>> format_number(2.675, ".3g"), format_number(0.0125, ".0%"), format_number(99950, ".3g")
    ('2.68', '1%', '1e+05')
    """
    number = float(value)
    if not isfinite(number) or not number:
        return format(number, form)
    digits, exact = int(form.rpartition(".")[2][:-1]), Decimal(repr(number))
    first = exact.adjusted()  # the power of ten of the first digit; below, that of the last one
    last = {"f": -digits, "%": -digits - 2, "e": first - digits}.get(form[-1], first - digits + 1)
    shortest = exact.as_tuple().exponent
    if isinstance(shortest, int) and shortest < last:
        exact = exact.quantize(Decimal(1).scaleb(last), ROUND_HALF_UP)
    return format(float(exact), form)


def quantity(value: float, unit: str = "") -> str:
    """Format a number: a count in full, a quantity with three digits and an SI prefix.

    >>> quantity(1062), quantity(2.5e6, "bit"), quantity(float("nan"), "s")
    ('1,062', '2.5 Mbit', '-')
    """
    if isnan(value):
        return "-"
    if isinf(value):
        text = f"{value:g} {unit}".rstrip()
    elif unit:
        digits, power = format_number(value or 0.0, ".2e").split("e")
        step = max(-10, min(int(power) // 3, 10))
        scaled = float(f"{digits}e{int(power) - 3 * step}")
        text = f"{scaled:g} {_PREFIXES[step + 10]}{unit}"
    else:
        text = format_number(value, ",.0f" if float(value).is_integer() else ",.1f")
    return text.replace("-", "\N{MINUS SIGN}")


def as_text(table: Table, width: int = 100) -> str:
    """Return a table as lines of text, at most `width` characters wide."""
    stream = StringIO()
    Console(file=stream, width=width, color_system=None, force_jupyter=False).print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def as_html(table: Table) -> str:
    """Return a table as HTML for a notebook: no styles but the alignment of columns."""
    sides = ["right" if column.justify == "right" else "left" for column in table.columns]
    heads = _row("th", [str(column.header) for column in table.columns], sides)
    columns = [list(map(str, column.cells)) for column in table.columns]
    lines = [_row("td", cells, sides) for cells in zip(*columns, strict=True)]
    above, below = (_line(text) for text in (table.title, table.caption))
    body = "".join(f"{line}\n" for line in lines)
    return f"{above}<table>\n<thead>{heads}</thead>\n<tbody>\n{body}</tbody>\n</table>\n{below}"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    pairs = zip(cells, sides, strict=True)
    parts = [
        f'<{tag} style="text-align: {side}">{_cell_html(cell)}</{tag}>' for cell, side in pairs
    ]
    return f"<tr>{''.join(parts)}</tr>"


def _line(text: object) -> str:
    return f"<p>{_cell_html(str(text))}</p>\n" if text else ""


def _cell_html(markup: str) -> str:
    return escaped(visible(Text.from_markup(markup).plain))
