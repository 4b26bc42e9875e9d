"""Which rule of aggregation survives which attack on a fleet that loses messages?

    python analysis/studies/rules_and_attacks.py [--out DIR] [--jobs N]

Runs scenarios/studies/rules-and-attacks.yaml under several attacks and shares of lost messages.
Writes the accuracy of every run as rules_and_attacks.csv, prints which rule keeps it, and draws it
as analysis/figures/rules-and-attacks.png. A rule survives where the test accuracy, as a mean over
the last five rounds, is 85 % or more. Every seed has a network of its own, whose constants are
drawn from their intervals; P is the share of them, with an interval of 90 % (Jeffreys).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from conducting import (
    SEEDS,
    bullets,
    chance,
    conduct,
    in_networks,
    interval,
    places,
    progress,
    row_of,
)
from matplotlib.figure import Figure
from rich.table import Table

from fedsim.results.analysis import listing, panels, quantity
from fedsim.results.analysis.style import entitle

SCENARIO, FIGURE, COSTS = places(__file__)

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


def fleet(attack: str, loss: float) -> list[dict[str, Any]]:
    """Return the groups of a fleet under an attack, whose messages are lost with a probability."""
    radio = {"kind": "lte", "loss": {"kind": "independent", "rate": loss}, "tries": 1}
    phones = {"device": "phone-mid", "radio": radio if loss else "lte"}
    block = ATTACKS[attack][1]
    false = {} if block is None else {"attack": block}
    return [{"count": CLIENTS - FALSE, **phones}, {"count": FALSE, **phones, **false}]


def attacked(out: Path, overrides: Sequence[str] = (), jobs: int = 1) -> pd.DataFrame:
    """Run the scenario under every attack and loss, each seed on a network of its own.

    Returns:
        A row a run: attack, loss, variant, seed, accuracy (a mean over the last rounds), replaced
        (the share of rounds whose median was taken, as the rule had too few replies), joules (until
        all radios sleep) and joules_after (those after the last round).
    """
    rows = []
    for attack, loss in progress((attack, loss) for attack in ATTACKS for loss in LOSSES):
        own = [f"fleet={json.dumps(fleet(attack, loss))}", *overrides]
        for seed, result in in_networks(SCENARIO, out / f"{attack}-{loss:g}", SEEDS, own, jobs):
            ends = result.summary.set_index("variant")[["joules", "joules_after"]]
            for variant, run in result.rounds.groupby("variant", observed=True):
                after = run[run["round"] > 0]
                replaced = after.get("replaced", pd.Series(0.0, after.index)).fillna(0) > 0
                rows.append({
                    "attack": attack,
                    "loss": loss,
                    "variant": variant,
                    "seed": seed,
                    "accuracy": after["test_accuracy"].tail(LAST).mean(),
                    "replaced": replaced.mean(),
                    "joules": ends.loc[variant].sum(),
                    "joules_after": ends.loc[variant, "joules_after"],
                })  # fmt: skip
    return pd.DataFrame(rows)


def survival(runs: pd.DataFrame) -> pd.DataFrame:
    """Return, for each loss, rule and attack, the median accuracy and the probability to survive.

    Returns:
        Indexed by loss, variant and attack: accuracy, probability, probability_low and
        probability_high.
    """
    return _survived(runs, ["loss", "variant", "attack"])


def worst(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what `survival` does for the attack that is worst for a rule in each network.

    Returns:
        Indexed by loss and variant; and attack: the one with the lowest median.
    """
    lowest = runs.groupby(["loss", "variant", "seed"], observed=True)["accuracy"].min()
    found = _survived(lowest.reset_index(), ["loss", "variant"])
    medians = survival(runs)["accuracy"].reset_index()
    grid = medians.pivot_table("accuracy", ["loss", "variant"], "attack", observed=True)
    return found.assign(attack=grid.idxmin(axis="columns"))


