"""Translation of the clients' losses and their work for the compiled kernels."""

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled.drawing import MOST, agrees, interface_of
from fedsim.computing.compiled.loops import evaluate, values
from fedsim.computing.compiled.loss_functions import code, numbers_of_a_row
from fedsim.computing.compiled.pages import WRONG, Page, Piece, Whole
from fedsim.computing.compiled.rows import Data, LossSpecification
from fedsim.computing.compiled.settings import settings_of
from fedsim.ports import Array, Work
from fedsim.problems import MultilayerPerceptron, kernels
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.optimizers import Training
from fedsim.problems.samples import NARROW, LaterDraws, Minibatches, all_or_some, entries
from fedsim.streams import StreamGroup

_NO_PLACES: Whole = np.zeros((0, 0), np.int64)

_NUMBERS = 2**14
"""The numbers of a block of rows and of its products, which stay in a cache of the processor."""

_LEAST, _MOST = 8, 512
"""The rows of a block: with fewer, loops over them are not vectorised, and more gain nothing."""

BLOCK = 2**18
"""The bytes of a block of results: only one that is longer is allocated by itself."""

ALIKE = 4
"""The mean number of clients of a group on sparse rows, from which groups take less time."""

SINGLES = 2**12
"""The length from which a result is written in float32 where it may be: a short one of a block is
rounded in less time than it takes to have memory of its own."""

Room: TypeAlias = tuple[Array, Any]
"""The buffers of one thread, in float64 and in the samples' type: see `loops.evaluate`."""

_ALL = (None,)


class _Steps(NamedTuple):
    """Work in the terms of `pages`.

    Attributes:
        w: the model.
        drawn: the rows of each step, or of the gradient.
        steps: their number; 0 for a gradient.
        eta, pull: of plain steps.
        old: the model whose gradient is subtracted.
        less: whether the model is.
        training: of the steps of an optimizer.
    """

    w: Array
    drawn: Minibatches
    steps: int = 0
    eta: float = 0.0
    pull: float = 0.0
    old: Array | None = None
    less: bool = False
    training: Training | None = None


def _gradient(w: Array) -> _Steps:
    return _Steps(w, _ALL)


def _minibatch(w: Array, drawn: NDArray[np.intp] | None) -> _Steps:
    return _Steps(w, _ALL if drawn is None else drawn[None])


def _change(w: Array, old: Array, drawn: NDArray[np.intp] | None) -> _Steps:
    return _Steps(w, _ALL if drawn is None else drawn[None], old=old)


def _sgd(w: Array, eta: float, drawn: Minibatches, pull: float | None) -> _Steps:
    return _Steps(w, drawn, len(drawn), eta, pull or 0.0)


def _sgd_change(w: Array, eta: float, drawn: Minibatches, pull: float | None) -> _Steps:
    return _Steps(w, drawn, len(drawn), eta, pull or 0.0, less=True)


def _optimizer(w: Array, drawn: Minibatches, training: Training) -> _Steps:
    return _Steps(w, drawn, len(drawn), pull=training.pull or 0.0, training=training)


_READ: dict[Callable[..., Array], Callable[..., _Steps]] = {
    kernels.gradient: _gradient,
    kernels.minibatch_gradient: _minibatch,
    kernels.minibatch_change: _change,
    kernels.sgd_steps: _sgd,
    kernels.sgd_change: _sgd_change,
    kernels.optimizer_steps: _optimizer,
}
"""The kernels with a compiled form, and the functions that translate their arguments."""

_STEPS = {kernels.sgd_steps: 2, kernels.sgd_change: 2, kernels.optimizer_steps: 1}
"""Those of steps, and the place of their minibatches among the arguments."""


