"""A table that stays readable in a narrow terminal: no number and no name is broken in the middle.

Where the columns do not go beside one another, prose is wrapped at its words first; then the table
goes on below, in further blocks of columns that begin with the same keys, as pandas prints them.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table
from rich.text import Text

_PROSE = 20  # characters: what is longer and has blanks is read in lines
_LONGEST = 32  # characters of a word; a longer one may be folded


class Fitted(Table):
    """A table of rich's that is laid out for the width it is printed in.

    Attributes:
        keys: how many columns, from the left, say what a row is of.
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
        """Yield the table's columns as they go beside one another, each block with the keys."""
        texts = [_texts(console, column) for column in self.columns]
        floors = [_floor(*each) for each in texts]
        whole = [max(map(_widest, (head, *cells))) for head, cells in texts]
        for places in _divided(floors, self.keys, width):
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
    """Return the head of a column and its cells, as they are drawn."""
    head, *cells = (console.render_str(str(text)) for text in (column.header, *column.cells))
    return head, cells


def _floor(head: Text, cells: Sequence[Text]) -> int:
    """Return how narrow a column may become: prose is wrapped, and so are heads."""
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
    """Return what a table takes beside its columns: its edges, and a blank and a line each."""
    return 2 * columns + 1


def _divided(floors: Sequence[int], keys: int, width: int) -> Iterator[list[int]]:
    """Yield blocks of columns that go beside one another, as many as go."""
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
    """Return the widths of columns that go into a room, of which the widest give way first."""
    widths = list(whole)
    while sum(widths) > room:
        wide = [n for n, width in enumerate(widths) if width > floors[n]]
        wide = wide or [n for n, width in enumerate(widths) if width > 1]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths
