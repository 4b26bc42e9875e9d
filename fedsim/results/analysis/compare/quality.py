"""Quality of the models at the end of runs: how variants differ in it, compared seed by seed.

A saving in cost means little where the model is worse. So the figures of the last models, such as
their test accuracy, are compared by the rule that costs are compared by (`pairwise`), with the
differences d of the seeds in place of logarithms of ratios. Of n seeds, Student's t interval is

    mean(d) +- t(n - 1, 1 - level / 2) sd(d) / sqrt(n),  level = 1 - confidence.

The interval of a difference spans this one and the sign test's, and below the fewest seeds of a
sign interval (6 at 95 %) it has level / 5, and all seeds have to agree.

Source: Student, The probable error of a mean, Biometrika 6, 1908.
"""

from math import isnan, log
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.core.table_columns import HIGHER_IS_BETTER, higher_is_better
from fedsim.core.text import format_number
from fedsim.results.analysis.compare.cost_tables import alike_in_length
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.compare.pairwise import PairedComparison, fewest_seeds, interval_level
from fedsim.results.analysis.compare.verdict import INDISTINGUISHABLE, TOO_FEW, State, judge
from fedsim.results.analysis.costs import measures_in
from fedsim.results.best import feasible_figure

QUALITY_COLUMNS = (
    "variant",
    "measure",
    "runs",
    "mean",
    "seeds",
    "difference",
    "low",
    "high",
    "p_value",
    "p_holm",
    "verdict",
)
"""The columns of `quality`."""

QUALITY_RULE = (
    "Variants differ if both Student's t test of the differences and the sign test say so. p is"
    " corrected for all pairs of variants (Holm)."
)
"""The note below a table of differences in quality."""

NO_DIFFERENCE = "no difference found"
"""The verdict where the seeds do not tell two variants apart."""

_EQUAL = frozenset({"rounds", "time", "energy", "bits"})
"""Stop rules that end all runs at an equal amount."""


def comparable(summary: pd.DataFrame) -> bool:
    """Return whether runs ended at the same amount of rounds, time or energy.

    The quality at the end of runs that stopped at a target says when they stopped, and nothing of
    their methods.

    Args:
        summary: one row per run that a stop rule has ended, as `Result.summary` has it.
    """
    rules = {reason.partition(":")[0] for reason in summary["reason"].astype(str)}
    if not rules <= _EQUAL or len(rules) != 1:
        return False
    return rules != {"rounds"} or alike_in_length(summary["rounds"])


def quality(rounds: pd.DataFrame, against: str, confidence: float = 0.95) -> pd.DataFrame:
    """Return the quality of each variant's last models, and how it differs from that of one.

    Args:
        rounds: the round tables of complete runs, as `Result.rounds` has them.
        against: the variant to compare with.
        confidence: of the intervals and tests, between 0 and 1.

    Returns:
        One row per variant and measure: runs and mean (over the runs that have a figure), seeds (in
        which both variants have one), difference (the mean over these of its figure less that of
        `against`), its interval from low to high, p_value, p_holm (corrected for all pairs of
        variants in this measure) and verdict; the rule is that of `pairwise` without a practical
        difference. The row of `against` itself has no difference.
    """
    rows = []
    for measure in sorted(measures_in(rounds), key=_order):
        last = last_figures(rounds, measure)
        names = list(last["variant"].unique())
        if against not in names:
            continue
        compared = _Compared.of(last, measure, confidence)
        for name in names:
            own = last.loc[last["variant"] == name, "figure"]
            row = {"variant": name, "measure": measure, "runs": len(own), "mean": own.mean()}
            beside = {} if name == against else compared.difference(name, against)._asdict()
            rows.append(row | beside)
    table = pd.DataFrame(rows, columns=list(QUALITY_COLUMNS))
    return table.fillna({"verdict": ""})


def quality_clause(
    rounds: pd.DataFrame, pair: tuple[str, str], label: str, confidence: float = 0.95
) -> str:
    """Return how the last models of a variant differ from those of another, as a clause.

    It is about an accuracy if there is one, else about the gap or the objective.

    Args:
        rounds: the round tables of complete runs, as `Result.rounds` has them.
        pair: a variant, and the variant that it is compared with.
        label: what to call the variant.
        confidence: of the interval and the test, between 0 and 1.
    """
    for measure in sorted(measures_in(rounds), key=_order):
        compared = _Compared.of(last_figures(rounds, measure), measure, confidence)
        if set(pair) <= set(compared.decisions.variants):
            found = compared.difference(*pair)
            if found.seeds:
                return _clause(found, label, confidence)
    return "how good the models are was not measured"


class Difference(NamedTuple):
    """How the last models of a variant differ from those of another in one measure.

    Attributes:
        measure: column of the round table.
        seeds: in which both have a figure.
        difference: the mean over these of the variant's figure less the other's.
        low, high: its interval; NaN of one seed, and where all seeds have the same difference.
        p_value: not corrected; NaN where there is no interval.
        p_holm: corrected for all pairs of variants.
        verdict: in words.
    """

    measure: str
    seeds: int
    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float
    verdict: str


def _clause(found: Difference, label: str, confidence: float) -> str:
    what, known = f"{found.measure} at the end", _evidence(found, confidence)
    if found.verdict == NO_DIFFERENCE:
        return f"no difference in {what} was found ({known})"
    if found.verdict == TOO_FEW:
        return f"it is not known yet whether {label}'s {what} differs ({known})"
    if not found.difference:
        return f"{label}'s {what} is {found.verdict}"
    return f"{label}'s {what} is {amount(found.difference, found.measure)} ({known})"


