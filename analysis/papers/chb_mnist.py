"""Table III of Chen, Blum, Sadler (CHB) on MNIST: published beside measured.

    python analysis/papers/chb_mnist.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts are mnist-linear, mnist-lasso and mnist-logistic, all where none is named; each runs
scenarios/papers/chb-PART.yaml and draws the objective against transmissions, iterations, bits and
joules as analysis/figures/chb-PART.png. They need MNIST's files: FEDSIM_DATA names their folder, or
`fedsim fetch mnist` gets them. An iteration goes through 376 MB of pixels; with --out a command
that was cut off goes on.
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich.table import Table

import fedsim
from fedsim.analysis import (
    cumulative,
    entitle,
    label_axis,
    listing,
    look,
    name_variants,
    panels,
    run_parts,
    save,
)
from fedsim.analysis.style import shared_upwards

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

LABELS = {"base": "CHB", "hb": "HB", "lag": "LAG", "gd": "GD"}

TITLES = {
    "mnist-linear": "linear regression on MNIST",
    "mnist-lasso": "lasso on MNIST",
    "mnist-logistic": "logistic regression on MNIST",
}

SPENT = {
    "transmissions": ("transmissions", ""),
    "round": ("iterations", ""),
    "bits": ("bits, up and down", "bit"),
    "joules": ("energy", "J"),
}
"""What the figure has the objective against: how it is called, and the unit."""

PUBLISHED = {
    "mnist-linear": {"base": 191, "lag": 179, "hb": 18000, "gd": 18000},
    "mnist-lasso": {"base": 191, "lag": 184, "hb": 18000, "gd": 18000},
    "mnist-logistic": {"base": 45, "lag": 90, "hb": 18000, "gd": 18000},
}
"""Transmissions in 2,000 iterations."""


def table(part: str, result: fedsim.Result) -> Table:
    """Return a row a method: published and measured transmissions, and where the objective ends."""
    ends = result.rounds.groupby("variant", observed=True)["objective"].last()
    summary = result.summary.set_index("variant")
    rows = [
        (
            label,
            str(PUBLISHED[part][name]),
            str(summary.loc[name, "transmissions"]),
            str(summary.loc[name, "rounds"]),
            f"{ends[name]:.5g}",
        )
        for name, label in LABELS.items()
    ]
    heads = ("method", "published", "measured", "iterations", "objective")
    return listing(f"Table III: transmissions, {part}", heads, rows)


def draw(part: str, result: fedsim.Result) -> Figure:
    """Draw the objective against all of `SPENT`, which methods part in by decades."""
    figure, every = panels(len(SPENT), sharey=True)
    totals = cumulative(result.rounds)
    totals["bits"] = totals["bits_up"] + totals["bits_down"]
    for axis, (cost, (label, unit)) in zip(every, SPENT.items(), strict=True):
        for number, (variant, name) in enumerate(LABELS.items()):
            own = totals[totals["variant"] == variant]
            axis.plot(own[cost], own["objective"], label=name, **look(number))
        label_axis(axis.xaxis, label, unit, log=True)
    shared_upwards(every, 2, "objective", log=True)
    name_variants(figure)
    entitle(figure, f"Table III of CHB: {TITLES[part]}\n{result.setting}")
    return figure


def run(
    part: str, out: Path, overrides: Sequence[str] = (), figures: Path = FIGURES
) -> tuple[list[Table], str]:
    """Run a part.

    Args:
        part: of `PUBLISHED`.
        out: where the run folders go.
        overrides: of the scenario, "KEY=VALUE".
        figures: where the figure goes.

    Returns:
        The table, and what its published column counts.
    """
    result = fedsim.run(SCENARIOS / f"chb-{part}.yaml", out=out / part, overrides=overrides)
    save(draw(part, result), figures / f"chb-{part}.png")
    return [table(part, result)], "Published are the transmissions of 2,000 iterations."


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", PUBLISHED, run)


if __name__ == "__main__":
    main()
