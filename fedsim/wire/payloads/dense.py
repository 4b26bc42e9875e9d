"""Payloads that write every number in full, and the natural payload of an uncompressed array."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from struct import Struct
from typing import Any, ClassVar, Self
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DecodeError
from fedsim.core.ports import DENSE, Array, Structure
from fedsim.wire.bitstream import Reader, varint, varint_size
from fedsim.wire.formats import ValueFormat, has_nan
from fedsim.wire.payloads.base import ANY_FORMAT, Encodable, frozen
from fedsim.wire.payloads.quantized import Sign
from fedsim.wire.payloads.sparse import Sparse

_LARGEST_RANK = 64
"""The largest number of dimensions of a NumPy array."""

_WRITTEN = [Struct(f"<B{rank}I") for rank in range(_LARGEST_RANK + 1)]
"""The shape of an array of each rank, as it is written: the rank, and the extents."""

_READ = [Struct(f"<{rank}I") for rank in range(_LARGEST_RANK + 1)]
"""The same, without the rank."""


@dataclass(frozen=True, eq=False)
class Dense:
    """A vector or matrix with all entries.

    Attributes:
        values: the rounded entries, read-only.
        format: the format of a value.
    """

    kind: ClassVar[int] = 1
    formats: ClassVar[tuple[ValueFormat, ...]] = ANY_FORMAT
    values: Array
    format: ValueFormat

    @classmethod
    def of(cls, values: NDArray[np.floating], format: ValueFormat) -> Self:  # noqa: A002 - the field's name
        """Create the payload of an array, rounded to the format."""
        return cls(format.round(values), format)

    @classmethod
    def length(cls, values: NDArray[np.floating], form: ValueFormat) -> int:
        """Return the length of an array's payload, in bits, without creating it."""
        return 8 * (2 + 4 * values.ndim + form.size * values.size)

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        values = self.values
        return 8 * (2 + 4 * values.ndim + self.format.size * values.size)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self.values.shape

    def part(self, some: slice, room: Array, factor: float | None = None) -> Array:
        """Return some of the values of a vector, times a factor, to be read only.

        Args:
            some: which.
            room: a buffer of their length, which may hold them.
            factor: None for 1.
        """
        part = self.values[some]
        return part if factor is None else np.multiply(part, factor, out=room)

    @property
    def canonical(self) -> bool:
        """Whether no other bytes than those of its encoding are read as this payload."""
        return not has_nan(self.values)

    def body(self) -> bytes:
        """Encode the shape and the values."""
        rank = self.values.ndim
        return _WRITTEN[rank].pack(rank, *self.values.shape) + self.format.encode(self.values)

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the shape and the values."""
        rank = reader.byte()
        if rank > _LARGEST_RANK:
            raise DecodeError(f"an array of {rank} dimensions; at most {_LARGEST_RANK}")
        shape = reader.unpack(_READ[rank])
        values = reader.values(prod(shape), form)
        try:
            return cls(values.reshape(shape), form)
        except ValueError as error:  # an empty array may still announce extents that NumPy refuses
            raise DecodeError(f"no array has the shape {shape}") from error


class LongDense(Dense):
    """A long vector of an uncompressed message, held in the format in which it is sent.

    Its float64 values are made when they are read. Readers share one array as long as one of them
    holds it, and no memory is taken for it while a message waits or travels.

    Args:
        sent: the output of `ValueFormat.narrow`.
        form: its format.
    """

    def __init__(self, sent: NDArray[Any], form: ValueFormat) -> None:
        object.__setattr__(self, "format", form)
        object.__setattr__(self, "_sent", sent)
        object.__setattr__(self, "_read", None)

    _sent: NDArray[Any]
    _read: ReferenceType[Array] | None

    @property
    def values(self) -> Array:
        """The rounded entries, read-only."""
        values = None if self._read is None else self._read()
        if values is None:
            values = frozen(self.format.widen(self._sent))
            object.__setattr__(self, "_read", ref(values))
        return values

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self._sent.shape

    def part(self, some: slice, room: Array, factor: float | None = None) -> Array:
        """Return some of the values of a vector, times a factor, in `room`."""
        return self.format.part(self._sent[some], room, factor)

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return self.length(self._sent, self.format)


@dataclass(frozen=True, eq=False)
class Scalar:
    """One number: a constraint's value, a norm.

    Attributes:
        values: the rounded number as a read-only array of shape ().
        format: the format of the number.
    """

    kind: ClassVar[int] = 3
    formats: ClassVar[tuple[ValueFormat, ...]] = ANY_FORMAT
    values: Array
    format: ValueFormat

    @classmethod
    def of(cls, value: float, format: ValueFormat) -> Self:  # noqa: A002 - the field's name
        """Create the payload of a number, rounded to the format."""
        return cls(format.round(np.array(value)), format)

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 * (1 + self.format.size)

    def body(self) -> bytes:
        """Encode the value."""
        return self.format.encode(self.values)

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the value."""
        return cls(reader.values(1, form).reshape(()), form)


