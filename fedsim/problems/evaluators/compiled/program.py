"""Translation of the clients' losses and their work for the compiled kernels."""

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, Work
from fedsim.core.streams import StreamGroup
from fedsim.problems import MultilayerPerceptron, kernels
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.evaluators.compiled.drawing import MOST, agrees, interface_of
from fedsim.problems.evaluators.compiled.loops import evaluate, values
from fedsim.problems.evaluators.compiled.loss_functions import code, numbers_of_a_row
from fedsim.problems.evaluators.compiled.pages import WRONG, Piece, Whole, WorkQueue
from fedsim.problems.evaluators.compiled.rows import Data, LossSpecification
from fedsim.problems.evaluators.compiled.settings import settings_of
from fedsim.problems.optimizers import Training
from fedsim.problems.samples import NARROW, LaterDraws, Minibatches, all_or_some, entries

_NO_PLACES: Whole = np.zeros((0, 0), np.int64)

_NUMBERS = 2**14
"""Target size of a block of rows and of its products, which stay in the cache."""

_LEAST, _MOST = 8, 512
"""Bounds for the rows of a block: smaller blocks are not vectorised, larger ones gain nothing."""

BLOCK = 2**18
"""Bytes of a block of results. A longer result is allocated by itself."""

ALIKE = 4
"""Mean size of groups of clients on sparse rows from which on groups pay."""

SINGLES = 2**12
"""Length from which on a result may be written in float32. A shorter one, in a block, is rounded in
less time than an allocation takes."""

Room: TypeAlias = tuple[Array, Any]
"""The buffers of one thread, in float64 and in the samples' type: see `loops.evaluate`."""

_ALL = (None,)


class _Steps(NamedTuple):
    """Arguments of a kernel call in terms of `Piece`.

    Attributes:
        w: the model.
        drawn: the rows of each step, or of the gradient.
        steps: the number of steps; 0 for a gradient.
        eta, pull: the step size and the pull of plain steps.
        old: the model whose gradient is subtracted.
        subtract_model: whether the start is subtracted from the result.
        training: the settings of optimizer steps.
    """

    w: Array
    drawn: Minibatches
    steps: int = 0
    eta: float = 0.0
    pull: float = 0.0
    old: Array | None = None
    subtract_model: bool = False
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
    return _Steps(w, drawn, len(drawn), eta, pull or 0.0, subtract_model=True)


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


class WorkBatch(NamedTuple):
    """A queue with the same work of several clients.

    Attributes:
        queue: the queue.
        out: receives the results, one per row.
    """

    queue: WorkQueue
    out: NDArray[np.floating]


