"""The common command line of paper scripts: it runs parts, and prints their tables."""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.table import Table

from fedsim.core.errors import FedsimError


class ScriptPart(Protocol):
    """Runs a part of a script."""

    def __call__(
        self, part: str, out: Path, overrides: Sequence[str]
    ) -> tuple[Sequence[Table], str]:
        """Return the tables and the finding of a part; empty for none."""
        ...


def run_parts(doc: str, parts: Iterable[str], run: ScriptPart) -> None:
    """Run the requested parts, and print their results.

    Args:
        doc: the docstring of the script; its first line is the help text.
        parts: the names of all parts; without a name on the command line, all are run.
        run: called as `run(part, out, overrides)`, where `out` is for run folders.

    Raises:
        SystemExit: with the code 2 and a message on an error.
    """
    names = list(parts)
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(names))
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, help="how many; as the scenarios have it if not given")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in names]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(names)}")
    overrides = options.overrides + ([f"seeds={options.seeds}"] if options.seeds else [])
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory() as temporary:
        for part in options.parts or names:
            try:
                tables, finding = run(part, options.out or Path(temporary), overrides)
            except FedsimError as error:
                parser.exit(2, f"{error}\n")
            console.print(*tables, finding, sep="\n")
