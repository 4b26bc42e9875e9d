"""Pages of work for compiled code: pieces, and marks of which have been taken.

Threads take pieces from a page and finish them without Python's global lock, while another one
still writes on it. They agree by a mark for each piece, read and set by atomic instructions:

    waiting -> taken -> done, or wrong     waiting -> withdrawn

What a piece is about lies before its mark can be seen, and its result before it is done.
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

# Integers that several threads read and set: atomic instructions for compiled code.

# ruff: noqa: ARG001 - an intrinsic names what its generator is handed


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _load(_: Any, address: Any) -> Any:  # noqa: ANN401 - what Numba hands over
    """Return the whole number at an address, and see all that was written before it."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(address), generate


@intrinsic  # type: ignore[untyped-decorator]
def _store(_: Any, address: Any, number: Any) -> Any:  # noqa: ANN401
    """Set the whole number at an address, after all that was written before."""

    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store_atomic(arguments[1], place, "release", 8)
        return context.get_dummy_value()

    return types.void(address, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _swap(_: Any, address: Any, old: Any, new: Any) -> Any:  # noqa: ANN401
    """Set the whole number at an address if it is `old`; say whether it was."""

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

TOLD: Final = 0
NEXT: Final = 8
MARKS: Final = 16
"""Where in the marks lie, in bytes: how many pieces there are, the next to be taken, and these."""

CLIENT: Final = 0
MODEL: Final = 1
OLD: Final = 2
STEPS: Final = 3
DRAWN: Final = 4
BATCH: Final = 5
OUT: Final = 6
ETA: Final = 7
PULL: Final = 8
"""What is said of a piece, each in a column: that of `Piece`, of arrays where they lie.

No old model lies at 0; the last two columns are the bits of a float64.
"""

PIECES = 512
"""How many there are on a page."""


@part
def take(marks: int, place: int) -> bool:
    """Take a piece that waits; say whether it did."""
    return swap(marks + MARKS + 8 * place, WAITING, TAKEN)


@part
def take_next(marks: int) -> int:
    """Take the oldest piece that waits, and return its place; -1 where none does."""
    while True:
        place = load(marks + NEXT)
        if place >= load(marks + TOLD):
            return -1
        if swap(marks + NEXT, place, place + 1) and take(marks, place):
            return place


@part
def finish(marks: int, place: int, mark: int) -> None:
    """Mark a piece that was taken."""
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
    """Write down a piece, then let it be taken."""
    said = table[place]
    said[CLIENT], said[STEPS], said[BATCH] = client, steps, batch
    said[MODEL], said[OLD] = w.ctypes.data, old.ctypes.data if len(old) else 0
    said[DRAWN], said[OUT] = drawn.ctypes.data, out.ctypes.data
    numbers[place, ETA], numbers[place, PULL] = eta, pull
    store(marks + TOLD, place + 1)


@brief
def _mark(marks: int, place: int) -> int:
    """Return the mark of a piece."""
    return load(marks + MARKS + 8 * place)


@brief
def _withdraw(marks: int, place: int) -> bool:
    """Take back a piece that waits; say whether it did."""
    return swap(marks + MARKS + 8 * place, WAITING, WITHDRAWN)


class Piece(NamedTuple):
    """A piece of work, in arrays that are contiguous.

    Attributes:
        client: whose loss it is about.
        w: the model, shape (size,).
        out: takes what comes of it, shape (size,).
        old: the model whose gradient is taken off; empty for none.
        steps: how many gradient steps; 0 for a gradient.
        drawn: the rows drawn, shape (steps, b); empty for all.
        batch: b; 0 for all.
        eta, pull: of the steps, as `fedsim.problems.kernels.sgd_steps` has it.
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
    """A page of pieces: one thread writes, any number takes.

    It keeps the arrays that a piece is about until its result has been fetched.

    Args:
        pieces: how many it has room for.

    Attributes:
        table: the description of each, shape (pieces, columns).
        numbers: the same memory as float64.
        marks: where the marks lie.
        told: the number of pieces.
        full: whether the page has no room left.
    """

    def __init__(self, pieces: int = PIECES) -> None:
        self.table: Whole = np.zeros((pieces, PULL + 1), np.int64)
        self.numbers: Array = self.table.view(np.float64)
        self._states: Whole = np.zeros(pieces + 2, np.int64)
        self.marks = int(self._states.ctypes.data)
        self.told = 0
        self._pieces = pieces
        self._kept: list[Piece | None] = []

    @property
    def full(self) -> bool:
        """Whether there is room for no more."""
        return self.told == self._pieces

    @property
    def waiting(self) -> int:
        """How many have not been taken."""
        return self.told - int(self._states[1])

    def add(self, piece: Piece) -> int:
        """Write down a piece, and return its place."""
        client, w, out, old, steps, drawn, batch, eta, pull = piece
        ends, place = (self.table, self.numbers, self.marks), self.told
        _write(*ends, place, client, w, old, steps, drawn, batch, out, eta, pull)
        self._kept.append(piece)
        self.told = place + 1
        return place

    def mark(self, place: int) -> int:
        """Return the mark of a piece."""
        return _mark(self.marks, place)

    def fetch(self, place: int) -> Array:
        """Return what came of a piece that is done, once."""
        kept = self._kept[place]
        self._kept[place] = None
        return np.asarray(kept.out if kept else None)

    def withdraw(self, place: int) -> None:
        """Withdraw a piece so that no thread takes it; one already taken is finished."""
        if _withdraw(self.marks, place):
            self._kept[place] = None
