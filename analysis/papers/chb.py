"""Table I of Chen, Blum, Sadler on ijcnn1: published beside measured.

    python analysis/papers/chb.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts are linear, lasso, logistic and network, all four where none is named; each runs
its scenario under scenarios/papers/, says what the same accuracy costs the scenario's fleet in
bits, seconds and joules, and draws that as analysis/figures/chb-ijcnn1-<task>.png. They need the
ijcnn1 file: FEDSIM_DATA names its folder, or `fedsim fetch ijcnn1` gets it.

Two things to know when reading the table. The paper prints one iteration more for HB and GD
than there are. And CHB's decisions on the logistic problem hang on the last bits of a sum:
algebraically equal ways to write it give 546 to 560 transmissions, and arithmetic with 64
bits of mantissa gives 549 / 5329.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

import fedsim
from fedsim.analysis import (
    Decisions,
    cost_to_target,
    listing,
    progress,
    quantity,
    run_parts,
    save,
)
from fedsim.analysis.compare.cost_tables import with_bits

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

LABELS = {"base": "CHB", "hb": "HB", "lag": "LAG", "gd": "GD"}

COSTS = {"transmissions": "", "round": "", "bits": "bit", "t": "s", "joules": "J"}
"""What the target costs, and in which unit: first what the paper counts."""

HEADS = ("transmissions", "iterations", "bits", "time", "energy")

PUBLISHED: dict[str, dict[str, tuple[int, float]]] = {
    "linear": {"chb": (465, 109), "hb": (1071, 119), "lag": (799, 203), "gd": (1917, 213)},
    "lasso": {"chb": (424, 108), "hb": (1071, 119), "lag": (608, 197), "gd": (1899, 211)},
    "logistic": {
        "chb": (546, 5324),
        "hb": (53244, 5916),
        "lag": (864, 9248),
        "gd": (88866, 9874),
    },
    "network": {
        "chb": (1083, 6.24e-6),
        "hb": (4500, 6.34e-6),
        "lag": (1361, 3.75e-5),
        "gd": (4500, 3.79e-5),
    },
}
"""Transmissions, with the iterations to the target gap; for the network, of which the number
of iterations is fixed, with the squared gradient norm at its end."""


def count_rows(task: str, result: fedsim.Result) -> list[Sequence[str]]:
    """Return a row a method: published and measured transmissions and iterations."""
    rows: list[Sequence[str]] = []
    for row in result.summary.to_dict("records"):
        sent, iterations = PUBLISHED[task][row["algorithm"]]
        measured = f"{row['transmissions']} / {row['rounds']}"
        off = f"{row['transmissions'] - sent:+d} / {row['rounds'] - iterations:+.0f}"
        rows.append((task, row["algorithm"], f"{sent} / {iterations:.0f}", measured, off))
    return rows


def norm_rows(result: fedsim.Result) -> list[Sequence[str]]:
    """Return a row a method of the network: means over the seeds, with least and largest."""
    ends = result.rounds.drop_duplicates(["variant", "seed"], keep="last")
    norms = ends.set_index(["variant", "seed"])["gradient_norm"] ** 2
    runs = result.summary.set_index(["variant", "seed"]).assign(norm=norms)
    rows: list[Sequence[str]] = []
    for kind, group in runs.groupby("algorithm", sort=False):
        sent, norm = PUBLISHED["network"][str(kind)]
        measured = f"{_span(group['transmissions'], '.0f')} / {_span(group['norm'], '.2e')}"
        share = f"{group['transmissions'].mean() / 4500:.2f} of 4500, {sent / 4500:.2f} published"
        rows.append(("network", str(kind), f"{sent} / {norm:.2e}", measured, share))
    return rows


def _span(values: pd.Series, form: str) -> str:
    if len(values) == 1:
        return format(values.iloc[0], form)
    return f"{values.mean():{form}} ({values.min():{form}} to {values.max():{form}})"


def target(task: str, rounds: pd.DataFrame) -> tuple[str, float]:
    """Return the column that costs are compared at, and what it has to reach.

    The network has no target: it is what the method with the largest norm ends at.
    """
    if task == "network":
        ends = rounds.drop_duplicates(["variant", "seed"], keep="last")
        return "gradient_norm", float(ends["gradient_norm"].max())
    return "gap", float(rounds["target"].iloc[0])


def spent(task: str, result: fedsim.Result) -> pd.DataFrame:
    """Return what each run took to the target: a row a run, with the columns of `COSTS`."""
    rounds = result.rounds.assign(target=result.summary["target"].max())
    column, level = target(task, rounds)
    return with_bits(cost_to_target(rounds, level, column))


def costs(task: str, result: fedsim.Result) -> pd.DataFrame:
    """Return what the target took on the mean over seeds: a row a method, a column of `COSTS`."""
    own = spent(task, result)
    means = own.groupby("variant", sort=False, observed=True)[list(COSTS)].mean()
    return means.reindex(list(LABELS))


def cost_table(task: str, table: pd.DataFrame) -> Table:
    """Return the costs as a table for reading."""
    rows = [
        (LABELS[str(name)], *(quantity(row[cost], unit) for cost, unit in COSTS.items()))
        for name, row in table.iterrows()
    ]
    return listing(f"{task}: to the target on nine phones over LTE", ("method", *HEADS), rows)


def finding(task: str, runs: pd.DataFrame) -> str:
    """Return a sentence on whether the paper's ranking is that by bits, seconds and joules.

    Args:
        task: of `PUBLISHED`.
        runs: as `spent` has them; the rule of `fedsim compare` decides which is cheaper.
    """
    decided, orders = Decisions.of(runs, list(COSTS)), dict[str, list[str]]()
    for cost, head in zip(COSTS, HEADS, strict=True):
        orders.setdefault(decided.chain(cost, LABELS), []).append(head)
    ranked = "; ".join(f"by {_listed(heads)} {order}" for order, heads in orders.items())
    shares = [decided.pair("base", "hb", cost).ratio for cost in COSTS]
    parts = [f"{share:.0%} of its {head}" for share, head in zip(shares, HEADS, strict=True)]
    return fill(f"{task}: {ranked}. Of what HB takes, CHB takes {_listed(parts)}.", 88)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def draw(task: str, result: fedsim.Result) -> Figure:
    """Draw the gap, or the gradient norm, against iterations, bits, seconds and joules."""
    column = "gradient_norm" if task == "network" else "gap"
    label = r"gradient norm $\|\nabla f\|$" if task == "network" else ""
    title = f"Table I of CHB: {task} on ijcnn1\n{result.setting}"
    return progress(result.rounds, LABELS, column, ylabel=label, title=title)


def ran(task: str, out: Path, overrides: Sequence[str]) -> fedsim.Result:
    """Run a task."""
    return fedsim.run(SCENARIOS / f"chb-ijcnn1-{task}.yaml", out=out / task, overrides=overrides)


def table(results: Mapping[str, fedsim.Result]) -> Table:
    """Return published beside measured."""
    rows: list[Sequence[str]] = []
    for task, result in results.items():
        rows += norm_rows(result) if task == "network" else count_rows(task, result)
    heads = ("task", "method", "published", "measured", "difference")
    return listing("Table I: transmissions / iterations, or squared gradient norm", heads, rows)


def run(
    part: str, out: Path, overrides: Sequence[str] = (), figures: Path | None = None
) -> tuple[list[Table], str]:
    """Run a part.

    Args:
        part: of `PUBLISHED`.
        out: where the run folders go.
        overrides: of the scenario, "KEY=VALUE".
        figures: where the figure goes, `FIGURES` where not given.

    Returns:
        The tables, and whether the paper's ranking is that of the costs.
    """
    result = ran(part, out, overrides)
    save(draw(part, result), (figures or FIGURES) / f"chb-ijcnn1-{part}.png")
    tables = [table({part: result}), cost_table(part, costs(part, result))]
    return tables, finding(part, spent(part, result))


def main() -> None:
    """Run the requested tasks, print their tables and draw their figures."""
    run_parts(__doc__ or "", PUBLISHED, run)


if __name__ == "__main__":
    main()
