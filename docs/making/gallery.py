"""The gallery: every scenario that comes with fedsim, its question, and its result."""

from collections.abc import Mapping
from html import escape
from pathlib import Path

from making.blocks import code

from fedsim.scenario.examples import examples

_ROOT = Path(__file__).parents[2]
_FIGURES = _ROOT / "analysis/figures"

_DRAWN: Mapping[str, str] = {
    "fedda-low-rank": "fast-fedda-low-rank",
    "fedda-sparse": "fast-fedda-sparse",
    "fedsgm-breast-cancer": "fedsgm-f",
}
"""The figures of scenarios that have another name."""

_PAGES: Mapping[str, tuple[str, str]] = {
    "known": ("howto/five-papers.md", "its table"),
    "studies": ("../analysis/studies/README.md", "the study"),
    "papers": ("../analysis/papers/README.md", "published beside measured"),
}
"""By folder of the scenario: the page of its results, and the text of the link."""


def gallery() -> str:
    """Return a table of pictures and questions."""
    rows = "\n".join(_row(name, file) for name, file in examples().items())
    return f"<table>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _row(name: str, file: Path) -> str:
    question = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    said = [f"<b>{escape(question, quote=False)}</b>", code(f"fedsim run {name}")]
    if file.parent.name in _PAGES:
        page, words = _PAGES[file.parent.name]
        said.append(f'<a href="{page}">{words}</a>')
    figure = _FIGURES / f"{_DRAWN.get(name, name)}.png"
    shown = ""
    if figure.exists():
        address, words = f"../analysis/figures/{figure.name}", escape(question)
        picture = f'<img src="{address}" alt="{words}" width="360" loading="lazy">'
        shown = f'<a href="{address}">{picture}</a>'
    return f"<tr><td>{shown}</td><td>{'<br><br>'.join(said)}</td></tr>"
