"""The losses of all clients as compiled kernels take them, and work as items for those."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled import dense, sparse
from fedsim.computing.compiled.heads import code
from fedsim.computing.compiled.items import Data, Form, Items, Whole
from fedsim.ports import Array, Work
from fedsim.problems import (
    Logistic,
    MultilayerPerceptron,
    Softmax,
    Squared,
    TraceRegression,
    kernels,
)
from fedsim.problems.local import LocalLoss
from fedsim.problems.minibatches import Minibatches

_KNOWN = (Squared, TraceRegression, Logistic, Softmax, MultilayerPerceptron)

_NO_ROWS: Whole = np.zeros(0, np.int64)


class _Steps(NamedTuple):
    """Work in the terms of `Items`; no steps for a gradient."""

    w: Array
    drawn: Minibatches = (None,)
    steps: int = 0
    eta: float = 0.0
    pull: float = 0.0


def _gradient(w: Array) -> _Steps:
    return _Steps(w)


def _minibatch(w: Array, drawn: NDArray[np.intp] | None) -> _Steps:
    return _Steps(w, (None,) if drawn is None else drawn[None])


def _sgd(w: Array, eta: float, drawn: Minibatches, pull: float | None) -> _Steps:
    return _Steps(w, drawn, len(drawn), eta, pull or 0.0)


_READ: dict[Callable[..., Array], Callable[..., _Steps]] = {
    kernels.gradient: _gradient,
    kernels.minibatch_gradient: _minibatch,
    kernels.sgd_steps: _sgd,
}
"""The kernels of `fedsim.problems.kernels` that are compiled, and what reads their arguments."""


def compilable(losses: Sequence[LocalLoss]) -> bool:
    """Say whether there are compiled kernels for the losses of all clients.

    There are for what is built in, of dense rows and, but for a perceptron, of sparse ones; not
    for a loss that takes after one of them.
    """
    if not losses or type(losses[0].loss) not in _KNOWN:
        return False
    are_dense = {isinstance(loss.arranged.X, np.ndarray) for loss in losses}
    perceptron = isinstance(losses[0].loss, MultilayerPerceptron)
    return len(are_dense) == 1 and not (perceptron and False in are_dense)


class Program:
    """What compiled kernels evaluate: gradients, minibatches, local steps, and values.

    Args:
        losses: of all clients, `compilable`.
    """

    def __init__(self, losses: Sequence[LocalLoss]) -> None:
        self._losses = losses
        self._form = form(losses[0])
        self._kernels = dense if isinstance(losses[0].arranged.X, np.ndarray) else sparse
        self._kept: list[Any] = []
        self._data = self._gather()

    def _gather(self) -> Data:
        rows = [loss.arranged for loss in self._losses]
        X: list[Any] = [each.X for each in rows]
        t = [each.t.reshape(len(each.t), -1) for each in rows]
        places, ends = [_NO_ROWS] * len(X), [_NO_ROWS] * len(X)
        kind, index = X[0].dtype, np.dtype(np.int64)
        if self._kernels is sparse:
            places, ends = [each.indices for each in X], [each.indptr for each in X]
            X = [each.data for each in X]
            index = np.result_type(*{part.dtype for part in (*places, *ends)})
        return Data(
            x=self._addresses(X, kind),
            places=self._addresses(places, index),
            ends=self._addresses(ends, index),
            t=self._addresses(t, kind),
            rows=np.array([each.X.shape[0] for each in rows], np.int64),
            factor=np.array([each.factor for each in rows], np.float64),
            like=np.zeros(0, kind),
            place=np.zeros(0, index),
        )

    def _addresses(self, arrays: Sequence[Any], kind: np.dtype[Any]) -> Whole:
        """Return where arrays lie, row by row; they are kept, and copied only if they must be."""
        own = [np.ascontiguousarray(array, kind) for array in arrays]
        self._kept.append(own)
        return np.array([each.ctypes.data for each in own], np.int64)

    def takes(self, work: Work) -> bool:
        """Say whether work is of a kind that is compiled, on a client's loss as it is."""
        return work.kernel in _READ and work.client is not None and not work.bases

    def run(self, works: Sequence[Work]) -> Array:
        """Return what comes of pieces of work that it takes, each by itself: (works, d).

        Raises:
            IndexError: one has drawn a row that is none.
            ValueError: the shape of a model is not that of the loss.
        """
        read = [_READ[work.kernel](*work.arguments) for work in works]
        models = [np.ascontiguousarray(each.w, np.float64) for each in read]
        drawn = [_joined(each.drawn) for each in read]
        size = self._form.size
        for w in models:
            if w.shape != (size,):
                raise ValueError(f"a model is of shape ({size},), not {w.shape}")
        items = Items(
            client=np.array([work.client for work in works], np.int64),
            model=np.array([w.ctypes.data for w in models], np.int64),
            steps=np.array([each.steps for each in read], np.int64),
            drawn=np.array([rows.ctypes.data for rows in drawn], np.int64),
            batch=np.array(
                [rows.size // len(each.drawn) for rows, each in zip(drawn, read, strict=True)],
                np.int64,
            ),
            eta=np.array([each.eta for each in read], np.float64),
            pull=np.array([each.pull for each in read], np.float64),
            out=np.empty((len(works), size)),
        )
        wrong = self._kernels.run(self._form, self._data, items)
        if wrong >= 0:
            raise IndexError(f"client {works[wrong].client} has drawn a row that it does not have")
        return items.out

    def values(self, w: Array, first: int, end: int) -> Array:
        """Return f_m(w) less the penalties of the clients from `first` to before `end`."""
        out = np.empty(end - first)
        self._kernels.values(self._form, self._data, first, np.ascontiguousarray(w), out)
        return out

    def shares(self, parts: int) -> list[tuple[int, int]]:
        """Return so many ranges of clients, of about as many rows each."""
        ends = np.cumsum(self._data.rows)
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts)
        return list(pairwise([0, *(int(cut) for cut in cuts), len(ends)]))

    def penalty(self, w: Array) -> float:
        """Return what the loss adds to f_m at `w`, whatever the client's rows are."""
        l1, l2 = self._form.l1, self._form.l2
        return l1 * float(np.abs(w).sum()) + 0.5 * l2 * float(w.dot(w))


def form(local: LocalLoss) -> Form:
    """Return what the losses of all clients have in common with one of them."""
    loss, outputs = local.loss, local.outputs
    columns = loss.hidden if isinstance(loss, MultilayerPerceptron) else outputs
    kind = code(loss.kind, getattr(loss, "output", ""))
    l1 = float(getattr(loss, "l1", 0.0))
    return Form(kind, local.features, columns, outputs, local.dimension, l1, float(loss.l2))


def _joined(drawn: Minibatches) -> Whole:
    """Return the rows of all steps, shape (steps, b); none where all rows are taken."""
    if drawn[0] is None:
        return _NO_ROWS
    return np.ascontiguousarray(drawn, np.int64)
