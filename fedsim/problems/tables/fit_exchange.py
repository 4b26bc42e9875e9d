"""The messages by which a server fits preprocessing to the rows of all clients, as bytes.

Clients send counts and sums, never rows. For the exact median of a column with gaps, however, they
send its distinct values with their counts. Everything is little-endian: counts in 4 bytes, values
in 8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.problems.tables.features import FeatureRecipe

_COUNT, _VALUE = np.dtype("<u4"), np.dtype("<f8")


class FitStep(NamedTuple):
    """One exchange: a message to all clients, and the reply of each.

    Attributes:
        request: the payload for every client.
        replies: the payload of each client, in the order of the fleet.
    """

    request: bytes
    replies: tuple[bytes, ...]


@dataclass(frozen=True)
class FitExchange:
    """All messages of a fit.

    Attributes:
        steps: the exchanges in which clients send their statistics.
        result: the payload that every client gets at the end.
    """

    steps: tuple[FitStep, ...]
    result: bytes


@dataclass(frozen=True)
class TableFit:
    """The fit of a server to the statistics of all clients.

    Attributes:
        medians: the medians of each column of numbers or dates; NaN if nothing is missing.
        origin: subtracted after gaps are filled; empty without a scale.
        unit: the divisor after that; empty without a scale.
        counts: for each category, the count of every text; gaps count as the most frequent text.
    """

    medians: Array
    origin: Array
    unit: Array
    counts: tuple[NDArray[np.int64], ...]


def exchange_of(X: Array, rows: Sequence[NDArray[np.intp]], recipe: FeatureRecipe) -> FitExchange:
    """Return the messages that fit preprocessing to the raw rows of clients.

    Args:
        X: raw rows of all clients, shape (n, raw columns), NaN where a cell is missing.
        rows: the indices of each client's rows.
        recipe: how features are made.
    """
    parts = [X[client_rows] for client_rows in rows]
    steps = [FitStep(b"", tuple(_sums(part, recipe) for part in parts))]
    gaps = [
        place for place in recipe.numbers if any(np.isnan(part[:, place]).any() for part in parts)
    ]
    if gaps:
        request = np.array(gaps, _COUNT).tobytes()
        steps.append(FitStep(request, tuple(_values(part, gaps) for part in parts)))
    fitted = merge_fit(steps, recipe)
    rare = [
        np.packbits(counts < recipe.rare * counts.sum()).tobytes()
        + np.array([counts.argmax()], _COUNT).tobytes()
        for counts in fitted.counts
    ]
    known = fitted.medians[~np.isnan(fitted.medians)]
    numbers = np.concatenate([known, fitted.origin, fitted.unit]).astype(_VALUE).tobytes()
    return FitExchange(tuple(steps), b"".join([numbers, *rare]))


def merge_fit(steps: Sequence[FitStep], recipe: FeatureRecipe) -> TableFit:
    """Return the fit to the decoded replies of all clients."""
    numbers = recipe.numbers
    decoded = [_read_sums(reply, recipe) for reply in steps[0].replies]
    counts = np.array([answer[0] for answer in decoded], np.int64)  # (clients, 1 + numbers + texts)
    rows, missing = int(counts[:, 0].sum()), counts[:, 1 : 1 + len(numbers)]
    first, second = (np.array([answer[1][way] for answer in decoded]) for way in (0, 1))
    medians = np.full(len(numbers), np.nan)
    if len(steps) > 1:
        asked = np.frombuffer(steps[1].request, _COUNT)
        for at, place in enumerate(asked.tolist()):
            medians[numbers.index(place)] = _median([_read_values(r)[at] for r in steps[1].replies])
    filled = np.where(np.isnan(medians), 0.0, medians)
    gone = missing.sum(axis=0)
    if recipe.scale == "none":
        origin = unit = np.zeros(0)
    elif recipe.scale == "unit-range":
        origin = np.nanmin(np.vstack([first, medians]), axis=0)
        unit = np.nanmax(np.vstack([second, medians]), axis=0) - origin
    else:
        known = counts[:, :1] - missing
        total = np.nansum(first * known, axis=0) + gone * filled
        origin = total / rows
        # The sum of squares around the common mean: within the clients, plus between their means.
        squares = second + known * (first - origin) ** 2
        unit = np.sqrt((np.nansum(squares, axis=0) + gone * (filled - origin) ** 2) / rows)
    texts: list[NDArray[np.int64]] = []
    begin = 1 + len(numbers)
    for place in recipe.categories:
        end = begin + len(recipe.features[place].texts)
        each = counts[:, begin:end].sum(axis=0)
        # Gaps are filled with the most frequent text.
        each[each.argmax()] += rows - each.sum()
        texts.append(each)
        begin = end
    return TableFit(medians, origin, unit, tuple(texts))


def _sums(X: Array, recipe: FeatureRecipe) -> bytes:
    """Return rows, missing cells and counts of texts, then two numbers of each column's scale."""
    numbers = X[:, recipe.numbers]
    missing = np.isnan(numbers).sum(axis=0)
    texts = [
        np.bincount(
            X[~np.isnan(X[:, place]), place].astype(np.intp),
            minlength=len(recipe.features[place].texts),
        )
        for place in recipe.categories
    ]
    counts = np.concatenate([[len(X)], missing, *texts]).astype(_COUNT).tobytes()
    if recipe.scale == "none":
        return counts
    pairs = np.full((2, numbers.shape[1]), np.nan)
    for at in np.flatnonzero(missing < len(X)).tolist():
        known = numbers[~np.isnan(numbers[:, at]), at]
        low, high = known.min(), known.max()
        mean = known.mean()
        spread = ((known - mean) ** 2).sum()
        pairs[:, at] = (low, high) if recipe.scale == "unit-range" else (mean, spread)
    return counts + pairs.astype(_VALUE).tobytes()


