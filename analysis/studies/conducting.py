"""What several studies share: their command, their probabilities, and their worlds.

from conducting import conduct
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats

import fedsim
from fedsim.addons.robustness import draw_worlds
from fedsim.results.analysis import save

LEVEL = 0.9
"""Of the intervals of probabilities."""

WORLDS = 500
"""How many networks are drawn at the least in which runs are priced again."""


def places(script: str) -> tuple[Path, Path, Path]:
    """Return where a study has its scenario, its figure and its table, which bear its name."""
    file = Path(script).resolve()
    root, name = file.parents[2], file.stem.replace("_", "-")
    scenario, figure = (f"scenarios/studies/{name}.yaml", f"analysis/figures/{name}.png")
    return root / scenario, root / figure, file.with_suffix(".csv")


def conduct(
    doc: str | None,
    run: Callable[..., Any],
    shown: tuple[Callable[..., Iterable[Table]], Callable[..., str], Callable[..., Figure]],
    figure: Path,
    files: Sequence[Path] = (),
    width: int = 150,
) -> None:
    """Read the command line, run a study, print its tables and its finding, and draw its figure.

    Args:
        doc: of the script; its first line is the command's help.
        run: takes a folder and `jobs`, and returns a table, or several.
        shown: take these tables, and return what is printed and drawn: tables, finding, figure.
        figure: where the figure goes.
        files: where the tables go, as many as there are.
        width: of what is printed, where it is not a terminal.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs are made at a time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(given.out or Path(folder), jobs=given.jobs)
    frames = (found,) if isinstance(found, pd.DataFrame) else tuple(found)
    tables, finding, draw = shown
    console = Console(width=None if sys.stdout.isatty() else width)
    for each in tables(*frames):
        console.print(each)
    print(finding(*frames))
    for path, frame in zip(files, frames, strict=True):
        frame.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    save(draw(*frames), figure)


def progress(items: Iterable[Any]) -> Iterable[Any]:
    """Show how many of the items are done."""
    return track(list(items), console=Console(stderr=True))


def in_networks(
    scenario: Path, out: Path, count: int, overrides: Sequence[str] = (), jobs: int = 1
) -> Iterator[tuple[int, fedsim.Result]]:
    """Yield seeds from 1 on and their runs, each in a network with constants of its own."""
    for seed, network in enumerate(draw_worlds(scenario, count, overrides=overrides), 1):
        given = [*overrides, *network, f"seed={seed}", "seeds=1"]
        yield seed, fedsim.run(scenario, out=out / f"{seed}", overrides=given, jobs=jobs)


def interval(wins: Any, tries: Any) -> tuple[Any, Any]:
    """Return the interval of a probability (Jeffreys), given how often something was so.

    >>> low, high = interval(5, 5)
    >>> round(float(low), 2), float(high)
    (0.71, 1.0)
    """
    wins, tries = np.asarray(wins), np.asarray(tries)
    law = stats.beta(wins + 0.5, tries - wins + 0.5)
    low = np.where(wins == 0, 0.0, law.ppf((1 - LEVEL) / 2))
    return low[()], np.where(wins == tries, 1.0, law.ppf((1 + LEVEL) / 2))[()]


def chances(
    folder: Path, target: str, pairs: Sequence[tuple[str, str]], worlds: int
) -> pd.DataFrame:
    """Return the probability that one variant costs less than another, over drawn constants.

    Args:
        folder: of the runs.
        target: such as "test_accuracy=0.9".
        pairs: a variant, and that with which it is compared.
        worlds: how many sets of constants are drawn at the least.

    Returns:
        variant, against, cost, ratio (typical, with the constants as written), probability (that a
        run of a drawn seed in a drawn world costs less), probability_low, probability_high.
    """
    known = fedsim.robust(folder, target=target, worlds=worlds).verdicts
    asked = known.set_index(["variant", "against"]).loc[list(pairs)].reset_index()
    return asked[
        ["variant", "against", "cost", "ratio", "probability", "probability_low",
         "probability_high"]
    ]  # fmt: skip


def chance(row: Any) -> str:
    """Return a probability with its interval, as a text."""
    ends = f"{row['probability_low']:.2f} to {row['probability_high']:.2f}"
    return f"{row['probability']:.2f} ({ends})"