@dataclass(frozen=True, eq=False)
class LowRank:
    """A matrix U V^T of low rank, read row by row as a vector of d coordinates.

    The matrix has m rows and n = ceil(d/m) columns; entries beyond d are dropped.

    Attributes:
        left: U, the rounded factor of shape (m, r), read-only.
        right: V, the rounded factor of shape (n, r), read-only.
        dimension: d.
        format: the format of a value.
    """

    kind: ClassVar[int] = 8
    formats: ClassVar[tuple[ValueFormat, ...]] = ANY_FORMAT
    left: Array
    right: Array
    dimension: int
    format: ValueFormat

    @classmethod
    def of(cls, left: Array, right: Array, dimension: int, form: ValueFormat) -> Self:
        """Create the payload of two factors, rounded to the format."""
        return cls(form.round(left), form.round(right), dimension, form)

    @cached_property
    def values(self) -> Array:
        """The vector of the product's entries, read-only, shape (d,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return frozen((self.left @ self.right.T).ravel()[: self.dimension])

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        rows, rank = self.left.shape
        counts = varint_size(self.dimension) + varint_size(rows) + varint_size(rank)
        return 8 * (1 + counts + self.format.size * (self.left.size + self.right.size))

    def body(self) -> bytes:
        """Encode the sizes and the factors."""
        rows, rank = self.left.shape
        factors = self.format.encode(self.left) + self.format.encode(self.right)
        return varint(self.dimension) + varint(rows) + varint(rank) + factors

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the sizes and the factors."""
        dimension, rows, rank = reader.dimension(), reader.varint(), reader.varint()
        if rows > dimension or (dimension and not rows):
            raise DecodeError(f"no matrix of {rows} rows has {dimension} entries")
        columns = columns_of(dimension, rows)
        if rank > min(rows, columns):
            raise DecodeError(f"a matrix ({rows}, {columns}) has no rank {rank}")
        left = reader.values(rows * rank, form).reshape(rows, rank)
        right = reader.values(columns * rank, form).reshape(columns, rank)
        return cls(left, right, dimension, form)


def columns_of(dimension: int, rows: int) -> int:
    """Return n = ceil(d/m), the number of columns of d entries in m rows."""
    return -(-dimension // rows) if rows else 0


@dataclass(frozen=True, eq=False)
class Empty:
    """No content: a beacon, a request, an acknowledgement."""

    kind: ClassVar[int] = 0
    formats: ClassVar[tuple[ValueFormat, ...]] = ()
    format: ClassVar[ValueFormat] = ValueFormat.FLOAT64
    values: ClassVar[Array] = frozen(np.zeros(0))
    bits: ClassVar[int] = 0

    def body(self) -> bytes:
        """Write nothing."""
        return b""

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Read nothing."""
        return cls()


# The natural payload of an uncompressed array: the shortest one that its structure allows.

_LONG = 2**16
"""So many entries are held in the format in which they are sent."""

_LARGEST_ERROR = 1 / 8
"""The largest relative error |rounded - v|/|v| of a format, for values within its range."""


def natural(values: Array, structure: Structure, form: ValueFormat) -> Encodable:
    """Return an array's payload without compression.

    Args:
        values: shape (d,), or () for a number; float64, or float32 already.
        structure: of the array; the result is the payload of this structure, or Dense if that is
            not longer.
        form: the format of a value.
    """
    if not values.ndim:
        return Scalar.of(float(values), form)
    single = form is ValueFormat.FLOAT32 and values.dtype == np.float32
    if single or (values.size >= _LONG and form is not ValueFormat.FLOAT64):
        dense: Dense = LongDense(form.narrow(values), form)
    else:
        dense = Dense.of(values, form)
    if structure is DENSE or not np.isfinite(values).all():
        return dense
    if structure.kind == "sparse":
        other: Encodable = Sparse.of(values, form)
    elif structure.kind == "sign":
        if not _of_one_magnitude(values):
            return dense
        scale = float(np.float32(np.abs(values[:1]).sum()))
        other = Sign(scale, (values < 0).astype(np.uint8))
    else:
        other = _factor(values, structure.rows, form)
    return other if other.bits < dense.bits else dense


def shorter(values: Array, structure: Structure, form: ValueFormat, bits: int) -> Encodable | None:
    """Return the natural payload if it takes fewer than `bits` bits, else None.

    Also None if much of the array is beyond the range of the format, so that the payload would not
    be exact up to rounding.
    """
    if structure is DENSE and Dense.length(values, form) >= bits:
        return None
    payload = natural(values, structure, form)
    if payload.bits >= bits:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        error, whole = euclidean(payload.values - values), euclidean(values)
    return payload if error <= _LARGEST_ERROR * whole else None


def euclidean(vector: Array) -> float:
    """Return |v|_2, scaled so that squares neither overflow nor underflow."""
    largest = float(np.abs(vector).max(initial=0.0))
    if not 0 < largest < np.inf:
        return largest
    return largest * float(np.linalg.norm(vector / largest))


def _of_one_magnitude(values: Array) -> bool:
    magnitudes = np.abs(values)
    return bool((magnitudes == magnitudes[:1]).all())


def _factor(values: Array, rows: int, form: ValueFormat) -> LowRank:
    """Return the factors of a matrix (rows, n), singular values at the level of rounding dropped.

    Both factors are scaled by the roots of the singular values, so that neither exceeds the range
    of a format that the product fits.
    """
    matrix = values.reshape(rows, -1)
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    least = max(matrix.shape) * np.finfo(np.float64).eps * singular.max(initial=0.0)
    rank = int(np.count_nonzero(singular > least))
    roots = np.sqrt(singular[:rank])
    return LowRank.of(left[:, :rank] * roots, right[:rank].T * roots, values.size, form)
