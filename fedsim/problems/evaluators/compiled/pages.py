"""Work queues of compiled code: tables of pieces of work, with a state for each.

Threads take pieces from a queue and finish them without Python's global lock, while the thread of
the event loop appends to it. They synchronise by the state ("mark") of each piece, which is read
and changed by atomic instructions only:

    waiting -> taken -> done, wrong (a row does not exist), or infinite    waiting -> withdrawn

Two orderings make this correct. The description of a piece is written before the count of pieces
that makes it visible (store-release, load-acquire), and its result before its last mark.
And `waiting -> taken` is a compare-and-swap, so exactly one thread takes a piece, and a withdrawal
either precedes it or has no effect.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import brief, part

# Atomic instructions on integers that several threads share.


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _load(_: Any, address: Any) -> Any:
    """Return the integer at an address (acquire: sees everything written before its store)."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(address), generate


@intrinsic  # type: ignore[untyped-decorator]
def _store(_: Any, address: Any, number: Any) -> Any:
    """Set the integer at an address (release: after everything written before)."""

    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store_atomic(arguments[1], place, "release", 8)
        return context.get_dummy_value()

    return types.void(address, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _swap(_: Any, address: Any, old: Any, new: Any) -> Any:
    """Set the integer at an address if it equals `old`; return whether it did."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        outcome = builder.cmpxchg(place, arguments[1], arguments[2], "acq_rel", "acquire")
        return builder.extract_value(outcome, 1)

    return types.boolean(address, types.int64, types.int64), generate


load = cast("Callable[[int], int]", _load)
store = cast("Callable[[int, int], None]", _store)
swap = cast("Callable[[int, int, int], bool]", _swap)


Whole = NDArray[np.int64]

WAITING: Final = 0
TAKEN: Final = 1
DONE: Final = 2
WRONG: Final = 3
WITHDRAWN: Final = 4
INFINITE: Final = 5

COUNT: Final = 0
NEXT: Final = 8
MARKS: Final = 16
"""Offsets in the array of marks, in bytes: the number of pieces, the next piece to be taken, and
the first mark."""

CLIENT: Final = 0
MODEL: Final = 1
OLD: Final = 2
STEPS: Final = 3
DRAWN: Final = 4
BATCH: Final = 5
OUT: Final = 6
BITS: Final = 7
SUBTRACT: Final = 8
RULE: Final = 9
STATE: Final = 10
ENDS: Final = 11
ANCHOR: Final = 12
SINGLE: Final = 13
ETA: Final = 14
PULL: Final = 15
"""The columns of a queue's table: the fields of `Piece`, with arrays as addresses.

The address 0 means: no old model; all rows; rows drawn already; plain steps; a new state;
minibatches of one size; a pull towards the model. The last two columns are the bits of a float64.
"""

PIECES = 512
"""Default capacity of a queue."""


@part
def take(marks: int, place: int) -> bool:
    """Take a piece if it is waiting; return whether it was."""
    return swap(marks + MARKS + 8 * place, WAITING, TAKEN)


@part
def take_next(marks: int) -> int:
    """Take the oldest waiting piece and return its place; -1 if there is none."""
    while True:
        place = load(marks + NEXT)
        if place >= load(marks + COUNT):
            return -1
        # The first swap fails if another thread has advanced `NEXT`; the second if the piece was
        # withdrawn, or taken out of order by its caller. Both mean: try the next one.
        if swap(marks + NEXT, place, place + 1) and take(marks, place):
            return place


@part
def finish(marks: int, place: int, mark: int) -> None:
    """Set the final mark of a taken piece."""
    store(marks + MARKS + 8 * place, mark)


@brief
def _publish(marks: int, count: int) -> None:
    """Make written pieces visible to other threads."""
    store(marks + COUNT, count)


@brief
def _mark(marks: int, place: int) -> int:
    return load(marks + MARKS + 8 * place)


@brief
def _settle(marks: int, place: int, end: int) -> int:
    """Return the first index from `place` on that is neither done nor withdrawn, or `end`."""
    while place < end:
        mark = load(marks + MARKS + 8 * place)
        if mark not in (DONE, WITHDRAWN):
            break
        place += 1
    return place


@brief
def _withdraw(marks: int, place: int) -> bool:
    """Withdraw a piece if it is waiting; return whether it was."""
    return swap(marks + MARKS + 8 * place, WAITING, WITHDRAWN)


class Piece(NamedTuple):
    """A piece of work. Arrays are given by their addresses, and are contiguous.

    Attributes:
        client: the number of the client.
        model: the model, shape (size,).
        old: the model whose gradient is subtracted, shape (size,); 0 for none.
        steps: the number of gradient steps; 0 for a gradient.
        drawn: the drawn rows, step after step; 0 for all rows, or if they are drawn on
            evaluation.
        batch: b, the rows of a step; 0 for all rows.
        out: the result, shape (size,).
        bits: the bit generator from which rows are drawn on evaluation; 0 for none.
        subtract_model: whether the model is subtracted from the result of the steps.
        rule: the settings of an optimizer, see `settings`; 0 for plain steps.
        state: the number of earlier steps and the moments, see `fedsim.problems.optimizers`; 0
            for a new state.
        ends: the first drawn row of each step, and the end of the last one, shape (steps + 1,);
            0 if every step has b rows.
        anchor: the model towards which the steps are pulled, shape (size,); 0 for the first
            one.
        single: whether the result is written in float32.
    """

    client: int
    model: int
    old: int
    steps: int
    drawn: int
    batch: int
    out: int
    bits: int
    subtract_model: bool
    rule: int = 0
    state: int = 0
    ends: int = 0
    anchor: int = 0
    single: bool = False


PieceColumns: TypeAlias = tuple[Whole | int, ...]
"""The fields of several pieces in the order of `Piece`, each of shape (n,) or one value for all.
Trailing columns may be left out, for 0."""


class WorkQueue:
    """A queue of pieces: one thread appends, any number of threads take.

    Pieces are appended in batches, and then published to other threads: see `publish`. Compiled
    code has addresses only, so the queue keeps the arrays of a piece alive until its result is
    fetched.

    Args:
        pieces: the capacity.

    Attributes:
        table: the descriptions of the pieces, shape (pieces, columns).
        numbers: the same memory as float64.
        marks: the address of the marks.
        count: the number of pieces.
        published: the number of pieces that are visible to other threads.
        right: whether no piece is known to be wrong or infinite.
    """

    def __init__(self, pieces: int = PIECES) -> None:
        self.table: Whole = np.zeros((pieces, PULL + 1), np.int64)
        # Step size and pull are float64 in a table of integers: the same bytes, seen as floats.
        self.numbers: Array = self.table.view(np.float64)
        # The number of pieces, the next piece, and one mark per piece; see `COUNT` and `MARKS`.
        self._states: Whole = np.zeros(pieces + 2, np.int64)
        self.marks = int(self._states.ctypes.data)
        self.count = 0
        self.published = 0
        self.right = True
        self._pieces = pieces
        self._settled = 0  # all pieces before this one are done or withdrawn
        self._rows: list[Piece] = []
        self._numbers: list[tuple[float, float]] = []
        self._kept: list[tuple[NDArray[np.floating], object] | None] = []

    @property
    def full(self) -> bool:
        """Whether the capacity is used up."""
        return self.count == self._pieces

    @property
    def waiting(self) -> int:
        """The number of published pieces that were not taken in order."""
        return self.published - int(self._states[1])

    def add(
        self, piece: Piece, eta: float, pull: float, out: NDArray[np.floating], kept: object
    ) -> int:
        """Append a piece and return its index.

        Args:
            piece: the piece.
            eta: the step size, see `fedsim.problems.kernels.sgd_steps`.
            pull: the pull of its steps.
            out: receives the result, shape (size,), followed by the state of an optimizer if
                kept.
            kept: all other objects that own addresses in the piece.
        """
        self._rows.append(piece)
        self._numbers.append((eta, pull))
        self._kept.append((out, kept))
        place = self.count
        self.count = place + 1
        return place

    def publish(self) -> None:
        """Write the pieces appended since the last call, and make them visible to other threads."""
        if self._rows:
            # Appended pieces are collected in lists first: one assignment of many rows to a NumPy
            # table costs about as much as one of a single row.
            new_rows = slice(self.published, self.count)
            self.table[new_rows, :ETA] = self._rows
            self.numbers[new_rows, ETA:] = self._numbers
            self._rows, self._numbers = [], []
            self.published = self.count
            # Last: it makes the rows above visible to threads that read the count.
            _publish(self.marks, self.count)

    def fill(
        self,
        pieces: PieceColumns,
        eta: float,
        pull: float,
        out: NDArray[np.floating],
        kept: object,
    ) -> None:
        """Write and publish the pieces of an empty queue, all at once.

        Args:
            pieces: columns of as many pieces as the capacity.
            eta: see `add`.
            pull: see `add`.
            out: receives the results, shape (pieces, size).
            kept: all other objects that own addresses in the pieces.
        """
        self._kept.append((out, kept))
        for column, values in enumerate(pieces):
            self.table[:, column] = values
        self.numbers[:, ETA:] = eta, pull
        self.count = self.published = self._pieces
        _publish(self.marks, self.count)

    @property
    def over(self) -> bool:
        """Whether all pieces are evaluated, if none was withdrawn."""
        place = self._settled
        while place < self.count and (mark := self.mark(place)) >= DONE:
            if mark != DONE:
                # A final mark other than DONE: the result is of no use, but the piece is over.
                self.right, place = False, place + 1
            place = _settle(self.marks, place, self.count)
        self._settled = place
        return place == self.count

    def mark(self, place: int) -> int:
        """Return the mark of a piece."""
        return _mark(self.marks, place)

    def is_done(self, place: int) -> bool:
        """Return whether a piece is done and its result finite; fast for pieces in order."""
        # Results are mostly requested in order: then a single scan serves many calls.
        if place >= self._settled:
            self._settled = _settle(self.marks, self._settled, self.published)
        return place < self._settled or self.mark(place) == DONE

    def fetch(self, place: int) -> Array:
        """Return the result of a finished piece, once."""
        owners = self._kept[place]
        self._kept[place] = None
        return np.asarray(owners[0] if owners else None)

    def withdraw(self, place: int) -> None:
        """Withdraw a waiting piece; one that was taken is finished."""
        self.publish()
        if _withdraw(self.marks, place):
            self._kept[place] = None
