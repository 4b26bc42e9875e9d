"""The display of a notebook's cell, as text."""

import re
import threading
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table


class Cell:
    """The display of a notebook's cell, which records the lines that it shows."""

    def __init__(self) -> None:
        self.lines = list[str]()
        self.changed = threading.Event()

    def display(self, table: Table, *, display_id: bool) -> "Cell":
        assert display_id
        self.update(table)
        return self

    def update(self, shown: Any, *, raw: bool = False) -> None:
        self.lines.append(shown["text/plain"] if raw else self._text(shown))
        self.changed.set()

    @staticmethod
    def _text(table: Table) -> str:
        console = Console(width=120, file=StringIO())
        with console.capture() as captured:
            console.print(table)
        return captured.get().strip()

    @property
    def shares(self) -> list[int]:
        """The shares of all rounds that were shown, percent."""
        found = (re.search(r"(\d+)%", line) for line in self.lines)
        return [int(share[1]) for share in found if share]
