"""A scenario's schema, and docstrings, as Markdown: for the pages that are generated.

Tables are HTML, so that nothing in them is read as Markdown.
"""

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from textwrap import dedent
from typing import Any

Schema = Mapping[str, Any]

ELSEWHERE = {"algorithm", "compressor", "outer", "wire", "participation"}
"""The keys whose kinds have a page of their own."""

_PREFIX = "#/$defs/"
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "object": "a mapping",
    "": "",
}


def inline(text: str) -> str:
    """Return a text as HTML; parts in backticks become code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(text.split()), quote=False))


def code(value: object) -> str:
    """Return a value as code, in HTML."""
    return f"<code>{escape(str(value), quote=False)}</code>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already."""
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def prose(text: str) -> str:
    """Return a docstring as HTML: paragraphs, without the section on attributes."""
    said = inspect.cleandoc(text).split("\n\nAttributes:")[0]
    return "\n".join(f"<p>{inline(part)}</p>" for part in said.split("\n\n"))


def box(text: str) -> str:
    """Return a module's docstring: prose as paragraphs, indented parts verbatim."""
    parts = []
    for indented, lines in groupby(text.strip("\n").split("\n"), key=_indented):
        said = dedent("\n".join(lines)).strip("\n")
        if indented:
            parts.append(f"```text\n{said}\n```")
        else:
            parts += [f"<p>{inline(each)}</p>" for each in said.split("\n\n") if each.strip()]
    return "\n\n".join(parts)


def _indented(line: str) -> bool:
    return line.startswith("    ")


def slug(text: str) -> str:
    """Return a text as an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower().replace("+", " plus")).strip("-")


def anchored(level: int, title: str, anchor: str) -> str:
    """Return a heading with its anchor."""
    return f'<a id="{anchor}"></a>\n\n{"#" * level} {title}'


def heading(level: int, title: str, anchor: str) -> str:
    """Return a heading that is code, with its anchor."""
    return anchored(level, f"`{title}`", anchor)


SHARED = 3
"""A key that this many blocks have in common is described once."""


@dataclass(frozen=True)
class Common:
    """A key that several blocks share, described once.

    Attributes:
        part: its schema.
        default: the default of most of the blocks, as HTML.
        place: the page and the anchor of its description.
    """

    part: Schema
    default: str
    place: tuple[str, str]


class Reference:
    """Blocks of a schema as tables: keys, values, defaults, and what they mean.

    Attributes:
        definitions: what the schema's references name.
        places: a block's title -> the page and the anchor of its description.
        elsewhere: a key -> the page that describes its blocks, and the place there.
        page: the page that is written, as pages of its folder link to it; empty if all is on one.
    """

    def __init__(self, definitions: Schema) -> None:
        self.definitions = definitions
        self.places: dict[str, tuple[str, str]] = {}
        self.elsewhere: dict[str, str] = {}
        self.page = ""

    def resolved(self, part: Schema) -> Schema:
        """Return the target of a reference, with the description beside it."""
        name = str(part.get("$ref", "")).removeprefix(_PREFIX)
        return {**self.definitions[name], **part} if name else part

    def choices(self, part: Schema) -> Iterator[Schema]:
        """Yield the alternatives of a value, none of which has alternatives of its own."""
        whole = self.resolved(part)
        among = whole.get("anyOf", whole.get("oneOf"))
        if among is None:
            yield whole
        for each in among or ():
            yield from self.choices(each)

    def blocks(self, part: Schema) -> Iterator[Schema]:
        """Yield the blocks that a value can be, or that a list of it can hold."""
        for each in self.choices(part):
            if "items" in each:
                yield from self.blocks(each["items"])
            elif "properties" in each:
                yield each

    def values(self, part: Schema) -> str:
        """Return the possible values of a key, as HTML."""
        every = list(self.choices(part))
        named = [each for each in every if each.get("properties")]
        kinds = {kind_of(each) for each in named}  # a kind alone is short for its block
        plain = [each for each in every if not each.get("properties")]
        said = [self._value(each) for each in plain if not kinds.issuperset(each.get("enum", "-"))]
        if [kind_of(each) for each in named] == [""] and _identity(named[0]) not in self.places:
            said.append("a block")
        elif named:
            said.append(f"a block: {', '.join(map(self._named, named))}")
        return " or ".join(dict.fromkeys(each for each in said if each)) or "anything"

    def _named(self, block: Schema) -> str:
        """Return the name of a block, with a link to its description if that is above."""
        name, place = code(kind_of(block) or block["title"]), self.places.get(_identity(block))
        return f'<a href="{self._address(place)}">{name}</a>' if place else name

    def _address(self, place: tuple[str, str]) -> str:
        page, anchor = place
        return f"#{anchor}" if page == self.page else f"{page}#{anchor}"

    def _value(self, part: Schema) -> str:
        if "const" in part:
            return code(part["const"])
        if "enum" in part:
            return ", ".join(map(code, part["enum"]))
        if part.get("type") == "array":
            return f"a list of: {self.values(part.get('items', {}))}"
        if part.get("type") in ("integer", "number"):
            return _WORDS[part["type"]] + _bounds(part)
        example = next(iter(part.get("examples", ())), "1/L" if _of_L(part) else "")
        return f"text such as {code(example)}" if example else _WORDS[part.get("type", "")]

    def keys(self, block: Schema, *commons: Mapping[str, Common]) -> str:
        """Return the table of a block's keys; of those in common, the names with links."""
        shared = {
            key: common[key]
            for common in commons
            for key, part in block["properties"].items()
            if key in common and alike(part, common[key].part)
        }
        rows = [
            (self._linked(key), *self._row(block, key, part))
            for key, part in block["properties"].items()
            if key not in shared and not (key == "kind" and "const" in part)
        ]
        if not rows and not shared:
            return "<p>It has no parameters.</p>"
        parts = [table(("key", "value", "default", "meaning"), rows)] if rows else []
        if shared:
            names = ", ".join(self._pointer(block, key, each) for key, each in shared.items())
            parts.append(f"<p>Common keys: {names}</p>")
        return "\n\n".join(parts)

    def _row(self, block: Schema, key: str, part: Schema) -> tuple[str, str, str]:
        meaning = self.resolved(part).get("description", "").split("\n")[0]
        return self.values(part), _default(block, key, part), inline(meaning)

    def _pointer(self, block: Schema, key: str, common: Common) -> str:
        """Return the name of a common key as a link, with the default if it is another one."""
        default = _default(block, key, block["properties"][key])
        differs = "" if default == common.default else f" ({default})"
        return f'<a href="{self._address(common.place)}">{code(key)}</a>{differs}'

    def common(self, blocks: Iterable[Schema], prefix: str) -> dict[str, Common]:
        """Return the keys that several blocks share; their anchors begin with the prefix."""
        parts: dict[str, Schema] = {}
        uses: dict[tuple[str, str], list[str]] = {}
        for block in blocks:
            for key, part in block["properties"].items():
                if not (key == "kind" and "const" in part):
                    parts[_alike(part)] = part
                    default = _default(block, key, part)
                    uses.setdefault((key, _alike(part)), []).append(default)
        found: dict[str, Common] = {}
        for (key, like), defaults in sorted(uses.items(), key=lambda item: -len(item[1])):
            if len(defaults) >= SHARED and key not in found:
                place = (self.page, slug(f"{prefix}-{key}"))
                found[key] = Common(parts[like], Counter(defaults).most_common(1)[0][0], place)
        return dict(sorted(found.items()))

    def commons(self, common: Mapping[str, Common]) -> str:
        """Return the table of common keys."""
        rows = []
        for key, each in common.items():
            meaning = self.resolved(each.part).get("description", "").split("\n")[0]
            name = f'<a id="{each.place[1]}"></a>{code(key)}'
            rows.append((name, self.values(each.part), each.default, inline(meaning)))
        return table(("key", "value", "default", "meaning"), rows)

    def _linked(self, key: str) -> str:
        """Return a key, with a link where its blocks have a page."""
        page = self.elsewhere.get(key)
        return f'<a href="{page}">{code(key)}</a>' if page else code(key)

    def section(self, path: str, part: Schema, level: int) -> Iterator[str]:
        """Yield the description of every block at a path, and of the blocks within."""
        several = len(list(self.blocks(part))) > 1
        new = [block for block in self.blocks(part) if _identity(block) not in self.places]
        common = self.common(new, f"{path}-key")
        if common:
            yield anchored(level, f"`{path}`: common keys", slug(f"{path}-common-keys"))
            yield self.commons(common)
        for block in new:
            if _identity(block) in self.places:
                continue
            called = kind_of(block) or (block["title"] if several else "")
            headed = "." in path or bool(called)  # a key of the file has its heading already
            place = slug(f"{path}-{called}")
            self.places[_identity(block)] = self.page, place
            if headed:
                yield heading(level, f"{path}: {called}" if called else path, place)
            yield prose(block.get("description", ""))
            yield self.keys(block, common)
            for key, inner in block["properties"].items():
                if key not in ELSEWHERE:
                    yield from self.section(f"{path}.{key}", inner, min(level + headed, 4))


