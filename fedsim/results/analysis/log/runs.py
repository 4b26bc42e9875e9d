"""Tables of several runs, run by run."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

RUN = ("variant", "seed")
"""The columns that name a run in tables of several."""


def by_run(frame: pd.DataFrame, function: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """Return what a function finds in each run, with the columns of the run in front.

    Args:
        frame: of one run, or of several with the columns variant and seed.
        function: takes the rows of one run, numbered from 0, and returns a table.
    """
    keys = [name for name in RUN if name in frame]
    if not keys or frame.empty:
        found = function(frame.reset_index(drop=True))
        return found if not keys else _with_run(found, frame.iloc[:0], keys)
    tables = [
        _with_run(function(rows.reset_index(drop=True)), rows, keys) for rows in _runs(frame, keys)
    ]
    return pd.concat(tables, ignore_index=True)


def _with_run(found: pd.DataFrame, rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Put the columns of a run in front of its answer."""
    run: dict[str, Any] = {name: rows[name].iloc[0] if len(rows) else None for name in keys}
    return found.assign(**run)[[*keys, *found.columns]]


def _runs(frame: pd.DataFrame, keys: list[str]) -> list[pd.DataFrame]:
    """Return the rows of each run, in order of first appearance; views where runs lie together."""
    changed = np.zeros(len(frame), dtype=np.bool_)
    for name in keys:
        column = frame[name]
        own = column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else column
        changed[1:] |= (own.to_numpy()[1:] != own.to_numpy()[:-1]).astype(np.bool_)
    borders = np.flatnonzero(changed)
    # Some run begins twice, so its rows are not together.
    if frame[keys].iloc[[0, *borders]].duplicated().any():
        number = frame.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
        frame = frame.take(np.argsort(number, kind="stable"))
        borders = np.cumsum(np.bincount(number))[:-1]
    ends = [0, *borders.tolist(), len(frame)]
    return [frame.iloc[begin:end] for begin, end in pairwise(ends)]
