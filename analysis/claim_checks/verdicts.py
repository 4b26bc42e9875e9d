"""Verdicts: the outcome of a claim in one cost and one world."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

import fedsim
from claim_checks.costs import costs
from claim_checks.papers import COSTS, Claim
from claim_checks.settings import Setting
from fedsim.results.analysis.compare.pairwise import Pairwise

Verdict = Literal["survives", "tie", "undecided", "reversed", "not reached"]


class Cell(NamedTuple):
    """The outcome of a claim in one cost and one world.

    Attributes:
        ratio: what the worse method needs over what the better one needs: the geometric mean
            over seeds. NaN where the better one has not got there under a seed, infinite where
            the worse one has not.
        low: where its interval begins; as the ratio with one seed.
        high: where it ends.
        verdict: survives, tie, undecided (by the seeds), reversed or not reached.
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict

    @classmethod
    def of(cls, ratios: Sequence[float]) -> "Cell":
        """Return what ratios of single seeds come to, by the rule of `fedsim compare`.

        >>> Cell.of([2.0, 8.0]).ratio, Cell.of([0.5]).verdict, Cell.of([0.9, 1.5]).verdict
        (4.0, 'reversed', 'undecided')
        """
        if not len(ratios) or np.isnan(ratios).any():
            return cls(np.nan, np.nan, np.nan, "not reached")
        pair = Pairwise.of(np.array([ratios, np.ones(len(ratios))])).pair(0, 1)
        tested = not np.isnan(pair.p_value)
        low, high = (pair.low, pair.high) if tested else (pair.ratio, pair.ratio)
        verdict: Verdict = "tie" if pair.same else "undecided"
        if pair.order:
            verdict = "survives" if pair.order > 0 else "reversed"
        return cls(pair.ratio, low, high, verdict)

    def __str__(self) -> str:
        if self.verdict == "not reached":
            return "-"
        ends = dict.fromkeys(map(short, (self.low, self.high)))
        spread = f" ({' to '.join(ends)})" if len(ends) > 1 else ""
        return f"{short(self.ratio)}{spread}"


def short(ratio: float) -> str:
    """Return a ratio for reading."""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def cells(claim: Claim, setting: Setting, result: fedsim.Result) -> dict[str, Cell]:
    """Return what the claim comes to in one world: a cell for each of `COSTS`."""
    table = costs(claim, setting, result)
    # Of several the cheapest of a seed counts; one that never gets there is no rival under it.
    worse = table.loc[list(claim.worse)].fillna(np.inf).groupby("seed").min()
    ratios = worse / table.loc[claim.better]
    return {cost: Cell.of(ratios[cost].tolist()) for cost in COSTS}


Outcome = Literal["holds", "holds, but not by as much", "too few seeds to tell", "does not hold"]


def outcome(claim: Claim, found: Mapping[str, Cell]) -> Outcome:
    """Return what a claim comes to in what the paper counts itself."""
    own = [found[cost] for cost in claim.counted]
    verdicts = {cell.verdict for cell in own}
    if not verdicts <= {"survives", "undecided"}:
        return "does not hold"
    if "undecided" in verdicts:
        return "too few seeds to tell"
    low, high = claim.factor
    within = all(low <= cell.ratio <= high for cell in own)
    return "holds" if within else "holds, but not by as much"
