"""What it cost to get there: from round tables to a table of costs."""

from collections.abc import Sequence

import pandas as pd

COSTS = ("transmissions", "beacons", "bits_up", "bits_down", "joules")
"""Columns of a round table that are costs of that round, and add up."""

_COLUMNS = ["variant", "seed", "round", "t", *COSTS]


def cumulative(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return a round table whose costs are those of all rounds so far, run by run.

    Args:
        rounds: as `Result.rounds` gives it, rounds in order.
    """
    totals = rounds.copy()
    totals[list(COSTS)] = rounds.groupby(["variant", "seed"], sort=False, observed=True)[
        list(COSTS)
    ].cumsum()
    return totals


def cost_to_target(rounds: pd.DataFrame, target: float) -> pd.DataFrame:
    """Return what each run had spent when its gap was first below a target.

    Args:
        rounds: as `Result.rounds` gives it.
        target: a gap, in the unit of the objective.

    Returns:
        A row a run, in the order of `rounds`: variant, seed, reached, round, t (s) and the
        costs. A run that never got there has reached = False, and NaN for all the rest.
    """
    totals = cumulative(rounds)
    first = totals[totals["gap"] < target].drop_duplicates(["variant", "seed"])
    runs = rounds[["variant", "seed"]].drop_duplicates()
    table = runs.merge(first[_COLUMNS], how="left", on=["variant", "seed"])
    table.insert(2, "reached", table["round"].notna())
    return table.reset_index(drop=True)


def mean_cost(costs: pd.DataFrame, order: Sequence[str]) -> pd.DataFrame:
    """Return the mean over seeds of a table of costs, a row a variant, in the order given.

    The mean is over the runs that reached the target; `reached` and `runs` count.
    """
    grouped = costs.groupby("variant", sort=False, observed=True)
    table = grouped[["round", "t", *COSTS]].mean()
    counts = pd.DataFrame({"reached": grouped["reached"].sum(), "runs": grouped.size()})
    counts = counts.reindex(list(order), fill_value=0)  # a run may have no round at all
    return counts.join(table).rename_axis("variant").reset_index()


def final_cost(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return what each run had spent at its end, in the same columns as `cost_to_target`."""
    last = cumulative(rounds).drop_duplicates(["variant", "seed"], keep="last")
    table = last[_COLUMNS].reset_index(drop=True)
    table.insert(2, "reached", value=True)
    return table
