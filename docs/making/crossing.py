"""Docstrings for mkdocstrings: their text is no Markdown, and names in backticks are links.

An extension of Griffe, which mkdocstrings reads the sources with.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import griffe
from making.reference import homes, public, source_of, take

_CODE = re.compile(r"(`[^`]+`)")
_HEAD = re.compile(r"^Example:$", re.MULTILINE)


@cache
def _names() -> Mapping[str, str]:
    """Return what a name in a docstring stands for, where that is one public thing only."""
    found: dict[str, set[str]] = {}
    for path, home in homes().items():
        name = path.rpartition(".")[2]
        each = source_of(path)
        found.setdefault(path, set()).add(home)
        if not each.is_function:
            found.setdefault(name, set()).add(home)
        if each.is_class:
            for member in each.members.values():
                if not member.name.startswith("_"):
                    found.setdefault(f"{name}.{member.name}", set()).add(f"{home}.{member.name}")
    return {name: places.pop() for name, places in found.items() if len(places) == 1}


def _marked(text: str) -> str:
    """Return a text of a docstring as Markdown."""
    parts = []
    for part in _CODE.split(text):
        if _CODE.fullmatch(part):
            place = _names().get(part[1:-1])
            parts.append(_linked(part, place) if place else part)
        else:
            parts.append(re.sub(r"([*_<\[\]|#])", r"\\\1", part))
    return "".join(parts)


def _linked(part: str, place: str) -> str:
    return f'<autoref identifier="{place}" optional><code>{part[1:-1]}</code></autoref>'


def _sections(each: griffe.Object) -> Iterator[Any]:
    if each.docstring:
        each.docstring.value = _HEAD.sub("Examples:", each.docstring.value)
        each.docstring.parser = griffe.Parser.google
        each.docstring.parser_options = {"warn_missing_types": False, "warn_unknown_params": False}
        yield from each.docstring.parsed


class Crossing(griffe.Extension):
    """Marks the docstrings of all public names and of their members."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Mark them, once the sources are read."""
        take(pkg)
        done: set[str] = set()
        for module, names in public().items():
            for name in names:
                found = pkg[f"{module}.{name}".removeprefix("fedsim.")]
                each = found.final_target if isinstance(found, griffe.Alias) else found
                members = each.members.values() if each.is_class else ()
                for one in (each, *(m for m in members if not m.is_alias)):
                    if one.path not in done:
                        done.add(one.path)
                        _mark(one)


def _mark(each: griffe.Object) -> None:
    for section in _sections(each):
        if section.kind is griffe.DocstringSectionKind.text:
            section.value = _marked(section.value)
        elif section.kind is griffe.DocstringSectionKind.examples:
            section.value = [
                (kind, _marked(text) if kind is griffe.DocstringSectionKind.text else text)
                for kind, text in section.value
            ]
        elif isinstance(section.value, list):
            for item in section.value:
                item.description = _marked(item.description)
