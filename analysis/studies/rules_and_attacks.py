"""Which rule of aggregation survives which attack on a fleet that loses messages?

    python analysis/studies/rules_and_attacks.py [--out DIR] [--jobs N]

Runs scenarios/studies/rules-and-attacks.yaml under several attacks and shares of lost messages.
Writes the accuracy of every run as rules_and_attacks.csv, prints which rule keeps it, and draws it
as analysis/figures/rules-and-attacks.png. A rule survives where the test accuracy, as a mean over
the last five rounds, is 85 % or more; P is the share of seeds, with an interval of 90 % (Jeffreys).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from scipy import stats

import fedsim
from fedsim.results.analysis import listing, panels, save
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/rules-and-attacks.yaml"
FIGURE = ROOT / "analysis/figures/rules-and-attacks.png"
COSTS = Path(__file__).with_suffix(".csv")

RULES = {
    "base": "mean",
    "median": "median",
    "trimmed-mean": "trimmed mean",
    "nnm": "NNM and trimmed mean",
    "geometric-median": "geometric median",
    "centred-clipping": "centred clipping",
    "krum": "Krum",
    "multi-krum": "multi-Krum",
    "bulyan": "Bulyan",
}
"""The rules, by the variant of the scenario."""

COUNTED = ("trimmed-mean", "nnm", "krum", "multi-krum", "bulyan")
"""The rules that need a number of replies."""

ATTACKS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "none": ("no attack", None),
    "label-flip": ("label flip", {"kind": "label-flip"}),
    "sign-flip": ("sign flip, 4 times", {"kind": "sign-flip", "scale": 4}),
    "alie": ("ALIE, z = 1.5", {"kind": "alie", "z": 1.5}),
    "ipm": ("IPM, 2 times", {"kind": "ipm", "scale": 2}),
}
LOSSES = (0.0, 0.15, 0.3)
"""The shares of messages that are lost, in each direction."""

CLIENTS, FALSE = 20, 4
TARGET, LAST = 0.85, 5
LEVEL = 0.9


def fleet(attack: str, loss: float) -> list[dict[str, Any]]:
    """Return the groups of a fleet under an attack, whose messages are lost with a probability."""
    radio = {"kind": "lte", "loss": {"kind": "independent", "rate": loss}, "tries": 1}
    phones = {"device": "phone-mid", "radio": radio if loss else "lte"}
    block = ATTACKS[attack][1]
    false = {} if block is None else {"attack": block}
    return [{"count": CLIENTS - FALSE, **phones}, {"count": FALSE, **phones, **false}]


def attacked(out: Path | None = None, overrides: Sequence[str] = (), jobs: int = 1) -> pd.DataFrame:
    """Run the scenario under every attack and loss.

    Returns:
        A row a run: attack, loss, variant, seed, accuracy (a mean over the last rounds), replaced
        (the share of rounds whose median was taken, as the rule had too few replies), joules.
    """
    rows = []
    for attack in ATTACKS:
        for loss in LOSSES:
            own = f"fleet={json.dumps(fleet(attack, loss))}"
            folder = out and out / f"{attack}-{loss:g}"
            result = fedsim.run(SCENARIO, out=folder, overrides=[own, *overrides], jobs=jobs)
            for (variant, seed), run in result.rounds.groupby(["variant", "seed"], observed=True):
                after = run[run["round"] > 0]
                replaced = after.get("replaced", pd.Series(0.0, after.index)).fillna(0) > 0
                rows.append({
                    "attack": attack,
                    "loss": loss,
                    "variant": variant,
                    "seed": seed,
                    "accuracy": after["test_accuracy"].tail(LAST).mean(),
                    "replaced": replaced.mean(),
                    "joules": after["joules"].sum(),
                })  # fmt: skip
    return pd.DataFrame(rows)


def survival(runs: pd.DataFrame) -> pd.DataFrame:
    """Return, for each loss, rule and attack, the median accuracy and the probability to survive.

    Returns:
        Indexed by loss, variant and attack: accuracy, p, low, high.
    """
    kept = runs.assign(kept=runs["accuracy"] >= TARGET)
    groups = kept.groupby(["loss", "variant", "attack"], observed=True)
    found = groups.agg(
        accuracy=("accuracy", "median"), wins=("kept", "sum"), tries=("kept", "size")
    )
    law = stats.beta(found["wins"] + 0.5, found["tries"] - found["wins"] + 0.5)
    low, high = law.ppf((1 - LEVEL) / 2), law.ppf((1 + LEVEL) / 2)
    return found.assign(
        p=found["wins"] / found["tries"],
        low=np.where(found["wins"] == 0, 0.0, low),
        high=np.where(found["wins"] == found["tries"], 1.0, high),
    )[["accuracy", "p", "low", "high"]]


def _grid(found: pd.Series, loss: float) -> pd.DataFrame:
    """Return a figure of one loss: a row a rule, a column an attack."""
    table = (
        found.loc[loss].reset_index().pivot_table(found.name, "variant", "attack", observed=True)
    )
    grid: pd.DataFrame = table.reindex(index=list(RULES), columns=list(ATTACKS))
    return grid


def _rows(found: pd.Series, loss: float) -> list[tuple[str, list[float]]]:
    """Return each rule with a figure for each attack."""
    return list(zip(RULES, _grid(found, loss).to_numpy(float).tolist(), strict=True))


def tables(runs: pd.DataFrame) -> list[Table]:
    """Return a table for each loss: rules by attacks."""
    found, made = survival(runs), []
    for loss in LOSSES:
        rows = []
        for variant, rule in RULES.items():
            cells = [found.loc[(loss, variant, attack), :] for attack in ATTACKS]
            some = [f"{c['accuracy']:.2f}, {c['p']:.2f} ({c['low']:.2f} to {c['high']:.2f})"
                    for c in cells]  # fmt: skip
            rows.append((rule, *some))
        title = f"{loss:.0%} of messages lost: accuracy, P(at least {TARGET:.0%})"
        made.append(listing(title, ("rule", *(name for name, _ in ATTACKS.values())), rows))
    return made


def finding(runs: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    found = survival(runs)["p"]
    parts = []
    for loss in LOSSES:
        own = {rule: dict(zip(ATTACKS, row, strict=True)) for rule, row in _rows(found, loss)}
        every = [RULES[rule] for rule, chances in own.items() if min(chances.values()) == 1]
        others = []
        for rule, chances in own.items():
            lost = [f"{_short(attack)} {p:.2f}" for attack, p in chances.items() if p < 1]
            if lost:
                others.append(f"{RULES[rule]} ({', '.join(lost)})")
        kept = f"these rules survive all attacks: {', '.join(every) or 'none'}"
        if len(others) < 2:
            kept = f"all rules{' but one' if others else ''} survive all attacks"
        text = f"With {loss:.0%} of messages lost {kept}"
        parts.append(f"{text}; P is lower for {'; '.join(others)}." if others else f"{text}.")
    short = runs[runs["variant"].isin(COUNTED)].groupby(["variant", "loss"])["replaced"].mean()
    lossy = [
        f"{RULES[rule]} in {', '.join(f'{short[rule, loss]:.0%}' for loss in LOSSES)}"
        for rule in COUNTED
    ]
    losses = ", ".join(f"{loss:.0%}" for loss in LOSSES)
    parts.append(
        f"With {losses} lost, rules lack replies, so that the median takes their place:"
        f" {'; '.join(lossy)} of the rounds."
    )
    return fill(" ".join(parts), 88)


def _short(attack: str) -> str:
    return ATTACKS[attack][0].partition(",")[0]


def draw(runs: pd.DataFrame) -> Figure:
    """Draw the median accuracy, a panel a loss: a row a rule, a column an attack."""
    found = survival(runs)["accuracy"]
    short = runs.groupby(["loss", "variant"])["replaced"].mean()
    figure, every = panels(len(LOSSES), len(LOSSES), 3.6, sharey=True)
    for axis, loss in zip(every, LOSSES, strict=True):
        values = _grid(found, loss).to_numpy()
        axis.imshow(values, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            colour = "black" if value > 0.6 else "white"
            weight = "bold" if value >= TARGET else "normal"
            text = f"{100 * value:.0f}"
            axis.text(column, row, text, ha="center", va="center", color=colour, weight=weight,
                      fontsize=8)  # fmt: skip
        names = [_short(attack) for attack in ATTACKS]
        axis.set_xticks(range(len(ATTACKS)), names, rotation=30, ha="right")
        for row, variant in enumerate(RULES):
            if variant in COUNTED:
                place = len(ATTACKS) - 0.4, row
                axis.text(*place, f"{short[loss, variant]:.0%}", va="center", fontsize=7)
        axis.set_yticks(range(len(RULES)), list(RULES.values()))
        axis.set_xlabel(f"{loss:.0%} of messages lost")
        axis.grid(visible=False)
    entitle(
        figure,
        f"Test accuracy in % after 30 rounds, 4 of 20 phones false\n"
        f"median of {runs['seed'].nunique()} seeds, bold from {TARGET:.0%}; beside a row: rounds in"
        " which the rule had too few replies",
    )
    return figure


def main() -> None:
    """Run the study, print its tables and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs are made at a time")
    given = parser.parse_args()
    runs = attacked(given.out, jobs=given.jobs)
    console = Console(width=None if sys.stdout.isatty() else 190)
    for each in tables(runs):
        console.print(each)
    print(finding(runs))
    runs.to_csv(COSTS, index=False, float_format="%.6g", lineterminator="\n")
    save(draw(runs), FIGURE)


if __name__ == "__main__":
    main()
