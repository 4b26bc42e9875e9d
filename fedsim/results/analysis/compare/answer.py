"""The answer of a comparison in one sentence: which variant is cheapest, and how sure that is.

The sentence is about the cheapest variant that reached the target and the next cheapest one; see
`Decisions.rank` for the order. Against a baseline it has a clause for each variant.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd

from fedsim.core.blocks.wording import join_names, nearest
from fedsim.core.errors import DataError
from fedsim.core.table_columns import TITLES, TOTAL_JOULES, UNITS, higher_is_better
from fedsim.core.text import format_number, quantity
from fedsim.results.analysis.compare.baseline import against_baseline
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.compare.quality import quality_clause
from fedsim.results.analysis.compare.stalls import stalled_clause
from fedsim.results.analysis.compare.verdict import State, Verdict, bare, find_worlds, judge
from fedsim.results.analysis.costs import with_bits
from fedsim.results.best import feasible_figure
from fedsim.results.record.schema import GRAMS

LEADING = {
    cost: TITLES.get(cost, cost) for cost in (GRAMS, "joules", TOTAL_JOULES, "t", "bits", "round")
}
"""The cost that the sentence is about is the first of these that is not zero in all runs.

A scenario that states where its electricity comes from asks for CO2.
"""

MOST = 500
"""Variants beyond which every two of them are not compared for one sentence."""


def answer(
    costs: pd.DataFrame,
    target: Target,
    labels: Mapping[str, str],
    decisions: Decisions | None = None,
    rounds: pd.DataFrame | None = None,
    worlds: pd.DataFrame | None = None,
    against: str | None = None,
    by: str = "",
) -> str:
    """Return which variant reached a target for the least, by how much, and how sure that is.

    Args:
        costs: one row per run, as `Target.costs` returns it.
        target: what was to be reached.
        labels: what to call each variant; others are left out.
        decisions: of all variants in these costs, where they are known.
        rounds: the round tables, from which the closest run is named where none reached a target.
        worlds: the verdicts of `fedsim robust` on these runs, where it sampled worlds.
        against: the baseline that all others are compared with; if None, the cheapest variant is
            compared with the next one.
        by: the cost that the sentence is about; the first of `LEADING` if empty.

    Returns:
        A sentence without its full stop; empty where there is nothing to say.
    """
    return next(answers(costs, target, labels, decisions, rounds, worlds, against, by), "")


def total_answer(
    costs: pd.DataFrame,
    target: Target,
    labels: Mapping[str, str],
    decisions: Decisions | None = None,
    rounds: pd.DataFrame | None = None,
    worlds: pd.DataFrame | None = None,
    against: str | None = None,
) -> str:
    """Return the answer by total energy; empty unless the runs count server and network.

    The arguments are those of `answer`.
    """
    if TOTAL_JOULES not in costs:
        return ""
    said = answer(costs, target, labels, decisions, rounds, worlds, against, TOTAL_JOULES)
    return f"with the server and the network: {said}" if said else ""


class Leading(NamedTuple):
    """The verdict that an answer states first, if it is on two variants.

    Attributes:
        cost: column of costs.
        one, other: the variants, the cheaper one first.
        verdict: on their costs.
    """

    cost: str
    one: str
    other: str
    verdict: Verdict


def leading(
    costs: pd.DataFrame,
    target: Target,
    labels: Mapping[str, str],
    decisions: Decisions | None = None,
    worlds: pd.DataFrame | None = None,
    against: str | None = None,
    by: str = "",
) -> Leading | None:
    """Return the verdict that `answer` states; None where it is not on two variants."""
    own = _own(costs, labels)
    shown = _ranked_costs(own, target, by)
    if not shown:
        return None
    other = against or _baseline(target, labels)
    return next(_verdicts(decisions or Decisions.of(own, shown), shown, worlds, other), None)


def reference_answer(
    costs: pd.DataFrame,
    target: Target,
    labels: Mapping[str, str],
    decisions: Decisions | None = None,
    worlds: pd.DataFrame | None = None,
    by: str = "",
) -> str:
    """Return the verdict on the cheapest variant and the first one, where the answer is open.

    The two cheapest variants are often two of one family, and seeds do not tell them apart. What a
    reader wants to know then is what both save beside the baseline: the first variant.

    Args: as for `answer`.

    Returns:
        A sentence without its full stop; empty if the answer is certain or is about the first
        variant, and if this verdict is open, too.
    """
    found = leading(costs, target, labels, decisions, worlds, by=by)
    baseline = next(iter(labels), "")
    if found is None or baseline in found[1:3] or found.verdict.state is not State.UNDECIDED:
        return ""
    beside = leading(costs, target, labels, decisions, worlds, baseline, by)
    if beside is None or beside.other != baseline or beside.verdict.state is not State.CHEAPER:
        return ""
    own = _own(costs, labels)
    pair = _name(own, beside.one, labels), _name(own, beside.other, labels)
    return beside.verdict.sentence(pair, LEADING[beside.cost], target.goal)


def _own(costs: pd.DataFrame, labels: Mapping[str, str]) -> pd.DataFrame:
    """Return the costs of some variants, with their bits."""
    own = with_bits(costs).astype({"variant": object})
    return own[own["variant"].isin(list(labels))]


def read_cost(text: str, cases: Sequence[tuple[Target, pd.DataFrame]]) -> str:
    """Return the cost that an option names, such as "time".

    Args:
        text: the name, as tables of costs have it, or the column.
        cases: targets and the costs to reach them, as `Target.costs` returns these.

    Raises:
        DataError: variants are not compared by such a cost.
    """
    ranked = [cost for target, costs in cases for cost in _ranked_costs(with_bits(costs), target)]
    known = {LEADING[cost]: cost for cost in ranked or LEADING}
    columns = {cost: cost for cost in known.values()}
    if text not in known and text not in columns:
        hint = nearest(text, known) or "."
        raise DataError("by", f"--by: got {text!r}{hint} Expected {join_names(list(known), 'or')}")
    return (known | columns)[text]


def _ranked_costs(own: pd.DataFrame, target: Target, by: str = "") -> list[str]:
    """Return the costs in which variants are ranked; none where there is no such question.

    That of `by` is in front.
    """
    arrived = own[own["reached"]]
    if own["variant"].nunique() > MOST or arrived["variant"].nunique() < 2:
        return []
    if not target.ranks(own):
        return []
    order = dict.fromkeys((by, *LEADING))
    known = [name for name in order if name in arrived and arrived[name].notna().all()]
    if not target.measure:
        known.remove("round")  # all have the same number
    return [name for name in known if arrived[name].max() > 0]


def _baseline(target: Target, labels: Mapping[str, str]) -> str | None:
    """Return the variant that the cheapest one is compared with, if it is not the next one.

    Equally many rounds may end at models of unlike quality. What a reader wants to know then is
    what a method saves and loses beside the baseline: the first variant.
    """
    return None if target.measure else next(iter(labels), None)


def answers(
    costs: pd.DataFrame,
    target: Target,
    labels: Mapping[str, str],
    decisions: Decisions | None = None,
    rounds: pd.DataFrame | None = None,
    worlds: pd.DataFrame | None = None,
    against: str | None = None,
    by: str = "",
) -> Iterator[str]:
    """Yield `answer`, and after it the verdict in each further cost; see there.

    Without a target, the first one is on quality, too.
    """
    own = _own(costs, labels)
    if own.empty or own["variant"].nunique() > MOST:
        return
    arrived = own[own["reached"]]
    if arrived.empty:
        if target.measure:
            yield _without_target(target, labels, rounds)
        return
    names = {str(name): _name(own, str(name), labels) for name in own["variant"].unique()}
    there = [str(name) for name in arrived["variant"].unique()]
    if target.measure and not arrived[["joules", "t", "bits", "round"]].to_numpy().any():
        yield f"the start model already meets {target.goal}: every cost is 0"
    elif len(there) == 1:
        said = _alone(arrived, names[there[0]], target)
        yield f"only {said}" if len(labels) > 1 and target.measure else said
    elif not (shown := _ranked_costs(own, target, by)):
        yield _without_rank(rounds)
    else:
        decided = decisions or Decisions.of(own, shown)
        absent = ""
        if against in names and against not in there:
            missed = f"never reached {target.goal}" if target.measure else "ended by no stop rule"
            absent = f"{labels[against]} {missed}; "
        several = against in there and len(names) > 2
        bare_labels = {name: bare(label) for name, label in labels.items()}
        short = {name: _name(own, name, bare_labels) for name in names}
        verdicts = _verdicts(decided, shown, worlds, against or _baseline(target, labels))
        for number, each in enumerate(verdicts):
            pair = names[each.one], names[each.other]
            words = LEADING[each.cost], target.goal
            stalled = partial(stalled_clause, rounds, own, target)
            if several and against:
                known = decided, each.cost, against, short, words, worlds
                sentence = against_baseline(*known, stalled=stalled)
            else:
                advice = stalled({name: bare_labels[name] for name in each[1:3]})
                sentence = each.verdict.sentence(pair, *words, advice or "run more seeds")
            # Quality is stated once, and against the baseline.
            whole = not (target.measure or number or (several and each.one == against))
            lost = _quality(rounds, arrived, each, labels) if whole else ""
            yield f"{absent}{sentence}{lost}"


def _quality(
    rounds: pd.DataFrame | None, arrived: pd.DataFrame, each: Leading, labels: Mapping[str, str]
) -> str:
    """Return how the last models of two variants differ, to end the verdict on their costs."""
    if rounds is None:
        return ""
    complete = rounds.merge(arrived[["variant", "seed"]])
    label, confidence = labels[each.one], each.verdict.pair.confidence
    return f"; {quality_clause(complete, (each.one, each.other), label, confidence)}"


def _verdicts(
    decisions: Decisions,
    costs: Sequence[str],
    worlds: pd.DataFrame | None,
    against: str | None,
) -> Iterator[Leading]:
    """Yield for each cost the verdict on the cheapest variant and the next one, or a given one."""
    for cost in costs:
        ranked = decisions.rank(cost)
        one, other = ranked[:2]
        if against in ranked[2:]:
            other = against
        sampled = find_worlds(worlds, one, other, cost)
        yield Leading(cost, one, other, judge(decisions.pair(one, other, cost), sampled))


def _without_rank(rounds: pd.DataFrame | None) -> str:
    """Return why whole runs do not rank variants, and what would."""
    return (
        "the runs have no target, and end after different numbers of rounds, so costs do not rank"
        " the variants: state what is to be reached, such as"
        f" fedsim compare DIR --target {_example(rounds)}"
    )


def _example(rounds: pd.DataFrame | None) -> str:
    """Return a target as an example: a gap, if the runs measure one."""
    gap = rounds is None or ("gap" in rounds and rounds["gap"].notna().any())
    return "gap=1e-3" if gap else "objective=0.1"


def _without_target(target: Target, labels: Mapping[str, str], rounds: pd.DataFrame | None) -> str:
    """Return that no run reached a target, and the variant that was closest to it."""
    said = f"no run reached {target.goal}"
    if rounds is None or target.measure not in rounds:
        return said
    seen = rounds[rounds["variant"].isin(list(labels)) & rounds[target.measure].notna()]
    if seen.empty:
        return said
    own = seen[feasible_figure(seen, target.measure).notna()]
    if own.empty:
        return f"{said}; every model breaks its constraint"
    higher = higher_is_better(target.measure)
    row = own.sort_values(target.measure, ascending=not higher, kind="stable").iloc[0]
    value = format_number(row[target.measure], ".4g")
    return f"{said}; closest: {labels[str(row['variant'])]}, {value}"


def _name(own: pd.DataFrame, name: str, labels: Mapping[str, str]) -> str:
    """Return the label of a variant, with how many of its runs got there where not all did."""
    reached = own.loc[own["variant"] == name, "reached"]
    every = "" if reached.all() else f" (reached in {reached.sum()} of {len(reached)} seeds)"
    return f"{labels[name]}{every}"


def _alone(arrived: pd.DataFrame, name: str, target: Target) -> str:
    """Return what the only variant that got there has cost, on average over its seeds."""
    means = arrived[["round", "bits", "t", "joules"]].mean()
    spent: Sequence[str] = [
        _rounds(float(means["round"])),
        *(quantity(float(means[cost]), UNITS[cost]) for cost in ("bits", "t", "joules")),
    ]
    amounts = f"{', '.join(spent[:-1])} and {spent[-1]}"
    if not target.measure:
        return f"{name} took {amounts}"
    return f"{name} reaches {target.goal} in {amounts}"


def _rounds(count: float) -> str:
    """Return a number of rounds in words.

    >>> _rounds(1), _rounds(2.5)
    ('1 round', '2.5 rounds')
    """
    return f"{format_number(count, '.4g')} round{'' if count == 1 else 's'}"