def _survived(runs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    kept = runs.assign(kept=runs["accuracy"] >= TARGET)
    groups = kept.groupby(keys, observed=True)
    found = groups.agg(
        accuracy=("accuracy", "median"), wins=("kept", "sum"), tries=("kept", "size")
    )
    low, high = interval(found["wins"], found["tries"])
    p = found["wins"] / found["tries"]
    return found.assign(probability=p, probability_low=low, probability_high=high)


def _grid(found: pd.Series, loss: float) -> pd.DataFrame:
    """Return a figure of one loss: a row a rule, a column an attack."""
    table = (
        found.loc[loss].reset_index().pivot_table(found.name, "variant", "attack", observed=True)
    )
    grid: pd.DataFrame = table.reindex(index=list(RULES), columns=list(ATTACKS))
    return grid


def tables(runs: pd.DataFrame) -> list[Table]:
    """Return the worst accuracy of each rule by loss; and for each loss, rules by attacks."""
    lowest, found = worst(runs), survival(runs)

    def under(loss: float, variant: str) -> str:
        row = row_of(lowest, loss, variant)
        return f"{row['accuracy']:.0%}, {chance(row)}, {_short(row['attack'])}"

    heads = ("rule", *(f"{loss:.0%} lost" for loss in LOSSES))
    rows = [(rule, *(under(loss, each) for loss in LOSSES)) for each, rule in RULES.items()]
    title = f"Under the worst attack: accuracy, P(at least {TARGET:.0%}), this attack"
    made = [listing(title, heads, rows)]
    for loss in LOSSES:
        rows = []
        for variant, rule in RULES.items():
            cells = [row_of(found, loss, variant, attack) for attack in ATTACKS]
            some = [f"{cell['accuracy']:.2f}, {chance(cell)}" for cell in cells]
            rows.append((rule, *some))
        title = f"{loss:.0%} of messages lost: accuracy, P(at least {TARGET:.0%})"
        made.append(listing(title, ("rule", *(name for name, _ in ATTACKS.values())), rows))
    return made


def finding(runs: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    lowest = worst(runs)
    answers = [f"{loss:.0%} of messages lost. {_survivors(lowest, loss)}" for loss in LOSSES]
    short = runs[runs["variant"].isin(COUNTED)].groupby(["loss", "variant"])["replaced"].mean()
    few = "; ".join(
        f"{RULES[rule]} {', '.join(f'{short[loss, rule]:.0%}' for loss in LOSSES)}"
        for rule in COUNTED
    )
    losses = ", ".join(f"{loss:.0%}" for loss in LOSSES)
    best, above = ordered(runs, LOSSES[-1])
    second = str(lowest.loc[LOSSES[-1]]["accuracy"].drop(best).idxmax())
    spent = runs.groupby("loss")[["joules", "joules_after"]].median()
    rounds = (spent["joules"] - spent["joules_after"]).loc[list(LOSSES)]
    tails = spent["joules_after"].loc[list(LOSSES)]
    points: str = bullets(
        *answers,
        "Losses break rules without any attacker: a rule with too few replies takes the median. "
        f"Share of such rounds with {losses} lost: {few}.",
        f"With {LOSSES[-1]:.0%} lost {RULES[best]} keeps the best accuracy under its worst attack; "
        f"it is ahead of {RULES[second]}, which is next, with P "
        f"{chance(above.loc[second])}.",
        f"Energy does not depend on the rule: with {losses} lost 30 rounds take "
        f"{', '.join(quantity(each, 'J') for each in rounds)}, and radios then "
        f"{', '.join(quantity(each, 'J') for each in tails)} until they sleep.",
    )
    return points


def _survivors(lowest: pd.DataFrame, loss: float) -> str:
    """Return the rules by their probability to survive every attack, in words."""
    here = lowest[lowest.index.get_level_values("loss") == loss].droplevel("loss")
    every = here.reindex(list(RULES)).sort_values("probability", ascending=False, kind="stable")
    groups = []
    for _, rows in every.groupby("probability", sort=False):
        names = [RULES[str(rule)] for rule in rows.index]
        groups.append(f"{', '.join(names)}: {chance(rows.iloc[0])}")
    return f"P to survive every attack: {'; '.join(groups)}."


def ordered(runs: pd.DataFrame, loss: float) -> tuple[str, pd.DataFrame]:
    """Return the rule whose worst accuracy over the attacks is best, and how often it is.

    Returns:
        The rule with the highest median over the networks; and, indexed by the other rules,
        probability, probability_low and probability_high of a higher one in a drawn network.
    """
    at = runs[runs["loss"] == loss]
    own = at.pivot_table("accuracy", "seed", "variant", aggfunc="min", observed=True)
    best = str(own.median().idxmax())
    wins = own.lt(own[best], axis="index").drop(columns=best).sum()
    low, high = interval(wins, len(own))
    found = {"probability": wins / len(own), "probability_low": low, "probability_high": high}
    return best, pd.DataFrame(found)


def _short(attack: str) -> str:
    return ATTACKS[attack][0].partition(",")[0]


def draw(runs: pd.DataFrame) -> Figure:
    """Draw the median accuracy, a panel a loss: a row a rule, a column an attack."""
    found = survival(runs)["accuracy"]
    short = runs.groupby(["loss", "variant"])["replaced"].mean()
    figure, every = panels(len(LOSSES), 1, 2.6, width=5.6, sharex=True)
    for axis, loss in zip(every, LOSSES, strict=True):
        values = _grid(found, loss).to_numpy()
        axis.imshow(values, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            colour = "black" if value > 0.6 else "white"
            weight = "bold" if value >= TARGET else "normal"
            text = f"{100 * value:.0f}"
            axis.text(column, row, text, ha="center", va="center", color=colour, weight=weight)
        for row, variant in enumerate(RULES):
            if variant in COUNTED:
                place = len(ATTACKS) - 0.4, row
                axis.text(*place, f"{short[loss, variant]:.0%}", va="center", fontsize=9)
        axis.set_yticks(range(len(RULES)), list(RULES.values()))
        axis.set_title(f"{loss:.0%} of messages lost", fontsize=10, loc="left")
        axis.grid(visible=False)
    names = [_short(attack).replace(" ", "\n") for attack in ATTACKS]
    every[-1].set_xticks(range(len(ATTACKS)), names)
    entitle(
        figure,
        f"Test accuracy in % after 30 rounds, 4 of 20 phones malicious\n"
        f"median of {runs['seed'].nunique()} drawn networks, bold from {TARGET:.0%}; beside a row:"
        " rounds in which the rule had too few replies",
        apart=True,
    )
    return figure


def main() -> None:
    """Run the study, print its tables and its finding, and draw its figure."""
    conduct(__doc__, attacked, (tables, finding, draw), FIGURE, [COSTS], 190)


if __name__ == "__main__":
    main()
