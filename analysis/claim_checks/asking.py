"""The loop of the commands that ask claims: part after part, and what all of them come to."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rich.table import Table

from claim_checks.papers import EXPERIMENTS, Experiment
from fedsim.core.errors import DataError
from fedsim.results.analysis.scripts import run_parts

T = TypeVar("T")


def ask_parts(
    doc: str,
    parts: Iterable[str],
    examine: Callable[[Experiment, Path, Sequence[str]], list[T]],
    show: Callable[[list[T]], tuple[Sequence[Table], str]],
) -> Mapping[str, list[T]] | None:
    """Examine the experiments that were asked for on the command line, and print what each gives.

    A part whose files are not here is left out, with a line that says so.

    Args:
        doc: of the script.
        parts: names of experiments.
        examine: returns what is found about one of them.
        show: returns the tables and the text that are printed about that.

    Returns:
        What is found about every part; None if not all were asked, or with other values.
    """
    names = list(parts)
    found, changed = dict[str, list[T]](), False

    def ask(part: str, out: Path, overrides: Sequence[str]) -> tuple[Sequence[Table], str]:
        nonlocal changed
        changed = bool(overrides)
        try:
            found[part] = examine(EXPERIMENTS[part], out / part, overrides)
        except DataError as error:
            return [], f"{part}: not asked. {error}\n"
        return show(found[part])

    run_parts(doc, names, ask)
    if len(found) < len(names) or changed:
        return None
    return {name: found[name] for name in names}
