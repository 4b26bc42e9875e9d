"""Chen, Blum, Sadler (CHB) on small data sets, and its network on Adult: what censoring saves.

    python analysis/papers/chb_small.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts are small-linear, small-lasso, small-logistic, small-labels and adult-network, all where
none is named. Those called small run scenarios/papers/chb-small-*.yaml on nine workers, three a
data set, as in LAG's experiments: Housing, Body fat and Abalone for regression; Ionosphere, Adult
and Derm for classification, with labels -1 and 1, or in small-labels as the files have them, where
0 stands for -1 in two sets of three. The files are a user's own, in the form of the LAG authors'
code (github.com/chentianyi1991/LAG-code): FEDSIM_DATA names the folder that LAG-code/ is in, with
data2, data9, data11, data28, data29 and data30, each with data.txt (a row a line, numbers between
blanks) and y.txt. adult-network takes a1a of the catalogue. What the paper's Table II and its
Figures 6, 7 and 12 print could not be seen, so that nothing published stands beside the counts.
Draws analysis/figures/chb-PART.png.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from rich.table import Table

import fedsim
from fedsim.analysis import cost_to_target, listing, progress, quantity, run_parts, save
from fedsim.errors import DataError
from fedsim.ports import Array

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

LABELS = {"base": "CHB", "hb": "HB", "lag": "LAG", "gd": "GD"}

REGRESSION = {"Housing": "data28", "Body fat": "data29", "Abalone": "data30"}
CLASSIFICATION = {"Ionosphere": "data2", "Adult": "data9", "Derm": "data11"}
"""The folders of the data sets, in the workers' order."""

EACH = 3
"""The workers that share a data set."""

PARTS = {
    "small-linear": "chb-small-linear",
    "small-lasso": "chb-small-lasso",
    "small-logistic": "chb-small-logistic",
    "small-labels": "chb-small-logistic",
    "adult-network": "chb-adult-network",
}
"""The scenarios of the parts."""

TITLES = {
    "small-linear": "linear regression on Housing, Body fat and Abalone",
    "small-lasso": "lasso on Housing, Body fat and Abalone",
    "small-logistic": "logistic regression on Ionosphere, Adult and Derm",
    "small-labels": "logistic regression on Ionosphere, Adult and Derm, labels as in the files",
    "adult-network": "neural network on Adult",
}
"""What the figures of the parts are called."""

COSTS = {"transmissions": "", "round": "", "bits": "bit", "t": "s", "joules": "J"}
HEADS = ("transmissions", "iterations", "bits", "time", "energy")


def numbers(name: str, file: str) -> Array:
    """Return what is in a user's file of the data set `name`.

    Raises:
        DataError: there is none, or it is not a table of numbers.
    """
    folder = os.environ.get("FEDSIM_DATA")
    if not folder:
        raise DataError("data.path", "FEDSIM_DATA is not set; it names the folder of LAG-code/")
    path = Path(folder, "LAG-code", file)
    try:
        return np.loadtxt(path)
    except OSError as error:
        text = f"{name} is not on this machine: looked for {path}"
        remedy = "LAG-code/ is a copy of github.com/chentianyi1991/LAG-code, or files of that form"
        raise DataError("data.path", f"{text}; {remedy}") from error
    except ValueError as error:
        text = f"{path} is not a table of numbers, a row a line: {error}"
        raise DataError("data.path", text) from error


def read(name: str, folder: str) -> tuple[Array, Array]:
    """Return the features (n, d) and the labels (n,) of a data set.

    Raises:
        DataError: a file is missing or wrong, or the two have not as many rows.
    """
    X, y = numbers(name, f"{folder}/data.txt"), numbers(name, f"{folder}/y.txt")
    if X.ndim != 2 or y.shape != X.shape[:1] or len(y) < EACH:
        seen = f"data.txt has the shape {X.shape}, y.txt {y.shape}"
        text = f"{seen}; (n, d) and (n,) are needed, with n of at least {EACH}"
        raise DataError("data.path", f"{name}: {text}")
    return X, y


