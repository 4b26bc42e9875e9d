"""The losses of all clients, each built when it is looked up, and their values at one model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, ClientId, constant
from fedsim.problems.client_loss import LONG, LocalLoss
from fedsim.problems.losses import (
    LinearLoss,
    Logistic,
    Loss,
    Rows,
    Softmax,
    Squared,
    TraceRegression,
    linear,
)
from fedsim.problems.losses.base import half_square
from fedsim.problems.losses.softmax import cross_entropy
from fedsim.problems.partition import Cuts, Partition, sizes
from fedsim.problems.samples import Precision, Samples
from fedsim.problems.stacked_gradients import LEAST, gradients, stackable, steps

# Values of many clients' losses at one model: one product for all that have as many rows each.
#
# A loss of a few rows spends most of its time on calls. Stacked, the rows of many clients, shape
# (k, n, d), take as many calls as those of one, and each client's value is bit-identical to that
# of its own loss: the kernels of linear algebra are called for each client as before, with the
# same sizes, and sums are taken in the same order.

SMALL = 4096
"""Up to this many numbers, the features of a client take less time than the calls on them."""

_AT_ONCE = 2**18
"""The number of values evaluated together."""


def _squares(rows: Rows, w: Array) -> Array:
    # The oldest kernels of OpenBLAS sum a product by where it begins in memory. Arrays begin at a
    # multiple of 16 bytes, so each client's residuals do here, too.
    clients, count = rows.t.shape
    room = np.empty((clients, 4 * ceil(count / 4)), rows.X.dtype)
    residuals = np.matmul(rows.X, w, out=room[:, :count])
    residuals -= rows.t
    return np.asarray(0.5 * np.vecdot(residuals, residuals).astype(np.float64))


def _logarithms(rows: Rows, w: Array) -> Array:
    u = rows.X @ w
    moderate = u.max(axis=-1) <= linear.STEEP
    q = np.exp(u[moderate]) + 1.0
    sums = np.empty(len(u))
    sums[moderate] = linear.logarithms(q)
    reaches = np.asarray(rows.reach)
    for place in np.flatnonzero(~moderate).tolist():
        block = Rows(rows.X[place], rows.t[place], rows.factor, float(reaches[place]))
        sums[place] = linear.total(linear.forward(block, w))
    return sums


def _entropies(rows: Rows, w: Array) -> Array:
    outputs = rows.X @ w.reshape(-1, rows.t.shape[-1])
    return np.asarray(cross_entropy(outputs, rows.t)[1].sum(axis=-1).astype(np.float64))


_SUMS: dict[type[Loss], Callable[[Rows, Array], Array]] = {
    Squared: _squares,
    TraceRegression: _squares,
    Logistic: _logarithms,
    Softmax: _entropies,
}
"""Functions returning the sum over each client's rows, shape (k,), of stacked rows.

