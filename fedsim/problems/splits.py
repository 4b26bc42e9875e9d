"""Splits: which client has which rows."""

# ruff: noqa: ARG002 - not every split draws

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.errors import DataError
from fedsim.problems.samples import Samples
from fedsim.spec import Spec

Indices = NDArray[np.intp]
"""Numbers of rows, in the order in which a client has them."""


class Split(Spec):
    """How rows are dealt out to clients."""

    source: ClassVar[str]
    """Where the split is from, for people to read."""

    kind: str

    @abstractmethod
    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return the rows of each client, every client with at least one.

        Args:
            samples: all rows.
            clients: the size of the fleet; None where the split shall say how many it takes.
            rng: the stream that shuffles draw from.

        Raises:
            DataError: these samples cannot be split over so many clients.
        """


class _EqualParts(Split):
    """Blocks of equal length, of the rows in some order."""

    clients: int | None = Field(
        default=None, ge=1, description="number of clients; as many as the fleet when not given"
    )
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
        count = _agreed(self.clients, clients)
        if count > rows:
            raise DataError(
                "split.clients",
                f"{count} clients for {rows} rows; each client takes at least one row",
            )
        sizes = np.full(count, rows // count, dtype=np.intp)
        if self.remainder == "spread":
            sizes[: rows % count] += 1
        return sizes


class Contiguous(_EqualParts):
    """Equal blocks of consecutive rows, in the order of the data."""

    source: ClassVar[str] = "as in CHB and LAG"

    kind: Literal["contiguous"] = "contiguous"

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return consecutive blocks of rows."""
        return _blocks(np.arange(samples.rows), self.sizes(samples.rows, clients))


class IID(_EqualParts):
    """Equal blocks after a seeded shuffle, so that clients are alike."""

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, Section 3"

    kind: Literal["iid"] = "iid"

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return blocks of shuffled rows."""
        return _blocks(rng.permutation(samples.rows), self.sizes(samples.rows, clients))


class Groups(Split):
    """Each client has the rows that carry its number, clients by rising number."""

    source: ClassVar[str] = "Caldas et al., LEAF, 2018: data that is divided by nature"

    kind: Literal["groups"] = "groups"

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return the rows of each number."""
        if samples.client is None:
            raise DataError(
                "split",
                "groups takes data that numbers the client of each row: kind smoothness, or "
                "kind npz with an array client; this data does not",
            )
        distinct, inverse = np.unique(samples.client, return_inverse=True)
        if clients is not None and clients != len(distinct):
            raise DataError(
                "split", f"the data is of {len(distinct)} clients, but the fleet has {clients}"
            )
        order = np.argsort(inverse, kind="stable")
        return _blocks(order, np.bincount(inverse))


SPLITS: tuple[type[Split], ...] = (Contiguous, IID, Groups)
"""Every split that a scenario can name."""


def _agreed(own: int | None, fleet: int | None) -> int:
    if own is not None and fleet is not None and own != fleet:
        raise DataError("split.clients", f"{own} clients, but the fleet has {fleet}")
    count = own if own is not None else fleet
    if count is None:
        raise DataError("split.clients", "give the number of clients, or a fleet")
    return count


def _blocks(order: Indices, sizes: NDArray[np.intp]) -> tuple[Indices, ...]:
    ends = np.cumsum(sizes)
    return tuple(order[end - size : end] for size, end in zip(sizes, ends, strict=True))
