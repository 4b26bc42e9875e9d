"""The losses of all clients: each made when it is looked up, and their values at one model."""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array, ClientId
from fedsim.problems.dealt import Dealt, sizes
from fedsim.problems.local import LocalLoss
from fedsim.problems.losses import LinearLoss, Loss
from fedsim.problems.made import KEPT, Made
from fedsim.problems.samples import Precision, Samples
from fedsim.problems.stacked import SMALL, Stacks, stacks


class ClientLosses(Made[LocalLoss]):
    """f_m of each client, each made when it is looked up; the first ones are kept.

    Args:
        count, make: see `Made`.
        together: what evaluates several at once; None where each is evaluated by itself.
        kept: see `Made`.
    """

    def __init__(
        self,
        count: int,
        make: Callable[[ClientId], LocalLoss],
        together: Stacks | None = None,
        kept: int = KEPT,
    ) -> None:
        super().__init__(count, make, kept)
        self._together = together

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._count, self._make, self._together, self._kept)

    @classmethod
    def of(cls, losses: Sequence[LocalLoss]) -> "ClientLosses":
        """Return losses as such, whatever sequence they are."""
        return losses if isinstance(losses, cls) else cls(len(losses), losses.__getitem__)

    @classmethod
    def joined(cls, loss: Loss, samples: Sequence[Samples], targets: Array) -> "ClientLosses":
        """Join a loss with the samples of each client.

        The losses are float64. Where the samples are not, they are made of those when they are
        looked up, and not kept: all of them would be the data twice over.

        Args:
            loss: that all have.
            samples: of each client.
            targets: what `loss.encode` made of the labels of all, client by client.

        Raises:
            DataError: the loss cannot be used with the rows of a client.
        """
        ends = np.concatenate([[0], np.cumsum(sizes(samples))])
        make = partial(_own_loss, loss, samples, targets, ends)
        kept = KEPT if loss.converts or samples[0].X.dtype == np.float64 else 0
        losses = cls(len(samples), make, stacks(loss, samples, targets), kept)
        known = type(loss).arrange in (Loss.arrange, LinearLoss.arrange)
        if len(samples) <= KEPT or not known:
            for _ in losses:  # what rows it cannot be used with, a loss may say of each client
                pass
        return losses

    def remembering(self) -> "ClientLosses":
        """Return the losses for one who evaluates them.

        Of more than are kept, what is made anew each time has nothing to remember.
        """
        if len(self) > self._kept:
            return self
        return ClientLosses(len(self), partial(_remembering, self), self._together)

    def rounded(self, precision: Precision) -> "ClientLosses":
        """Return the losses with samples of a precision, float64 being what they have."""
        if precision == "float64" or self[0].loss.converts:
            return self
        together = None if self._together is None else self._together.rounded(precision)
        return ClientLosses(len(self), partial(_rounded, self, precision), together)

    def values(self, w: Array) -> list[float]:
        """Return f_m(w) of each client, the same to the bit whoever is evaluated together."""
        if self._together is None:
            return [loss.value(w) for loss in self]
        # What is kept may remember what it computes, for who takes a gradient at the same model.
        largest = SMALL if len(self) <= self._kept else inf
        values, left = self._together.values(w, largest)
        for client in left.tolist():
            values[client] = self[client].value(w)
        found: list[float] = values.tolist()
        return found


def _own_loss(
    loss: Loss,
    samples: Sequence[Samples],
    targets: Array,
    ends: NDArray[np.int64],
    client: ClientId,
) -> LocalLoss:
    own = slice(int(ends[client]), int(ends[client + 1]))
    X = samples.X[own] if isinstance(samples, Dealt) else samples[client].X
    return LocalLoss.of(loss, X, targets[own], len(targets))


def _remembering(losses: ClientLosses, client: ClientId) -> LocalLoss:
    return losses[client].remembering()


def _rounded(losses: ClientLosses, precision: Precision, client: ClientId) -> LocalLoss:
    return losses[client].rounded(precision)
