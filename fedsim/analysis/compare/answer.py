"""The answer of a comparison in one sentence: which variant is cheapest, and how sure that is."""

from collections.abc import Mapping, Sequence

import pandas as pd

from fedsim.analysis.compare.cost_tables import Target
from fedsim.analysis.compare.dominance import Decisions
from fedsim.analysis.compare.pairwise import INDISTINGUISHABLE, SAME, PairedComparison
from fedsim.analysis.costs import with_bits
from fedsim.record.columns import TITLES, UNITS, higher_is_better
from fedsim.text import format_number, quantity

LEADING = {cost: TITLES.get(cost, cost) for cost in ("joules", "t", "bits", "round")}
"""The cost that the sentence is about is the first of these that is not zero in all runs."""

MOST = 500
"""Variants beyond which every two of them are not compared for one sentence."""


def answer(
    costs: pd.DataFrame,
    target: Target,
    labels: Mapping[str, str],
    decisions: Decisions | None = None,
    rounds: pd.DataFrame | None = None,
) -> str:
    """Return which variant reached a target for the least, by how much, and how sure that is.

    Args:
        costs: a row a run, as `Target.costs` returns it.
        target: what was to be reached.
        labels: what to call each variant; others are left out.
        decisions: of all variants in these costs, where they are known.
        rounds: the round tables, by which it is said how near runs came that reached no target.

    Returns:
        A sentence without its full stop; empty where there is nothing to say.
    """
    own = with_bits(costs).astype({"variant": object})
    own = own[own["variant"].isin(list(labels))]
    if own.empty or own["variant"].nunique() > MOST:
        return ""
    arrived = own[own["reached"]]
    if arrived.empty or (own["round"] == 0).all():
        free = f"every run starts with {target.goal}: it is reached at no cost"
        said = _without_target(target, labels, rounds) if arrived.empty else free
        return said if target.measure else ""
    cost = next((name for name in LEADING if arrived[name].max() > 0), "round")
    decided = decisions or Decisions.of(own, [cost])
    ranked = decided.rank(cost)
    names = [_name(own, each, labels) for each in ranked]
    if len(ranked) == 1:
        said = _alone(arrived, names[0], target)
        return f"only {said}" if len(labels) > 1 and target.measure else said
    pair = decided.pair(ranked[0], ranked[1], cost)
    what = LEADING[cost]
    if pair.order < 0:
        word = "fewer" if what in {"bits", "rounds"} else "less"
        less = f"{_saving(pair.ratio)} {word}" if 0 < pair.ratio < 1 else word
        return f"{_does(names[0], target, what)} {less} {what} than {names[1]} ({_sure(pair)})"
    both = f"{names[0]} and {names[1]}"
    goal = f" to {target.goal}" if target.measure else ""
    if not pair.cheaper and not pair.costlier:
        return f"{both} take {SAME} {what}{goal} ({pair.verdict.removeprefix(SAME).strip(' ()')})"
    return f"{both} are {INDISTINGUISHABLE} in {what}{goal} ({pair.evidence})"


def _sure(pair: PairedComparison) -> str:
    """Return what a saving rests on; an interval is one of the saving, as the sentence has it."""
    if pair.seeds == 1:
        return "one seed"
    if pair.alike or pair.exact or not pair.high < 1:
        return pair.evidence
    ends = f"{_saving(pair.high)} to {_saving(pair.low)}"
    return f"{100 * pair.confidence:g} % interval {ends}, {pair.seeds} seeds"


def _saving(ratio: float) -> str:
    return f"{format_number(100 * (1 - ratio), '.2g')} %"


def _without_target(target: Target, labels: Mapping[str, str], rounds: pd.DataFrame | None) -> str:
    """Say that no run reached a target, which one came nearest to it, and how near."""
    said = f"no run reached {target.goal}"
    if rounds is None or target.measure not in rounds:
        return said
    own = rounds[rounds["variant"].isin(list(labels)) & rounds[target.measure].notna()]
    if own.empty:
        return said
    higher = higher_is_better(target.measure)
    row = own.sort_values(target.measure, ascending=not higher, kind="stable").iloc[0]
    came = format_number(row[target.measure], ".4g")
    return f"{said}; the nearest, {labels[str(row['variant'])]}, came to {came}"


def _does(name: str, target: Target, what: str) -> str:
    if not target.measure:
        return f"over the whole run, {name} takes"
    return f"{name} reaches {target.goal} {'in' if what in {'time', 'rounds'} else 'with'}"


def _name(own: pd.DataFrame, name: str, labels: Mapping[str, str]) -> str:
    """Return the label of a variant, with how many of its runs got there where not all did."""
    reached = own.loc[own["variant"] == name, "reached"]
    every = "" if reached.all() else f" (reached in {reached.sum()} of {len(reached)} seeds)"
    return f"{labels[name]}{every}"


def _alone(arrived: pd.DataFrame, name: str, target: Target) -> str:
    """Say what the only variant that got there has cost, on average over its seeds."""
    means = arrived[["round", "bits", "t", "joules"]].mean()
    spent: Sequence[str] = [
        f"{format_number(means['round'], '.4g')} rounds",
        *(quantity(float(means[cost]), UNITS[cost]) for cost in ("bits", "t", "joules")),
    ]
    amounts = f"{', '.join(spent[:-1])} and {spent[-1]}"
    if not target.measure:
        return f"{name} took {amounts}"
    return f"{name} reaches {target.goal} in {amounts}"
