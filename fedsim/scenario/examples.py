"""The scenarios that come with fedsim: found by their names, wherever one is.

They stand in `scenarios/` of the repository. A package that is built from it has the same files in
`fedsim/examples/`, so that nothing is kept twice.
"""

from collections.abc import Mapping
from pathlib import Path as File

from fedsim.core.blocks.wording import nearest, printable
from fedsim.core.errors import Fault, ScenarioError

FIRST = "quickstart"
"""The one to begin with."""

_LISTED = "`fedsim examples` lists them"
_LAST = "papers"

_PACKAGE = File(__file__).parents[1]


def folder() -> File:
    """Return the folder that they are in: that of the package, or of a checkout."""
    inside = _PACKAGE / "examples"
    return inside if inside.is_dir() else _PACKAGE.parent / "scenarios"


def examples() -> Mapping[str, File]:
    """Return the files by their names: the one to begin with first, what papers ask last."""
    files = folder().rglob("*.yaml")
    return {file.stem: file for file in sorted(files, key=_order)}


def _order(file: File) -> tuple[bool, bool, int, str]:
    return file.stem != FIRST, file.parent.name == _LAST, len(file.parts), file.stem


def example(name: str) -> File:
    """Return the file of an example.

    Raises:
        ScenarioError: there is none of that name.
    """
    known = examples()
    if name not in known:
        raise _unknown("there is no example of this name", name, known)
    return known[name]


def find_scenario(source: str | File) -> File:
    """Return the file of a scenario: the one that is named, or an example of that name.

    Raises:
        ScenarioError: it looks like a name, and there is neither.
    """
    file, name = File(source), str(source)
    if file.suffix or len(file.parts) != 1 or file.is_file():
        return file
    known = examples()
    if name not in known and not file.exists():
        raise _unknown("there is no such file, and no example of this name", name, known)
    return known.get(name, file)


def suggest(file: File) -> str:
    """Return "; did you mean 'mine.yaml'?" for a file that is not there, or nothing.

    It is a scenario beside it, or an example.
    """
    folder = file.parent
    beside = [file.name for file in folder.glob("*.y*ml")] if folder.is_dir() else []
    if hint := nearest(file.name, beside):
        return hint
    hint = nearest(file.stem, examples())
    return f"{hint} `fedsim examples` lists them" if hint else ""


def _unknown(text: str, name: str, known: Mapping[str, File]) -> ScenarioError:
    hint = nearest(name, known) or "."
    return ScenarioError([Fault(printable(name), "", f"{text}{hint} {_LISTED}")])
