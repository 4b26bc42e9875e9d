"""From a table to a paper, as a user does it: every command on three tables, with its times.

    python analysis/ten_minutes.py [--only NAME] [--page]

The tables are others' own: breast cancer as scikit-learn ships it, with a line of counts and no
names; the Titanic of OpenML, with free text, gaps and columns that give the answer away; and
OpenML's penguins as a spreadsheet may export them, with a title, semicolons, decimal commas,
Latin-1, marks for missing cells, blanks after names and repeated rows. All three come with
scikit-learn, so that nothing is downloaded. --page writes docs/tutorials/table-to-paper.md anew.
"""

import argparse
import gzip
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from io import StringIO
from itertools import islice
from pathlib import Path
from shutil import which
from textwrap import indent
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/tutorials/table-to-paper.md"
MOST = 45  # lines of a command's output that the page shows


class Table(NamedTuple):
    """A table, and what its user says of it.

    Attributes:
        name: of the study.
        file: its name.
        write: writes it into a folder.
        options: of `fedsim init --from`.
        about: what is wrong with it.
    """

    name: str
    file: str
    write: Callable[[Path], None]
    options: tuple[str, ...]
    about: str


class Step(NamedTuple):
    """A command as it was run.

    Attributes:
        command: as typed.
        output: what the terminal showed.
        seconds: that the user waited.
        computing: seconds of processor time.
    """

    command: str
    output: str
    seconds: float
    computing: float


def openml(number: int) -> pd.DataFrame:
    """Return a data set of OpenML that comes with scikit-learn's tests, its cells as text.

    Args:
        number: of the data set.
    """
    folder = files("sklearn.datasets.tests.data.openml") / f"id_{number}"
    packed = next(each for each in folder.iterdir() if each.name.endswith(".arff.gz"))
    head, _, body = gzip.decompress(packed.read_bytes()).decode().partition("@DATA")
    if not body:
        head, _, body = head.partition("@data")
    names = re.findall(r"^@attribute\s+'?([^'\s]+)", head, re.IGNORECASE | re.MULTILINE)
    return pd.read_csv(StringIO(body.strip()), names=names, dtype=str, na_filter=False)


def write_breast_cancer(path: Path) -> None:
    """Write scikit-learn's file as it is."""
    path.write_bytes((files("sklearn.datasets.data") / "breast_cancer.csv").read_bytes())


def write_titanic(path: Path) -> None:
    """Write OpenML's Titanic as CSV; a missing cell is a question mark there."""
    openml(40945).to_csv(path, index=False)


def write_penguins(path: Path) -> None:
    """Write OpenML's penguins as a German spreadsheet would, with a seed for the blanks."""
    rng = np.random.default_rng(0)
    frame = openml(42585).replace("?", "k.A.")
    for name in frame.columns[2:6]:
        frame[name] = frame[name].str.replace(".0", ",0").str.replace(".", ",")
    blanks = np.where(rng.random(len(frame)) < 0.2, " ", "")
    frame["island"] = frame["island"] + blanks
    frame.insert(0, "Proben-Nr", [f"P{number:05d}" for number in rng.permutation(len(frame))])
    frame["Tag"] = pd.date_range("2007-11-11", periods=len(frame)).strftime("%d.%m.%Y")
    frame["Bemerkung"] = [
        f"Tier {n} war müde; es schlief" if n % 3 == 0 else "" for n in frame.index
    ]
    names = {"species": "Art", "island": "Insel", "sex": "Geschlecht", "body_mass_g": "Gewicht (g)"}
    text = frame.rename(columns=names).to_csv(sep=";", index=False)
    again = "\n".join(text.splitlines()[-3:])
    path.write_bytes(f"Auszug der Kolonie\n\n{text}\n;;;;;;;;;\n{again}\n".encode("latin-1"))


TABLES = (
    Table("breast-cancer", "breast_cancer.csv", write_breast_cancer, (),
          "breast cancer as scikit-learn ships it: a line of counts, no names of columns"),
    Table("titanic", "titanic.csv", write_titanic,
          ("--client", "embarked", "--drop", "boat", "--drop", "body"),
          "OpenML's Titanic: names, tickets, gaps, and two columns that give the answer away"),
    Table("pinguine-2009", "Pinguine 2009.csv", write_penguins,
          ("--target", "Art", "--client", "Insel"),
          "OpenML's penguins, spoiled: a title, semicolons, decimal commas, Latin-1, `k.A.` for"
          " missing cells, blanks after names, a remark, empty and repeated rows"),
)  # fmt: skip


