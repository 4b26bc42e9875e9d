"""Tables of costs over seeds: means with their intervals, and ratios of two variants by seed."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from scipy.special import stdtrit

from fedsim.core.blocks.spec import per_cent
from fedsim.core.blocks.wording import nearest, no_share
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.core.table_columns import (
    AFTER,
    COSTS,
    HIGHER_IS_BETTER,
    INFRASTRUCTURE,
    SPENT,
    UNITS,
    higher_is_better,
)
from fedsim.core.text import format_number, quantity
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.compare.verdict import find_worlds, judge
from fedsim.results.analysis.costs import (
    cost_to_target,
    final_cost,
    with_bits,
    with_further,
    with_tails,
)
from fedsim.results.best import feasible_figure
from fedsim.results.record.schema import GRAMS
from fedsim.results.record.summary import end_of, has_failed, is_empty

COMPARED = (*SPENT[:-2], "bits", *SPENT[-2:])
"""Costs that are compared; `bits` are those of both directions, and grams may come beside."""

_ENOUGH = 4
"""From this number of runs on there is an interval; below it, minimum and maximum."""


def summarise(costs: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean of each cost over the seeds of a variant, and how sure it is.

    Args:
        costs: one row per run, as `cost_to_target` and `final_cost` give it.
        confidence: of the interval, between 0 and 1.

    Returns:
        One row per variant, in the order of `costs`: variant, runs, reached, and for each cost c of
        `COMPARED` the mean over the runs that reached the target as c, and its interval as c_low
        and c_high: Student's for the logarithm of the mean, by the delta method, so that it never
        reaches 0; of two or three runs, which say too little for that, the least and the largest.
        The mean is NaN where no run got there, the interval where fewer than two did.

    Raises:
        ValueError: the confidence is not between 0 and 1.

    Example:
        >>> costs = fedsim.results.analysis.final_cost(result.rounds)
        >>> summarise(costs, 0.95)["variant"].tolist()
        ['base', 'gd']
    """
    own = with_bits(costs).astype({"variant": object})
    groups = own.groupby("variant", sort=False)
    table = pd.DataFrame({"runs": groups.size(), "reached": groups["reached"].sum()})
    compared = with_further(COMPARED, own)
    arrived = own[own["reached"]].groupby("variant", sort=False)[compared]
    figures = (arrived.mean(), arrived.std(), arrived.min(), arrived.max())
    means, spreads, least, largest = (each.reindex(table.index) for each in figures)
    means = means.clip(least, largest)  # equal figures have a mean that rounds to another one
    count = table["reached"].to_numpy()
    few = (count > 1) & (count < _ENOUGH)
    for cost in compared:
        mean = means[cost].to_numpy()
        margin = _margin(spreads[cost].to_numpy(), count, confidence)
        # A mean of 0 comes from costs of 0 alone: its interval is that point.
        factor = np.exp(np.divide(margin, mean, out=np.zeros_like(margin), where=mean > 0))
        factor = np.where(count > 1, factor, np.nan)
        low = np.where(few, least[cost], mean / factor)
        high = np.where(few, largest[cost], mean * factor)
        table = table.assign(**{cost: mean, f"{cost}_low": low, f"{cost}_high": high})
    return table.rename_axis("variant").reset_index()


PAIR_COLUMNS = (
    "variant",
    "cost",
    "seeds",
    "cheaper",
    "costlier",
    "pairs",
    "difference",
    "ratio",
    "low",
    "high",
    "p_value",
    "p_holm",
    "verdict",
)
"""The columns of `pair`."""


