"""The scenarios that come with fedsim, which can be used by name from any folder.

In the repository they are in `scenarios/`. A package built from it has the same files in
`fedsim/examples/`, so there is only one copy.
"""

from collections.abc import Mapping
from pathlib import Path as File

from fedsim.core.blocks.wording import join_names, nearest, nearest_file, printable
from fedsim.core.errors import Fault, ScenarioError

FIRST = "quickstart"
"""The example for newcomers, listed first."""

_LISTED = "`fedsim examples` lists them"
_LAST = "papers"
_FEW = 6  # at most this many scenarios of a folder are suggested

_PACKAGE = File(__file__).parents[1]


def folder() -> File:
    """Return the folder of the examples: in the package, or in a checkout of the repository."""
    inside = _PACKAGE / "examples"
    return inside if inside.is_dir() else _PACKAGE.parent / "scenarios"


def examples() -> Mapping[str, File]:
    """Return the files by name: the one for newcomers first, those that reproduce papers last."""
    files = folder().rglob("*.yaml")
    return {file.stem: file for file in sorted(files, key=_order)}


def _order(file: File) -> tuple[bool, bool, int, str]:
    return file.stem != FIRST, file.parent.name == _LAST, len(file.parts), file.stem


def example(name: str) -> File:
    """Return the file of an example.

    Raises:
        ScenarioError: no example has this name.
    """
    known = examples()
    if name not in known:
        raise _unknown("there is no example of this name", name, known)
    return known[name]


def find_scenario(source: str | File) -> File:
    """Return the file of a scenario: `source` itself if it is a path, otherwise the example's.

    Raises:
        ScenarioError: `source` looks like a name, but is neither a file nor an example.
    """
    file, name = File(source), str(source)
    # A suffix or a folder marks a path: whether it exists is for the reader to report.
    if file.suffix or len(file.parts) != 1 or file.is_file():
        return file
    known = examples()
    if name not in known and not file.exists():
        raise _unknown("there is no such file, and no example of this name", name, known)
    return known.get(name, file)


def suggest(file: File) -> str:
    """Return "; did you mean 'mine.yaml'?" for a missing file or a folder, or an empty text.

    It suggests a scenario in the folder, or else an example; for a folder of runs, how to open it.
    """
    if file.is_dir():
        if any(file.glob("*/seed-*")):
            return f". It holds runs: fedsim.open({printable(str(file), 1000)!r}) reads them"
        inside = sorted(map(str, file.glob("*.y*ml")))
        return f"; did you mean {join_names(inside, 'or')}?" if 0 < len(inside) <= _FEW else ""
    folder = file.parent
    beside = [file.name for file in folder.glob("*.y*ml")] if folder.is_dir() else []
    if hint := nearest_file(file.name, beside):
        return hint
    hint = nearest(file.stem, examples())
    return f"{hint} `fedsim examples` lists them" if hint else ""


def _unknown(text: str, name: str, known: Mapping[str, File]) -> ScenarioError:
    hint = nearest(name, known) or "."
    return ScenarioError([Fault(printable(name), "", f"{text}{hint} {_LISTED}")])