Subclasses may compute anything, so exact classes are looked up, not instances.
"""


@dataclass(frozen=True)
class Stacks:
    """The rows of all clients, evaluated in stacks.

    Attributes:
        loss: the mathematics.
        samples: the samples of all clients, in one array.
        targets: their labels as encoded by `loss.encode`, shape (n,) or (n, outputs).
        precision: the precision of the computation.
    """

    loss: Loss
    samples: Partition
    targets: Array
    precision: Precision = "float64"

    def with_precision(self, precision: Precision) -> "Stacks":
        """Return the same in a precision."""
        return replace(self, precision=precision)

    def values(self, w: Array, largest: float) -> tuple[Array, NDArray[np.intp]]:
        """Return f_m(w) of each client, shape (M,), and the clients to be evaluated one by one.

        Args:
            w: shape (d,).
            largest: the largest number of features' values of a client that is stacked.
        """
        v, d = w.astype(self.precision, copy=False), self.samples.features
        values = np.empty(len(self.samples))
        left = [np.empty(0, np.intp)]
        for rows, whose in self.samples.alike:
            if rows * d > largest:
                left.append(np.asarray(whose))
                continue
            step = max(_AT_ONCE // (rows * d), 1)
            for at in range(0, len(whose), step):
                some = np.asarray(whose[at : at + step])
                values[some] = self._values(some, rows, v)
        return values, np.concatenate(left)

    def _stack(self, whose: NDArray[np.intp], rows: int) -> Rows:
        """Return the rows of some clients that have `rows` rows each, stacked."""
        cut = partial(self.samples.stack_rows, whose=whose, rows=rows)
        wide = cut(self.samples.X).astype(np.float64, copy=False)
        arranged = self.loss.arrange(wide, cut(self.targets), len(self.targets))
        X, t = (array.astype(self.precision, copy=False) for array in (arranged.X, arranged.t))
        return arranged._replace(X=X, t=t)

    def _values(self, whose: NDArray[np.intp], rows: int, v: Array) -> Array:
        """Return f_m(v) of some clients that have `rows` rows each."""
        loss, arranged = self.loss, self._stack(whose, rows)
        with np.errstate(over="ignore", invalid="ignore"):  # as products of one client are
            values = arranged.factor * _SUMS[type(loss)](arranged, v)
            if loss.l2:
                values += loss.l2 * half_square(v)
            if isinstance(loss, LinearLoss) and loss.l1:
                values += loss.l1 * float(np.abs(v).sum())
        return values

    def descends(self, client: ClientId) -> bool:
        """Return whether gradients of a client are computed along with those of others like it."""
        rows, d = int(self.samples.rows[client]), self.samples.features
        return stackable(self.loss) and min(rows, d) >= LEAST and rows * d <= SMALL

    def gradients(self, whose: NDArray[np.intp], w: Array) -> Array:
        """Return the gradient of each of some clients with equally many rows, shape (k, d).

        Args:
            whose: the clients, ascending.
            w: where, shape (d,), or (k, d) for a model of each client's own.
        """
        return self._descend(whose, w, gradients)

    def steps(
        self, whose: NDArray[np.intp], w: Array, eta: float, count: int, pull: float | None
    ) -> Array:
        """Return the models of some clients after full gradient steps, shape (k, d).

        Args:
            whose: see `gradients`.
            w: the models before, see `gradients`.
            eta: the step size.
            count: the number of steps.
            pull: mu, for steps on f_m + mu/2 |. - w|^2; None for 0.
        """
        return self._descend(
            whose, w, lambda loss, rows, at: steps(loss, rows, at, eta, count, pull)
        )

    def _descend(
        self, whose: NDArray[np.intp], w: Array, of: Callable[[LinearLoss, Rows, Array], Array]
    ) -> Array:
        """Return a function of the loss, the rows and the models of some clients, shape (k, d)."""
        loss, d, rows = self.loss, self.samples.features, int(self.samples.rows[whose[0]])
        if not isinstance(loss, LinearLoss):
            raise TypeError(f"the gradients of the loss {loss.kind} are not stacked")
        values, models = np.empty((len(whose), d)), np.broadcast_to(w, (len(whose), d))
        step = max(_AT_ONCE // (rows * d), 1)
        with np.errstate(all="ignore"):  # what is not finite is found afterwards
            for at in range(0, len(whose), step):
                some = slice(at, at + step)
                values[some] = of(loss, self._stack(whose[some], rows), models[some])
        return values


def stacks(loss: Loss, samples: Sequence[Samples], targets: Array) -> Stacks | None:
    """Return the evaluator of several clients at once; None if only each by itself can be."""
    if not isinstance(samples, Partition) or type(loss) not in _SUMS:
        return None
    return Stacks(loss, samples, targets)


# Lazy sequences, which build their items on look-up, as for the clients of a large fleet.

T = TypeVar("T")

KEPT = 10_000
"""The number of items that a sequence keeps once built: a client's loss takes about 1 kB."""