class Sheet(NamedTuple):
    """A page with the same work of several clients.

    Attributes:
        page: where it is written.
        out: receives the results, one a row.
    """

    page: Page
    out: NDArray[np.floating]


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
        self._model: tuple[Array, Array, int] | None = None  # as given, as read, and its address
        self._block = np.empty((0, self._form.size))
        self._used, self._address = 0, 0

    def _gather(self) -> Data:
        rows = [loss.arranged for loss in self._losses]
        places: Any = _NO_PLACES
        X: list[Any] = [each.X for each in rows]
        t = [each.t.reshape(len(each.t), -1) for each in rows]
        kind, index, ends = X[0].dtype, np.dtype(np.int64), _NO_PLACES
        if not isinstance(X[0], np.ndarray):
            parts = [each.indices for each in X], [each.indptr for each in X]
            index = np.result_type(*{array.dtype for part in parts for array in part})
            places, ends = (self._addresses(part, index) for part in parts)
            X = [each.data for each in X]
        elif self._form.d <= NARROW:
            X, places = [each.T for each in X], (_NO_PLACES,)
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

    @cached_property
    def _sizes(self) -> Whole:
        """The size of each client's samples, equal where a step costs the same, shape (M,)."""
        rows = self._data.rows
        if not self._sparse:
            return rows
        stored = [entries(loss.arranged.X) for loss in self._losses]
        kinds = np.unique(np.stack([rows, stored], axis=1), axis=0, return_inverse=True)[1]
        return np.asarray(kinds.reshape(-1), np.int64)

    def _addresses(self, arrays: Sequence[Any], kind: np.dtype[Any]) -> Whole:
        """Return the addresses of C-contiguous arrays, which are copied only if necessary."""
        own = [np.ascontiguousarray(array, kind) for array in arrays]
        self._kept.append(own)  # compiled code has addresses only: the arrays must stay alive
        return np.array([each.ctypes.data for each in own], np.int64)

    @property
    def _sparse(self) -> bool:
        return len(self._data.ends) > 0

    @property
    def size(self) -> int:
        """The length of a model."""
        return self._form.size

    def takes(self, work: Work) -> bool:
        """Return whether work has a compiled kernel and is on an unrestricted loss of a client."""
        if work.kernel not in _READ or work.client is None or work.bases:
            return False
        if work.kernel is kernels.optimizer_steps and not work.arguments[2].compilable:
            return False
        return work.kernel not in _STEPS or all_or_some(work.arguments[_STEPS[work.kernel]])

    def add(self, work: Work, page: Page) -> int:
        """Append work on a page and return its place.

        Raises:
            ValueError: a model has another shape than the loss.
        """
        own = _READ[work.kernel](*work.arguments)
        model, where = self._read(own.w)
        if own.old is None:
            before, there = own.old, 0
        else:
            before, there = self._read(own.old)
        rows, batch, ends, kept = _rows_of(own.drawn)
        bits = interface_of(kept.one) if isinstance(kept, LaterDraws) else 0
        client: Any = work.client
        if own.training is None:
            single = work.single and self._form.size >= SINGLES
            out, place = self._single() if single else self._out()
            places = rows, batch, place, bits, own.less
            piece = Piece(client, where, there, own.steps, *places, ends=ends, single=single)
            return page.add(piece, own.eta, own.pull, out, (model, before, kept))
        rule, state = settings_of(own.training), self._state(own.training)
        anchor = self._anchor(own.training)
        out = np.empty(self._form.size + self._values(own.training) * own.training.kept)
        places = rows, batch, out.ctypes.data, bits, own.less
        piece = Piece(
            *(client, where, there, own.steps, *places),
            *(_address(rule), _address(state), ends, _address(anchor)),
        )
        return page.add(piece, own.eta, own.pull, out, (model, rule, state, anchor, kept))

    def _state(self, training: Training) -> Array | None:
        """Return the state that a training goes on with, as compiled code reads it.

        Raises:
            ValueError: it is not of this model.
        """
        if training.state is None:
            return None
        wanted = self._values(training)
        if training.state.shape != (wanted,):
            raise ValueError(f"got a state of shape {training.state.shape}; expected ({wanted},)")
        return np.ascontiguousarray(training.state, np.float64)

    def _anchor(self, training: Training) -> Array | None:
        """Return the model that a training is pulled to, where that is not the first one.

        Raises:
            ValueError: it has another shape than the loss.
        """
        if training.anchor is None:
            return None
        self._check(training.anchor)
        return np.ascontiguousarray(training.anchor, np.float64)

    def _values(self, training: Training) -> int:
        """Return the length of an optimizer's state: the steps, and the moments."""
        return 1 + training.optimizer.moments * self._form.size

    def alike(self, clients: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """Return the places of clients with equally many rows, and stored numbers in these.

        None where rows are sparse and few clients are alike: groups take more time then.
        """
        sizes = self._sizes[clients]
        groups = [np.flatnonzero(sizes == each) for each in np.unique(sizes).tolist()]
        few = self._sparse and len(clients) < ALIKE * len(groups)
        return [] if few else groups

    def write(
        self, work: Work, clients: NDArray[np.int64], out: NDArray[np.floating]
    ) -> Sheet | None:
        """Return the same work of several clients, written on a page of its own.

        Args:
            work: of the first client; its models are for all, shape (d,), or one for each, (k, d).
            clients: their numbers, shape (k,).
            out: receives the results, shape (k, d), in float64 or float32.

        Returns:
            None if it is not to be evaluated like this; nothing has been drawn then.

        Raises:
            ValueError: a model has another shape than the loss.
        """
        own = _READ[work.kernel](*work.arguments)
        drawn, old, training = own.drawn, own.old, own.training
        if training is not None and training.own:
            return None
        batch, bits = 0, np.zeros(1, np.int64)
        if isinstance(drawn, LaterDraws) and isinstance(drawn.rng, StreamGroup):
            if drawn.rows > MOST or not agrees():
                return None
            batch, bits = drawn.batch, drawn.rng.addresses(interface_of)
        elif drawn[0] is not None:
            return None
        model, where = self._read_all(own.w, len(clients))
        before, there = (
            (None, np.zeros(1, np.int64)) if old is None else self._read_all(old, len(clients))
        )
        page, single = Page(len(clients)), out.dtype == np.float32
        place = out.ctypes.data + out.itemsize * self._form.size * np.arange(len(clients))
        rule = None if training is None else settings_of(training)
        columns = clients, where, there, own.steps, 0, batch, place, bits, own.less
        pieces = *columns, _address(rule), 0, 0, 0, single
        page.fill(pieces, own.eta, own.pull, out, (model, before, drawn, rule))
        return Sheet(page, out)

    def _read_all(self, w: Array, count: int) -> tuple[Array, Whole]:
        """Return the models of clients, and the address of each, shape (count,), or the one."""
        if w.ndim == 1:
            own, where = self._read(w)
            return own, np.array([where])
        if w.shape != (count, self._form.size):
            raise ValueError(
                f"got models of shape {w.shape}; expected ({count}, {self._form.size})"
            )
        own = np.ascontiguousarray(w, np.float64)
        return own, own.ctypes.data + 8 * self._form.size * np.arange(count)

    def _read(self, w: Array) -> tuple[Array, int]:
        """Return a model as compiled code takes it, and its address; the last one's is known."""
        last = self._model
        if last is None or last[0] is not w:
            self._check(w)
            own = np.ascontiguousarray(w, np.float64)
            last = w, own, own.ctypes.data
            if own is w:  # a copy does not follow what becomes of the original
                self._model = last
        return last[1], last[2]

    def _check(self, w: Array) -> None:
        if w.shape != (self._form.size,):
            raise ValueError(f"got a model of shape {w.shape}; expected ({self._form.size},)")

    def _single(self) -> tuple[NDArray[np.float32], int]:
        """Return a vector for a result in float32, and its address."""
        own = np.empty(self._form.size, np.float32)
        return own, own.ctypes.data

    def _out(self) -> tuple[Array, int]:
        """Return a vector for a result, and its address."""
        size = self._form.size
        if 8 * size > BLOCK:
            own = np.empty(size)
            return own, own.ctypes.data
        if self._used == len(self._block):
            self._block = np.empty((BLOCK // (8 * size), size))
            self._used, self._address = 0, self._block.ctypes.data
        place = self._used
        self._used = place + 1
        return self._block[place], self._address + 8 * size * place

    def room(self) -> Room:
        """Return the buffers of one thread."""
        form = self._form
        rest = form.m if self._sparse else form.d * form.block if form.d <= NARROW else 0
        size = 2 * form.size + form.block * numbers_of_a_row(form.m, form.c) + rest
        return np.empty(5 * form.size), np.empty(size, self._data.like.dtype)

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
        if not page.is_done(place) and page.mark(place) == WRONG:
            raise IndexError(f"client {work.client} has drawn a row that it does not have")
        return page.fetch(place)

    def run(self, works: Sequence[Work]) -> Array:
        """Return the results of several pieces of work, shape (works, d)."""
        page = Page(len(works))
        placed = [(work, page, self.add(work, page)) for work in works]
        page.publish()
        self.evaluate(page, self.room())
        return np.array([self.result(*each) for each in placed])

    def values(self, w: Array, first: int, end: int) -> Array:
        """Return f_m(w) without penalties of the clients from `first` to `end` - 1."""
        out = np.empty(end - first)
        values(self._form, self._data, first, np.ascontiguousarray(w), out, self.room()[1])
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
    block = _NUMBERS // (int(entries(local.arranged.X)) + columns) // 4 * 4
    block = min(max(block, _LEAST), _MOST)
    return LossSpecification(
        kind, local.features, columns, outputs, local.dimension, l1, float(loss.l2), block
    )


def _address(array: Array | None) -> int:
    """Return the address of an array; 0 for none."""
    return 0 if array is None else int(array.ctypes.data)


class _DrawnRows(NamedTuple):
    """The rows of steps, as `Piece` has them, and what holds them."""

    drawn: int
    batch: int
    ends: int
    kept: object


def _rows_of(drawn: Minibatches) -> _DrawnRows:
    """Return the rows of all steps.

    All numbers are 0 if all rows are used. The address is 0 if the rows are yet to be drawn, and
    are by compiled code.
    """
    if isinstance(drawn, LaterDraws):
        if drawn.rows <= MOST and agrees():
            return _DrawnRows(0, drawn.batch, 0, drawn)
        drawn = drawn.drawn
    if drawn[0] is None:
        return _DrawnRows(0, 0, 0, None)
    if isinstance(drawn, np.ndarray):
        rows = np.ascontiguousarray(drawn, np.int64)
        return _DrawnRows(rows.ctypes.data, rows.shape[1], 0, rows)
    each = cast("Sequence[Whole]", drawn)
    rows, sizes = np.concatenate(each, dtype=np.int64), list(map(len, each))
    if len(set(sizes)) == 1:
        return _DrawnRows(rows.ctypes.data, sizes[0], 0, rows)
    ends = np.array([*accumulate(sizes, initial=0)], np.int64)
    return _DrawnRows(rows.ctypes.data, max(sizes), ends.ctypes.data, (rows, ends))
