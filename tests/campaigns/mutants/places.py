"""Where mutants can be made, and a sample of them."""

import ast
import difflib
import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import parso
from cosmic_ray.mutating import mutate_code

from .operators import operators
from .packages import ROOMS, room_of, sources


class Place(NamedTuple):
    """One mutant: an operator at a place of a file."""

    file: Path
    line: int
    column: int
    operator: str
    occurrence: int
    """Which place of the operator's in the file, from the top."""

    @property
    def room(self) -> str:
        """The room that it belongs to."""
        return room_of(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}:{self.operator}"


class Change(NamedTuple):
    """What a mutant changes, as `reasons.toml` names it: without numbers of lines."""

    before: str
    after: str


def places(root: Path, named: Sequence[str] = ("",)) -> list[Place]:
    """Return the mutants of a checkout whose names begin with one of those given, in order."""
    wanted = tuple(name.partition(":")[0] for name in named)
    files = [each for each in sources(root) if each.as_posix().startswith(wanted)]
    found = (place for file in files for place in _in_file(root, file))
    return [place for place in found if str(place).startswith(tuple(named))]


def sample(
    root: Path, count: int, seed: int, rooms: Sequence[str] = ROOMS, *, each: bool = False
) -> list[Place]:
    """Draw places without repetition, and one operator for each.

    Every place is as likely as another, however many operators there are for it. A larger sample
    begins with the smaller one, and that of some rooms is the part of the whole that lies there.

    Args:
        root: the checkout.
        count: how many there are to be.
        seed: which sample.
        rooms: where they may lie.
        each: whether `count` is that of each room, not of all.
    """
    by_position: dict[tuple[Path, int, int], list[Place]] = {}
    for file in sources(root):
        if room_of(file) in rooms:
            for place in _in_file(root, file):
                by_position.setdefault(place[:3], []).append(place)
    drawn = sorted(_drawn(seed, there) for there in by_position.values())
    inside = (place for _, place in drawn)
    if not each:
        return list(islice((place for place in inside if _runs(root, place)), count))
    by_room: dict[str, list[Place]] = {room: [] for room in rooms}
    for place in inside:
        there = by_room[place.room]
        if len(there) < count and _runs(root, place):
            there.append(place)
    in_turn = zip_longest(*by_room.values())  # a campaign that is cut off is as far in all rooms
    return [place for turn in in_turn for place in turn if place]


def _drawn(seed: int, there: Sequence[Place]) -> tuple[float, Place]:
    """Return when a position is drawn, and its operator; other files and rooms do not matter."""
    file, line, column = there[0][:3]
    dice = random.Random(f"{seed} {file.as_posix()} {line} {column}")
    return dice.random(), dice.choice(there)


def _runs(root: Path, place: Place) -> bool:
    """Return whether the mutant is Python at all: `{*a}` may be, `{"b": 1, *a}` is not."""
    try:
        ast.parse(mutated((root / place.file).read_text(encoding="utf-8"), place))
    except SyntaxError:
        return False
    return True


def mutated(source: str, place: Place) -> str:
    """Return the text of a file with its mutant in it."""
    text: str | None = mutate_code(source, operators()[place.operator], place.occurrence)
    if text is None:
        message = f"no place {place} in this text"
        raise ValueError(message)
    return text


def change(source: str, mutant: str) -> Change:
    """Return what differs between a text and its mutant."""
    lines = list(difflib.ndiff(source.splitlines(), mutant.splitlines()))
    parts = (
        " ".join(line[2:].strip() for line in lines if line[:2] == sign) for sign in ("- ", "+ ")
    )
    return Change(*parts)


_STARS = {"parameters", "param", "arglist", "argument", "dictorsetmaker", "trailer", "star_expr"}
"""What a `*` or `/` stands in that multiplies or divides nothing, and cosmic-ray takes for one."""


def _in_file(root: Path, file: Path) -> Iterator[Place]:
    source = (root / file).read_text(encoding="utf-8")
    silent = _without_effect(source)
    nodes = list(_walk(parso.parse(source)))  # type: ignore[no-untyped-call]
    for name, operator in operators().items():
        occurrence = -1
        for node in nodes:
            for (line, column), _ in operator.mutation_positions(node):
                occurrence += 1
                if name.startswith("ReplaceBinary") and node.parent.type in _STARS:
                    continue
                if not any(start <= (line, column) < end for start, end in silent):
                    yield Place(file, line, column, name, occurrence)


def _walk(node: Any) -> Iterator[Any]:
    """Yield nodes in the order in which cosmic-ray's visitor counts them."""
    yield node
    for child in getattr(node, "children", ()):
        yield from _walk(child)


Span = tuple[tuple[int, int], tuple[int, int]]


def _without_effect(source: str) -> list[Span]:
    """Return what the program does not run or only tells people: types, slots, texts of errors."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        spans += [_span(part) for part in _types(node) if part is not None]
        if isinstance(node, ast.Assign) and _named(node.targets[0]) in {"__all__", "__slots__"}:
            spans.append(_span(node))
        if isinstance(node, ast.If) and _named(node.test) == "TYPE_CHECKING":
            spans.append(_span(node))
        if isinstance(node, ast.Raise) and node.exc is not None:
            impossible = ast.unparse(node.exc).startswith("AssertionError")
            spans.append(_span(node if impossible else node.exc))
    return spans


def _types(node: ast.AST) -> list[ast.expr | None]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.returns]
    if isinstance(node, ast.arg | ast.AnnAssign):
        return [node.annotation]
    if isinstance(node, ast.Call) and _named(node.func) in {"cast", "TypeVar", "NewType"}:
        return [*node.args[:1]]
    if isinstance(node, ast.Subscript) and _named(node.value) in {"Annotated", "Literal"}:
        return [node.slice]
    return []


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _span(node: ast.expr | ast.stmt) -> Span:
    # A column of `ast` counts bytes, one of parso's characters; sources are ASCII but for texts.
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


@cache
def statement_lines(source: str) -> tuple[range, ...]:
    """Return the lines of every simple statement and of every head of a compound one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or 0
            found.append(range(node.lineno, last + 1))
    return tuple(found)
