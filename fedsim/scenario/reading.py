"""Reading YAML 1.2: text in, located data and faults out. Nothing in the text can run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fedsim.blocks.wording import dotted, printable
from fedsim.errors import Fault, ScenarioError
from fedsim.files import check_is_file
from fedsim.scenario.examples import meant
from fedsim.scenario.located import DEEPEST, Content, Located, Origin, Path, number, text
from fedsim.scenario.scanning import Scanner12
from fedsim.scenario.syntax import syntax_fault

LARGEST = 1_000_000
"""The bytes of the largest file that is read."""

MOST = 100_000
"""The most pieces of data that a file may stand for, each alias counted in full."""

_CORE = "tag:yaml.org,2002:"
_TEXTS = ("str", "timestamp", "value", "merge")  # what only looks like a date is text here
_TAGS: dict[type[Node], tuple[str, ...]] = {
    MappingNode: ("map",),
    SequenceNode: ("seq",),
    ScalarNode: ("int", "float", "bool", "null", *_TEXTS),
}


def read_file(path: File) -> tuple[Located, list[Fault]]:
    """Read a scenario file.

    Returns:
        The data, and the faults that leave it readable (keys written twice).

    Raises:
        ScenarioError: there is no such file, or it is no YAML that a scenario could be.
    """
    name = printable(str(path), longest=1000)
    try:
        check_is_file(path)
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        hint = meant(path) if isinstance(error, FileNotFoundError) else ""
        raise ScenarioError([Fault(name, "", f"cannot be read: {reason}{hint}")]) from error
    if len(content) > LARGEST:
        raise ScenarioError([Fault(name, "", f"longer than {LARGEST} bytes: no scenario")])
    try:
        written = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = str(Origin(name, content[: error.start].count(b"\n") + 1))
        seen = f"got the byte 0x{content[error.start]:02x}, which is not UTF-8; save it as UTF-8"
        raise ScenarioError([Fault(where, "", seen)]) from error
    return read_text(written, lambda line: Origin(name, line))


def read_text(written: str, origin: Callable[[int], Origin]) -> tuple[Located, list[Fault]]:
    """Read YAML; `origin` says where a line, from 1, is from.

    Raises:
        ScenarioError: it is no YAML that a scenario could be.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = Scanner12
    yaml.composer.warn_double_anchors = False
    try:
        root = yaml.compose(written)
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
    """Turns the nodes of a document into located data.

    Attributes:
        constructor: the library's, for scalars.
        origin: says where a line was written.
        refused: what cannot be data; the result is of no use where there is any.
        repeated: keys written twice, of which the first counts.
    """

    constructor: Any
    origin: Callable[[int], Origin]
    refused: list[Fault] = field(default_factory=list)
    repeated: list[Fault] = field(default_factory=list)
    _open: list[Node] = field(default_factory=list)
    _total: int = 0

    def build(self, node: Node, path: Path, key: Node | None = None) -> Located:
        """Return the data of a node, which stands at a path and under a key."""
        origin = self._at(key or node)
        self._total += 1
        if self._total > MOST:
            reason = f"stands for more than {MOST} values, aliases written out: no scenario"
            raise ScenarioError([Fault(str(origin), dotted(path), reason)])
        reason = self._reason_against(node)
        if reason:
            self._refuse(origin, path, reason)
            return Located(origin, None)
        self._open.append(node)
        content = self._content(node, path)
        self._open.pop()
        return Located(origin, content)

    def _reason_against(self, node: Node) -> str:
        """Say why a node cannot be data; return nothing where it can."""
        tag = str(node.tag)
        if tag.removeprefix(_CORE) not in _TAGS[type(node)]:
            return f"got the tag {printable(tag)}: a scenario holds data only, give a plain value"
        if any(node is each for each in self._open):
            return "an alias that contains itself"
        if len(self._open) >= DEEPEST:
            return f"nested more than {DEEPEST} deep"
        return ""

    def _content(self, node: Node, path: Path) -> Content:
        match node:
            case MappingNode():
                return self._block(node, path)
            case SequenceNode():
                return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _block(self, node: MappingNode, path: Path) -> dict[str, Located]:
        pieces: dict[str, Located] = {}
        for key, value in node.value:
            name = self._name(key, path)
            if name in pieces:
                message = f"written twice; the first is at {pieces[name].origin}"
                place = dotted((*path, name))
                self.repeated.append(Fault(str(self._at(key)), place, message))
            elif name is not None:
                pieces[name] = self.build(value, (*path, name), key)
        return pieces

    def _name(self, key: Node, path: Path) -> str | None:
        """Return a key as text; None where it cannot be one."""
        if not isinstance(key, ScalarNode):
            self._refuse(self._at(key), path, "got a block or a list as a key; give a name")
        elif str(key.tag) == f"{_CORE}merge":
            reason = "merge keys (<<) are not in YAML 1.2; write the keys out, or use variants"
            self._refuse(self._at(key), path, reason)
        else:
            return self._text(key, path)
        return None

    def _scalar(self, node: Node, path: Path) -> str | int | float | bool | None:
        kind = str(node.tag).removeprefix(_CORE)
        if kind == "null":
            return None
        if kind in _TEXTS:
            return self._text(node, path)
        try:
            return number(getattr(self.constructor, f"construct_yaml_{kind}")(node))
        except (ValueError, LookupError, ArithmeticError):  # "!!int five", or 5000 digits
            self._refuse(self._at(node), path, f"got {printable(node.value)}, which is no {kind}")
            return None

    def _text(self, node: Node, path: Path) -> str:
        try:
            return text(str(node.value))
        except ValueError as error:
            self._refuse(self._at(node), path, str(error))
            return ""

    def _refuse(self, origin: Origin, path: Path, reason: str) -> None:
        fault = Fault(str(origin), dotted(path), reason)
        if fault not in self.refused[-1:]:
            self.refused.append(fault)

    def _at(self, node: Node) -> Origin:
        return self.origin(node.start_mark.line + 1)
