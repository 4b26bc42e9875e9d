"""Minibatches: which of a client's rows a stochastic gradient takes."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Drawn = NDArray[np.intp] | None
"""The numbers of the samples of a minibatch, shape (b,); None for all samples."""

Minibatches = NDArray[np.intp] | Sequence[Drawn]
"""Some minibatches of one size: shape (count, b), or each by itself."""

Draw = Callable[[np.random.Generator, int, int, int], NDArray[np.intp]]
"""What draws minibatches, as `drawn` does: whoever does it draws the same ones."""


def drawn(rng: np.random.Generator, rows: int, batch: int, count: int) -> NDArray[np.intp]:
    """Draw minibatches, each without replacement.

    Args:
        rng: what they are drawn from, one after the other.
        rows: how many there are.
        batch: how many of them a minibatch takes, at most all.
        count: how many minibatches.

    Returns:
        The numbers of their rows, shape (count, batch), in no order that means anything.
    """
    taken = np.empty((count, batch), np.intp)
    for one in taken:
        one[:] = rng.choice(rows, batch, replace=False, shuffle=False)
    return taken