def commands(table: Table) -> Iterator[list[str]]:
    """Yield what the user types, in order; all but the first within the study's folder."""
    name = table.name
    yield ["fedsim", "init", "--from", table.file, *table.options, name]
    yield ["fedsim", "check", f"{name}.yaml"]
    yield ["fedsim", "run", "-q", f"{name}.yaml"]
    yield ["fedsim", "compare", f"runs/{name}"]
    yield ["fedsim", "paper", f"runs/{name}", "--out", "paper"]
    if which("latexmk") or which("pdflatex"):
        yield ["pdflatex", "-interaction=batchmode", "main.tex"]
    yield ["fedsim", "report", f"runs/{name}"]
    yield ["fedsim", "explore", f"runs/{name}"]


def typed(words: Sequence[str], folder: Path) -> Step:
    """Run a command in a folder, and return what the terminal shows.

    Raises:
        subprocess.CalledProcessError: it fails.
    """
    program = [sys.executable, "-m", *words] if words[0] == "fedsim" else list(words)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    before, since = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(
        program, cwd=folder, env=environment, text=True, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    seconds, after = perf_counter() - since, resource.getrusage(resource.RUSAGE_CHILDREN)
    computing = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shown = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    return Step(shlex.join(words), shown.replace(f"{folder}/", ""), seconds, computing)


def study(table: Table, folder: Path, most: int | None = None) -> list[Step]:
    """Write a table into a folder, and make its study there, command by command.

    Args:
        table: the table.
        folder: where the table and the study are written.
        most: commands that are run; all if None.
    """
    table.write(folder / table.file)
    steps = []
    for words in islice(commands(table), most):
        place = folder if words[1] == "init" else folder / table.name
        steps.append(typed(words, place / "paper" if words[0] == "pdflatex" else place))
    return steps


def times(found: dict[str, list[Step]]) -> str:
    """Return the times of all commands as a table in Markdown: waited, and processor time."""
    lines = ["| command | " + " | ".join(found) + " |", "|---|" + "---:|" * len(found)]
    first = next(iter(found.values()))
    for place, step in enumerate(first):
        name = " ".join(step.command.split()[: 2 if step.command.startswith("fedsim") else 1])
        cells = [f"{s[place].seconds:.1f} s ({s[place].computing:.1f} s)" for s in found.values()]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    sums = [
        f"{sum(s.seconds for s in steps):.0f} s ({sum(s.computing for s in steps):.0f} s)"
        for steps in found.values()
    ]
    return "\n".join([*lines, f"| all | {' | '.join(sums)} |"])


def page(found: dict[str, list[Step]]) -> str:
    """Return the page of the site: the times, then every command with its output."""
    parts = [f"{_HEAD}\n{_load()}", times(found)]
    for table in TABLES:
        if table.name not in found:
            continue
        parts.append(f"## {table.name}\n\nThe table is {table.about}.")
        for step in found[table.name]:
            lines = step.output.splitlines()
            if len(lines) > MOST + 1:  # a line is not cut for a line that says so
                lines = [*lines[:MOST], f"... ({len(lines) - MOST} more lines)"]
            parts.append(indent("\n".join([f"$ {step.command}", *lines]), "    "))
    return "\n\n".join(parts) + "\n"


_HEAD = """\
# From a table to a paper

This page turns a table with rows by hospital, island or port into a study: an answer with its
uncertainty, figures, LaTeX tables and a paragraph on methods. It takes eight commands and no edit
of a file. `python analysis/ten_minutes.py --page` wrote the page, on tables that come with
scikit-learn. The first table has the seconds that each command takes, and in brackets its
processor time. All outputs are of the same calls."""


def _load() -> str:
    """Return how busy the machine is, since waits and processor times depend on it."""
    load = os.getloadavg()[0]
    return f"The machine had {os.cpu_count()} cores and an average load of {load:.1f}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the studies, show their transcripts, and write the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[table.name for table in TABLES], action="append")
    parser.add_argument("--out", type=Path, help="where the studies are kept; else they are not")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        found = {}
        for table in TABLES:
            if given.only and table.name not in given.only:
                continue
            folder = (given.out or Path(scratch)) / table.name
            folder.mkdir(parents=True)
            found[table.name] = study(table, folder)
    written = page(found)
    print(written)
    if given.page:
        PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
