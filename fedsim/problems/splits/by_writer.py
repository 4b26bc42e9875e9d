"""The split by writers: those of the data if it has some, else artificial ones."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.samples import Features, Samples, dense
from fedsim.problems.splits.base import Indices, SizedSplit, group_rows

PASSES = 12
"""Passes of the power method; the order of rows along the direction settles long before the
last."""


class Writers(SizedSplit):
    """Each client is a writer, with rows of all labels in one hand.

    Data that numbers the client of each row has writers. As many writers as clients are drawn from
    those with enough rows, and `rows` rows from each.

    For other data, writers are constructed. The rows of each label are sorted along the direction
    in which they vary most; for handwritten digits this is mostly their slant. Each client has the
    same section of each label's order. So its rows with the same label look alike, and its labels
    are as frequent as in the data. The n mod M rows left over are dropped.
    """

    source: ClassVar[str] = "Jeong, Needell, Qin, FedGradMP: writers of Federated EMNIST"

    kind: Literal["writers"] = "writers"
    rows: int | None = Field(
        default=None,
        ge=1,
        description="rows per client, drawn at random; by default all rows of the writer",
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return the rows of each writer, in the order of the data."""
        least = self.rows or 1
        if samples.client is None:
            count = self.count(samples.rows, clients, least)
            order = _by_style(samples, rng)
            size = samples.rows // count
            parts = list(order[: size * count].reshape(count, size))
        else:
            numbers, writer = np.unique(samples.client, return_inverse=True)
            written = group_rows(writer, len(numbers))
            parts = [rows for rows in written if len(rows) >= least]
            count = self.count(samples.rows, clients or (self.clients or len(parts)), least)
            if count > len(parts):
                text = f"got {count} clients, but {len(parts)} writers have {least} rows or more"
                raise DataError("split.clients", f"{text}; give fewer clients, or fewer rows")
            # Sorting keeps the clients in the order of their numbers in the data.
            parts = [parts[number] for number in np.sort(rng.permutation(len(parts))[:count])]
        if self.rows is not None:
            parts = [rng.permutation(rows)[: self.rows] for rows in parts]
        return tuple(np.sort(rows) for rows in parts)


def _by_style(samples: Samples, rng: np.random.Generator) -> Indices:
    """Return all rows, sorted by their relative place, 0 to 1, in their label's order of style."""
    places = np.empty(samples.rows)
    start = rng.standard_normal(samples.features)
    for label in np.unique(samples.y):
        rows = np.flatnonzero(samples.y == label)
        style = _leading(samples.X[rows], start)
        places[rows[np.argsort(style, kind="stable")]] = (np.arange(len(rows)) + 0.5) / len(rows)
    return np.argsort(places, kind="stable")


def _leading(X: Features, start: Array) -> Array:
    """Return the coordinates of rows along their first principal direction, shape (n,).

    The sign of the direction is that of its product with `start`, shape (d,), which is the same for
    all labels.
    """
    rows = dense(X).astype(np.float64)
    rows -= rows.mean(axis=0)
    direction = start
    for _ in range(PASSES):
        # The covariance matrix, of d x d numbers, is never formed.
        pulled = rows.T @ (rows @ direction)
        length = np.linalg.norm(pulled)
        if not length > 0:  # all rows are alike
            break
        direction = pulled / length
    return np.asarray(rows @ direction)
