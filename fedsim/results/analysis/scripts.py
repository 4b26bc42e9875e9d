"""The command line that the scripts of papers have in common: parts, and what each prints."""

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
    """Run the parts that were asked for on the command line, and print what each returns.

    Args:
        doc: of the script; its first line is what the help says.
        parts: their names, all of which are run where none is named.
        run: called as `run(part, out, overrides)`, where `out` is for run folders.

    Raises:
        SystemExit: with 2 and a message if something is wrong.
    """
    known = list(parts)
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(known))
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, help="how many; as the scenarios have it if not given")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in known]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(known)}")
    overrides = options.overrides + ([f"seeds={options.seeds}"] if options.seeds else [])
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory() as temporary:
        for part in options.parts or known:
            try:
                tables, finding = run(part, options.out or Path(temporary), overrides)
            except FedsimError as error:
                parser.exit(2, f"{error}\n")
            console.print(*tables, finding, sep="\n")
