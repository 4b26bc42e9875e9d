"""Verdicts: the outcome of a claim in one cost and one world."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import sem, t

import fedsim
from claim_checks.costs import costs
from claim_checks.papers import COSTS, Claim
from claim_checks.settings import Setting

ALIKE = 1.02
"""Costs within two per cent of each other are a tie, as are those that seeds do not tell apart."""

CONFIDENCE, FEWEST = 0.95, 5
"""Of Student's interval, and the least number of seeds that has one."""

Verdict = Literal["survives", "tie", "reversed", "not reached"]


class Cell(NamedTuple):
    """The outcome of a claim in one cost and one world.

    Attributes:
        ratio: what the worse method needs over what the better one needs: the geometric mean
            over seeds. NaN where the better one has not got there under a seed, infinite where
            the worse one has not.
        low: where its interval begins; as the ratio with one seed.
        high: where it ends.
        verdict: survives, tie, reversed or not reached.
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict

    @classmethod
    def of(cls, ratios: Sequence[float]) -> "Cell":
        """Return what ratios of single seeds come to.

        The interval is Student's of the logarithms from `FEWEST` seeds on; below that it is from
        the least to the largest, so that seeds decide where all of them agree. It is a tie where
        the interval holds 1, or where the ratio is within `ALIKE` of it.

        >>> Cell.of([2.0, 8.0]).ratio, Cell.of([0.5]).verdict, Cell.of([0.9, 1.5]).verdict
        (4.0, 'reversed', 'tie')
        """
        if not len(ratios) or np.isnan(ratios).any():
            return cls(np.nan, np.nan, np.nan, "not reached")
        if np.isinf(ratios).any():
            least = float(min(ratios))
            return cls(np.inf, least, np.inf, "survives" if least > ALIKE else "tie")
        logs = np.log(np.asarray(ratios, dtype=np.float64))
        mean, low, high = float(logs.mean()), float(logs.min()), float(logs.max())
        if len(logs) >= FEWEST and high > low:
            low, high = map(float, t.interval(CONFIDENCE, len(logs) - 1, mean, sem(logs)))
        apart = abs(mean) > np.log(ALIKE) and low * high > 0
        verdict: Verdict = ("survives" if mean > 0 else "reversed") if apart else "tie"
        return cls(float(np.exp(mean)), float(np.exp(low)), float(np.exp(high)), verdict)

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


Outcome = Literal["holds", "holds, but not by as much", "does not hold"]


def outcome(claim: Claim, found: Mapping[str, Cell]) -> Outcome:
    """Return what a claim comes to in what the paper counts itself."""
    own = [found[cost] for cost in claim.counted]
    if any(cell.verdict != "survives" for cell in own):
        return "does not hold"
    low, high = claim.factor
    within = all(low <= cell.ratio <= high for cell in own)
    return "holds" if within else "holds, but not by as much"
