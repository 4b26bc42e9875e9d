"""Splits into equal parts: by the order of the data, or after a shuffle."""

# ruff: noqa: ARG002 - not every split draws

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.problems.samples import Samples
from fedsim.problems.splits.base import Indices, SizedSplit, blocks


class _EqualParts(SizedSplit):
    """Blocks of equal length, of the rows in some order."""

    remainder: Literal["drop", "spread"] = Field(
        default="drop",
        description="what becomes of the n mod M rows left over: dropped, so that all parts "
        "are equal, or spread, one each over the first clients",
    )

    def sizes(self, rows: int, clients: int | None) -> NDArray[np.intp]:
        """Return how many rows each client gets, shape (M,).

        Raises:
            DataError: the number of clients is not known, contradicts the fleet's, or is
                larger than the number of rows.
        """
        count = self.count(rows, clients)
        sizes = np.full(count, rows // count, dtype=np.intp)
        if self.remainder == "spread":
            sizes[: rows % count] += 1
        return sizes


class Contiguous(_EqualParts):
    """Equal blocks of consecutive rows, in the order of the data."""

    source: ClassVar[str] = "as in CHB and LAG"
    sees_features: ClassVar[bool] = False

    kind: Literal["contiguous"] = "contiguous"

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return consecutive blocks of rows."""
        return blocks(np.arange(samples.rows), self.sizes(samples.rows, clients))


class IID(_EqualParts):
    """Equal blocks after a seeded shuffle, so that clients are alike."""

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, Section 3"
    sees_features: ClassVar[bool] = False

    kind: Literal["iid"] = "iid"
    stratify: bool = Field(
        default=False,
        description="deal out each label evenly, so that of any label two clients differ by "
        "at most one row",
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return blocks of shuffled rows."""
        sizes, shuffled = self.sizes(samples.rows, clients), rng.permutation(samples.rows)
        if not self.stratify:
            return blocks(shuffled, sizes)
        # Like cards in turn from a deck that is sorted by label, what is dropped put aside.
        kept = shuffled[: sizes.sum()]
        deck = kept[np.argsort(samples.y[kept], kind="stable")]
        return tuple(deck[m :: len(sizes)] for m in range(len(sizes)))
