"""What the generators have in common: a random stream and a block of rows for each client.

What clients share is drawn from the generator's own stream, and what is a client's own from
a stream spawned for it, so that another client leaves the rows of all others as they were.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.limits import afford
from fedsim.ports import Array
from fedsim.problems.samples import Samples

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Variance = Annotated[float, Field(ge=0)]

Fill = Callable[[int, np.random.Generator, Array], Array]
"""Fills the features (n, d) of a client, given its number from 0 and its stream; returns its
labels, shape (n,)."""


def check_size(clients: int, rows: int, features: int) -> None:
    """Check that the rows of all clients fit into the limit of memory.

    They are there twice: as they are drawn, and as they are dealt out.

    Raises:
        DataError: they do not.
    """
    what = f"{clients} clients with {rows} rows of {features} features"
    afford("data", what, 16 * clients * (rows * (features + 2) + features + 100))


def by_client(
    streams: Sequence[np.random.Generator], rows: int, features: int, fill: Fill, truth: Array
) -> Samples:
    """Return the rows of all clients, one after the other; `client` numbers them.

    Args:
        streams: one a client.
        rows: samples of each client, n.
        features: features of each sample, d.
        fill: what draws the rows of one client.
        truth: the model that is planted, shape (d,).
    """
    clients = len(streams)
    X, y = np.empty((clients, rows, features)), np.empty((clients, rows))
    for m, stream in enumerate(streams):
        y[m] = fill(m, stream, X[m])
    numbers = np.repeat(np.arange(clients), rows)
    return Samples(X.reshape(-1, features), y.reshape(-1), numbers, truth)


def normal(rng: np.random.Generator, variance: float, size: int | tuple[int, ...]) -> Array:
    """Draw from N(0, variance)."""
    return np.asarray(rng.standard_normal(size) * np.sqrt(variance))
