"""The figures and tables of papers: runs them, and prints published beside measured.

    python analysis/papers/run.py PAPER [ROW ...] [--out DIR] [--set KEY=VALUE] [--seeds N]
    python analysis/papers/run.py --page

PAPER is the name of a file here, such as chb; its rows are all run where none is named. FORMAT.md
states the format of the files. With --out the run folders stay, and an interrupted command
resumes. What a row shows at its own settings, without --set and --seeds, is kept in results/, its
figures in analysis/figures/, and README.md is written anew; --page does only the latter.
"""

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from reproduction import drawing, functions, measures, model, page, states
from reproduction.measures import Found
from reproduction.model import Row
from rich.console import Console

import fedsim
from fedsim.core.errors import FedsimError
from fedsim.results.analysis import listing, save

FIGURES = model.FOLDER.parent / "figures"


def measure(
    row: Row, out: Path, overrides: Sequence[str] = (), cases: int = 0, search: int = 0
) -> tuple[Found, dict[str, fedsim.Result]]:
    """Run a row.

    Args:
        row: which one.
        out: its run folders go here.
        overrides: of its scenarios; they take the place of the row's own.
        cases: how many of its cases are run; all if 0.
        search: how many combinations of a search are run; all if 0.

    Returns:
        What was measured, and the results by case: of what is tried, the best runs.
    """
    settings = [
        whole._replace(search=whole.search[: search or None])
        for whole in row.settings()[: cases or None]
    ]
    fresh = not any((out / measures.folder(each)).exists() for each in settings)
    began = sum(os.times()[:4])  # of this process and of those it has started
    made = functions.PREPARED[row.prepared](out) if row.prepared else []
    numbers, tried, results = dict[str, Sequence[float]](), dict[str, str](), {}
    for setting in settings:
        own = measures.run(setting, out / measures.folder(setting), [*made, *overrides])
        results[setting.name], found, best = measures.take(row, setting, own)
        numbers.update(found)
        tried.update(best)
    words = next(iter(results.values())).setting
    seconds = sum(os.times()[:4]) - began if fresh else math.nan
    return Found(numbers, words, tried, seconds), results


def show(key: str, row: Row, found: Found, console: Console) -> None:
    """Print a row: its numbers, its checks and its state."""
    heads, cells = page.table(row, found)
    console.print(listing(f"{key}: {row.place}", heads, cells))
    own = states.verdicts(row, found.numbers)
    for each in own:
        seen = f" ({each.seen})" if each.seen else ""
        console.print(f"  {'yes' if each.holds else 'NO '} {each.text}{seen}", markup=False)
    console.print(f"{states.summary(row, own)}\n", markup=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the rows that were asked for."""
    options = parse(arguments)
    if options.page:
        page.write()
        return
    paper = model.read(model.FOLDER / f"{options.paper}.yaml")
    overrides = [*options.overrides, *([f"seeds={options.seeds}"] if options.seeds else [])]
    console = Console(width=None if sys.stdout.isatty() else 160)
    with tempfile.TemporaryDirectory() as temporary:
        for key in options.rows or paper.every:
            row = paper.every[key]
            out = (options.out or Path(temporary)) / options.paper
            try:
                found, results = measure(row, out, overrides)
            except FedsimError as error:
                if options.rows:
                    sys.exit(f"{error}")
                console.print(f"{key}: not run. {error}\n", markup=False)
                continue
            show(key, row, found, console)
            if not overrides:
                keep(options.paper, key, row, found, results)


def keep(paper: str, key: str, row: Row, found: Found, results: dict[str, fedsim.Result]) -> None:
    """Keep what a row shows: its numbers and figures, and the page."""
    kept = measures.load(paper)
    if math.isnan(found.seconds) and key in kept:
        found = replace(found, seconds=kept[key].seconds)
    every = {**kept, key: found}
    order = [name for name in model.read(model.FOLDER / f"{paper}.yaml").every if name in every]
    measures.store(paper, {name: every[name] for name in order})
    for name, figure in row.figures.items():
        save(drawing.draw(figure, row, results, found), FIGURES / f"{name}.png")
    page.write()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for.

    Raises:
        SystemExit: it names no paper, or a row that the paper does not have.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paper", nargs="?", metavar="PAPER", help=", ".join(model.names()))
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all if none is named")
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, help="how many; as the scenarios have it if not given")
    parser.add_argument(
        "--page", action="store_true", help="only write README.md from what is kept"
    )
    options = parser.parse_args(arguments)
    if not options.page:
        _check(parser, "paper", [options.paper or ""], model.names())
        rows = model.read(model.FOLDER / f"{options.paper}.yaml").every
        _check(parser, "row", options.rows, rows)
    return options


def _check(
    parser: argparse.ArgumentParser, kind: str, given: Sequence[str], known: Collection[str]
) -> None:
    if unknown := [name for name in given if name not in known]:
        parser.error(f"got the {kind} {unknown[0]!r}, expected one of {', '.join(known)}")


if __name__ == "__main__":
    main()
