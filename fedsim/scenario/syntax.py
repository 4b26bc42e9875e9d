"""What is no YAML: why, at which line and column, and the line itself with a mark below."""

import re
from collections.abc import Callable
from typing import NamedTuple

from rich.cells import cell_len
from ruamel.yaml.error import MarkedYAMLError

from fedsim.blocks.wording import printable
from fedsim.errors import Fault
from fedsim.scenario.located import DEEPEST, Origin

_REMEDIES = {
    "mapping values are not allowed": "a line has one key; write a block within it in braces, such "
    "as {kind: gd, step_size: 1/L}, and a text with a colon in quotes",
    "'\\t' that cannot start any token": "indent with spaces, not with tabs",
    "parsing a flow": "a brace or a bracket is not closed, or a comma is missing",
    "could not find expected ':'": "a key is followed by a colon and a space",
    "expected <block end>": "keys of one block begin in the same column",
    "expected a single document": "a file is one scenario; leave out the line ---",
    "quoted scalar": "the quotes are not closed",
}
"""What helps against what the library says, by words of it."""

_BREAK = re.compile("\r\n|[\n\r]")
"""What the library takes for the end of a line, and counts."""

_WIDEST = 90  # columns of a line that are shown


class _Place(NamedTuple):
    """A place in a text, line and column from 0."""

    line: int
    column: int


def syntax_fault(error: Exception, written: str, origin: Callable[[int], Origin]) -> Fault:
    """Say why a text is no YAML, and show where.

    Args:
        error: of the library.
        written: the text.
        origin: says where a line of it, from 1, is from.
    """
    reason, place, began = _told(error, written)
    lines = _BREAK.split(written)
    at_end = not any(lines[place.line :])  # there it was noticed, and there is nothing to be shown
    shown = began if at_end and began else place
    text = f"not YAML 1.2: {reason}, at column {place.column + 1}"
    if began and began.line != place.line:
        text += f"; it began in line {began.line + 1}, column {began.column + 1}"
    text += "".join(f"; {helps}" for words, helps in _REMEDIES.items() if words in reason)
    return Fault(str(origin(place.line + 1)), "", text, _marked(lines, shown))


def _told(error: Exception, written: str) -> tuple[str, _Place, _Place | None]:
    """Return why, where it was noticed, and where began what is wrong if that is known."""
    if isinstance(error, RecursionError):
        return f"nested more than {DEEPEST} deep", _Place(0, 0), None
    if isinstance(error, MarkedYAMLError):
        mark, context = error.problem_mark or error.context_mark, error.context_mark
        reason = " ".join(filter(None, (error.problem, error.context)))
        place = _Place(mark.line, mark.column) if mark else _Place(0, 0)
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


def _marked(lines: list[str], place: _Place) -> str:
    """Return a line of a text, and below it a mark at a column; of a long line a part."""
    line, column = lines[min(place.line, len(lines) - 1)], place.column
    first = max(0, column - _WIDEST // 2) if len(line) > _WIDEST else 0
    part = [printable(each.replace("\t", " ")) for each in line[first : first + _WIDEST]]
    before = cell_len("".join(part[: column - first]))
    head = f"    {place.line + 1} | "
    return f"{head}{''.join(part)}\n{' ' * (len(head) + before)}^"