def pair(
    costs: pd.DataFrame,
    against: str,
    confidence: float = 0.95,
    decisions: Decisions | None = None,
    worlds: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return what the other variants cost beside one of them, seed by seed.

    Args:
        costs: one row per run, as `cost_to_target` and `final_cost` give it.
        against: the variant to compare with.
        confidence: of the intervals and tests, between 0 and 1.
        decisions: of these costs with that confidence, if they are known.
        worlds: the verdicts of `fedsim robust` on these runs, where it sampled worlds.

    Returns:
        One row per variant and cost of `COMPARED`: variant, cost, seeds (in which either reached
        the target), cheaper and costlier (in so many of them it is), pairs (in which both did),
        difference (the paired difference: the mean over these of its cost less that of `against`),
        ratio (the typical one over the seeds in which both did, and, where these are all seeds, its
        interval from low to high; NaN in place of a ratio to a cost of 0), p_value (not corrected),
        p_holm (corrected for all pairs of variants)
        and verdict. The rule is that of `fedsim.results.analysis.compare.pairwise`, the words are
        those of `verdict`.

    Raises:
        ValueError: there is no variant of that name, or the confidence is not between 0 and 1.
    """
    own = with_bits(costs).astype({"variant": object})
    compared = with_further(COMPARED, own)
    decided = decisions or Decisions.of(own, compared, confidence)
    rows = []
    for name, cost, pair in decided.against(against):
        figures = {key: getattr(pair, key) for key in PAIR_COLUMNS if hasattr(pair, key)}
        every = decided.by_cost[cost].costs
        ours, theirs = (every[decided.variants.index(own)] for own in (name, against))
        known = np.isfinite(ours) & np.isfinite(theirs)
        both = ours[known] - theirs[known]
        difference = float(both.mean()) if len(both) else np.nan
        own_figures: dict[str, Any] = {
            "variant": name,
            "cost": cost,
            "pairs": len(both),
            "difference": difference,
        }
        if pair.missed:  # like with like: where both reached it, as for the difference
            own_figures |= {"ratio": pair.like, "low": np.nan, "high": np.nan}
        if (theirs == 0).any():  # there is no ratio to a cost of 0
            ends = {key: own_figures.get(key, figures[key]) for key in ("ratio", "low", "high")}
            own_figures |= {key: np.nan for key, end in ends.items() if np.isinf(end)}
        verdict = judge(pair, find_worlds(worlds, name, against, cost)).words
        rows.append({**figures, **own_figures, "verdict": verdict})
    return pd.DataFrame(rows, columns=list(PAIR_COLUMNS))


def _margin(spread: Array, count: Array, confidence: float) -> Array:
    """Return half the width of Student's interval for a mean; NaN below two observations."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence:g}; give a number between 0 and 1")
    enough = np.where(count > 1, count, 2)
    margin = stdtrit(enough - 1, (1 + confidence) / 2) * spread / np.sqrt(enough)
    return np.asarray(np.where(count > 1, margin, np.nan))


# Targets: what runs are to reach, and what it costs them.

_ADD = "for another one, add it to `measures` and run again"
_NO_MEASURES = frozenset(
    {"variant", "seed", "round", "t", "cohort", *COSTS, GRAMS, *AFTER.values(), *INFRASTRUCTURE}
)


_TARGETS = "targets."
"""How the columns of a summary begin that have the bounds at which runs were to stop."""


_WHOLE = "whole-run"
"""What the end of a run is called where targets are labels."""


def heading(label: str) -> str:
    """Return how a sentence begins that is about a target, by its label.

    >>> heading("gap=0.1"), heading("whole-run")
    ('gap=0.1', 'the whole run')
    """
    return "the whole run" if label == _WHOLE else label


class Tables(Protocol):
    """Runs, as their tables."""

    @property
    def rounds(self) -> pd.DataFrame:
        """As `Result.rounds` has them."""

    @property
    def summary(self) -> pd.DataFrame:
        """As `Result.summary` has it."""


class Target(NamedTuple):
    """What is to be reached: a value of a column of the round table, or the end of the run.

    Attributes:
        measure: the column; empty for the end of the run.
        value: in the column's unit.
        common: whether no run was to stop at it, and it is the best that all of them reached.
    """

    measure: str = ""
    value: float = np.nan
    common: bool = False

    @classmethod
    def read(cls, text: str) -> "Target":
        """Read "gap=1e-5" or "test_accuracy=85 %".

        Raises:
            DataError: it is nothing of the kind, or a value that no run can reach.
        """
        measure, _, value = text.partition("=")
        measure = measure.strip()
        # Of a gap and an objective there is no per cent: neither is a share.
        number = value if measure in {"gap", "objective"} else str(per_cent(value.strip()))
        try:
            target = cls(measure, float(number))
        except ValueError:
            target = cls()
        if not target.measure or not np.isfinite(target.value):
            wanted = (
                "give a column of the round table and a number, such as gap=1e-5 or"
                " test_accuracy=85%"
            )
            raise DataError("target", f"--target: got {text!r}; {wanted}")
        if measure in HIGHER_IS_BETTER and not 0 <= target.value <= 1:
            raise DataError("target", f"--target: {no_share(measure, target.value)}")
        if target.measure == "gap" and target.value <= 0:
            wanted = "no gap is below 0; give a number above it, such as gap=1e-5"
            raise DataError("target", f"--target: got {text!r}; {wanted}")
        return target

    @classmethod
    def usual(cls, runs: Tables) -> "Target":
        """Return what runs were to stop at: a gap, else an objective, else a measure.

        Of several bounds it is the one that is reached first. If one of the runs was to stop at
        no such thing, it is the end of the runs where these have the same number of rounds. Else
        costs of whole runs would compare unlike things, such as a run whose batteries were soon
        empty with one that went on: it is the best figure that all of them reached, if any.

        Args:
            runs: their tables.
        """
        return cls._stopped_at(runs.summary) or cls._in_common(runs) or cls()

    @classmethod
    def _stopped_at(cls, summary: pd.DataFrame) -> "Target | None":
        named = {str(name) for name in summary if str(name).startswith(_TARGETS)}
        asked = {"target": "gap", **{name: name.removeprefix(_TARGETS) for name in sorted(named)}}
        first = sorted(asked, key=lambda name: (asked[name] != "gap", asked[name] != "objective"))
        for name in first:
            bounds = summary[name].to_numpy(np.float64)
            if len(bounds) and np.isfinite(bounds).all():
                loosest = bounds.min() if higher_is_better(asked[name]) else bounds.max()
                return cls(asked[name], float(loosest))
        return None

    @classmethod
    def _in_common(cls, runs: Tables) -> "Target | None":
        """Return the best figure that all complete runs reached, if they end at unlike points.

        It is the gap, else an accuracy, else the objective.
        """
        done = runs.summary[complete(runs.summary)]
        if done["variant"].nunique() < 2 or alike_in_length(done["rounds"]):
            return None
        rounds = runs.rounds.merge(done[["variant", "seed"]])
        accuracies = [str(name) for name in rounds if name in HIGHER_IS_BETTER]
        for measure in ("gap", *accuracies, "objective"):
            value = reached_by_all(rounds, measure, list(done["variant"].unique()))
            if value is not None:
                return cls(measure, value, common=True)
        return None

    def __str__(self) -> str:
        return f"{self.measure}={self.value:.12g}" if self.measure else _WHOLE

    @property
    def words(self) -> str:
        """What the costs are the costs of."""
        if not self.measure:
            return "cost of the whole run"
        return f"cost to {self.goal}{', which all runs reached' if self.common else ''}"

    @property
    def arrived(self) -> str:
        """What the runs are that count, as the head of a column."""
        return "reached" if self.measure else "complete"

    @property
    def goal(self) -> str:
        """What is to be reached, as a sentence has it; empty for the end of the run."""
        if not self.measure:
            return ""
        if self.measure == "gap":
            return f"a gap below {self.value:g}"
        side = "at least" if higher_is_better(self.measure) else "at most"
        return f"{self.measure} of {side} {self.value:g}"

    @property
    def missed(self) -> str:
        """What the runs did that do not count."""
        return "missed the target" if self.measure else "were ended by no stop rule"

    def costs(self, runs: Tables) -> pd.DataFrame:
        """Return what each run had spent when it got there, as `cost_to_target` gives it.

        A run that failed, or that no client was left for, has not cost what the whole run would.

        Raises:
            DataError: no run has evaluated the measure.
        """
        summary = runs.summary
        if not self.measure:
            done = summary.loc[complete(summary), ["variant", "seed"]]
            return final_cost(runs.rounds.merge(done), runs=summary)
        self._check(runs.rounds)
        return cost_to_target(runs.rounds, self.value, self.measure, runs=summary)

    def ranks(self, costs: pd.DataFrame) -> bool:
        """Return whether costs compare like with like: up to one goal, or over as many rounds."""
        return bool(self.measure) or alike_in_length(costs.loc[costs["reached"], "round"])

    def shown(self, table: pd.DataFrame, runs: Tables) -> pd.DataFrame:
        """Return a table of mean costs with those of whole runs that no stop rule has ended.

        They are spent, though they do not rank: a run that nobody was left for would have gone on.

        Args:
            table: with one row per variant, as `mean_cost` and `summarise` return it.
            runs: their tables.
        """
        if self.measure or (table["reached"] > 0).all():
            return table
        means = whole_costs(runs).groupby("variant").mean(numeric_only=True)
        table = table.set_index("variant")
        columns = [str(cost) for cost in table if cost in means]
        table[columns] = table[columns].astype(np.float64)
        failed = table.index.isin(list(failed_variants(runs.summary)))
        none = table.index[(table["reached"] == 0) & ~failed]
        table.loc[none, columns] = means.reindex(none)[columns]
        return table.reset_index()

    def _check(self, rounds: pd.DataFrame) -> None:
        numbers = [str(name) for name in rounds if is_numeric_dtype(rounds[name])]
        known = [
            name for name in numbers if name not in _NO_MEASURES and rounds[name].notna().any()
        ]
        if self.measure not in known:
            hint = nearest(self.measure, known) or "."
            there = f"There are {', '.join(known)}; {_ADD}" if known else "None has ended a round"
            raise DataError(
                "target", f"--target: no run has evaluated {self.measure!r}{hint} {there}"
            )


def reached_by_all(rounds: pd.DataFrame, measure: str, variants: Sequence[str]) -> float | None:
    """Return the strictest two-digit value of a measure that all runs have reached.

    None if a run never evaluated the measure, or if every initial model meets the value already.
    """
    higher = higher_is_better(measure)
    selected = rounds[rounds["variant"].isin(list(variants))]
    runs = [selected["variant"], selected["seed"]]
    by_run = feasible_figure(selected, measure).groupby(runs, observed=True)
    best = (by_run.max() if higher else by_run.min()).to_numpy(np.float64)
    if not len(best) or not np.isfinite(best).all():
        return None
    worst = float(best.min() if higher else best.max())
    if worst == 0:
        return None
    exact = Decimal(worst)  # binary floats would lose a digit: 1.9 / 0.1 is not 19
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    bound = exact.quantize(unit, ROUND_FLOOR if higher else ROUND_CEILING)
    # A gap has to be below its target, so a worst gap with two exact digits needs the next value.
    if not higher and float(bound) <= worst:
        bound += unit
    starts = selected.loc[selected["round"] == 0, measure]
    free = starts >= float(bound) if higher else starts <= float(bound)
    if len(starts) and free.all():
        return None  # a target that costs nothing
    return float(bound)


def complete(summary: pd.DataFrame) -> "pd.Series[bool]":
    """Return which runs a stop rule has ended, after a round at least."""
    ended = summary["status"].map(lambda status: end_of(status).complete)
    return ended & ~summary[["status", "rounds", "t"]].apply(is_empty, axis=1)


def failed_variants(summary: pd.DataFrame) -> frozenset[str]:
    """Return the variants whose runs have all failed; none of a study without runs."""
    if summary.empty:
        return frozenset()
    failed = summary["status"].map(has_failed).groupby(summary["variant"], observed=True).all()
    return frozenset(failed.index[failed])


def failed_in_words(summary: pd.DataFrame, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield for each variant with failed runs why the first of them failed."""
    failed = summary["status"].map(has_failed)
    for variant, label in labels.items():
        own = summary["variant"] == variant
        found = summary[own & failed]
        if not found.empty:
            many = f" in {len(found)} of {own.sum()} seeds" if own.sum() > 1 else ""
            yield f"{label} failed{many}: {found['reason'].iloc[0]}"


def alike_in_length(rounds: "pd.Series[Any]") -> bool:
    """Return whether all runs have the same number of rounds."""
    return len(rounds.unique()) <= 1


_TOTALS = {"rounds": "round", **{name: name for name in (*SPENT, "bits", GRAMS) if name != "round"}}
"""The columns of a summary with what a run has spent, and what tables of costs call them."""


def whole_costs(runs: Tables) -> pd.DataFrame:
    """Return what each run has spent in all, whatever it has reached, and however it has ended.

    It is counted up to the last round, as `final_cost` does; of a run that no stop rule has ended,
    up to its end, which was within a round. Both have the energy until radios sleep.
    """
    summary = runs.summary
    totals = with_tails(with_bits(summary.rename(columns=_TOTALS)).astype({"variant": object}))
    totals = totals[["variant", "seed", *with_further(COMPARED, totals)]]
    ended = summary["status"].map(lambda status: end_of(status).complete)
    rounds = with_bits(final_cost(runs.rounds, runs=summary)).astype({"variant": object})
    up_to_round = ended.to_numpy() & rounds["round"].notna().to_numpy()
    figures = [name for name in totals if name not in {"variant", "seed"}]
    for name in figures:
        totals[name] = np.where(up_to_round, rounds[name], totals[name].astype(np.float64))
    return totals


def spent_on(runs: Tables, target: Target) -> pd.DataFrame:
    """Return the cost of each run up to a target, or of the whole run where it missed it."""
    whole, costs = whole_costs(runs), with_bits(target.costs(runs))
    figures = [name for name in whole if name not in {"variant", "seed"}]
    reached = costs["reached"].to_numpy(bool)
    for name in figures:
        whole[name] = np.where(reached, costs[name], whole[name])
    return whole


def misses(
    runs: Tables, costs: pd.DataFrame, target: Target, labels: Mapping[str, str]
) -> Iterator[str]:
    """Yield for each variant how many of its runs missed a target, and what these have spent.

    Failed runs are not among these: what they have spent is the cost of an error.

    Args:
        runs: the tables of the runs.
        costs: their costs, as `target.costs` returns them.
        target: what was to be reached.
        labels: what to call each variant; others are left out.
    """
    failed = runs.summary["status"].map(has_failed).to_numpy(bool)
    missed_it = ~costs["reached"].to_numpy(bool)
    spent = whole_costs(runs).assign(missed=missed_it, failed=missed_it & failed)
    several = len(spent["seed"].unique()) > 1
    for variant, label in labels.items():
        own = spent[(spent["variant"] == variant) & ~spent["failed"]]
        missed = own[own["missed"]]
        if missed.empty:
            continue
        amounts = _amounts(missed.mean(numeric_only=True))
        each = " on average" if len(missed) > 1 else ""
        count = f"{len(own) - len(missed)} of {len(own)} seeds"
        reached = "reached the target" if target.measure else "ended by a stop rule"
        if len(missed) < len(own):
            who = f"seed{'s' * (len(missed) > 1)} {_seeds(missed)}"
            did = "missed it" if target.measure else "did not"
            these = "this seed" if len(own) - len(missed) == 1 else "these seeds"
            yield (
                f"{label}: {count} {reached}, and the means are over {these}; {who} {did}, and"
                f" spent {amounts}{each}"
            )
        elif not target.measure:
            yield f"{label} was not ended by a stop rule: its costs do not rank"
        elif several:
            yield f"{label}: {count} {reached}; they spent {amounts}{each}"
        else:
            yield f"{label} did not reach the target, and spent {amounts}"


def _amounts(means: "pd.Series[float]") -> str:
    """Return rounds, time, energy and bits in words."""
    rounds = f"{format_number(means['round'], '.4g')} round{'' if means['round'] == 1 else 's'}"
    t, joules, bits = (
        quantity(float(means[cost]), UNITS[cost]) for cost in ("t", "joules", "bits")
    )
    return f"{rounds}, {t}, {joules} and {bits}"


def _seeds(runs: pd.DataFrame) -> str:
    """Return the seeds of runs, or the first of many."""
    names = [str(seed) for seed in runs["seed"]]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    *first, last = [*names[:_NAMED], *more]
    return " and ".join(filter(None, (", ".join(first), last)))


_NAMED = 5
"""Seeds that are listed."""