class LazySequence(Sequence[T]):
    """A sequence that builds an item when it is looked up, and keeps the first ones built.

    Which are kept changes no result: rebuilding an item yields the same.

    Args:
        count: the length of the sequence.
        make: returns the item at an index.
        kept: the largest number of kept items.
    """

    def __init__(self, count: int, make: Callable[[int], T], kept: int = KEPT) -> None:
        self._count = count
        self._make = make
        self._kept = kept
        self._made: dict[int, T] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._count, self._make, self._kept)  # items can be built again

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(self._count))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        places = range(self._count)[index]
        return self._item(places) if isinstance(places, int) else [self._item(m) for m in places]

    def _item(self, number: int) -> T:
        try:
            return self._made[number]
        except KeyError:
            loss = self._make(number)
            if len(self._made) < self._kept:
                self._made[number] = loss
            return loss


class ClientLosses(LazySequence[LocalLoss]):
    """f_m of each client, built when it is looked up; the first ones are kept.

    Args:
        count, make: see `LazySequence`.
        together: evaluates several at once; None if each is evaluated by itself.
        kept: see `LazySequence`.
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
        """Return a sequence of losses as `ClientLosses`."""
        return losses if isinstance(losses, cls) else cls(len(losses), losses.__getitem__)

    @classmethod
    def join(cls, loss: Loss, samples: Sequence[Samples], targets: Array) -> "ClientLosses":
        """Join a loss with the samples of each client.

        The losses are float64. If the samples are not, they are converted when they are
        looked up, and not kept: keeping all of them would hold the data twice.

        Args:
            loss: shared by all clients.
            samples: the samples of each client.
            targets: the labels of all as encoded by `loss.encode`, client by client.

        Raises:
            DataError: the loss cannot be used with the rows of a client.
        """
        cuts = samples.cuts if isinstance(samples, Partition) else Cuts(sizes(samples))
        make = partial(_own_loss, loss, samples, targets, cuts)
        kept = KEPT if loss.converts or samples[0].X.dtype == np.float64 else 0
        losses = cls(len(samples), make, stacks(loss, samples, targets), kept)
        known = type(loss).arrange in (Loss.arrange, LinearLoss.arrange)
        if len(samples) <= KEPT or not known:
            for _ in losses:  # a loss may refuse the rows of any single client
                pass
        return losses

    def remembering(self) -> "ClientLosses":
        """Return the losses with caches, for a caller that evaluates them repeatedly.

        Beyond the number that are kept, losses are built at each look-up and have no cache.
        """
        if len(self) > self._kept:
            return self
        return ClientLosses(len(self), partial(_remembering, self), self._together)

    def stacks_of(self, client: ClientId) -> Stacks | None:
        """Return what computes the gradients of a client along with others'; None if nothing."""
        together = self._together
        return together if together is not None and together.descends(client) else None

    def alike(self, clients: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """Return the places of clients with equally many samples; none if that is not known."""
        if self._together is None:
            return []
        rows = self._together.samples.rows[clients]
        return [np.flatnonzero(rows == count) for count in np.unique(rows).tolist()]

    def with_precision(self, precision: Precision) -> "ClientLosses":
        """Return the losses with samples converted from float64 to a precision."""
        if precision == "float64" or self[0].loss.converts:
            return self
        together = None if self._together is None else self._together.with_precision(precision)
        return ClientLosses(len(self), partial(_round, self, precision), together)

    def values(self, w: Array) -> Array:
        """Return f_m(w) of each client; bit-identical whichever clients are evaluated together."""
        if w.size >= LONG:
            w = constant(w)  # which all caches hold once
        if self._together is None:
            return np.array([loss.value(w) for loss in self], np.float64)
        # Losses that are kept may cache what they compute, for a later gradient at the same model.
        largest = SMALL if len(self) <= self._kept else inf
        values, left = self._together.values(w, largest)
        for client in left.tolist():
            values[client] = self[client].value(w)
        return values


def _own_loss(
    loss: Loss,
    samples: Sequence[Samples],
    targets: Array,
    cuts: Cuts,
    client: ClientId,
) -> LocalLoss:
    own = cuts.of(client)
    X = samples.X[own] if isinstance(samples, Partition) else samples[client].X
    return LocalLoss.of(loss, X, targets[own], len(targets))


def _remembering(losses: ClientLosses, client: ClientId) -> LocalLoss:
    return losses[client].remembering()


def _round(losses: ClientLosses, precision: Precision, client: ClientId) -> LocalLoss:
    return losses[client].with_precision(precision)
