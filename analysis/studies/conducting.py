"""What several studies share: their command, their seeds, their intervals, and their worlds.

from conducting import conduct
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
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
from fedsim.results.analysis import cost_to_target, save

LEVEL = 0.9
"""The level of all intervals."""

SEEDS = 16
"""Seeds 1 to 16 are those that a study judges."""

TUNING, TUNING_SEEDS = 101, 2
"""The first of the seeds on which steps are chosen, and how many they are; no study judges them."""

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
    tune: Callable[..., pd.DataFrame] | None = None,
) -> None:
    """Read the command line, run a study, print its tables and its finding, and draw its figure.

    The finding also renews the answer on the page, `README.md` beside the tables.

    Args:
        doc: of the script; its first line is the command's help.
        run: takes a folder and `jobs`, and returns a table, or several.
        shown: take these tables, and return what is printed and drawn: tables, finding, figure.
        figure: where the figure goes.
        files: where the tables go, as many as there are.
        width: of what is printed, where it is not a terminal.
        tune: takes `jobs`, and returns the rounds of candidates: see `tried`.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if tune is not None:
        parser.add_argument("--tune", action="store_true", help="print the rounds of other steps")
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs are made at a time")
    given = parser.parse_args()
    if tune is not None and given.tune:
        print(tune(jobs=given.jobs).to_string())
        return
    with tempfile.TemporaryDirectory() as folder:
        found = run(given.out or Path(folder), jobs=given.jobs)
    frames = (found,) if isinstance(found, pd.DataFrame) else tuple(found)
    tables, finding, draw = shown
    console = Console(width=None if sys.stdout.isatty() else width)
    for each in tables(*frames):
        console.print(each)
    answer = finding(*frames)
    print(answer)
    for path, frame in zip(files, frames, strict=True):
        frame.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    save(draw(*frames), figure)
    if files:
        renew(files[0].with_name("README.md"), files[0].stem, answer)


def renew(page: Path, study: str, answer: str) -> None:
    """Replace the answer of a study on its page, if it is between marks there."""
    begin, end = f"<!-- answer: {study} -->\n", "<!-- end of answer -->"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    before, mark, rest = text.partition(begin)
    if mark:
        _, mark, after = rest.partition(end)
        page.write_text(f"{before}{begin}{answer}\n{end}{after}", encoding="utf-8")


def row_of(table: pd.DataFrame, *key: Any) -> pd.Series:
    """Return the row of a table whose index has these levels."""
    row = table.xs(key)
    assert isinstance(row, pd.Series), f"several rows have the key {key}"
    return row


def progress(items: Iterable[Any]) -> Iterable[Any]:
    """Show how many of the items are done."""
    return track(list(items), console=Console(stderr=True))


def bullets(*answers: str) -> str:
    """Return an answer of several points as text."""
    return "\n".join(
        fill(f"- {each}", 100, subsequent_indent="  ", break_on_hyphens=False) for each in answers
    )


def tried(
    scenario: Path,
    candidates: Mapping[str, Any],
    accuracy: float,
    overrides: Sequence[str] = (),
    jobs: int = 1,
) -> pd.DataFrame:
    """Return the rounds that variants take to a test accuracy, on the seeds for tuning.

    Returns:
        Indexed by variant: reached, the share of the seeds; round, the mean of those that reached.
    """
    given = [f"seed={TUNING}", f"seeds={TUNING_SEEDS}", f"variants={json.dumps(candidates)}"]
    given += [f"stop.test_accuracy={accuracy}", *overrides]
    with tempfile.TemporaryDirectory() as folder:
        rounds = fedsim.run(scenario, out=folder, overrides=given, jobs=jobs).rounds
    spent = cost_to_target(rounds, accuracy, "test_accuracy")
    return spent.groupby("variant", sort=False, observed=True)[["reached", "round"]].mean()


def in_networks(
    scenario: Path, out: Path, count: int, overrides: Sequence[str] = (), jobs: int = 1
) -> Iterator[tuple[int, fedsim.Result]]:
    """Yield seeds from 1 on and their runs, each in a network with constants of its own."""
    for seed, network in enumerate(draw_worlds(scenario, count, overrides=overrides), 1):
        given = [*overrides, *network, f"seed={seed}", "seeds=1"]
        yield seed, fedsim.run(scenario, out=out / f"{seed}", overrides=given, jobs=jobs)


def ratio(costs: Any, others: Any) -> dict[str, float]:
    """Return the ratio of two means over the same seeds, with its interval (bootstrap).

    >>> found = ratio([2.0, 4.0], [1.0, 2.0])
    >>> found["ratio"], found["low"], found["high"]
    (2.0, 2.0, 2.0)
    """
    both = np.array([costs, others], float)
    drawn = np.random.default_rng(0).integers(both.shape[1], size=(4000, both.shape[1]))
    means = both[:, drawn].mean(axis=2)
    low, high = np.quantile(means[0] / means[1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    one, other = both.mean(axis=1)
    return {"ratio": float(one / other), "low": float(low), "high": float(high)}


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
