"""The losses of all clients as compiled kernels take them, and work as items for those."""

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled.loops import evaluate, values
from fedsim.computing.compiled.loss_functions import code
from fedsim.computing.compiled.pages import DONE, Page, Piece, Whole
from fedsim.computing.compiled.rows import Data, LossSpecification
from fedsim.ports import Array, Work
from fedsim.problems import (
    Logistic,
    MultilayerPerceptron,
    Softmax,
    Squared,
    TraceRegression,
    kernels,
)
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.samples import Minibatches

_KNOWN = (Squared, TraceRegression, Logistic, Softmax, MultilayerPerceptron)

_NO_ROWS: Whole = np.zeros((0, 0), np.int64)
_NOTHING: Array = np.zeros(0)

_NO_PLACES: Whole = np.zeros((0, 0), np.int64)

Room: TypeAlias = tuple[Array, Any]
"""Numbers that one thread may overwrite, float64 and of the samples' type: see `loops`."""


class _Steps(NamedTuple):
    """Work in the terms of `pages`; no steps for a gradient, less that at `old` if it is given."""

    w: Array
    drawn: Minibatches = (None,)
    steps: int = 0
    eta: float = 0.0
    pull: float = 0.0
    old: Array | None = None


def _gradient(w: Array) -> _Steps:
    return _Steps(w)


def _minibatch(w: Array, drawn: NDArray[np.intp] | None) -> _Steps:
    return _Steps(w, (None,) if drawn is None else drawn[None])


def _change(w: Array, old: Array, drawn: NDArray[np.intp] | None) -> _Steps:
    return _minibatch(w, drawn)._replace(old=old)


def _sgd(w: Array, eta: float, drawn: Minibatches, pull: float | None) -> _Steps:
    return _Steps(w, drawn, len(drawn), eta, pull or 0.0)


_READ: dict[Callable[..., Array], Callable[..., _Steps]] = {
    kernels.gradient: _gradient,
    kernels.minibatch_gradient: _minibatch,
    kernels.minibatch_change: _change,
    kernels.sgd_steps: _sgd,
}
"""The kernels of `fedsim.problems.kernels` that are compiled, and what reads their arguments."""


def compilable(losses: Sequence[LocalLoss]) -> bool:
    """Return whether there are compiled kernels for the losses of all clients.

    There are for what is built in, of dense rows and, but for a perceptron, of sparse ones; not
    for a loss that takes after one of them.
    """
    if not losses or type(losses[0].loss) not in _KNOWN:
        return False
    are_dense = {isinstance(loss.arranged.X, np.ndarray) for loss in losses}
    perceptron = isinstance(losses[0].loss, MultilayerPerceptron)
    return len(are_dense) == 1 and not (perceptron and False in are_dense)


class CompiledProgram:
    """What compiled kernels evaluate: gradients, minibatches, local steps, and values.

    Args:
        losses: of all clients, `compilable`.
    """

    def __init__(self, losses: Sequence[LocalLoss]) -> None:
        self._losses = losses
        self._form = form(losses[0])
        self._kept: list[Any] = []
        self._data = self._gather()

    def _gather(self) -> Data:
        rows = [loss.arranged for loss in self._losses]
        X: list[Any] = [each.X for each in rows]
        t = [each.t.reshape(len(each.t), -1) for each in rows]
        kind, index, places, ends = X[0].dtype, np.dtype(np.int64), _NO_PLACES, _NO_PLACES
        if not isinstance(X[0], np.ndarray):
            parts = [each.indices for each in X], [each.indptr for each in X]
            index = np.result_type(*{array.dtype for part in parts for array in part})
            places, ends = (self._addresses(part, index) for part in parts)
            X = [each.data for each in X]
        return Data(
            x=self._addresses(X, kind),
            places=places,
            ends=ends,
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
        """Return whether work is of a kind that is compiled, on a client's loss as it is."""
        return work.kernel in _READ and work.client is not None and not work.bases

    def add(self, work: Work, page: Page) -> int:
        """Write work that it takes on a page, and return its place.

        Raises:
            ValueError: the shape of a model is not that of the loss.
        """
        w, drawn, steps, eta, pull, old = _READ[work.kernel](*work.arguments)
        rows, out = _together(drawn), np.empty(self._form.size)
        less = _NOTHING if old is None else self._model(old)
        client: Any = work.client
        batch = rows.size // len(drawn)
        return page.add(Piece(client, self._model(w), out, less, steps, rows, batch, eta, pull))

    def _model(self, w: Array) -> Array:
        if w.shape != (self._form.size,):
            raise ValueError(f"a model is of shape ({self._form.size},), not {w.shape}")
        return np.ascontiguousarray(w, np.float64)

    def room(self) -> Room:
        """Return room for one thread that evaluates."""
        form = self._form
        size = 2 * form.size + 4 * form.m + form.c
        return np.empty(2 * form.size), np.empty(size, self._data.like.dtype)

    def evaluate(self, page: Page, room: Room, only: int = -1, most: int = sys.maxsize) -> int:
        """Evaluate what waits on a page, each by itself, and return how many it were.

        Args:
            page: whose pieces.
            room: of the thread.
            only: the place of one, if it waits; below 0 for any, the oldest first.
            most: so many at most.
        """
        most = 1 if only >= 0 else most
        ends = page.table, page.numbers, page.marks
        return evaluate(self._form, self._data, *ends, *room, only, most)

    def result(self, work: Work, page: Page, place: int) -> Array:
        """Return what came of a piece that has been evaluated, once.

        Raises:
            IndexError: it has drawn a row that is none.
        """
        if page.mark(place) != DONE:
            raise IndexError(f"client {work.client} has drawn a row that it does not have")
        return page.fetch(place)

    def run(self, works: Sequence[Work]) -> Array:
        """Return what comes of pieces of work that it takes, shape (works, d)."""
        page = Page(len(works))
        placed = [(work, page, self.add(work, page)) for work in works]
        self.evaluate(page, self.room())
        return np.array([self.result(*each) for each in placed])

    def values(self, w: Array, first: int, end: int) -> Array:
        """Return f_m(w) less the penalties of the clients from `first` to before `end`."""
        out = np.empty(end - first)
        values(self._form, self._data, first, np.ascontiguousarray(w), out)
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


def form(local: LocalLoss) -> LossSpecification:
    """Return what the losses of all clients have in common with one of them."""
    loss, outputs = local.loss, local.outputs
    columns = loss.hidden if isinstance(loss, MultilayerPerceptron) else outputs
    kind = code(loss.kind, getattr(loss, "output", ""))
    l1 = float(getattr(loss, "l1", 0.0))
    return LossSpecification(
        kind, local.features, columns, outputs, local.dimension, l1, float(loss.l2)
    )


def _together(drawn: Minibatches) -> Whole:
    """Return the rows of all steps, shape (steps, b); none where all rows are taken."""
    if drawn[0] is None:
        return _NO_ROWS
    return np.atleast_2d(np.ascontiguousarray(drawn, np.int64))
