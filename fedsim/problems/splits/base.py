"""What every split is: a frozen block that deals out rows to clients."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.blocks.spec import Spec
from fedsim.errors import DataError
from fedsim.problems.samples import Samples

Indices = NDArray[np.intp]
"""Numbers of rows, in the order in which a client has them."""


class Split(Spec):
    """How rows are dealt out to clients."""

    source: ClassVar[str]
    """Where the split is from, for people to read."""

    sees_features: ClassVar[bool] = True
    """Whether it looks at features; where not, those it is given may not be preprocessed yet."""

    kind: str

    @abstractmethod
    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return the rows of each client, every client with at least one, none of them twice.

        Args:
            samples: all rows.
            clients: the size of the fleet; None where the split shall say how many it takes.
            rng: the stream that shuffles draw from.

        Raises:
            DataError: these samples cannot be split over so many clients.
        """


class SizedSplit(Split):
    """A split that does not know from the data how many clients there are."""

    clients: int | None = Field(
        default=None, ge=1, description="number of clients; as many as the fleet when not given"
    )

    def count(self, rows: int, fleet: int | None, least: int = 1) -> int:
        """Return the number of clients, M.

        Args:
            rows: how many there are to deal out.
            fleet: the size of the fleet, where it is known.
            least: rows that each client takes.

        Raises:
            DataError: the number is not known, contradicts the fleet's, or is larger than
                the number of rows.
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


def blocks(order: Indices, sizes: NDArray[np.intp]) -> tuple[Indices, ...]:
    """Cut rows in some order into consecutive blocks of these sizes; the rest is dropped."""
    ends = np.cumsum(sizes)
    return tuple(order[end - size : end] for size, end in zip(sizes, ends, strict=True))


def grouped(owners: NDArray[np.intp], clients: int) -> tuple[Indices, ...]:
    """Return the rows of each client in their order, given the owner of each row.

    A row whose owner is -1 belongs to nobody.
    """
    order = np.argsort(owners, kind="stable")
    dropped = int((owners < 0).sum())
    return blocks(order[dropped:], np.bincount(owners[owners >= 0], minlength=clients))
