"""The costs of reaching a target: from round tables to tables of costs with readable units."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import isnan
from operator import ge, le, lt
from typing import Any, Literal

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.core.table_columns import (
    AFTER,
    COSTS,
    INFRASTRUCTURE,
    JOULES_AFTER,
    SHOWN,
    TITLES,
    TOTAL_JOULES,
    UNITS,
    higher_is_better,
)
from fedsim.core.tables import plain
from fedsim.core.text import format_number, quantity
from fedsim.results.analysis.log.frames import check_columns
from fedsim.results.best import feasible_figure
from fedsim.results.record.rounds import OWN
from fedsim.results.record.schema import GRAMS

# Carbon: a further column of costs, if the emissions of the electricity are known.


def with_grams(columns: Iterable[str], table: pd.DataFrame) -> list[str]:
    """Return the columns of costs, with the column of carbon at the end if the table has it.

    >>> with_grams(["joules"], pd.DataFrame({"joules": [1.0], "grams": [2.0]}))
    ['joules', 'grams']
    """
    there = GRAMS in table and bool(table[GRAMS].notna().any())
    return [*columns, *([GRAMS] if there else [])]


def with_further(columns: Iterable[str], table: pd.DataFrame) -> list[str]:
    """Return the columns of costs, with those at the end that only some runs count.

    These are carbon, and the energy of server and network with the total energy.

    >>> counted = pd.DataFrame({"server_joules": [1.0], "network_joules": [2.0]})
    >>> with_further(["joules"], counted)
    ['joules', 'server_joules', 'network_joules']
    """
    further = (name for name in (*INFRASTRUCTURE, TOTAL_JOULES) if name in table)
    return [*with_grams(columns, table), *(name for name in further if table[name].notna().any())]


def shown_costs(table: pd.DataFrame, columns: Iterable[str] = SHOWN) -> list[str]:
    """Return the costs that a printed table shows: what no variant has spent is left out.

    >>> table = pd.DataFrame({"round": [3], "t": [0.0], "joules": [2.0], "beacons": [0]})
    >>> shown_costs(table, ["round", "t", "joules", "beacons"])
    ['round', 'joules']
    """
    every = with_further(columns, table)
    if GRAMS in every and "joules" in every:  # beside energy, in case a table is wide
        every.insert(every.index("joules") + 1, every.pop(every.index(GRAMS)))
    if TOTAL_JOULES in every and "joules" in every:
        beside = every.index("joules") + 1
        rest = [cost for cost in every[beside:] if cost not in (*INFRASTRUCTURE, TOTAL_JOULES)]
        every = [*every[:beside], *INFRASTRUCTURE, TOTAL_JOULES, *rest]
    known = table[every].dropna(how="all")  # a variant that did not reach the target has no costs
    if known.empty:
        return every
    return [cost for cost in every if cost == "round" or (known[cost] != 0).any()]


Direction = Literal["below", "at-most", "at-least"]
"""The comparison by which a figure reaches a target."""

_REACHED: dict[Direction, Callable[[Any, float], Any]] = {
    "below": lt,
    "at-most": le,
    "at-least": ge,
}

_COLUMNS = ["variant", "seed", "round", "t", *COSTS]


def with_bits(costs: pd.DataFrame) -> pd.DataFrame:
    """Return a table of costs with the column `bits`, the sum of both directions."""
    return costs.assign(bits=costs["bits_up"] + costs["bits_down"])


def cumulative(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return a round table with cumulative costs, per run.

    Those of a round are the costs of a run that ends with it. So energy and emissions also have
    what radios take after it until they sleep; see `spent` for those without it.

    Args:
        rounds: see `Result.rounds`, rounds in order.
    """
    return with_tails(spent(rounds))


