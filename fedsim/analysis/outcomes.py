"""The final model quality of runs, and the rule that stopped each."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.record.rounds import OWN
from fedsim.tables import plain


def measures_in(rounds: pd.DataFrame) -> list[str]:
    """Return what rounds tell of the model: the gap, or the objective without one; measures."""
    known = [name for name in ("gap", "objective") if rounds[name].notna().any()][:1]
    numbers = (str(name) for name in rounds.select_dtypes("number"))
    asked = (name for name in numbers if name not in OWN and rounds[name].notna().any())
    return [*known, *asked]


def outcomes(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the last figures of each run that somebody looked at, a row a run.

    Of a run without an objective they are those of its last round.

    Args:
        rounds: as `Result.rounds` gives it.
    """
    looked = rounds["objective"].notna()
    ever = looked.groupby([rounds["variant"], rounds["seed"]], observed=True).transform("any")
    seen = rounds[looked | ~ever]
    last = seen.drop_duplicates(["variant", "seed"], keep="last")
    return last[["variant", "seed", *measures_in(rounds)]].reset_index(drop=True)


def outcome_table(
    rounds: pd.DataFrame, summary: pd.DataFrame, labels: Mapping[str, str], title: str
) -> Table:
    """Return a table of what each variant has come to, a row each: means over its seeds.

    Args:
        rounds: as `Result.rounds` gives it.
        summary: as `Result.summary` gives it.
        labels: variant -> what the table calls it, in the order of its rows.
        title: above it.
    """
    last, names = outcomes(rounds), measures_in(rounds)
    means = last.astype({"variant": object}).groupby("variant")[names].mean()
    table = plain(title)
    table.add_column("variant")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("stopped because")
    for variant, label in labels.items():
        figures = [means[name].get(variant, np.nan) for name in names]
        cells = [figure(float(value)) for value in figures]
        table.add_row(escape(label), *cells, escape(_ended(summary, variant)))
    return table


def figure(value: float) -> str:
    """Return a figure of a round for reading."""
    return "-" if np.isnan(value) else f"{value:.4g}"


def _ended(summary: pd.DataFrame, variant: str) -> str:
    """Return why the runs of a variant have ended; of several the rules, each with its count."""
    reasons = summary.loc[summary["variant"] == variant, "reason"].astype(str)
    if len(reasons) == 1:
        return str(reasons.iloc[0])
    rules = reasons.str.partition(":")[0].value_counts(sort=False)
    return ", ".join(f"{rule} ({count} of {len(reasons)})" for rule, count in rules.items())
