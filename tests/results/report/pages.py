"""Reading a report as a test reads it: its tables, its figures, its tags."""

import html
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

VOID = {"meta", "link", "br", "input", "img", "hr"}

Attributes = Mapping[str, str | None]


_DRAWN = re.compile(
    r'<(?:div class="drawing"|template) data-choice="([^"]*)" data-note="([^"]*)">(.*?)'
    r"</(?:div|template)>",
    re.DOTALL,
)

_SVG = re.compile(r'<svg class="drawn"[^>]*role="img".*</svg>', re.DOTALL)


class Shown(NamedTuple):
    """A figure of a page: its drawing, and what stands below it."""

    drawing: str
    note: str


class Page(HTMLParser):
    """A parsed page.

    Attributes:
        tags: every tag with its attributes, in order.
        open: tags that were not closed, or closed out of order.
        tables: rows of texts, by the table's caption; the first row are the heads.
        values: the figures behind the cells, None for words; by the table's caption.
        scripts: the texts of all scripts with their attributes.
        text: all that is read, scripts and styles left out.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, Attributes]] = []
        self.open: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.values: dict[str, list[list[float | None]]] = {}
        self.scripts: list[tuple[Attributes, str]] = []
        self.text = ""
        self._rows: list[list[str]] = []
        self._figures: list[list[float | None]] = []
        self._cell = False
        # Texts are compared by their words; that numbers keep their units is in `test_texts`.
        self.source = path.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
        self.feed(self.source)
        self.close()

    @property
    def figures(self) -> dict[str, dict[str, Shown]]:
        """The figures by name, and by the choices that they are shown for."""
        found: dict[str, dict[str, Shown]] = {}
        for plot in re.findall(r'<div class="plot".*?<p class="note"', self.source, re.DOTALL):
            own = found[re.findall(r'data-figure="([^"]*)"', plot)[0]] = {}
            for choices, note, drawing in _DRAWN.findall(plot):
                for choice in choices.split(" "):
                    own[choice] = Shown(_SVG.findall(drawing)[0], html.unescape(note))
        return found

    @property
    def options(self) -> dict[str, list[str]]:
        """What the menus offer, by the menus' names."""
        menus = re.findall(r'<select id="([^"]*)">(.*?)</select>', self.source, re.DOTALL)
        return {name: re.findall(r'<option value="([^"]*)"', own) for name, own in menus}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = dict(attrs)
        self.tags.append((tag, facts))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((facts, ""))
        if tag == "table":
            self._rows = self.tables[facts["aria-label"] or ""] = []
            self._figures = self.values[facts["aria-label"] or ""] = []
        if tag == "tr":
            self._rows.append([])
            self._figures.append([])
        if tag in {"td", "th"}:
            value = facts.get("data-value")
            self._cell = True
            self._rows[-1].append("")
            self._figures[-1].append(None if value is None else float(value))

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        elif tag not in VOID:
            self.open.append(f"/{tag}")
        if tag in {"td", "th"}:
            self._cell = False

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            facts, text = self.scripts[-1]
            self.scripts[-1] = facts, text + data
        elif inside != "style":
            self.text += data
            if self._cell:
                self._rows[-1][-1] += data.strip()

    def column(self, caption: str, head: str) -> list[float | None]:
        """Return the figures of a column of a table."""
        place = self.tables[caption][0].index(head)
        return [row[place] for row in self.values[caption][1:]]

    def words(self, caption: str, head: str) -> list[str]:
        """Return the texts of a column of a table."""
        place = self.tables[caption][0].index(head)
        return [row[place] for row in self.tables[caption][1:]]