def _read_sums(reply: bytes, recipe: FeatureRecipe) -> tuple[NDArray[np.int64], Array]:
    """Return the counts and the pairs, shape (2, numbers), of a reply."""
    columns = len(recipe.numbers)
    texts = sum(len(recipe.features[place].texts) for place in recipe.categories)
    count = 1 + columns + texts
    counts = np.frombuffer(reply, _COUNT, count).astype(np.int64)
    if recipe.scale == "none":
        return counts, np.full((2, columns), np.nan)
    pairs = np.frombuffer(reply, _VALUE, 2 * columns, count * _COUNT.itemsize)
    return counts, pairs.astype(np.float64).reshape(2, columns)


def _values(X: Array, places: Sequence[int]) -> bytes:
    """Return the distinct known values of some columns, each with its count."""
    parts: list[bytes] = []
    for place in places:
        values, counts = np.unique(X[~np.isnan(X[:, place]), place], return_counts=True)
        parts.append(np.array([len(values)], _COUNT).tobytes())
        parts += [values.astype(_VALUE).tobytes(), counts.astype(_COUNT).tobytes()]
    return b"".join(parts)


def _read_values(reply: bytes) -> list[Array]:
    """Return the values of each column of a reply, repeated by their counts."""
    found: list[Array] = []
    at = 0
    while at < len(reply):
        size = int(np.frombuffer(reply, _COUNT, 1, at)[0])
        at += _COUNT.itemsize
        values = np.frombuffer(reply, _VALUE, size, at)
        at += size * _VALUE.itemsize
        found.append(np.repeat(values, np.frombuffer(reply, _COUNT, size, at)))
        at += size * _COUNT.itemsize
    return found


def _median(parts: Sequence[Array]) -> float:
    """Return the median of all clients' values; 0 if there are none, like the imputer."""
    values = np.concatenate(parts)
    return float(np.median(values)) if len(values) else 0.0
