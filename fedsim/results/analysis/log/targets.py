"""Targets: how much sooner, or cheaper, a variant reaches one than another does.

What each run has spent at a target is `fedsim.results.analysis.cost_to_target`, with means and
intervals over seeds by `fedsim.results.analysis.summarise`.
"""

import numpy as np
import pandas as pd

from fedsim.core.errors import DataError
from fedsim.core.table_columns import COSTS
from fedsim.results.analysis.compare.pairwise import compare_seeds, log_ratios
from fedsim.results.analysis.costs import Direction, cost_to_target, with_bits
from fedsim.results.analysis.log.frames import check_columns


def speedup(
    rounds: pd.DataFrame,
    target: float,
    against: str,
    *,
    cost: str = "t",
    measure: str = "gap",
    direction: Direction | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return by which factor each variant reaches a target sooner than one of them, with intervals.

    The factor of a seed is the cost of `against` over that of the variant; seeds are compared by
    the rule of `fedsim.results.analysis.compare.pairwise`: the geometric mean or, where a run did
    not reach the target, the median, with its interval.

    Args:
        rounds: the round table of several variants, as `Result.rounds` gives it.
        target: value of the measure, in its unit.
        against: the variant to compare with.
        cost: what is counted: "t" (s), "joules", "bits", "bits_up", "transmissions", or "round".
        measure: the column that reaches the target.
        direction: as for `cost_to_target`.
        confidence: of the intervals, between 0 and 1.

    Returns:
        One row per variant, `against` included: variant, seeds (in which either run reached the
        target), speedup (above 1 where the variant is the sooner one; infinite where `against`
        never got there, NaN where neither did, or the variant at no cost), low and high (its
        interval; NaN without one).

    Raises:
        DataError: the table lacks a column, or has no such variant.
        ValueError: the confidence is not between 0 and 1, or no run has the measure.

    Example:
        >>> answer = speedup(log.rounds, 2e4, against="gd", cost="joules")
        >>> print(answer.round(3).to_string(index=False))
        variant  seeds  speedup   low  high
             gd      2    1.000   NaN   NaN
            chb      2    1.012 0.857 1.195
    """
    check_columns(rounds, "rounds", ("variant", "seed", "round", "t", *COSTS))
    by_seed = _by_variant_and_seed(rounds, target, cost, measure, direction)
    variants = list(by_seed.index)
    if against not in variants:
        raise DataError("against", f"got {against!r}; expected one of {', '.join(variants)}")
    ours = by_seed.to_numpy(np.float64)
    theirs = by_seed.loc[against].to_numpy(np.float64)
    # Theirs over ours: the factor by which the variant is sooner.
    found = compare_seeds(log_ratios(np.broadcast_to(theirs, ours.shape), ours), confidence)
    free = (ours == 0).any(axis=1)  # there is no ratio to a cost of 0
    columns = {"speedup": found.ratio, "low": found.low, "high": found.high}
    known = {name: np.where(free & np.isinf(each), np.nan, each) for name, each in columns.items()}
    return pd.DataFrame({"variant": variants, "seeds": found.seeds, **known})


def _by_variant_and_seed(
    rounds: pd.DataFrame, target: float, cost: str, measure: str, direction: Direction | None
) -> pd.DataFrame:
    """Return the cost to the target: a row per variant, in the table's order, a column per seed."""
    costs = with_bits(cost_to_target(rounds, target, measure, direction))
    if cost not in costs:
        known = ", ".join(("t", "round", "bits", *COSTS))
        raise DataError("cost", f"got {cost!r}; expected one of {known}")
    wide = costs.astype({"variant": object}).assign(
        cost=costs[cost].where(costs["reached"], np.inf)
    )
    by_seed = wide.pivot(index="variant", columns="seed", values="cost")  # noqa: PD010 - unique
    return by_seed.loc[list(dict.fromkeys(wide["variant"]))]
