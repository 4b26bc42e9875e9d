"""Curves over seeds: the mean of a column of the round table, and a band around it."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from fedsim.results.analysis.costs import cumulative, with_bits, with_grams

Band = Literal["min-max", "std", "interval", "none"]
"""What a band shows: the least to the largest seed, one standard deviation to either side of the
mean, the 95 % interval of the mean (Student's t), or nothing."""

Ends = Literal["hold", "stop"]
"""How a mean goes on where a seed has ended: the seed holds its last values, or the mean stops."""

COSTS = ("transmissions", "bits", "bits_up", "bits_down", "t", "joules")
"""What is added up round by round."""

POINTS = 2000
"""More points than that cannot be distinguished on paper."""

_CONFIDENCE = 0.95


def spread(count: int, most: int = POINTS) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the rows to draw: all, or `most` that are evenly spread, first and last included.

    >>> spread(3).tolist(), spread(9, 3).tolist(), spread(100_000)[[0, -1]].tolist()
    ([0, 1, 2], [0, 4, 8], [0, 99999])
    """
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.intp)


def over_seeds(
    rounds: pd.DataFrame,
    column: str,
    *,
    log: bool = False,
    band: Band = "min-max",
    ends: Ends = "hold",
    also: Sequence[str] = (),
) -> pd.DataFrame:
    """Return what the seeds of each variant have in common, round by round.

    Runs of one variant may end after different numbers of rounds. With `ends="hold"`, a seed that
    has ended counts further with its last values: a run that has stopped costs nothing more, and
    its model stays. With `ends="stop"`, the rows end with the first seed that does.

    Args:
        rounds: as `Result.rounds` gives it.
        column: of the round table; costs are those of all rounds so far.
        log: whether means and bands are those of logarithms; values that are not positive count as
            missing.
        band: what `low` and `high` are.
        ends: what happens where a seed has ended.
        also: further columns whose means are returned.

    Returns:
        One row per variant and round that an observer evaluated in all seeds that are still
        running: variant, round, the costs of `COSTS` so far (means), `also`, running (the number of
        seeds that have this round), mean, low and high of the column. Of one seed, or with
        `band="none"`, low and high are the mean.
    """
    totals = with_bits(cumulative(rounds))
    totals = totals[totals["objective"].notna() | totals[column].notna()]  # else unobserved
    value = totals[column].where(totals[column] > 0) if log else totals[column]
    totals = totals.assign(value=np.log(value) if log else value)
    shown = list(dict.fromkeys([*with_grams(COSTS, totals), *also]))
    shown = [name for name in shown if name != "round"]
    tables = [
        _of_variant(own, shown, band, ends).assign(variant=variant)
        for variant, own in totals.groupby("variant", sort=False, observed=True)
    ]
    columns = ["variant", "round", *shown, "running", "mean", "low", "high"]
    if not tables:
        return pd.DataFrame(columns=columns)
    table = pd.concat(tables, ignore_index=True)[columns]
    if log:
        table[["mean", "low", "high"]] = np.exp(table[["mean", "low", "high"]])
    return table


def _of_variant(own: pd.DataFrame, shown: Sequence[str], band: Band, ends: Ends) -> pd.DataFrame:
    """Return the rows of one variant, values as they are averaged."""
    by_run = own.assign(round_seen=1.0).set_index(["round", "seed"])
    last = own.groupby("seed", observed=True)["round"].max()
    here = _by_seed(by_run["round_seen"]).notna()
    over = np.greater.outer(here.index.to_numpy(), last[here.columns].to_numpy())
    kept = (here | over if ends == "hold" else here).all(axis=1)
    figures: dict[str, pd.DataFrame] = {}
    for name in [*shown, "value"]:
        wide = _by_seed(by_run[name])
        figures[name] = wide.mask(over, wide.ffill())[kept]
    table = pd.DataFrame({name: figures[name].mean(axis=1) for name in shown})
    table["running"] = here[kept].sum(axis=1)
    values = figures["value"]
    table["mean"] = values.mean(axis=1)
    low, high = _band(values, band)
    table["low"], table["high"] = low.fillna(table["mean"]), high.fillna(table["mean"])
    return table.reset_index()


def _by_seed(values: "pd.Series[float]") -> pd.DataFrame:
    """Return one row per round and one column per seed; NaN where the seed has no such round."""
    return values.unstack("seed")  # noqa: PD010 - a seed has a round once


def _band(values: pd.DataFrame, band: Band) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Return the ends of a band around the means of rows; NaN where there is none."""
    mean = values.mean(axis=1)
    if band == "none":
        return mean, mean
    if band == "min-max":
        return values.min(axis=1), values.max(axis=1)
    margin = values.std(axis=1)
    if band == "interval":
        count = values.count(axis=1).clip(lower=2)
        margin *= stdtrit(count - 1, (1 + _CONFIDENCE) / 2) / np.sqrt(count)
    return mean - margin, mean + margin
