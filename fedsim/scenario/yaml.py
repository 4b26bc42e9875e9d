"""Reads YAML 1.2: text becomes located data and faults. The text cannot execute code.

The library only parses the text into nodes; fedsim builds the values. So every value keeps its line
for later errors, no text can construct an object, and all faults of a file are reported at once.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scanner import Scanner

from fedsim.core.blocks.wording import format_path, printable
from fedsim.core.errors import Fault, ScenarioError
from fedsim.core.files import open_file
from fedsim.scenario.examples import suggest
from fedsim.scenario.located import DEEPEST, Content, KeyPath, Located, Origin, number, text

# The scanner of ruamel.yaml, corrected where it still follows YAML 1.1.

MODELINE = "# yaml-language-server: $schema="
"""The comment by which editors find the schema of a file, whose place follows."""

_SPACES = "\0 \t\r\n\x85\u2028\u2029"
_ENDS = f"{_SPACES},[]{{}}"


class Scanner12(Scanner):
    """Reads the `?` of `{?x: 1}` as part of the text; the library writes such texts itself.

    YAML 1.2.2, section 7.3.3: a plain scalar may begin with `?` if neither a space nor, in flow
    style, an indicator follows. The library has the rule of YAML 1.1, which drops the `?`.
    """

    def check_key(self) -> bool:
        """Return whether the `?` at this position begins a key."""
        return self.reader.peek(1) in (_ENDS if self.flow_level else _SPACES)

    def check_plain(self) -> bool:
        """Return whether the character at this position begins a plain scalar."""
        if self.flow_level and self.reader.peek() == "?":
            return self.reader.peek(1) not in _ENDS
        return bool(super().check_plain())


# Syntax errors: the reason, line and column, and the line itself with a mark below it.

_REMEDIES = {
    "is indented differently": "keys of one block begin in the same column",
    "a value that is complete": "put the whole value in quotes",
    "mapping values are not allowed": "a line has one key; write a block within it in braces, such "
    "as {kind: gd, step_size: 1/L}, and a text with a colon in quotes",
    "'\\t' that cannot start any token": "indent with spaces, not with tabs",
    "parsing a flow": "a brace or a bracket is not closed, or a comma is missing",
    "could not find expected ':'": "a key is followed by a colon and a space",
    "expected a single document": "a file is one scenario; leave out the line ---",
    "quoted scalar": "the quotes are not closed",
}
"""Advice, by words that occur in messages of the library."""

_BREAK = re.compile("\r\n|[\n\r]")
"""Line ends as the library counts them, which are fewer than those of `str.splitlines`."""

_WIDEST = 90  # columns of a line that an error shows


class _Place(NamedTuple):
    line: int
    column: int


def syntax_fault(error: Exception, written: str, origin: Callable[[int], Origin]) -> Fault:
    """Return the fault of a text that is not YAML, with its place.

    Args:
        error: the error of the library.
        written: the text.
        origin: returns the origin of a line, numbered from 1.
    """
    reason, place, began = _describe_error(error, written)
    lines = _BREAK.split(written)
    # At the end of the text there is no line to show; then the start of the construct is shown.
    at_end = not any(lines[place.line :])
    shown = began if at_end and began else place
    text = f"not YAML 1.2: {reason}, at column {place.column + 1}"
    if began and began.line != place.line:
        text += f"; it began in line {began.line + 1}, column {began.column + 1}"
    text += "".join(f"; {helps}" for words, helps in _REMEDIES.items() if words in reason)
    return Fault(str(origin(place.line + 1)), "", text, _mark(lines, shown))


def _describe_error(error: Exception, written: str) -> tuple[str, _Place, _Place | None]:
    """Return the reason, the place of detection, and the start of the construct if known."""
    if isinstance(error, RecursionError):
        return f"nested more than {DEEPEST} deep", _Place(0, 0), None
    if isinstance(error, MarkedYAMLError):
        mark, context = error.problem_mark or error.context_mark, error.context_mark
        reason = " ".join(filter(None, (error.problem, error.context)))
        place = _Place(mark.line, mark.column) if mark else _Place(0, 0)
        if outside := _outside_block(reason, place, _BREAK.split(written)):
            return outside, place, None
        began = _Place(context.line, context.column) if context else None
        return " ".join(reason.split()), place, began
    position = getattr(error, "position", None)
    if isinstance(position, int):
        before = written[:position]
        column = position - (before.rfind("\n") + 1)
        seen = written[position : position + 1]
        reason = f"a character that YAML does not allow: {seen!r}"
        return reason, _Place(before.count("\n"), column), None
    return " ".join(str(error).split()), _Place(0, 0), None


def _outside_block(reason: str, place: _Place, lines: list[str]) -> str:
    """Return why a text belongs to no block, mostly for its indentation; empty for other errors."""
    line = lines[place.line] if place.line < len(lines) else ""
    before = line[: place.column].strip()
    if "expected <block end>" in reason and before:
        return "more text follows a value that is complete"
    # A colon is refused where its key begins the line: the key seems to continue the value above.
    continues = "mapping values are not allowed" in reason and before and ":" not in before
    if not (continues or re.search("expected (<block end>|'<document start>')", reason)):
        return ""
    earlier = range(place.line - 1, -1, -1)
    above = next((n for n in earlier if lines[n].strip() and lines[n].lstrip()[0] != "#"), 0)
    indents = [len(text) - len(text.lstrip(" ")) for text in (line, lines[above])]
    this, other = f"line {place.line + 1}", f"line {above + 1}"
    if indents[0] == indents[1]:
        return "" if continues else f"{this} does not belong to the block of {other}"
    spaces = [f"{number} space{'s' * (number != 1)}" for number in indents]
    return f"{this} is indented differently from {other}: by {spaces[0]} instead of {spaces[1]}"


def _mark(lines: list[str], place: _Place) -> str:
    """Return a line of a text with a mark below a column; a long line is shortened."""
    from rich.cells import cell_len

    line, column = lines[min(place.line, len(lines) - 1)], place.column
    first = max(0, column - _WIDEST // 2) if len(line) > _WIDEST else 0
    part = [printable(character.replace("\t", " ")) for character in line[first : first + _WIDEST]]
    # In cells of a terminal: a Chinese character takes two, and the mark has to stand below it.
    before = cell_len("".join(part[: column - first]))
    head = f"    {place.line + 1} | "
    return f"{head}{''.join(part)}\n{' ' * (len(head) + before)}^"


LARGEST = 1_000_000
"""The size of the largest accepted file, bytes."""

_SHORT = 20_000
"""Texts up to this many characters are cached as data."""

MOST = 100_000
"""The largest number of values in a file. Each use of an alias counts in full."""

_CORE = "tag:yaml.org,2002:"
_TEXTS = ("str", "timestamp", "value", "merge")  # dates are texts here
_TAGS: dict[type[Node], tuple[str, ...]] = {
    MappingNode: ("map",),
    SequenceNode: ("seq",),
    ScalarNode: ("int", "float", "bool", "null", *_TEXTS),
}


_TABLES = frozenset(
    {".csv", ".tsv", ".parquet", ".feather", ".arrow", ".xlsx", ".xls", ".arff", ".sqlite"}
)
"""Suffixes of files that `fedsim init --from` reads, and that hold no scenario."""


def read_file(path: Path) -> tuple[Located, list[Fault]]:
    """Read a scenario file.

    Returns:
        The data, and faults that leave it usable: keys written twice.

    Raises:
        ScenarioError: the file cannot be read, or is not YAML of a scenario.
    """
    name = printable(str(path), longest=1000)
    try:
        with open_file(path) as stream:
            # One byte more than accepted shows that a file is too long, without reading all of it.
            content = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        hint = suggest(path) if isinstance(error, FileNotFoundError) or path.is_dir() else ""
        raise ScenarioError([Fault(name, "", f"cannot be read: {reason}{hint}")]) from error
    if _TABLES.intersection(suffix.lower() for suffix in path.suffixes):
        wanted = f"`fedsim init --from {shlex.quote(str(path))}` writes a scenario for it"
        raise ScenarioError([Fault(name, "", f"it is a table and not a scenario; {wanted}")])
    if len(content) > LARGEST:
        raise ScenarioError([Fault(name, "", f"longer than {LARGEST} bytes: no scenario")])
    try:
        written = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = str(Origin(name, content[: error.start].count(b"\n") + 1))
        seen = f"got the byte 0x{content[error.start]:02x}, which is not UTF-8; save it as UTF-8"
        raise ScenarioError([Fault(where, "", seen)]) from error
    if len(written) > _SHORT:
        return read_text(written, lambda line: Origin(name, line))
    tree, repeated = _read_short(name, written)
    return tree, list(repeated)


@lru_cache(maxsize=64)
def _read_short(name: str, written: str) -> tuple[Located, list[Fault]]:
    """Read a text, cached: `fedsim robust` reads the same scenario for every sampled world."""
    return read_text(written, lambda line: Origin(name, line))


def read_text(written: str, origin: Callable[[int], Origin]) -> tuple[Located, list[Fault]]:
    """Read YAML.

    Args:
        written: the text.
        origin: returns the origin of a line, numbered from 1.

    Returns:
        The data, and faults that leave it usable: keys written twice.

    Raises:
        ScenarioError: the text is not YAML of a scenario.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = Scanner12
    yaml.composer.warn_double_anchors = False
    try:
        root = yaml.compose(written)
    # The library raises all of these on malformed text.
    except (YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        raise ScenarioError([syntax_fault(error, written, origin)]) from error
    if root is None:
        return Located(origin(1), None), []
    builder = _Builder(yaml.constructor, origin)
    tree = builder.build(root, ())
    if builder.refused:
        raise ScenarioError([*builder.refused, *builder.repeated])
    return tree, builder.repeated


@dataclass
class _Builder:
    """Converts the nodes of a document to located data.

    Attributes:
        constructor: the library's constructor, used for scalars only.
        origin: returns the origin of a line.
        refused: faults of nodes that cannot be data; if there are any, the result is useless.
        repeated: faults of keys written twice, of which the first counts.
    """

    constructor: Any
    origin: Callable[[int], Origin]
    refused: list[Fault] = field(default_factory=list)
    repeated: list[Fault] = field(default_factory=list)
    _open: list[Node] = field(default_factory=list)
    _total: int = 0

    def build(self, node: Node, path: KeyPath, key: Node | None = None) -> Located:
        """Return the data of a node, which has a path and may have a key."""
        origin = self._at(key or node)
        # Counted per use: nested aliases could otherwise expand a short text without bound.
        self._total += 1
        if self._total > MOST:
            reason = f"stands for more than {MOST} values, aliases written out: no scenario"
            raise ScenarioError([Fault(str(origin), format_path(path), reason)])
        reason = self._reason_against(node)
        if reason:
            self._refuse(origin, path, reason)
            return Located(origin, None)
        self._open.append(node)
        content = self._content(node, path)
        self._open.pop()
        return Located(origin, content)

    def _reason_against(self, node: Node) -> str:
        """Return why a node cannot be data; empty if it can."""
        tag = str(node.tag)
        if tag.removeprefix(_CORE) not in _TAGS[type(node)]:
            return f"got the tag {printable(tag)}: a scenario holds data only, give a plain value"
        if any(node is ancestor for ancestor in self._open):
            return "an alias that contains itself"
        if len(self._open) >= DEEPEST:
            return f"nested more than {DEEPEST} deep"
        return ""

    def _content(self, node: Node, path: KeyPath) -> Content:
        match node:
            case MappingNode():
                return self._block(node, path)
            case SequenceNode():
                return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _block(self, node: MappingNode, path: KeyPath) -> dict[str, Located]:
        pieces: dict[str, Located] = {}
        for key, value in node.value:
            name = self._name(key, path)
            if name in pieces:
                message = f"written twice; the first is at {pieces[name].origin}"
                place = format_path((*path, name))
                self.repeated.append(Fault(str(self._at(key)), place, message))
            elif name is not None:
                pieces[name] = self.build(value, (*path, name), key)
        return pieces

    def _name(self, key: Node, path: KeyPath) -> str | None:
        """Return a key as text; None if it is not usable as a key."""
        if not isinstance(key, ScalarNode):
            self._refuse(self._at(key), path, "got a block or a list as a key; give a name")
        elif str(key.tag) == f"{_CORE}merge":
            reason = "merge keys (<<) are not in YAML 1.2; write the keys out, or use variants"
            self._refuse(self._at(key), path, reason)
        else:
            return self._text(key, path)
        return None

    def _scalar(self, node: Node, path: KeyPath) -> str | int | float | bool | None:
        kind = str(node.tag).removeprefix(_CORE)
        if kind == "null":
            return None
        if kind in _TEXTS:
            return self._text(node, path)
        try:
            return number(getattr(self.constructor, f"construct_yaml_{kind}")(node))
        except (ValueError, LookupError, ArithmeticError):  # such as "!!int five", or 5000 digits
            self._refuse(self._at(node), path, f"got {printable(node.value)}, which is no {kind}")
            return None

    def _text(self, node: Node, path: KeyPath) -> str:
        try:
            return text(str(node.value))
        except ValueError as error:
            self._refuse(self._at(node), path, str(error))
            return ""

    def _refuse(self, origin: Origin, path: KeyPath, reason: str) -> None:
        fault = Fault(str(origin), format_path(path), reason)
        if fault not in self.refused[-1:]:
            self.refused.append(fault)

    def _at(self, node: Node) -> Origin:
        return self.origin(node.start_mark.line + 1)
