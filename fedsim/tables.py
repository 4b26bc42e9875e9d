"""Tables of texts, as rich draws them in a terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table


def plain(title: str) -> Table:
    """Return a table in the common style, without columns."""
    return Table(title=escape(title), title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))


def listing(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a plain table of texts."""
    table = plain(title)
    for head in heads:
        table.add_column(head)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table
