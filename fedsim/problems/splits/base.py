"""Base class of splits: a frozen block that assigns rows to clients (partition)."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.problems.partition import Cuts, RowRuns
from fedsim.problems.samples import Samples

Indices = NDArray[np.intp]
"""Row indices, in a client's order."""


class Split(Spec):
    """The assignment of rows to clients (partition)."""

    source: ClassVar[str]
    """Human-readable source of the split."""

    sees_features: ClassVar[bool] = True
    """Whether it uses features. If not, the samples may be passed before preprocessing."""

    kind: str

    @abstractmethod
    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return the rows of each client, every client with at least one, none of them twice.

        Args:
            samples: all rows.
            clients: the size of the fleet; None if the split determines it.
            rng: the stream that shuffles draw from.

        Raises:
            DataError: these samples cannot be split over this number of clients.
        """


class SizedSplit(Split):
    """A split that cannot infer the number of clients from the data."""

    clients: int | None = Field(
        default=None, ge=1, description="number of clients; by default as many as the fleet"
    )

    def count(self, rows: int, fleet: int | None, least: int = 1) -> int:
        """Return the number of clients, M.

        Args:
            rows: the number of rows to assign.
            fleet: the size of the fleet, if known.
            least: the least number of rows of each client.

        Raises:
            DataError: the number is not known, contradicts the fleet's, or is larger than the
                number of rows.
        """
        own = self.clients
        if own is not None and fleet is not None and own != fleet:
            raise DataError("split.clients", f"{own} clients, but the fleet has {fleet}")
        count = own if own is not None else fleet
        if count is None:
            raise DataError("split.clients", "give the number of clients, or a fleet")
        if count * least > rows:
            each = "one row" if least == 1 else f"{least} rows"
            raise DataError(
                "split.clients",
                f"{count} clients for {rows} rows; each client takes at least {each}",
            )
        return count


def blocks(order: Indices | range, sizes: NDArray[np.intp]) -> Sequence[Indices]:
    """Cut ordered rows into consecutive blocks of these sizes; further rows are dropped."""
    return RowRuns(order, Cuts(sizes.astype(np.int64, copy=False)))


def group_rows(owners: NDArray[np.intp], clients: int) -> tuple[Indices, ...]:
    """Return the rows of each client in their order, given the owner of each row.

    A row whose owner is -1 is assigned to no client.

    Args:
        owners: the client that each row belongs to, from 0, shape (n,).
        clients: the number of clients.

    Example:
        >>> group_rows(np.array([1, 0, -1, 1]), 2)
        (array([1]), array([0, 3]))
    """
    order = np.argsort(owners, kind="stable")
    dropped = int((owners < 0).sum())
    return tuple(blocks(order[dropped:], np.bincount(owners[owners >= 0], minlength=clients)))