def joined(part: str, out: Path) -> Path:
    """Write the archive of a part, with the number of the worker of each row, and return it.

    A data set's rows go to its workers in blocks of floor(n/3), the rest is left out; all sets keep
    as many features as the smallest has, the first ones.

    Raises:
        DataError: see `read`.
    """
    regression = part in ("small-linear", "small-lasso")
    sets = [read(*each) for each in (REGRESSION if regression else CLASSIFICATION).items()]
    features = min(X.shape[1] for X, _ in sets)
    rows = [len(y) // EACH for _, y in sets]
    labels = [y[: EACH * n] for (_, y), n in zip(sets, rows, strict=True)]
    if part == "small-logistic":
        labels = [np.where(y > 0, 1.0, -1.0) for y in labels]
    path = out / f"{part}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        X=np.vstack([X[: EACH * n, :features] for (X, _), n in zip(sets, rows, strict=True)]),
        y=np.concatenate(labels),
        client=np.repeat(np.arange(EACH * len(sets)), np.repeat(rows, EACH)),
    )
    return path


def costs(result: fedsim.Result) -> pd.DataFrame:
    """Return what the target took, mean over seeds: a row a method, a column of `COSTS`.

    The network has no target: it is the norm that the method with the largest ends at.
    """
    column, level = "gap", float(result.summary["target"].max())
    if "gradient_norm" in result.rounds:
        ends = result.rounds.drop_duplicates(["variant", "seed"], keep="last")
        column, level = "gradient_norm", float(ends["gradient_norm"].max())
    reached = cost_to_target(result.rounds, level, column)
    reached["bits"] = reached["bits_up"] + reached["bits_down"]
    return reached.groupby("variant", sort=False, observed=True)[list(COSTS)].mean()


def norms(result: fedsim.Result) -> Table:
    """Return transmissions and squared gradient norms of the network at its end."""
    ends = result.rounds.drop_duplicates(["variant", "seed"], keep="last")
    squares = (ends.set_index(["variant", "seed"])["gradient_norm"] ** 2).groupby("variant")
    sent = result.summary.groupby("variant")["transmissions"]
    rows = [
        (
            label,
            f"{sent.mean()[name]:.0f} ({sent.min()[name]:.0f} to {sent.max()[name]:.0f})",
            f"{squares.mean()[name]:.2e}",
        )
        for name, label in LABELS.items()
    ]
    heads = ("method", "transmissions", "squared norm")
    return listing("at the end: mean of the seeds, least and largest", heads, rows)


def table(part: str, spent: pd.DataFrame) -> Table:
    """Return a row a method: what its way to the target took."""
    rows = [
        (LABELS[str(name)], *(quantity(row[cost], unit) for cost, unit in COSTS.items()))
        for name, row in spent.reindex(list(LABELS)).iterrows()
    ]
    return listing(f"{part}: to the target on nine phones over LTE", ("method", *HEADS), rows)


def finding(part: str, spent: pd.DataFrame) -> str:
    """Return the costs of CHB as shares of those of HB."""
    if spent.loc[["base", "hb"]].isna().any(axis=None):
        return f"{part}: CHB or HB did not reach the target."
    shares = (spent.loc["base"] / spent.loc["hb"]).to_numpy()
    told = [f"{share:.0%} of its {head}" for share, head in zip(shares, HEADS, strict=True)]
    return fill(f"{part}: of what HB takes, CHB takes {', '.join(told)}.", 88)


def run(
    part: str, out: Path, overrides: Sequence[str] = (), figures: Path = FIGURES
) -> tuple[list[Table], str]:
    """Run a part, draw its figure, and return its tables and what CHB saves.

    Args:
        part: of `PARTS`.
        out: where the archive and the run folders go.
        overrides: of the scenario, "KEY=VALUE".
        figures: where the figure goes.

    Raises:
        DataError: a file of the user's is missing or wrong.
    """
    network = part == "adult-network"
    own = () if network else (f"problem.data.path={joined(part, out).resolve()}",)
    scenario = SCENARIOS / f"{PARTS[part]}.yaml"
    result = fedsim.run(scenario, out=out / part, overrides=[*own, *overrides])
    spent = costs(result)
    title = f"CHB: {TITLES[part]}\n{result.setting}"
    column, label = ("gradient_norm", r"gradient norm $\|\nabla f\|$") if network else ("gap", "")
    figure = progress(result.rounds, LABELS, column, ylabel=label, title=title)
    save(figure, figures / f"chb-{part}.png")
    tables = [table(part, spent)]
    return [norms(result), *tables] if network else tables, finding(part, spent)


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", PARTS, run)


if __name__ == "__main__":
    main()
