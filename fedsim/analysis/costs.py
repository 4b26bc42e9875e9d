"""What it cost to get there: from round tables to a table of costs."""

from collections.abc import Callable, Sequence
from operator import ge, le, lt
from typing import Any, Literal

import pandas as pd

from fedsim.analysis.carbon import with_grams
from fedsim.record.directions import higher_is_better

Direction = Literal["below", "at-most", "at-least"]
"""On which side of a target a figure has reached it."""

COSTS = ("transmissions", "beacons", "bits_up", "bits_down", "joules")
"""Columns of a round table that are costs of that round, and add up; grams may come beside."""

_REACHED: dict[Direction, Callable[[Any, float], Any]] = {
    "below": lt,
    "at-most": le,
    "at-least": ge,
}

_COLUMNS = ["variant", "seed", "round", "t", *COSTS]


def cumulative(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return a round table whose costs are those of all rounds so far, run by run.

    Args:
        rounds: as `Result.rounds` gives it, rounds in order.
    """
    totals, costs = rounds.copy(), with_grams(COSTS, rounds)
    runs = rounds.groupby(["variant", "seed"], sort=False, observed=True)
    totals[costs] = runs[costs].cumsum()
    return totals


def cost_to_target(
    rounds: pd.DataFrame,
    target: float,
    measure: str = "gap",
    direction: Direction | None = None,
    *,
    runs: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return what each run had spent when a figure of its rounds first reached a target.

    Args:
        rounds: as `Result.rounds` gives it.
        target: in the unit of the measure: a gap in that of the objective.
        measure: the column that is to reach it.
        direction: when it has: for None below the target for a gap, as in the rule that stops
            a run; at least the target for accuracies and the scores of a support; at most the
            target for all else.
        runs: variant and seed of all runs, for those that have no round at all; the runs of
            `rounds` where not given.

    Returns:
        A row a run, in the order of `runs`: variant, seed, reached, round, t (s) and the
        costs. A run that never got there has reached = False, and NaN for all the rest; so has
        a run in which the measure was not evaluated.

    Raises:
        ValueError: no run has a column of that name.
    """
    if measure not in rounds:
        known = ", ".join(map(str, rounds.columns))
        raise ValueError(f"no round table has a column {measure!r}; there are {known}")
    totals = cumulative(rounds)
    reaches = _REACHED[direction or _direction(measure)]
    first = totals[reaches(totals[measure], target)].drop_duplicates(["variant", "seed"])
    return _by_run(first, rounds if runs is None else runs)


def _by_run(reached: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row a run: what it had spent in its row of `reached`, if it has one there."""
    every = runs[["variant", "seed"]].drop_duplicates()
    table = every.merge(reached[with_grams(_COLUMNS, reached)], how="left", on=["variant", "seed"])
    table.insert(2, "reached", table["round"].notna())
    return table.reset_index(drop=True)


def _direction(measure: str) -> Direction:
    if higher_is_better(measure):
        return "at-least"
    return "below" if measure == "gap" else "at-most"


def mean_cost(costs: pd.DataFrame, order: Sequence[str]) -> pd.DataFrame:
    """Return the mean over seeds of a table of costs, a row a variant, in the order given.

    The mean is over the runs that reached the target; `reached` and `runs` count.
    """
    grouped = costs.groupby("variant", sort=False, observed=True)
    table = grouped[with_grams(["round", "t", *COSTS], costs)].mean()
    counts = pd.DataFrame({"reached": grouped["reached"].sum(), "runs": grouped.size()})
    counts = counts.reindex(list(order), fill_value=0)  # a run may have no round at all
    return counts.join(table).rename_axis("variant").reset_index()


def final_cost(rounds: pd.DataFrame, *, runs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return what each run had spent at its end, in the same columns as `cost_to_target`.

    Args:
        rounds: as `Result.rounds` gives it.
        runs: as in `cost_to_target`; a run without a round has not got there.
    """
    last = cumulative(rounds).drop_duplicates(["variant", "seed"], keep="last")
    return _by_run(last, rounds if runs is None else runs)