def _evidence(found: Difference, confidence: float) -> str:
    """Return what a difference rests on: its interval, seeds that are all alike, or one seed."""
    if found.seeds == 1:
        return "one seed"
    if isnan(found.low):
        return f"{amount(found.difference, found.measure)} in all {found.seeds} seeds"
    ends = interval(found.low, found.high, found.measure)
    text = f"{interval_level(confidence, found.seeds):g} % interval {_points(ends, found.measure)}"
    significant = found.p_value <= 1 - confidence
    if found.verdict == NO_DIFFERENCE and significant:
        text += f"; p={format_number(found.p_holm, '.2g')} after Holm's correction"
    return text


class _Compared(NamedTuple):
    """The last figures of all variants in one measure, compared by the rule of costs.

    Attributes:
        decisions: on exp(figure / scale) as costs, so that logarithms of their ratios are
            differences of figures.
        measure: column of the round table.
        scale: the largest absolute value of a figure. Figures are divided by it, since the rule's
            bound on rounding errors is for numbers of about 1.
    """

    decisions: Decisions
    measure: str
    scale: float

    @classmethod
    def of(cls, last: pd.DataFrame, measure: str, confidence: float) -> "_Compared":
        """Compare figures, as `last_figures` returns them."""
        scale = float(last["figure"].abs().max()) or 1.0
        costs = last.assign(cost=np.exp(last["figure"] / scale), reached=True)
        return cls(Decisions.of(costs, ["cost"], confidence, practical=0.0), measure, scale)

    def difference(self, one: str, other: str) -> Difference:
        """Return how a variant differs from another."""
        pair = self.decisions.pair(one, other, "cost")
        middle, low, high = (self.scale * log(ratio) for ratio in (pair.ratio, pair.low, pair.high))
        tested = pair.p_value, pair.p_holm, _words(pair, middle)
        return Difference(self.measure, pair.seeds, middle, low, high, *tested)


def last_figures(rounds: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the last value of a measure of each run: variant, seed, figure.

    Runs whose last figure is not finite, or whose last model violates the method's constraint,
    are left out.
    """
    known = rounds[rounds[measure].notna()]
    last = known.drop_duplicates(["variant", "seed"], keep="last")
    figures = last[["variant", "seed"]].assign(figure=feasible_figure(last, measure))
    figures = figures.astype({"variant": object, "figure": float})
    finite: pd.DataFrame = figures[np.isfinite(figures["figure"])]
    return finite


def _words(pair: PairedComparison, difference: float) -> str:
    """Return the verdict on two variants in a few words, as tables print it."""
    if not pair.seeds:
        return "no common seed"
    verdict, side = judge(pair), _side(difference)
    if verdict.reason:
        return NO_DIFFERENCE if verdict.reason == INDISTINGUISHABLE else verdict.reason
    if verdict.state is State.SAME:
        return verdict.words
    if pair.seeds == 1:
        return f"{side} (one seed)"
    if pair.alike:
        # A figure such as an accuracy on a hundred samples has few values, so a few seeds may well
        # have the same difference by chance.
        few = pair.seeds < fewest_seeds(pair.confidence)
        return TOO_FEW if few else f"{side}, all seeds alike"
    return side


def amount(difference: float, measure: str) -> str:
    """Return a difference in words, shares in percentage points.

    >>> amount(-0.0051, "test_accuracy"), amount(0.25, "test_loss")
    ('0.51 points lower', '0.25 higher')
    """
    return f"{_points(_size(abs(difference), measure), measure)} {_side(difference)}"


def signed(difference: float, measure: str) -> str:
    """Return a difference with its sign, shares in percentage points; "-" if there is none."""
    if isnan(difference):
        return "-"
    return _points(_signed(difference, measure), measure)


def interval(low: float, high: float, measure: str) -> str:
    r"""Return the interval of a difference, as `signed` has that.

    >>> interval(-0.02, 0.005, "test_accuracy").replace("\N{MINUS SIGN}", "-")
    '-2 to +0.5'
    """
    return "-" if isnan(low) else f"{_signed(low, measure)} to {_signed(high, measure)}"


def _points(number: str, measure: str) -> str:
    """Return a number with its unit, if it is of a share: "1 point", "0.5 points"."""
    unit = "point" if number.lstrip("+\N{MINUS SIGN}") == "1" else "points"
    return f"{number} {unit}" if _is_share(measure) else number


def _signed(difference: float, measure: str) -> str:
    sign = "\N{MINUS SIGN}" if difference < 0 else "+" if difference else ""
    return f"{sign}{_size(abs(difference), measure)}"


def _side(difference: float) -> str:
    return "lower" if difference < 0 else "higher"


def _size(size: float, measure: str) -> str:
    shown = 100 * size if _is_share(measure) else size
    # Three digits of hundreds: 281 rather than 2.8e+02.
    return format_number(shown, ".2g" if shown < 100 else ".3g")


def _is_share(measure: str) -> bool:
    return measure in HIGHER_IS_BETTER


def _order(measure: str) -> tuple[bool, bool]:
    """Return what sorts accuracies to the front, and the gap or the objective behind them."""
    return not higher_is_better(measure), measure not in {"gap", "objective"}