class CompiledProgram:
    """The compiled evaluation of gradients, minibatches, local steps, and values.

    Args:
        losses: the losses of all clients, which are `compilable`.
    """

    def __init__(self, losses: Sequence[LocalLoss]) -> None:
        self._losses = losses
        self._form = form(losses[0])
        self._kept: list[Any] = []
        self._data = self._gather()
        # The last model as passed, its contiguous form, and its address; see `_read`.
        self._model: tuple[Array, Array, int] | None = None
        # The block of short results, the number of its used rows, and its address; see `_out`.
        self._block = np.empty((0, self._form.size))
        self._used, self._address = 0, 0

    def _gather(self) -> Data:
        rows = [loss.arranged for loss in self._losses]
        places: Any = _NO_PLACES
        X: list[Any] = [row.X for row in rows]
        t = [row.t.reshape(len(row.t), -1) for row in rows]
        kind, index, ends = X[0].dtype, np.dtype(np.int64), _NO_PLACES
        # Sparse rows: stored numbers, their columns, and the offsets of rows, all of one index
        # type.
        if not isinstance(X[0], np.ndarray):
            parts = [matrix.indices for matrix in X], [matrix.indptr for matrix in X]
            index = np.result_type(*{array.dtype for part in parts for array in part})
            places, ends = (self._addresses(part, index) for part in parts)
            X = [matrix.data for matrix in X]
        # Narrow rows are stored by columns, whose loops are long enough to be vectorised.
        elif self._form.d <= NARROW:
            X, places = [matrix.T for matrix in X], (_NO_PLACES,)
        return Data(
            x=self._addresses(X, kind),
            places=places,
            ends=ends,
            t=self._addresses(t, kind),
            rows=np.array([row.X.shape[0] for row in rows], np.int64),
            factor=np.array([row.factor for row in rows], np.float64),
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
        # On sparse rows the cost of a step also depends on the stored numbers.
        kinds = np.unique(np.stack([rows, stored], axis=1), axis=0, return_inverse=True)[1]
        return np.asarray(kinds.reshape(-1), np.int64)

    def _addresses(self, arrays: Sequence[Any], kind: np.dtype[Any]) -> Whole:
        """Return the addresses of contiguous arrays; arrays are copied only if necessary."""
        contiguous = [np.ascontiguousarray(array, kind) for array in arrays]
        # Compiled code has addresses only, so the arrays must stay alive.
        self._kept.append(contiguous)
        return np.array([item.ctypes.data for item in contiguous], np.int64)

    @property
    def _sparse(self) -> bool:
        return len(self._data.ends) > 0

    @property
    def size(self) -> int:
        """The length of a model."""
        return self._form.size

    def takes(self, work: Work) -> bool:
        """Return whether work has a compiled kernel and an unrestricted loss."""
        if work.kernel not in _READ or work.client is None or work.bases:
            return False
        if work.kernel is kernels.optimizer_steps and not work.arguments[2].compilable:
            return False
        place = kernels.STEPS.get(work.kernel)
        return place is None or all_or_some(work.arguments[place])

    def add(self, work: Work, queue: WorkQueue) -> int:
        """Append work to a queue and return its index.

        Raises:
            ValueError: a model has another shape than the loss.
        """
        call = _READ[work.kernel](*work.arguments)
        model, address = self._read(call.w)
        if call.old is None:
            before, old_address = call.old, 0
        else:
            before, old_address = self._read(call.old)
        rows, batch, ends, kept = _rows_of(call.drawn)
        bits = interface_of(kept.one) if isinstance(kept, LaterDraws) else 0
        client: Any = work.client
        if call.training is None:
            # float32 results only if they have memory of their own; see `SINGLES`.
            single = work.single and self._form.size >= SINGLES
            out, place = self._single() if single else self._out()
            columns = rows, batch, place, bits, call.subtract_model
            piece = Piece(
                client, address, old_address, call.steps, *columns, ends=ends, single=single
            )
            return queue.add(piece, call.eta, call.pull, out, (model, before, kept))
        rule, state = settings_of(call.training), self._state(call.training)
        anchor = self._anchor(call.training)
        # The state of an optimizer follows the model in the result, if it is kept.
        out = np.empty(self._form.size + self._values(call.training) * call.training.kept)
        columns = rows, batch, out.ctypes.data, bits, call.subtract_model
        piece = Piece(
            *(client, address, old_address, call.steps, *columns),
            *(_address(rule), _address(state), ends, _address(anchor)),
        )
        return queue.add(piece, call.eta, call.pull, out, (model, rule, state, anchor, kept))

    def _state(self, training: Training) -> Array | None:
        """Return an optimizer's earlier state, as compiled code reads it.

        Raises:
            ValueError: its length does not fit the model.
        """
        if training.state is None:
            return None
        wanted = self._values(training)
        if training.state.shape != (wanted,):
            raise ValueError(f"got a state of shape {training.state.shape}; expected ({wanted},)")
        return np.ascontiguousarray(training.state, np.float64)

    def _anchor(self, training: Training) -> Array | None:
        """Return the model towards which steps are pulled, unless it is the first one.

        Raises:
            ValueError: it has another shape than the loss.
        """
        if training.anchor is None:
            return None
        self._check(training.anchor)
        return np.ascontiguousarray(training.anchor, np.float64)

    def _values(self, training: Training) -> int:
        """Return the length of an optimizer's state: the number of steps, and the moments."""
        return 1 + training.optimizer.moments * self._form.size

    def alike(self, clients: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """Return the indices of clients whose steps cost the same, group by group.

        Returns an empty list if rows are sparse and groups are small: then groups take more time.
        """
        sizes = self._sizes[clients]
        groups = [np.flatnonzero(sizes == size) for size in np.unique(sizes).tolist()]
        few = self._sparse and len(clients) < ALIKE * len(groups)
        return [] if few else groups

    def write(
        self, work: Work, clients: NDArray[np.int64], out: NDArray[np.floating]
    ) -> WorkBatch | None:
        """Return the same work of several clients in a queue of its own.

        Args:
            work: the work of the first client; its models are for all, shape (d,), or one per
                client, (k, d).
            clients: the numbers of the clients, shape (k,).
            out: receives the results, shape (k, d), in float64 or float32.

        Returns:
            None if the work does not fit a queue; no random number was drawn then.

        Raises:
            ValueError: a model has another shape than the loss.
        """
        call = _READ[work.kernel](*work.arguments)
        drawn, old, training = call.drawn, call.old, call.training
        # A state or an anchor belongs to one client, so such work is not the same for all.
        if training is not None and training.own:
            return None
        batch, bits = 0, np.zeros(1, np.int64)
        if isinstance(drawn, LaterDraws) and isinstance(drawn.rng, StreamGroup):
            # Compiled code could not reproduce NumPy's draws.
            if drawn.rows > MOST or not agrees():
                return None
            batch, bits = drawn.batch, drawn.rng.addresses(interface_of)
        elif drawn[0] is not None:
            # Minibatches drawn before are those of one client.
            return None
        model, addresses = self._read_all(call.w, len(clients))
        before, old_addresses = (
            (None, np.zeros(1, np.int64)) if old is None else self._read_all(old, len(clients))
        )
        queue, single = WorkQueue(len(clients)), out.dtype == np.float32
        # Row j of `out` is the result of client j, so no result is copied.
        results = out.ctypes.data + out.itemsize * self._form.size * np.arange(len(clients))
        rule = None if training is None else settings_of(training)
        # Every column that is not equal for all clients has one entry per client, in their order.
        columns = (
            clients,
            addresses,
            old_addresses,
            call.steps,
            0,
            batch,
            results,
            bits,
            call.subtract_model,
        )
        # No state, ends or anchor: work with them was refused above.
        pieces = *columns, _address(rule), 0, 0, 0, single
        queue.fill(pieces, call.eta, call.pull, out, (model, before, drawn, rule))
        return WorkBatch(queue, out)

    def _read_all(self, w: Array, count: int) -> tuple[Array, Whole]:
        """Return the models of clients, and their addresses, shape (count,) or (1,)."""
        if w.ndim == 1:
            contiguous, address = self._read(w)
            return contiguous, np.array([address])
        if w.shape != (count, self._form.size):
            raise ValueError(
                f"got models of shape {w.shape}; expected ({count}, {self._form.size})"
            )
        contiguous = np.ascontiguousarray(w, np.float64)
        return contiguous, contiguous.ctypes.data + 8 * self._form.size * np.arange(count)

    def _read(self, w: Array) -> tuple[Array, int]:
        """Return a contiguous model and its address; those of the last model are cached."""
        # Consecutive pieces mostly start from the same model.
        last = self._model
        if last is None or last[0] is not w:
            self._check(w)
            contiguous = np.ascontiguousarray(w, np.float64)
            last = w, contiguous, contiguous.ctypes.data
            if contiguous is w:  # a copy would miss later changes of the original
                self._model = last
        return last[1], last[2]

    def _check(self, w: Array) -> None:
        if w.shape != (self._form.size,):
            raise ValueError(f"got a model of shape {w.shape}; expected ({self._form.size},)")

    def _single(self) -> tuple[NDArray[np.float32], int]:
        """Return a vector for a result in float32, and its address."""
        vector = np.empty(self._form.size, np.float32)
        return vector, vector.ctypes.data

    def _out(self) -> tuple[Array, int]:
        """Return a vector for a result in float64, and its address."""
        size = self._form.size
        if 8 * size > BLOCK:
            vector = np.empty(size)
            return vector, vector.ctypes.data
        # Short results are rows of a common block: an allocation per result costs more than a step.
        if self._used == len(self._block):
            self._block = np.empty((BLOCK // (8 * size), size))
            self._used, self._address = 0, self._block.ctypes.data
        # The block stays alive as long as one of its rows does, so a kept result keeps up to
        # `BLOCK` bytes.
        place = self._used
        self._used = place + 1
        return self._block[place], self._address + 8 * size * place

    def room(self) -> Room:
        """Return the buffers of one thread."""
        form = self._form
        # What `Block.rest` needs: the products of one sparse row, or a gathered block of narrow
        # rows.
        rest = form.m if self._sparse else form.d * form.block if form.d <= NARROW else 0
        size = 2 * form.size + form.block * numbers_of_a_row(form.m, form.c) + rest
        return np.empty(5 * form.size), np.empty(size, self._data.like.dtype)

    def load(self, queue: WorkQueue, room: Room) -> None:
        """Load the kernels without evaluating anything."""
        self.evaluate(queue, room, most=0)
        self.values(np.zeros(self._form.size), 0, 0)

    def evaluate(
        self, queue: WorkQueue, room: Room, only: int = -1, most: int = sys.maxsize
    ) -> int:
        """Evaluate waiting pieces of a queue, each by itself; return their number.

        Args:
            queue: the queue.
            room: the buffers of the thread.
            only: the index of a single piece; negative for all, oldest first.
            most: the largest number of pieces.
        """
        most = 1 if only >= 0 else most
        ends = queue.table, queue.numbers, queue.marks
        return evaluate(self._form, self._data, *ends, *room, only, most)

    def result(self, work: Work, queue: WorkQueue, place: int) -> Array:
        """Return the result of an evaluated piece, once.

        Raises:
            IndexError: a drawn row does not exist.
        """
        if not queue.is_done(place) and queue.mark(place) == WRONG:
            raise IndexError(f"client {work.client} has drawn a row that it does not have")
        return queue.fetch(place)

    def run(self, works: Sequence[Work]) -> Array:
        """Return the results of several pieces of work, shape (works, d)."""
        queue = WorkQueue(len(works))
        placed = [(work, queue, self.add(work, queue)) for work in works]
        queue.publish()
        self.evaluate(queue, self.room())
        return np.array([self.result(*entry) for entry in placed])

    def values(self, w: Array, first: int, end: int) -> Array:
        """Return f_m(w) without penalties of the clients from `first` to `end` - 1."""
        out = np.empty(end - first)
        values(self._form, self._data, first, np.ascontiguousarray(w), out, self.room()[1])
        return out

    def shares(self, parts: int) -> list[tuple[int, int]]:
        """Return `parts` ranges of clients with about the same number of rows each."""
        ends = np.cumsum(self._data.rows)
        # Cut the cumulative number of rows into equal parts.
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts)
        return list(pairwise([0, *(int(cut) for cut in cuts), len(ends)]))

    def penalty(self, w: Array) -> float:
        """Return the penalty in f_m at `w`, which does not depend on the client's rows."""
        l1, l2 = self._form.l1, self._form.l2
        return l1 * float(np.abs(w).sum()) + 0.5 * l2 * float(w.dot(w))


def form(local: LocalLoss) -> LossSpecification:
    """Return the specification that all losses share, given one of them."""
    loss, outputs = local.loss, local.outputs
    columns = loss.hidden if isinstance(loss, MultilayerPerceptron) else outputs
    kind = code(loss.kind, getattr(loss, "output", ""))
    l1 = float(getattr(loss, "l1", 0.0))
    # A multiple of 4, since rows are processed in fours.
    block = _NUMBERS // (int(entries(local.arranged.X)) + columns) // 4 * 4
    block = min(max(block, _LEAST), _MOST)
    return LossSpecification(
        kind, local.features, columns, outputs, local.dimension, l1, float(loss.l2), block
    )


def _address(array: Array | None) -> int:
    """Return the address of an array; 0 for none."""
    return 0 if array is None else int(array.ctypes.data)


class _DrawnRows(NamedTuple):
    """The drawn rows of all steps in terms of `Piece`, and the arrays that hold them."""

    drawn: int
    batch: int
    ends: int
    kept: object


def _rows_of(drawn: Minibatches) -> _DrawnRows:
    """Return the drawn rows of all steps.

    All numbers are 0 if all rows are used. The address is 0 if compiled code draws the rows.
    """
    if isinstance(drawn, LaterDraws):
        if drawn.rows <= MOST and agrees():
            return _DrawnRows(0, drawn.batch, 0, drawn)
        # NumPy draws them after all, from the same stream.
        drawn = drawn.drawn
    if drawn[0] is None:
        return _DrawnRows(0, 0, 0, None)
    if isinstance(drawn, np.ndarray):
        rows = np.ascontiguousarray(drawn, np.int64)
        return _DrawnRows(rows.ctypes.data, rows.shape[1], 0, rows)
    minibatches = cast("Sequence[Whole]", drawn)
    rows, sizes = np.concatenate(minibatches, dtype=np.int64), list(map(len, minibatches))
    # Without `ends`, the kernel scales all steps by one minibatch size.
    if len(set(sizes)) == 1:
        return _DrawnRows(rows.ctypes.data, sizes[0], 0, rows)
    ends = np.array([*accumulate(sizes, initial=0)], np.int64)
    return _DrawnRows(rows.ctypes.data, max(sizes), ends.ctypes.data, (rows, ends))
