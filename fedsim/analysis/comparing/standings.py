"""Who is ahead of whom for sure, and who is not told apart from somebody by these seeds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

_ROUNDING = 8 * np.finfo(np.float64).eps  # sums in another order differ by less, relatively

Flags = NDArray[np.bool_]


class Against(NamedTuple):
    """One variant against all of them: a row a variant, a column a cost.

    Attributes:
        below: it costs less than they, and the interval of the paired difference is below 0.
        same: they cost the same under every seed.
    """

    below: Flags
    same: Flags


def standings(costs: pd.DataFrame, columns: Sequence[str], confidence: float) -> pd.DataFrame:
    """Return who is Pareto-optimal for sure, and who may be.

    One variant is below another in a cost where the interval of their paired difference, by
    Student's t over the seeds that both have, is below zero; under a single seed, where the
    difference is. Without a seed in common nothing is known.

    Args:
        costs: a row a run, as `with_bits` gives it.
        columns: of costs, lower ones being better.
        confidence: of the interval.

    Returns:
        A row a variant of which all runs reached the target, by name: pareto (against every
        other one it is below in some cost, or the same in all) and tie (it is not, yet nobody
        is for sure at most as high in all costs and below in one).
    """
    shares = costs.groupby("variant", sort=False, observed=True)["reached"].all()
    names = [str(name) for name in shares.index[shares]]
    figures = _figures(costs, names, columns)
    above = [_against(figures, number, confidence) for number in range(len(names))]
    pareto = [bool((own.below.any(axis=1) | own.same.all(axis=1)).all()) for own in above]
    beaten = np.zeros(len(names), dtype=bool)
    for own in above:
        beaten |= (own.below | own.same).all(axis=1) & own.below.any(axis=1)
    tie = ~np.array(pareto, dtype=bool) & ~beaten
    return pd.DataFrame({"pareto": pareto, "tie": tie}, index=pd.Index(names, dtype=object))


def tied_with(costs: pd.DataFrame, name: str, cost: str, confidence: float) -> list[str]:
    """Return the variants whose paired difference in a cost to one of them includes zero.

    Args:
        costs: a row a run, as `with_bits` gives it.
        name: of the variant that they are held against.
        cost: the column.
        confidence: of the interval.
    """
    shares = costs.groupby("variant", sort=False, observed=True)["reached"].all()
    names = [str(each) for each in shares.index[shares]]
    figures, own = _figures(costs, names, [cost]), names.index(name)
    sure = _against(figures, own, confidence).below[:, 0]
    return [each for each, known in zip(names, sure, strict=True) if not known and each != name]


def _figures(costs: pd.DataFrame, names: Sequence[str], columns: Sequence[str]) -> Any:  # noqa: ANN401
    """Return costs as an array of variants x seeds x columns; NaN where there is no run."""
    seeds = costs["seed"].unique()
    own = costs.astype({"variant": object}).set_index(["variant", "seed"])[list(columns)]
    index = pd.MultiIndex.from_product([list(names), seeds])
    return own.reindex(index).to_numpy(np.float64).reshape(len(names), len(seeds), len(columns))


def _against(figures: Any, number: int, confidence: float) -> Against:  # noqa: ANN401
    """Hold one variant against all of them, seed by seed."""
    gaps = figures[number] - figures
    known = ~np.isnan(gaps)
    count = known.sum(axis=1)
    gaps = np.where(known, gaps, 0.0)
    mean = gaps.sum(axis=1) / np.maximum(count, 1)
    spread = np.where(known, gaps - mean[:, None], 0.0)
    deviation = np.sqrt((spread**2).sum(axis=1) / np.maximum(count - 1, 1))
    largest = np.nan_to_num(np.abs(figures)).max(axis=1)
    largest = np.maximum(largest, largest[number])
    deviation = np.where(deviation <= _ROUNDING * largest, 0.0, deviation)
    quantile = stdtrit(np.maximum(count - 1, 1), (1 + confidence) / 2)
    margin = np.where(count > 1, quantile * deviation / np.sqrt(np.maximum(count, 1)), 0.0)
    below = (count > 0) & (mean + margin < -_ROUNDING * largest)
    same = (count > 0) & (deviation == 0) & (np.abs(mean) <= _ROUNDING * largest)
    return Against(below, same)