def spent(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return a round table with what each run has spent until the end of a round.

    Energy that radios take later, in their tails, counts in the rounds in which they take it.

    Args:
        rounds: as for `cumulative`.
    """
    totals, costs = rounds.copy(), with_further(COSTS, rounds)
    runs = rounds.groupby(["variant", "seed"], sort=False, observed=True)
    totals[costs] = runs[costs].cumsum()
    return totals


def with_tails(totals: pd.DataFrame) -> pd.DataFrame:
    """Return total costs with what radios take afterwards until they sleep.

    Where runs count the energy of server and network, `total_joules` is the sum of all three.

    Args:
        totals: of runs up to some time, with the columns of what follows it, if that is known.

    >>> ends = pd.DataFrame({"joules": [2.0, 3.0], "joules_after": [12.5, None]})
    >>> with_tails(ends)["joules"].tolist()
    [14.5, 3.0]
    """
    known = {cost: after for cost, after in AFTER.items() if after in totals}
    sums = {cost: totals[cost] + totals[after].fillna(0.0) for cost, after in known.items()}
    table = totals.assign(**sums)
    if not all(name in table for name in INFRASTRUCTURE):
        return table
    return table.assign(
        **{TOTAL_JOULES: table[["joules", *INFRASTRUCTURE]].sum(axis=1, skipna=False)}
    )


def without_start(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return a round table without round 0, the initial model."""
    return rounds[rounds["round"] > 0]


def last_round(rounds: pd.DataFrame) -> int:
    """Return the number of the last round of one run, ended or not; 0 if it has none.

    >>> last_round(pd.DataFrame({"round": [0, 1, 2]})), last_round(pd.DataFrame({"round": []}))
    (2, 0)
    """
    return int(rounds["round"].max()) if len(rounds) else 0


def cost_to_target(
    rounds: pd.DataFrame,
    target: float | None,
    measure: str = "gap",
    direction: Direction | None = None,
    *,
    runs: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the cost of each run up to the first round that reaches a target.

    A round whose model violates the method's constraint does not count (column `feasible`).

    Args:
        rounds: see `Result.rounds`.
        target: the value to reach, in the unit of the measure.
        measure: the column that has to reach the target.
        direction: the comparison with the target. By default a gap has to be below it, as in the
            stop rule; accuracies and scores of a support at least equal to it; other measures at
            most equal to it.
        runs: variant and seed of all runs, including runs without any round; by default the runs in
            `rounds`.

    Returns:
        One row per run, in the order of `runs`: variant, seed, reached, round, t (s) and the costs.
        Energy is that until radios sleep after this round; `joules_after` is the part after it. A
        run that missed the target has reached = False, and NaN elsewhere; so has a run in which
        the measure was not evaluated.

    Raises:
        DataError: the table lacks the columns of runs, rounds or costs.
        ValueError: no run has this column, or the target is no number.

    Example:
        >>> reached = cost_to_target(log.rounds, 2e4)
        >>> shown = reached[["variant", "seed", "round", "t", "joules"]].round(2)
        >>> print(shown.to_string(index=False))
        variant  seed  round    t  joules
             gd     1      5 1.69   32.64
             gd     2      5 1.69   32.63
            chb     1      4 1.60   32.34
            chb     2      4 1.60   32.16
    """
    check_columns(rounds, "rounds", _COLUMNS)
    if measure not in rounds:
        columns = ", ".join(map(str, rounds.columns))
        raise ValueError(f"no round table has a column {measure!r}; there are {columns}")
    # `target` of a summary is that of a gap: a run that stops at another measure has none.
    if target is None or isnan(target):
        raise ValueError(f"got the target {target} of {measure}; give the value to reach")
    totals = cumulative(rounds)
    reaches = _REACHED[direction or _direction(measure)]
    values = feasible_figure(totals, measure)
    # NaN, of rounds without an evaluation, reaches nothing. Rounds are in order, so the first of
    # each run is kept.
    first = totals[reaches(values, target)].drop_duplicates(["variant", "seed"])
    return _by_run(first, rounds if runs is None else runs)


def _by_run(reached: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run: its cost up to its row of `reached`, if it has one."""
    every = runs[["variant", "seed"]].drop_duplicates()
    columns = with_further(_COLUMNS, reached) + [name for name in AFTER.values() if name in reached]
    table = every.merge(reached[columns], how="left", on=["variant", "seed"])
    table.insert(2, "reached", table["round"].notna())
    return table.reset_index(drop=True)


def _direction(measure: str) -> Direction:
    if higher_is_better(measure):
        return "at-least"
    return "below" if measure == "gap" else "at-most"


def mean_cost(costs: pd.DataFrame, order: Sequence[str]) -> pd.DataFrame:
    """Return the mean costs over seeds, one row per variant, in the given order.

    The mean is over the runs that reached the target. Columns `reached` and `runs` are numbers of
    runs.
    """
    grouped = costs.groupby("variant", sort=False, observed=True)
    after = [name for name in AFTER.values() if name in costs]
    table = grouped[[*with_further(["round", "t", *COSTS], costs), *after]].mean()
    counts = pd.DataFrame({"reached": grouped["reached"].sum(), "runs": grouped.size()})
    counts = counts.reindex(list(order), fill_value=0)  # a run may have no round at all
    return counts.join(table).rename_axis("variant").reset_index()


def final_cost(rounds: pd.DataFrame, *, runs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the total cost of each run, in the same columns as `cost_to_target`.

    Args:
        rounds: see `Result.rounds`.
        runs: as in `cost_to_target`; a run without any round has reached = False.
    """
    last = cumulative(rounds).drop_duplicates(["variant", "seed"], keep="last")
    return _by_run(last, rounds if runs is None else runs)


# The final model quality of runs, and the rule that stopped each.


def measures_in(rounds: pd.DataFrame) -> list[str]:
    """Return the columns on model quality: gap (or objective without a gap), and measures."""
    quality = [name for name in ("gap", "objective") if rounds[name].notna().any()][:1]
    numbers = (str(name) for name in rounds.select_dtypes("number"))
    asked = (name for name in numbers if name not in OWN and rounds[name].notna().any())
    return [*quality, *asked]


def outcomes(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the last evaluated figures of each run, one row per run.

    For a run without an objective, they are the figures of its last round.

    Args:
        rounds: see `Result.rounds`.
    """
    looked = rounds["objective"].notna()
    ever = looked.groupby([rounds["variant"], rounds["seed"]], observed=True).transform("any")
    evaluated = rounds[looked | ~ever]
    last = evaluated.drop_duplicates(["variant", "seed"], keep="last")
    return last[["variant", "seed", *measures_in(rounds)]].reset_index(drop=True)


def outcome_table(
    rounds: pd.DataFrame, summary: pd.DataFrame, labels: Mapping[str, str], title: str
) -> Table:
    """Return a table of final figures, one row per variant: means over its seeds.

    Args:
        rounds: see `Result.rounds`.
        summary: as `Result.summary` gives it.
        labels: variant -> its name in the table, in the order of rows.
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
        table.add_row(escape(label), *cells, escape(_describe_end(summary, variant)))
    return table


def figure(value: float) -> str:
    """Format a figure of a round."""
    return "-" if np.isnan(value) else format_number(value, ".4g")


def _describe_end(summary: pd.DataFrame, variant: str) -> str:
    """Return the reason why runs of a variant ended; several reasons with their counts."""
    reasons = summary.loc[summary["variant"] == variant, "reason"].astype(str)
    if len(reasons) == 1:
        return str(reasons.iloc[0])
    rules = reasons.str.partition(":")[0].value_counts(sort=False)
    return ", ".join(f"{rule} ({count} of {len(reasons)})" for rule, count in rules.items())


_TAILS = 0.01
"""Share of the energy from which on a table says what radios take after the last round."""


def notes_on_tails(costs: pd.DataFrame) -> list[str]:
    """Return a line on the part of energy that radios take after the last round, if it matters.

    >>> notes_on_tails(pd.DataFrame({"joules": [296.0, 290.0], "joules_after": [246.0, 245.7]}))
    ['energy includes 246 J that radios take after the last round until they sleep']
    """
    if JOULES_AFTER not in costs or not (costs[JOULES_AFTER] > _TAILS * costs["joules"]).any():
        return []
    least, most = (
        quantity(float(value), "J")
        for value in (costs[JOULES_AFTER].min(), costs[JOULES_AFTER].max())
    )
    part = least if least == most else f"{least} to {most}"
    return [f"energy includes {part} that radios take after the last round until they sleep"]


def notes_on_means(costs: pd.DataFrame) -> list[str]:
    """Return a line on means and ratios, if several variants with several runs have costs.

    A reader who divides the printed means gets another number than the answer states. Means of
    1.66 kJ and 916 J differ by 45 %, and the geometric mean of the paired ratios is 43 % below 1.

    >>> notes_on_means(pd.DataFrame({"runs": [3, 3], "joules": [1660.0, 916.0]}))
    ['costs are means over seeds; ratios and savings are geometric means of paired ratios']
    """
    if costs["joules"].count() < 2 or not (costs["runs"] > 1).any():
        return []
    return ["costs are means over seeds; ratios and savings are geometric means of paired ratios"]


def notes_on_seeds(costs: pd.DataFrame, missed: str = "missed the target") -> list[str]:
    """Return a line if the means of variants are over different seeds.

    Args:
        costs: one row per run: variant, seed and whether it reached the target (reached).
        missed: what the other runs did.

    >>> runs = {"variant": ["a", "a", "b", "b"], "seed": [1, 2, 1, 2], "reached": [1, 1, 0, 1]}
    >>> notes_on_seeds(pd.DataFrame(runs))[0].partition(",")[0]
    'the means are over different seeds'
    """
    arrived = costs[costs["reached"].astype(bool)].astype({"variant": object})
    seeds = arrived.groupby("variant")["seed"].agg(frozenset)
    if seeds.nunique() < 2:
        return []
    why = f"the means are over different seeds, since some runs {missed}"
    return [f"{why}: paired differences (fedsim compare) are over the same seeds"]


def cost_table(
    costs: pd.DataFrame,
    labels: Mapping[str, str],
    title: str,
    notes: Sequence[str] = (),
    arrived: str = "reached",
    failed: Collection[str] = (),
) -> Table:
    """Return a table of `mean_cost`, one row per variant.

    Args:
        costs: one row per variant, of `mean_cost`.
        labels: variant -> its name in the table.
        title: above the table.
        notes: below it, a line each.
        arrived: head of the numbers of runs that the means are over.
        failed: the variants whose runs have all failed.

    Example:
        >>> costs = final_cost(result.rounds)
        >>> means = mean_cost(costs, ["base", "gd"])
        >>> cost_table(means, {"gd": "gradient descent"}, "whole runs").row_count
        2
    """
    several, columns = bool((costs["runs"] > 1).any()), shown_costs(costs)
    table = plain(title)
    table.caption = (
        "\n".join(map(escape, (*notes, *notes_on_tails(costs), *notes_on_means(costs)))) or None
    )
    table.add_column("variant")
    if several:
        table.add_column(arrived, justify="right")
    for column in columns:
        table.add_column(TITLES.get(column, column), justify="right")
    for row in costs.to_dict("records"):
        name = str(row["variant"])
        cells = [escape(labels.get(name, name))]
        if several:
            cells.append(f"{row['reached']} of {row['runs']}")
        if not np.isnan(row["round"]):
            cells += [cost_text(column, row[column]) for column in columns]
        else:
            cells.append("failed" if name in failed else "not reached")
        table.add_row(*cells)
    return table


def cost_text(column: str, value: float) -> str:
    """Return the text of a cost; none for no beacons, since most methods have none.

    >>> cost_text("beacons", 0), cost_text("joules", 0)
    ('', '0 J')
    """
    return "" if column == "beacons" and not value else quantity(value, UNITS.get(column, ""))
