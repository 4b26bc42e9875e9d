"""Pages of work for compiled code: tables of pieces, with a state for each.

Threads take pieces from a page and finish them without Python's global lock, while the thread of
the event loop appends to it. They synchronise by the state ("mark") of each piece, which is read
and changed by atomic instructions only:

    waiting -> taken -> done, or wrong     waiting -> withdrawn

Two orderings make this correct. The description of a piece is written before the count of pieces
that makes it visible (store-release, load-acquire), and its result before the mark becomes `done`.
And `waiting -> taken` is a compare-and-swap, so exactly one thread takes a piece, and a withdrawal
either precedes it or has no effect.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fedsim.computing.compiled.compiler import brief, part
from fedsim.ports import Array

# Atomic instructions on integers that several threads share.

# ruff: noqa: ARG001 - the arguments of an intrinsic are only named for its generator


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _load(_: Any, address: Any) -> Any:  # noqa: ANN401 - of Numba
    """Return the integer at an address (acquire: sees everything written before its store)."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(address), generate


@intrinsic  # type: ignore[untyped-decorator]
def _store(_: Any, address: Any, number: Any) -> Any:  # noqa: ANN401
    """Set the integer at an address (release: after everything written before)."""

    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store_atomic(arguments[1], place, "release", 8)
        return context.get_dummy_value()

    return types.void(address, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _swap(_: Any, address: Any, old: Any, new: Any) -> Any:  # noqa: ANN401
    """Set the integer at an address if it equals `old`; return whether it did."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        found = builder.cmpxchg(place, arguments[1], arguments[2], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

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

COUNT: Final = 0
NEXT: Final = 8
MARKS: Final = 16
"""Offsets in the array of marks, in bytes: the number of pieces, the next piece to be taken, and
the marks of the pieces."""

CLIENT: Final = 0
MODEL: Final = 1
OLD: Final = 2
STEPS: Final = 3
DRAWN: Final = 4
BATCH: Final = 5
OUT: Final = 6
ETA: Final = 7
PULL: Final = 8
"""The columns of a page's table: the fields of `Piece`, with arrays as addresses.

The address 0 means that there is no old model; the last two columns are the bits of a float64.
"""

PIECES = 512
"""The default capacity of a page."""


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
def _write(
    table: Whole,
    numbers: Array,
    marks: int,
    place: int,
    client: int,
    w: Array,
    old: Array,
    steps: int,
    drawn: Whole,
    batch: int,
    out: Array,
    eta: float,
    pull: float,
) -> None:
    """Write a piece, then make it visible to other threads."""
    fields = table[place]
    fields[CLIENT], fields[STEPS], fields[BATCH] = client, steps, batch
    fields[MODEL], fields[OLD] = w.ctypes.data, old.ctypes.data if len(old) else 0
    fields[DRAWN], fields[OUT] = drawn.ctypes.data, out.ctypes.data
    numbers[place, ETA], numbers[place, PULL] = eta, pull
    store(marks + COUNT, place + 1)


@brief
def _mark(marks: int, place: int) -> int:
    """Return the mark of a piece."""
    return load(marks + MARKS + 8 * place)


@brief
def _withdraw(marks: int, place: int) -> bool:
    """Withdraw a piece if it is waiting; return whether it was."""
    return swap(marks + MARKS + 8 * place, WAITING, WITHDRAWN)


class Piece(NamedTuple):
    """A piece of work; its arrays are contiguous.

    Attributes:
        client: the number of the client.
        w: the model, shape (size,).
        out: receives the result, shape (size,).
        old: the model whose gradient is subtracted; empty for none.
        steps: the number of gradient steps; 0 for a gradient.
        drawn: the drawn rows, shape (steps, b); empty for all rows.
        batch: b; 0 for all rows.
        eta, pull: of the steps, see `fedsim.problems.kernels.sgd_steps`.
    """

    client: int
    w: Array
    out: Array
    old: Array
    steps: int
    drawn: Whole
    batch: int
    eta: float
    pull: float


class Page:
    """A page of pieces: one thread appends, any number of threads take.

    The page keeps the arrays of a piece alive until its result has been fetched: compiled code has
    only their addresses.

    Args:
        pieces: the capacity.

    Attributes:
        table: the descriptions of the pieces, shape (pieces, columns).
        numbers: the same memory as float64.
        marks: the address of the marks.
        count: the number of pieces.
        full: whether the capacity is used up.
    """

    def __init__(self, pieces: int = PIECES) -> None:
        self.table: Whole = np.zeros((pieces, PULL + 1), np.int64)
        self.numbers: Array = self.table.view(np.float64)
        self._states: Whole = np.zeros(pieces + 2, np.int64)
        self.marks = int(self._states.ctypes.data)
        self.count = 0
        self._pieces = pieces
        self._kept: list[Piece | None] = []

    @property
    def full(self) -> bool:
        """Whether the capacity is used up."""
        return self.count == self._pieces

    @property
    def waiting(self) -> int:
        """The number of pieces that have not been taken in order."""
        return self.count - int(self._states[1])

    def add(self, piece: Piece) -> int:
        """Append a piece and return its place."""
        client, w, out, old, steps, drawn, batch, eta, pull = piece
        ends, place = (self.table, self.numbers, self.marks), self.count
        _write(*ends, place, client, w, old, steps, drawn, batch, out, eta, pull)
        self._kept.append(piece)
        self.count = place + 1
        return place

    def mark(self, place: int) -> int:
        """Return the mark of a piece."""
        return _mark(self.marks, place)

    def fetch(self, place: int) -> Array:
        """Return the result of a finished piece, once."""
        kept = self._kept[place]
        self._kept[place] = None
        return np.asarray(kept.out if kept else None)

    def withdraw(self, place: int) -> None:
        """Withdraw a waiting piece; one that has been taken is finished."""
        if _withdraw(self.marks, place):
            self._kept[place] = None
