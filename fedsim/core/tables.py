"""Tables of texts, as rich draws them in a terminal, and as HTML for a notebook."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from html import escape as escaped
from io import StringIO

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from fedsim.core.text import unbroken, visible

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
        groups: the numbers of neighbouring columns after these that stay in one block, such as a
            figure beside the one that it is compared with; further columns stay alone.
    """

    keys: int = 1
    groups: Sequence[int] = ()

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
        floors = [_floor(*column) for column in texts]
        whole = [max(map(_widest, (head, *cells))) for head, cells in texts]
        for places in _divide(floors, self.keys, width, self.groups):
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


def _divide(
    floors: Sequence[int], keys: int, width: int, groups: Sequence[int] = ()
) -> Iterator[list[int]]:
    """Yield the numbers of columns that fit beside one another, block by block.

    A group of columns that does not fit into one block is divided.
    """

    def fit(places: Sequence[int]) -> bool:
        return sum(floors[n] for n in places) + _between(len(places)) <= width

    first = list(range(min(keys, len(floors))))
    block = list(first)
    for group in _grouped(range(len(first), len(floors)), groups):
        parts = [group] if fit([*first, *group]) else [[place] for place in group]
        for part in parts:
            if not fit([*block, *part]) and len(block) > len(first):
                yield block
                block = list(first)
            block = [*block, *part]
    yield block


def _grouped(places: Sequence[int], groups: Sequence[int]) -> Iterator[list[int]]:
    """Yield neighbouring places in groups of these sizes, and each further one alone."""
    start = 0
    for size in (*groups, *[1] * (len(places) - sum(groups))):
        yield list(places[start : start + size])
        start += size


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


def plain(title: str, keys: int = 1) -> Fitted:
    """Return a table in the common style, without columns.

    Args:
        title: the line above it.
        keys: the number of key columns, from the left.
    """
    table = Fitted(title=escape(title), box=SIMPLE, padding=(0, 1, 0, 0))
    table.keys = keys
    return table


def listing(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    keys: int = 1,
    groups: Sequence[int] = (),
) -> Table:
    """Return a plain table of texts; for `keys` and `groups` see `Fitted`."""
    table = plain(title, keys)
    table.groups = groups
    for head in heads:
        table.add_column(head)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


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
    head = f"<thead>{heads}</thead>\n" if table.show_header else ""
    above, below = (_line(text) for text in (table.title, table.caption))
    body = "".join(f"{line}\n" for line in lines)
    return f"{above}<table>\n{head}<tbody>\n{body}</tbody>\n</table>\n{below}"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    pairs = zip(cells, sides, strict=True)
    parts = [
        f'<{tag} style="text-align: {side}">{_cell_html(cell)}</{tag}>' for cell, side in pairs
    ]
    return f"<tr>{''.join(parts)}</tr>"


def _line(text: object) -> str:
    return f"<p>{_cell_html(str(text))}</p>\n" if text else ""


def _cell_html(markup: str) -> str:
    return escaped(unbroken(visible(Text.from_markup(markup).plain)))
