"""A scenario's schema, and docstrings, as Markdown: for the pages that are generated.

Tables are HTML, so that nothing in them is read as Markdown.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def anchored(level: int, title: str, anchor: str) -> str:
    """Return a heading with its anchor."""
    return f'<a id="{anchor}"></a>\n\n{"#" * level} {title}'


def heading(level: int, title: str, anchor: str) -> str:
    """Return a heading that is code, with its anchor."""
    return anchored(level, f"`{title}`", anchor)


class Reference:
    """Blocks of a schema as tables: keys, values, defaults, and what they mean.

    Attributes:
        definitions: what the schema's references name.
        places: a block's title -> where it has been described.
        elsewhere: a key -> the page that describes its blocks, and the place there.
    """

    def __init__(self, definitions: Schema) -> None:
        self.definitions = definitions
        self.places: dict[str, str] = {}
        self.elsewhere: dict[str, str] = {}

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
        said = [self._value(each) for each in every if not each.get("properties")]
        named = [each for each in every if each.get("properties")]
        if [kind_of(each) for each in named] == [""] and _identity(named[0]) not in self.places:
            said.append("a block")
        elif named:
            said.append(f"a block: {', '.join(map(self._named, named))}")
        return " or ".join(dict.fromkeys(each for each in said if each)) or "anything"

    def _named(self, block: Schema) -> str:
        """Return the name of a block, with a link to its description if that is above."""
        name, place = code(kind_of(block) or block["title"]), self.places.get(_identity(block))
        return f'<a href="#{place}">{name}</a>' if place else name

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

    def keys(self, block: Schema) -> str:
        """Return the table of a block's keys."""
        required = block.get("required", ())
        rows = [
            (
                self._linked(key),
                self.values(part),
                "required" if key in required else code(_as_written(part.get("default"))),
                inline(self.resolved(part).get("description", "").split("\n")[0]),
            )
            for key, part in block["properties"].items()
            if not (key == "kind" and "const" in part)
        ]
        if not rows:
            return "<p>It has no parameters.</p>"
        return table(("key", "value", "default", "meaning"), rows)

    def _linked(self, key: str) -> str:
        """Return a key, with a link where its blocks have a page."""
        page = self.elsewhere.get(key)
        return f'<a href="{page}">{code(key)}</a>' if page else code(key)

    def section(self, path: str, part: Schema, level: int) -> Iterator[str]:
        """Yield the description of every block at a path, and of the blocks within."""
        several = len(list(self.blocks(part))) > 1
        for block in self.blocks(part):
            if _identity(block) in self.places:
                continue
            called = kind_of(block) or (block["title"] if several else "")
            headed = "." in path or bool(called)  # a key of the file has its heading already
            place = self.places[_identity(block)] = slug(f"{path}-{called}")
            if headed:
                yield heading(level, f"{path}: {called}" if called else path, place)
            yield prose(block.get("description", ""))
            yield self.keys(block)
            for key, inner in block["properties"].items():
                if key not in ELSEWHERE:
                    yield from self.section(f"{path}.{key}", inner, min(level + headed, 4))


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
