"""Fairness: how evenly energy, updates or anything else is spread over clients."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedsim.results.analysis.log.frames import check_columns
from fedsim.results.analysis.log.runs import by_run


def jain(amounts: ArrayLike) -> float:
    """Return Jain's index of fairness, from 1/n (one has everything) to 1 (all have the same).

    (sum x)^2 / (n * sum x^2); Jain, Chiu and Hawe, DEC Research Report TR-301, 1984.

    Args:
        amounts: of the n clients, none below 0, shape (n,).

    Returns:
        The index; 1 where all amounts are 0, NaN without a client.

    Raises:
        ValueError: an amount is below 0, or is no number.

    Example:
        >>> jain([1, 1, 1, 1]), jain([1, 0, 0, 0])
        (1.0, 0.25)
    """
    shares = _shares(amounts)
    return float(1 / (len(shares) * (shares**2).sum())) if len(shares) else float("nan")


def gini(amounts: ArrayLike) -> float:
    """Return Gini's coefficient of inequality, from 0 (all have the same) to (n - 1) / n.

    The mean absolute difference of two clients over twice the mean (Gini, 1912), computed from
    sorted amounts x_1 <= ... <= x_n as sum (2 i - n - 1) x_i / (n * sum x).

    Args:
        amounts: of the n clients, none below 0, shape (n,).

    Returns:
        The coefficient; 0 where all amounts are 0, NaN without a client.

    Raises:
        ValueError: an amount is below 0, or is no number.

    Example:
        >>> gini([1, 1, 1, 1]), gini([1, 0, 0, 0])
        (0.0, 0.75)
    """
    shares = np.sort(_shares(amounts))
    count = len(shares)
    if not count:
        return float("nan")
    weights = 2.0 * np.arange(1, count + 1) - count - 1
    return max(float(weights @ shares) / count, 0.0)


def _shares(amounts: ArrayLike) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return amounts as shares of their sum; equal shares where all are 0."""
    own = np.asarray(amounts, dtype=np.float64).ravel()
    if not (np.isfinite(own) & (own >= 0)).all():
        raise ValueError("got an amount that is below 0 or no number; expected numbers from 0")
    largest = own.max(initial=0.0)
    own = own / largest if largest else np.ones_like(own)  # sums of large amounts stay finite
    return np.asarray(own / own.sum() if len(own) else own)


def fairness(clients: pd.DataFrame, column: str = "joules") -> pd.DataFrame:
    """Return how evenly an amount is spread over the clients of each run.

    `column="joules"` asks for the fairness of energy, `column="transmissions"` for that of updates.

    Args:
        clients: the client table of one run, or of several as `Result.clients` gives it.
        column: the amount: any column of the client table with numbers from 0.

    Returns:
        One row per run: variant and seed, where the table has them; clients (a count), jain and
        gini (see there), mean, least and most (of a client, in the unit of the column), and
        top_tenth (share of the tenth of the clients that has most, at least one; NaN where all have
        0).

    Raises:
        DataError: the table lacks a column.
        ValueError: an amount is below 0, or is no number.

    Example:
        >>> print(fairness(log.clients).round(3).to_string(index=False))
        variant  seed  clients  jain  gini  mean  least  most  top_tenth
             gd     1        4 0.783 0.229 3.157  0.281 4.123      0.326
             gd     2        4 0.786 0.250 2.325  0.252 3.349      0.360
            chb     1        4 0.783 0.229 3.157  0.281 4.123      0.326
            chb     2        4 0.786 0.250 2.325  0.252 3.349      0.360
        >>> print(fairness(log.clients, "transmissions").round(3).to_string(index=False))
        variant  seed  clients  jain  gini  mean  least  most  top_tenth
             gd     1        4 0.863 0.190  6.25    2.0   8.0      0.320
             gd     2        4 0.907 0.139  6.75    3.0   8.0      0.296
            chb     1        4 0.877 0.182  5.50    2.0   7.0      0.318
            chb     2        4 0.909 0.154  6.50    3.0   8.0      0.308
    """
    check_columns(clients, "clients", (column,))

    def of_run(own: pd.DataFrame) -> pd.DataFrame:
        amounts = own[column].to_numpy(np.float64)
        count = len(amounts)
        largest = np.sort(amounts)[count - max(count // 10, 1) :]
        whole = amounts.sum()
        row = {
            "clients": count,
            "jain": jain(amounts),
            "gini": gini(amounts),
            "mean": whole / count if count else np.nan,
            "least": amounts.min() if count else np.nan,
            "most": amounts.max() if count else np.nan,
            "top_tenth": largest.sum() / whole if whole else np.nan,
        }
        return pd.DataFrame([row])

    return by_run(clients, of_run)
