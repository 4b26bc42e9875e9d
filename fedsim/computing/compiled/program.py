"""Translation of the clients' losses and their work for the compiled kernels."""

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
from fedsim.problems import MultilayerPerceptron, kernels
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.samples import Minibatches, equal_sizes

_NO_ROWS: Whole = np.zeros((0, 0), np.int64)
_NOTHING: Array = np.zeros(0)

_NO_PLACES: Whole = np.zeros((0, 0), np.int64)

Room: TypeAlias = tuple[Array, Any]
"""The buffers of one thread, in float64 and in the samples' type: see `loops.evaluate`."""


class _Steps(NamedTuple):
    """Work in the terms of `pages`: steps, or a gradient, minus that at `old` if given."""

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
"""The kernels with a compiled form, and the functions that translate their arguments."""


class CompiledProgram:
    """The compiled evaluation of gradients, minibatches, local steps, and values.

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
        """Return the addresses of C-contiguous arrays, which are copied only if necessary."""
        own = [np.ascontiguousarray(array, kind) for array in arrays]
        self._kept.append(own)  # compiled code has addresses only: the arrays must stay alive
        return np.array([each.ctypes.data for each in own], np.int64)

    def takes(self, work: Work) -> bool:
        """Return whether work has a compiled kernel and is on an unrestricted loss of a client."""
        if work.kernel not in _READ or work.client is None or work.bases:
            return False
        return work.kernel is not kernels.sgd_steps or equal_sizes(work.arguments[2])

    def add(self, work: Work, page: Page) -> int:
        """Append work on a page and return its place.

        Raises:
            ValueError: a model has another shape than the loss.
        """
        w, drawn, steps, eta, pull, old = _READ[work.kernel](*work.arguments)
        rows, out = _together(drawn), np.empty(self._form.size)
        less = _NOTHING if old is None else self._model(old)
        client: Any = work.client
        batch = rows.size // len(drawn)
        return page.add(Piece(client, self._model(w), out, less, steps, rows, batch, eta, pull))

    def _model(self, w: Array) -> Array:
        if w.shape != (self._form.size,):
            raise ValueError(f"got a model of shape {w.shape}; expected ({self._form.size},)")
        return np.ascontiguousarray(w, np.float64)

    def room(self) -> Room:
        """Return the buffers of one thread."""
        form = self._form
        size = 2 * form.size + 4 * form.m + form.c
        return np.empty(2 * form.size), np.empty(size, self._data.like.dtype)

    def load(self, page: Page, room: Room) -> None:
        """Load the kernels, without evaluating anything."""
        self.evaluate(page, room, most=0)
        self.values(np.zeros(self._form.size), 0, 0)

    def evaluate(self, page: Page, room: Room, only: int = -1, most: int = sys.maxsize) -> int:
        """Evaluate waiting pieces of a page, each by itself; return their number.

        Args:
            page: with the pieces.
            room: the buffers of the thread.
            only: the place of a single piece; below 0 for all, the oldest first.
            most: the largest number of pieces.
        """
        most = 1 if only >= 0 else most
        ends = page.table, page.numbers, page.marks
        return evaluate(self._form, self._data, *ends, *room, only, most)

    def result(self, work: Work, page: Page, place: int) -> Array:
        """Return the result of an evaluated piece, once.

        Raises:
            IndexError: a drawn row does not exist.
        """
        if page.mark(place) != DONE:
            raise IndexError(f"client {work.client} has drawn a row that it does not have")
        return page.fetch(place)

    def run(self, works: Sequence[Work]) -> Array:
        """Return the results of several pieces of work, shape (works, d)."""
        page = Page(len(works))
        placed = [(work, page, self.add(work, page)) for work in works]
        self.evaluate(page, self.room())
        return np.array([self.result(*each) for each in placed])

    def values(self, w: Array, first: int, end: int) -> Array:
        """Return f_m(w) without penalties of the clients from `first` to `end` - 1."""
        out = np.empty(end - first)
        values(self._form, self._data, first, np.ascontiguousarray(w), out)
        return out

    def shares(self, parts: int) -> list[tuple[int, int]]:
        """Return `parts` ranges of clients with about the same number of rows each."""
        ends = np.cumsum(self._data.rows)
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts)
        return list(pairwise([0, *(int(cut) for cut in cuts), len(ends)]))

    def penalty(self, w: Array) -> float:
        """Return the penalty in f_m at `w`, which does not depend on the client's rows."""
        l1, l2 = self._form.l1, self._form.l2
        return l1 * float(np.abs(w).sum()) + 0.5 * l2 * float(w.dot(w))


def form(local: LocalLoss) -> LossSpecification:
    """Return the specification of all clients' losses, given one of them."""
    loss, outputs = local.loss, local.outputs
    columns = loss.hidden if isinstance(loss, MultilayerPerceptron) else outputs
    kind = code(loss.kind, getattr(loss, "output", ""))
    l1 = float(getattr(loss, "l1", 0.0))
    return LossSpecification(
        kind, local.features, columns, outputs, local.dimension, l1, float(loss.l2)
    )


def _together(drawn: Minibatches) -> Whole:
    """Return the rows of all steps, shape (steps, b); empty if all rows are used."""
    if drawn[0] is None:
        return _NO_ROWS
    return np.atleast_2d(np.ascontiguousarray(drawn, np.int64))
