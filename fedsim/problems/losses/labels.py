"""Labels of classes, and what is said of data that has others."""

import numpy as np

from fedsim.errors import DataError
from fedsim.ports import Array


def distinct_pair(labels: Array, key: str) -> Array:
    """Return the two distinct labels, ascending.

    Raises:
        DataError: there are not two distinct labels; `key` is what asked for them.
    """
    distinct = np.unique(labels)
    if len(distinct) != 2:
        raise DataError(
            key,
            f"two distinct labels are needed; the data has {len(distinct)} ({listed(distinct)})",
        )
    return distinct


def two_labels(labels: Array, low: float, high: float, key: str) -> Array:
    """Return `low` for the smaller of two distinct labels, `high` for the larger; errors alike."""
    return np.where(labels == distinct_pair(labels, key)[0], low, high)


def whole_labels(labels: Array, key: str) -> Array:
    """Return labels that are whole numbers, as those of classes are.

    Raises:
        DataError: one is not; `key` is what takes each for a class.
    """
    if not np.array_equal(labels, np.rint(labels)):
        seen = labels[labels != np.rint(labels)][0]
        raise DataError(
            key,
            f"a class a distinct label is made of whole numbers; the data has {seen:g} among its "
            f"{len(np.unique(labels))} distinct labels; the loss squared takes any number",
        )
    return labels


def listed(distinct: Array) -> str:
    """Return distinct labels as an error names them: the first five."""
    return ", ".join(f"{label:g}" for label in distinct[:5]) + (
        ", ..." if len(distinct) > 5 else ""
    )
