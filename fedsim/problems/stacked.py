"""Values of many clients' losses at one model: one product for all that have as many rows each.

What a loss of a few rows takes is mostly the calls. Stacked, the rows of many clients, shape
(k, n, d), take as many calls as those of one, and each client's value is to the bit what its own
loss says: the kernels of linear algebra are called for each client as before, with the same sizes,
and what is summed is summed in the same order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.problems.dealt import Dealt
from fedsim.problems.losses import (
    LinearLoss,
    Logistic,
    Loss,
    Rows,
    Softmax,
    Squared,
    TraceRegression,
    sigmoid,
)
from fedsim.problems.losses.base import half_square
from fedsim.problems.losses.softmax import cross_entropy
from fedsim.problems.samples import Precision, Samples

SMALL = 4096
"""Up to so many numbers, the features of a client take less time than the calls for them."""

_AT_ONCE = 2**18
"""So many numbers are looked at together."""


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
    moderate = u.max(axis=-1) <= sigmoid.STEEP
    q = np.exp(u[moderate]) + 1.0
    sums = np.empty(len(u))
    sums[moderate] = sigmoid.logarithms(q)
    reaches = np.asarray(rows.reach)
    for place in np.flatnonzero(~moderate).tolist():
        own = Rows(rows.X[place], rows.t[place], rows.factor, float(reaches[place]))
        sums[place] = sigmoid.total(sigmoid.forward(own, w))
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
"""What returns the sum over each client's rows, shape (k,), of rows that are stacked.

What inherits from these may compute anything, so classes are looked up, not their instances.
"""


@dataclass(frozen=True)
class Stacks:
    """The rows of all clients, to be evaluated some at once.

    Attributes:
        loss: the mathematics.
        samples: of all clients, in one array.
        targets: what `loss.encode` made of their labels, shape (n,) or (n, outputs).
        precision: of what is computed.
    """

    loss: Loss
    samples: Dealt
    targets: Array
    precision: Precision = "float64"

    def rounded(self, precision: Precision) -> "Stacks":
        """Return the same in a precision."""
        return replace(self, precision=precision)

    def values(self, w: Array, largest: float) -> tuple[Array, NDArray[np.intp]]:
        """Return f_m(w) of each client, shape (M,), and whose is to be computed one by one.

        Args:
            w: shape (d,).
            largest: so many numbers the features of a client may be to be stacked.
        """
        v, d = w.astype(self.precision, copy=False), self.samples.features
        values = np.empty(len(self.samples))
        left = [np.empty(0, np.intp)]
        for rows, whose in self._alike:
            if rows * d > largest:
                left.append(whose)
                continue
            step = max(_AT_ONCE // (rows * d), 1)
            for at in range(0, len(whose), step):
                some = whose[at : at + step]
                values[some] = self._values(some, rows, v)
        return values, np.concatenate(left)

    @cached_property
    def _alike(self) -> list[tuple[int, NDArray[np.intp]]]:
        """Who has how many rows."""
        sizes = self.samples.rows
        return [(rows, np.flatnonzero(sizes == rows)) for rows in np.unique(sizes).tolist()]

    def _values(self, whose: NDArray[np.intp], rows: int, v: Array) -> Array:
        """Return f_m(v) of some clients that have so many rows each."""
        loss, cut = self.loss, partial(self.samples.stacked, whose=whose, rows=rows)
        wide = cut(self.samples.X).astype(np.float64, copy=False)
        arranged = loss.arrange(wide, cut(self.targets), len(self.targets))
        X, t = (each.astype(self.precision, copy=False) for each in (arranged.X, arranged.t))
        with np.errstate(over="ignore", invalid="ignore"):  # which products of one client are, too
            values = arranged.factor * _SUMS[type(loss)](arranged._replace(X=X, t=t), v)
            if loss.l2:
                values += loss.l2 * half_square(v)
            if isinstance(loss, LinearLoss) and loss.l1:
                values += loss.l1 * float(np.abs(v).sum())
        return values


def stacks(loss: Loss, samples: Sequence[Samples], targets: Array) -> Stacks | None:
    """Return what evaluates several clients at once; None where only each by itself can be."""
    if not isinstance(samples, Dealt) or type(loss) not in _SUMS:
        return None
    return Stacks(loss, samples, targets)
