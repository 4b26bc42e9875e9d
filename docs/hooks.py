"""A hook of MkDocs: pages are written so that they read well in a repository, too.

There an anchor is a tag in front of its heading, links in tables lead to files, formulas are TeX,
and the pages on studies and papers are beside the scripts, outside of this folder.
"""

import re
from html import unescape
from pathlib import Path
from posixpath import dirname, join, relpath
from typing import Any

from latex2mathml.converter import convert
from making.tutorials import with_notebooks
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]

_ANCHOR = re.compile(r'^<a id="([^"]+)"></a>\n+(#+ .*)$', re.MULTILINE)
_LINK = re.compile(r'href="([\w/.-]+)\.md(#[^"]*)?"')
_FIGURE = re.compile(r'(?<=[("])(?:(?:\.\./)+analysis|\.\.)/figures/')
_OUTSIDE = re.compile(r"\[([^]]+)\]\(\.\./\.\./[^)]*\)")

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)

_GUESTS = {
    "studies.md": _ROOT / "analysis/studies/README.md",
    "claim_robustness.md": _ROOT / "analysis/claim_robustness.md",
    "claims.md": _ROOT / "analysis/claims.md",
    "claim_stages.md": _ROOT / "analysis/claim_stages.md",
    "reality.md": _ROOT / "analysis/reality/README.md",
    "calibrated-reality.md": _ROOT / "analysis/reality/calibrating.md",
    "papers.md": _ROOT / "analysis/papers/README.md",
    "papers-format.md": _ROOT / "analysis/papers/FORMAT.md",
}
"""Pages of the site that stand elsewhere in the repository."""

_BOOSTS = {
    "howto/": 4,
    "explanation/": 4,
    "scenario/observing.md": 4,
    "glossary.md": 2,
    "reference/": 0.5,
    "changelog.md": 0.5,
}
"""Factors on the rank of search results, by the beginning of a page's path."""


def on_files(files: Files, config: Any, **_: object) -> Files:
    """Take in the pages that stand elsewhere, and their figures; take notebooks for pages."""
    figures = {f"figures/{path.name}": path for path in (_ROOT / "analysis/figures").glob("*.png")}
    for address, path in (_GUESTS | figures).items():
        files.append(File.generated(config, address, abs_src_path=str(path)))
    return with_notebooks(files, config)


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Give headings their anchors, links their pages, and pages their rank in the search."""
    source, address = page.file.src_uri, page.url
    for beginning, boost in _BOOSTS.items():
        if source.startswith(beginning):
            page.meta["search"] = {"boost": boost}
    for name, path in _GUESTS.items():
        markdown = markdown.replace(f"../{path.relative_to(_ROOT).as_posix()}", name)
    if source in _GUESTS:
        home = str(_GUESTS[source].parent)
        for name, path in _GUESTS.items():
            markdown = markdown.replace(f"]({relpath(str(path), home)})", f"]({name})")
        markdown = _OUTSIDE.sub(r"\1", markdown)

    def led(found: re.Match[str]) -> str:
        target = join(dirname(source), found[1])
        return f'href="{relpath(target, address or ".")}/{found[2] or ""}"'

    inside = relpath("figures", dirname(source) or ".")
    html = relpath("figures", address or ".")
    markdown = _FIGURE.sub(f"{inside}/", markdown).replace(f'"{inside}/', f'"{html}/')
    return _LINK.sub(led, _ANCHOR.sub(r"\2 { #\1 }", markdown))


def on_page_content(html: str, **_: object) -> str:
    """Set formulas as MathML, which browsers draw by themselves."""

    def drawn(found: re.Match[str]) -> str:
        display = "block" if found[1] == "div" else "inline"
        return convert(unescape(found[2]), display=display)

    return _FORMULA.sub(drawn, html)
