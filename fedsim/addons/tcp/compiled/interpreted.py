"""Records of a buffer as Python sees them where Numba compiles nothing (`NUMBA_DISABLE_JIT=1`).

The kernels are Python then. They are much slower than the objects, and the reference for the
compiled ones: both have to write the same words into their buffers.
"""

import ctypes
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.kinds import Integers, Reals

METHODS: dict[tuple[str, Any], Callable[..., Any]] = {}
"""The methods of records, and operations on them, by their kind and their name."""


class InterpretedRecord:
    """A record of a kind at a word of a buffer: see `records`.

    Attributes:
        words, reals: the two views of the buffer.
        place: the first word of the record.
    """

    __slots__ = ("_kind", "place", "reals", "words")

    def __init__(self, kind: str, words: Integers, place: int) -> None:
        view = cast("memoryview", words)
        reals = cast("Reals", view.cast("B").cast("d"))
        for name, value in zip(self.__slots__, (kind, place, reals, words), strict=True):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:  # noqa: PLR0911 - one a kind
        record, values = at.RECORDS[self._kind], self._values(name)
        if name in record.parts:
            return InterpretedRecord(record.parts[name], self.words, self.place)
        if name in record.references:
            return InterpretedRecord(record.references[name], self.words, values[self._at(name)])
        if name in record.fields:
            return values[self._at(name)]
        if name in record.columns:
            return cast("memoryview", values)[self._column(name) :]
        if name in record.absent:
            return None
        if name == "now":
            return self.reals[at.NOW]
        if name in record.constants:
            return record.constants[name]
        return partial(METHODS[self._kind, name], self)

    def __setattr__(self, name: str, value: Any) -> None:
        number = value.place if isinstance(value, InterpretedRecord) else value
        self._values(name)[self._at(name)] = number

    def _values(self, name: str) -> Any:
        """Return the view of the buffer that has the type of a field or of a column."""
        record = at.RECORDS[self._kind]
        kind = record.fields[name][0] if name in record.fields else record.columns.get(name)
        return self.reals if kind is not None and np.dtype(kind) == np.float64 else self.words

    def _at(self, name: str) -> int:
        place: int = self.place + at.word(self._kind, name)
        return place

    def _column(self, name: str) -> int:
        """Return the first word of a column."""
        if name in at.ARRAYS:
            return self._at(at.ARRAYS[name])
        record = at.RECORDS[self._kind]
        number = list(record.columns).index(name)
        place: int = self.place + record.words + (number << self.capacity)
        return place

    def __len__(self) -> int:
        return int(METHODS[self._kind, len](self))

    def __getitem__(self, number: int) -> Any:
        return METHODS[self._kind, operator.getitem](self, number)

    def __setitem__(self, number: int, value: object) -> None:
        METHODS[self._kind, operator.setitem](self, number, value)


def getter(kind: str) -> Callable[[Integers, int], InterpretedRecord]:
    """Return a function that returns the record of a kind at a word of a buffer."""
    return partial(InterpretedRecord, kind)


def place_of(record: InterpretedRecord) -> int:
    """Return the word of the buffer at which a record begins."""
    place: int = record.place
    return place


def write(words: Integers, place: int, values: tuple[Any, ...] | None) -> None:
    """Write the numbers of a tuple to words from a place on; records among them are left out."""
    reals = cast("memoryview", words).cast("B").cast("d")
    numbers = [value for value in values or () if not isinstance(value, InterpretedRecord)]
    for number, value in enumerate(numbers, place):
        if isinstance(value, float):
            reals[number] = value
        else:
            words[number] = value


def integers_at(address: int) -> Integers:
    """Return the words of a buffer at an address, as integers."""
    length = ctypes.c_int64.from_address(address + at.WORD * at.END).value
    words = (ctypes.c_int64 * length).from_address(address)
    return cast("Integers", memoryview(words).cast("B").cast("q"))


def reals_at(address: int) -> Reals:
    """Return the words of a buffer at an address, as doubles."""
    return cast("Reals", cast("memoryview", integers_at(address)).cast("B").cast("d"))


def prefetch(address: int) -> None:
    """Do nothing."""
