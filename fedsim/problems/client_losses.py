"""The losses of all clients, built when they are looked up, and their values at one model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
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
from fedsim.problems.stacked_gradients import LEAST, gradients, room, stackable, steps

# Values of many clients' losses at one model: one product for all clients with equally many rows.
# A loss with few rows spends most of its time on calls. The stacked rows of many clients, shape (k,
# n, d), need as many calls as those of one client. Each client's value is bit-identical to that of
# its own loss: the kernels of linear algebra are called per client as before, with the same sizes,
# and sums have the same order.

SMALL = 4096
"""With at most this many numbers, a client's features take less time than the calls on them."""

_AT_ONCE = 2**18
"""The number of feature values that are evaluated together."""


def _squares(rows: Rows, w: Array) -> Array:
    residuals = np.matmul(rows.X, w, out=room(rows.t.shape, rows.X.dtype))
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
"""For each class of losses, a function that sums over each client's stacked rows, shape (k,).

Subclasses may compute anything, so the exact class is looked up.
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
        """Return the same stacks in another precision."""
        return replace(self, precision=precision)

    def values(self, w: Array, largest: float) -> tuple[Array, NDArray[np.intp]]:
        """Return f_m(w) of the clients, shape (M,), and the clients to evaluate one by one instead.

        Args:
            w: the model, shape (d,).
            largest: clients with more feature values than this are not stacked.
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
        """Return the stacked rows of some clients that have `rows` rows each."""
        cut = partial(self.samples.stack_rows, whose=whose, rows=rows)
        wide = cut(self.samples.X).astype(np.float64, copy=False)
        arranged = self.loss.arrange(wide, cut(self.targets), len(self.targets))
        X, t = (array.astype(self.precision, copy=False) for array in (arranged.X, arranged.t))
        return arranged._replace(X=X, t=t)

    def _values(self, whose: NDArray[np.intp], rows: int, v: Array) -> Array:
        """Return f_m(v) of some clients that have `rows` rows each."""
        loss, arranged = self.loss, self._stack(whose, rows)
        with np.errstate(over="ignore", invalid="ignore"):  # like a product for a single client
            values = arranged.factor * _SUMS[type(loss)](arranged, v)
            if loss.l2:
                values += loss.l2 * half_square(v)
            if isinstance(loss, LinearLoss) and loss.l1:
                values += loss.l1 * float(np.abs(v).sum())
        return values

    def descends(self, client: ClientId) -> bool:
        """Return whether a client's gradients are computed together with those of others."""
        rows, d = int(self.samples.rows[client]), self.samples.features
        return stackable(self.loss) and min(rows, d) >= LEAST and rows * d <= SMALL

    def gradients(self, whose: NDArray[np.intp], w: Array) -> Array:
        """Return the gradients of some clients with equally many rows, shape (k, d).

        Args:
            whose: the clients, ascending.
            w: the model, shape (d,), or one model per client, shape (k, d).
        """
        return self._descend(whose, w, gradients)

    def steps(
        self, whose: NDArray[np.intp], w: Array, eta: float, count: int, pull: float | None
    ) -> Array:
        """Return the models of some clients after full gradient steps, shape (k, d).

        Args:
            whose: see `gradients`.
            w: the initial models, see `gradients`.
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
        """Apply a function of loss, rows and models to stacks of some clients; shape (k, d)."""
        loss, d, rows = self.loss, self.samples.features, int(self.samples.rows[whose[0]])
        if not isinstance(loss, LinearLoss):
            raise TypeError(f"the gradients of the loss {loss.kind} are not stacked")
        values, models = np.empty((len(whose), d)), np.broadcast_to(w, (len(whose), d))
        step = max(_AT_ONCE // (rows * d), 1)
        with np.errstate(all="ignore"):  # callers detect results that are not finite
            for at in range(0, len(whose), step):
                some = slice(at, at + step)
                values[some] = of(loss, self._stack(whose[some], rows), models[some])
        return values


def stacks(loss: Loss, samples: Sequence[Samples], targets: Array) -> Stacks | None:
    """Return the evaluator of stacked clients; None if clients can only be evaluated one by one."""
    if not isinstance(samples, Partition) or type(loss) not in _SUMS:
        return None
    return Stacks(loss, samples, targets)


# Lazy sequences, which build an item when it is looked up, for large fleets.

T = TypeVar("T")

KEPT = 10_000
"""The number of items that a sequence keeps: a client's loss takes about 1 kB."""


class LazySequence(Sequence[T]):
    """A sequence that builds an item when it is looked up, and keeps the first ones.

    Results do not depend on which items are kept: rebuilding an item gives the same item.

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
        count: see `LazySequence`.
        make: see `LazySequence`.
        together: evaluates several clients at once; None if each is evaluated by itself.
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

        The losses are float64. Samples of another type are converted at each look-up and not kept:
        keeping all of them would store the data twice.

        Args:
            loss: the loss that all clients share.
            samples: the samples of each client.
            targets: the labels of all clients as encoded by `loss.encode`, client by client.

        Raises:
            DataError: the loss cannot be used with the rows of some client.
        """
        cuts = samples.cuts if isinstance(samples, Partition) else Cuts(sizes(samples))
        make = partial(_own_loss, loss, samples, targets, cuts)
        # A loss of rows in another type holds a copy of them in float64, and is not kept.
        kept = KEPT if loss.converts or samples[0].X.dtype == np.float64 else 0
        losses = cls(len(samples), make, stacks(loss, samples, targets), kept)
        # These two accept any rows, so that not every client has to be checked.
        known = type(loss).arrange in (Loss.arrange, LinearLoss.arrange)
        if len(samples) <= KEPT or not known:
            for _ in losses:  # builds all losses now, since a loss may refuse the rows of a client
                pass
        return losses

    def remembering(self) -> "ClientLosses":
        """Return the losses with caches, for a caller that evaluates them repeatedly.

        If there are more losses than are kept, they are rebuilt at each look-up and have no cache.
        """
        if len(self) > self._kept:
            return self
        return ClientLosses(len(self), partial(_remembering, self), self._together)

    def stacks_of(self, client: ClientId) -> Stacks | None:
        """Return the evaluator of a client's gradients together with others'; None if none."""
        together = self._together
        return together if together is not None and together.descends(client) else None

    def alike(self, clients: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """Return groups of indices of clients with equally many samples; empty if unknown."""
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
        """Return f_m(w) of each client; bit-identical however clients are grouped."""
        if w.size >= LONG:
            w = constant(w)  # read-only, so that all caches share one copy
        if self._together is None:
            return np.array([loss.value(w) for loss in self], np.float64)
        # Kept losses may cache their state for a later gradient at the same model, if it is
        # expensive.
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
