"""Columns that give the label away: by their values, or by their gaps.

A study with such a column says nothing about how well labels can be predicted. So each of them is
named.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsim.problems.tables.columns import ROWS, TableColumn, quote

_APART = 0.9  # difference of two classes' shares of gaps from which gaps tell them apart
_CHANCE = 1e-6  # probability of a pattern by chance below which it is named


def leaking_values(
    columns: Sequence[TableColumn], labels: NDArray[np.float64], kinds: int
) -> list[str]:
    """Return a sentence for each feature that determines the label.

    That is a category whose texts each have one label, a number that is a linear function of the
    label, or a number with a threshold that separates two classes without an error.

    Args:
        columns: the columns, with values.
        labels: a number for each row, shape (n,).
        kinds: the number of classes; 0 if labels are amounts.
    """
    sentences: list[str] = []
    for column in columns:
        if column.numbers is None:
            continue
        known = ~np.isnan(column.numbers)
        values, y_there = column.numbers[known], labels[known]
        if len(values) < ROWS or len(np.unique(y_there)) < 2:
            continue
        if column.role == "category" or len(np.unique(values)) <= max(2, kinds):
            _, places = np.unique(values, return_inverse=True)
            # Pairs of a value and a label are counted as complex numbers.
            counted = len(np.unique(places + 1j * y_there))
            determined = counted == places.max() + 1 and len(values) >= 5 * counted
        elif kinds == 2:
            low, high = np.unique(y_there)
            one, other = values[y_there == low], values[y_there == high]
            determined = bool(one.max() < other.min() or other.max() < one.min())
        else:
            spread = values.std() * y_there.std()
            both = ((values - values.mean()) * (y_there - y_there.mean())).mean()
            determined = bool(kinds == 0 and spread > 0 and abs(both) / spread > 1 - 1e-9)
        if determined:
            sentences.append(
                f"leakage: the column {column.name!r} determines the label; if it is known only"
                f" with the label, leave it out with `drop: [{quote(column.name)}]`"
            )
    return sentences


def leaking_gaps(
    columns: Sequence[TableColumn], labels: NDArray[np.float64], kinds: int
) -> Iterator[str]:
    """Yield a sentence for each feature whose gaps, or whose values, belong to one class.

    That is a column that is filled in nearly all rows of one class and in nearly none of another,
    or a column that is filled only in rows of one class, more of them than by chance.

    Args:
        columns: the columns, with values, NaN where missing.
        labels: a number for each row, shape (n,).
        kinds: the number of classes; 0 if labels are amounts, for which nothing is yielded.
    """
    classes, places = np.unique(labels, return_inverse=True)
    if kinds == 0 or len(classes) < 2:
        return
    sizes = np.bincount(places)
    for column in columns:
        if column.numbers is None:
            continue
        known = ~np.isnan(column.numbers)
        filled = np.bincount(places[known], minlength=len(classes))
        if known.all() or filled.sum() < ROWS:
            continue
        shares = filled / sizes
        only = int(np.argmax(filled))
        one_class = filled[only] == filled.sum()
        # This is the probability that rows with a value are all of this class by chance.
        if one_class and (sizes[only] / len(labels)) ** filled.sum() < _CHANCE:
            seen = "has values in rows of one class alone"
        elif shares.max() - shares.min() >= _APART:
            seen = "has values in nearly all rows of one class and in nearly none of another"
        else:
            continue
        yield (
            f"leakage: the column {column.name!r} {seen}; if it is known only with the label,"
            f" leave it out with `drop: [{quote(column.name)}]`"
        )
