"""Does a split give every client rows, and no row to two?

from fedsim.conformance import check_split
print(check_split(RoundRobin()))
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsim.conformance.findings import Promises, table
from fedsim.errors import DataError
from fedsim.problems import Samples, Split

ROWS, FEATURES, CLIENTS, LABELS = 120, 3, 5, 12

Dealt = Sequence[Any]
"""The rows of each client, as a block has given them: arrays, where it keeps to its type."""


def check_split(split: Split, seed: int = 0) -> pd.DataFrame:
    """Check a split on random samples of 12 labels, whose rows belong to 5 clients.

    Args:
        split: of any kind, with its parameters.
        seed: of its stream, and of the samples.

    Returns:
        A row a check: check, outcome (kept or broken), and the reason.

    Raises:
        DataError: the split does not take such samples.
    """
    return table(type(split), _promises(split, seed))


def samples(seed: int) -> Samples:
    """Return the rows to deal out."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, FEATURES))
    y = rng.permutation(np.arange(ROWS) % LABELS).astype(np.float64)
    return Samples(X, y, rng.permutation(np.arange(ROWS) % CLIENTS))


def _promises(split: Split, seed: int) -> Promises:
    rows = _deal(split, seed)
    yield "there are as many clients as are asked for", _counts(split, rows)
    yield "every client has a row at least, and rows are numbers", _numbers(rows)
    yield "no row is given to two clients, or twice", _once(rows)
    yield "the same stream deals the same", _repeats(split, rows, seed)
    yield "the samples stay as they are", _unchanged(split, seed)
    yield "more clients than rows are refused", _refuses(split, seed)


def _deal(split: Split, seed: int) -> Dealt:
    return split.assign(samples(seed), _asked(split), np.random.default_rng(seed + 1))


def _asked(split: Split) -> int:
    """Return for how many clients a split is to deal: as many as it says itself, if it does."""
    return int(getattr(split, "clients", None) or CLIENTS)


def _counts(split: Split, rows: Dealt) -> Iterator[str]:
    if len(rows) != _asked(split):
        yield f"{_asked(split)} are asked for, and rows are dealt to {len(rows)}"


def _numbers(rows: Dealt) -> Iterator[str]:
    for client, own in enumerate(rows):
        if not (isinstance(own, np.ndarray) and own.ndim == 1 and own.dtype.kind in "iu"):
            yield f"client {client} has {own!r}; give an array of the numbers of its rows"
        elif not len(own):
            yield f"client {client} has none"
        elif own.min() < 0 or own.max() >= ROWS:
            yield f"client {client} has rows {own.min()} to {own.max()}, of 0 to {ROWS - 1}"


def _once(rows: Dealt) -> Iterator[str]:
    numbers, times = np.unique(np.concatenate(rows), return_counts=True)
    for number in numbers[times > 1]:
        owners = [client for client, own in enumerate(rows) for _ in range((own == number).sum())]
        yield f"row {number} is given to clients {', '.join(map(str, owners))}"


def _repeats(split: Split, rows: Dealt, seed: int) -> Iterator[str]:
    again = _deal(split, seed)
    if not all(np.array_equal(*pair) for pair in zip(rows, again, strict=True)):
        yield "two draws from streams of one seed differ; draw from rng alone"


def _unchanged(split: Split, seed: int) -> Iterator[str]:
    given, untouched = samples(seed), samples(seed)
    split.assign(given, _asked(split), np.random.default_rng(seed + 1))
    if list(map(bytes, given.blocks())) != list(map(bytes, untouched.blocks())):
        yield "assign has changed the samples that it was given"


def _refuses(split: Split, seed: int) -> Iterator[str]:
    few = samples(seed).take(np.arange(_asked(split) - 1))
    try:
        dealt = split.assign(few, _asked(split), np.random.default_rng(seed))
    except DataError:
        return
    if any(len(own) == 0 for own in dealt):
        yield f"{few.rows} rows are dealt to {len(dealt)} clients; raise a DataError"