def alike(one: Schema, other: Schema) -> bool:
    """Return whether two keys have the same values and the same meaning."""
    return _alike(one) == _alike(other)


def _alike(part: Schema) -> str:
    return json.dumps({key: part[key] for key in sorted(part) if key not in ("default", "title")})


def _default(block: Schema, key: str, part: Schema) -> str:
    required = key in block.get("required", ())
    return "required" if required else code(_as_written(part.get("default")))


def _identity(block: Schema) -> str:
    """Return the identity of a block: two classes may have the same name."""
    return f"{block['title']}: {kind_of(block)}: {block.get('description', '')}"


def _of_L(part: Schema) -> bool:  # noqa: N802 - L is the smoothness
    return part.get("pattern", "").endswith("L\\s*$")


def kind_of(block: Schema) -> str:
    """Return the kind of a block that has one, by `kind` or by `topology`."""
    keys = block.get("properties", {})
    said = (keys.get(key, {}).get("const") for key in ("kind", "topology"))
    return next((str(kind) for kind in said if kind), "")


def _bounds(part: Schema) -> str:
    signs = {"minimum": "&ge;", "exclusiveMinimum": "&gt;"}
    signs |= {"maximum": "&le;", "exclusiveMaximum": "&lt;"}
    said = [f"{sign} {part[key]:g}" for key, sign in signs.items() if key in part]
    return f" {', '.join(said)}" if said else ""


def _as_written(value: object) -> str:
    """Return a value as YAML has it, on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return f"{{{', '.join(f'{key}: {_as_written(each)}' for key, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(_as_written, value))}]"
        case _:
            return str(value) if value != "" else '""'
