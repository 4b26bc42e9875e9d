"""Which radio, which method and which threshold for a fleet and its budget, and how sure is that?

    python analysis/designing.py [--budget JOULES] [--worlds N] [--out DIR]

Runs scenarios/designing.yaml and prices all of its designs in worlds that are drawn from the doubt
about the constants. Prints what each design takes in nine of ten worlds, in how many it is
Pareto-optimal and in how many it keeps to the budget, and draws the front with its doubt as
analysis/figures/designing.png.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

import fedsim
from fedsim.addons.robustness import Robustness
from fedsim.results.analysis import label_axis, listing, panels, quantity, save
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[1]
SCENARIO, FIGURE = ROOT / "scenarios/designing.yaml", ROOT / "analysis/figures/designing.png"
_LOW, _MIDDLE, _HIGH = 0.05, 0.5, 0.95
_MARKS = "os^D"


def designs(known: Robustness, budget: float) -> pd.DataFrame:
    """Return a row a design: its costs over worlds, and how often it is optimal or within budget.

    Args:
        known: of the study.
        budget: J, of the whole fleet to the target.

    Returns:
        variant; t_low, t, t_high (s) and joules_low, joules, joules_high (J), quantiles over
        worlds; optimal and within, shares of worlds. The cheapest in energy comes first.
    """
    worlds, rows = known.worlds, []
    shares = known.fronts.set_index("variant")["optimal"]
    for name in known.labels:
        row: dict[str, object] = {"variant": name}
        for cost in ("t", "joules"):
            ends = worlds[f"{name}.{cost}"].quantile([_LOW, _MIDDLE, _HIGH])
            row |= dict(zip((f"{cost}_low", cost, f"{cost}_high"), ends, strict=True))
        within = float((worlds[f"{name}.joules"] <= budget).mean())
        rows.append({**row, "optimal": float(shares[name]), "within": within})
    return pd.DataFrame(rows).sort_values("joules", kind="stable", ignore_index=True)


def drawn(table: pd.DataFrame, budget: float) -> Figure:
    """Draw time against energy, each with nine of ten worlds; full marks are mostly optimal."""
    figure, (axis,) = panels(1, 1, 4.6)
    radios = list(dict.fromkeys(name.partition("_")[0] for name in table["variant"]))
    for row in table.to_dict("records"):
        radio, _, censor = str(row["variant"]).partition("_")
        number = radios.index(radio)
        spans = [
            [[row[cost] - row[f"{cost}_low"]], [row[f"{cost}_high"] - row[cost]]]
            for cost in ("t", "joules")
        ]
        axis.errorbar(
            [row["t"]],
            [row["joules"]],
            xerr=spans[0],
            yerr=spans[1],
            fmt=_MARKS[number % len(_MARKS)],
            color=f"C{number}",
            fillstyle="full" if row["optimal"] >= 0.5 else "none",
            elinewidth=0.7,
            label=radio.removeprefix("radio-") if censor.endswith("-0") else None,
        )
    axis.axhline(budget, color="k", linestyle=":", linewidth=0.8)
    axis.legend(fontsize="small")
    label_axis(axis.xaxis, "time", "s", log=True)
    label_axis(axis.yaxis, "energy", "J", log=True)
    entitle(
        figure,
        "Which radio and which threshold?\nlines: nine of ten worlds; full: Pareto-optimal in most;"
        " dotted: budget",
    )
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, price, print and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=100.0, help="J, of the whole fleet")
    parser.add_argument("--worlds", type=int, default=1000, help="at the least")
    parser.add_argument("--rounds", type=int, help="fewer than the scenario's, for a trial")
    parser.add_argument("--out", type=Path, default=Path("runs/designing"))
    parser.add_argument("--figure", type=Path, default=FIGURE)
    asked = parser.parse_args(arguments)
    fewer = [] if asked.rounds is None else [f"stop={{rounds: {asked.rounds}}}"]
    study = fedsim.run(SCENARIO, out=asked.out, overrides=fewer)
    known = fedsim.robust(study.folder, worlds=asked.worlds, out=asked.out / "robustness")
    known.write(asked.out / "robustness")
    table = designs(known, asked.budget)
    heads = ("design", "time", "nine of ten", "energy", "nine of ten", "optimal", "in budget")
    rows = [
        (
            str(row["variant"]),
            quantity(row["t"], "s"),
            f"{quantity(row['t_low'], 's')} to {quantity(row['t_high'], 's')}",
            quantity(row["joules"], "J"),
            f"{quantity(row['joules_low'], 'J')} to {quantity(row['joules_high'], 'J')}",
            f"{100 * row['optimal']:.0f} %",
            f"{100 * row['within']:.0f} %",
        )
        for row in table.to_dict("records")
    ]
    Console(width=110).print(listing("designs, the cheapest in energy first", heads, rows))
    save(drawn(table, asked.budget), asked.figure)
    print(f"figure in {asked.figure}")


if __name__ == "__main__":
    main()
