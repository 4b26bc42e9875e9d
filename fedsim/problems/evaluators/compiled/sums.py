"""Sums of many rows: the aggregation of the replies to a round."""

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import exact, vector_at
from fedsim.problems.evaluators.compiled.rows import Whole

BLOCK = 2048
"""Number of coordinates added at once: with those of four rows they fit in the first-level
cache."""


@exact
def add_rows(total: Array, rows: Whole, like: NDArray[np.floating], factors: Array) -> None:
    """See `fedsim.wire.payloads.rows.AddRows`.

    Each row is read once, and so is a coordinate of the sum for four rows.
    """
    # Four rows at a time save loads and stores of the sum; the sum itself is taken one row after
    # another, as NumPy takes it.
    many = len(rows) // 4 * 4
    for begin in range(0, len(total), BLOCK):
        part = total[begin : begin + BLOCK]
        skip = begin * like.itemsize  # addresses count in bytes
        for i in range(0, many, 4):
            x0 = vector_at(rows[i] + skip, len(part), like)
            x1 = vector_at(rows[i + 1] + skip, len(part), like)
            x2 = vector_at(rows[i + 2] + skip, len(part), like)
            x3 = vector_at(rows[i + 3] + skip, len(part), like)
            f0, f1, f2, f3 = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
            for k in range(len(part)):
                # In the order of the rows, each product and sum rounded (`exact`), as NumPy adds
                # them.
                part[k] = (((part[k] + f0 * x0[k]) + f1 * x1[k]) + f2 * x2[k]) + f3 * x3[k]
        for i in range(many, len(rows)):
            x = vector_at(rows[i] + skip, len(part), like)
            f = factors[i]
            for k in range(len(part)):
                part[k] += f * x[k]
