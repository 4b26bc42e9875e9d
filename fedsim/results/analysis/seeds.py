"""Curves over seeds: the mean of a column of the round table, and a band around it."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from fedsim.core.table_columns import AFTER
from fedsim.results.analysis.costs import spent, with_bits, with_grams

Band = Literal["min-max", "std", "interval", "none"]
"""What a band shows: the least to the largest seed, one standard deviation to either side of the
mean, the 95 % interval of the mean (Student's t), or nothing."""

Ends = Literal["hold", "stop"]
"""After the end of a seed: it keeps its last values in the mean, or the mean stops."""

COSTS = ("transmissions", "bits", "bits_up", "bits_down", "t", "joules")
"""Columns with cumulative sums."""

POINTS = 2000
"""Largest number of points of a curve; more cannot be distinguished on paper."""

_CONFIDENCE = 0.95


def spread(count: int, most: int = POINTS) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the rows to draw: all, or `most` evenly spread ones, including first and last.

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
    """Return means over the seeds of each variant, round by round.

    Runs of one variant may end after different numbers of rounds. With `ends="hold"`, a seed that
    has ended keeps its last values in the mean: a run that has stopped costs nothing more, and
    its model stays. With `ends="stop"`, the rows end with the first seed that does.

    Args:
        rounds: as `Result.rounds` gives it.
        column: of the round table; costs are those of all rounds so far.
        log: whether means and bands are those of logarithms; values that are not positive count as
            missing.
        band: the meaning of `low` and `high`.
        ends: whether the mean continues after the end of a seed.
        also: further columns whose means are returned.

    Returns:
        One row per variant and round that an observer evaluated in all seeds that are still
        running: variant, round, the costs of `COSTS` so far (means), what follows until radios
        sleep (`joules_after`, where known), `also`, running (the number of seeds that have this
        round), mean, low and high of the column. Of one seed, or with
        `band="none"`, low and high are the mean.
    """
    totals = with_bits(spent(rounds))
    totals = totals[totals["objective"].notna() | totals[column].notna()]  # else unobserved
    value = totals[column].where(totals[column] > 0) if log else totals[column]
    totals = totals.assign(value=np.log(value) if log else value)
    after = [name for name in AFTER.values() if name in totals]
    shown = list(dict.fromkeys([*with_grams(COSTS, totals), *after, *also]))
    shown = [name for name in shown if name != "round"]
    tables = [
        _of_variant(group, shown, band, ends).assign(variant=variant)
        for variant, group in totals.groupby("variant", sort=False, observed=True)
    ]
    columns = ["variant", "round", *shown, "running", "mean", "low", "high"]
    if not tables:
        return pd.DataFrame(columns=columns)
    table = pd.concat(tables, ignore_index=True)[columns]
    if log:
        table[["mean", "low", "high"]] = np.exp(table[["mean", "low", "high"]])
    return table


def _of_variant(
    rounds: pd.DataFrame, columns: Sequence[str], band: Band, ends: Ends
) -> pd.DataFrame:
    """Return means and band of one variant, one row per round."""
    by_run = rounds.assign(round_seen=1.0).set_index(["round", "seed"])
    last = rounds.groupby("seed", observed=True)["round"].max()
    here = _by_seed(by_run["round_seen"]).notna()
    ended = np.greater.outer(here.index.to_numpy(), last[here.columns].to_numpy())
    included = (here | ended if ends == "hold" else here).all(axis=1)
    figures: dict[str, pd.DataFrame] = {}
    for name in [*columns, "value"]:
        # Only rounds after the end of a seed are filled. Rounds that a running seed has not
        # evaluated are not in `included`.
        wide = _by_seed(by_run[name])
        figures[name] = wide.mask(ended, wide.ffill())[included]
    table = pd.DataFrame({name: figures[name].mean(axis=1) for name in columns})
    table["running"] = here[included].sum(axis=1)
    values = figures["value"]
    table["mean"] = values.mean(axis=1)
    low, high = _band(values, band)
    table["low"], table["high"] = low.fillna(table["mean"]), high.fillna(table["mean"])
    return table.reset_index()


def _by_seed(values: "pd.Series[float]") -> pd.DataFrame:
    """Return one row per round and one column per seed; NaN where the seed has no such round."""
    return values.unstack("seed")  # noqa: PD010 - a seed has a round once


def _band(values: pd.DataFrame, band: Band) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Return the ends of a band around the means of rows; NaN if undefined."""
    mean = values.mean(axis=1)
    if band == "none":
        return mean, mean
    if band == "min-max":
        return values.min(axis=1), values.max(axis=1)
    margin = values.std(axis=1)
    if band == "interval":
        # Of a single seed the standard deviation is NaN already.
        count = values.count(axis=1).clip(lower=2)
        margin *= stdtrit(count - 1, (1 + _CONFIDENCE) / 2) / np.sqrt(count)
    return mean - margin, mean + margin
