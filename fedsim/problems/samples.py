"""Samples: the rows of a data set, or of one client, with their labels and origin."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsim.core.errors import DataError
from fedsim.core.memory import MODELS, check_budget
from fedsim.core.ports import Array
from fedsim.core.streams import StreamGroup
from fedsim.problems.description import Description

# Matrices of features, dense or in compressed sparse rows, and the operations of kernels on them.
#
# A sparse matrix stays sparse: nothing here builds a dense array of its shape.

if TYPE_CHECKING:
    # Type stubs have no common type for an array and a sparse matrix. So a type checker sees arrays
    # only; an error that it finds there is an error for both.
    Sparse: TypeAlias = Any
else:
    Sparse = csr_array

Features: TypeAlias = Array | Sparse
"""Rows of features, shape (n, d): an array, or compressed sparse rows."""

_FOUR = 4
"""Number types of up to this many bytes are kept as in the file."""

NARROW = 64
"""A tall matrix with at most this many columns is stored column by column."""


def as_read(numbers: NDArray[np.generic]) -> Array:
    """Return the numbers of a file in the type in which they are held, C-contiguous.

    That is the file's type, in this machine's byte order, if a number has up to four bytes; all of
    these are exact in float64. Truth values become bytes, and all other types float64.
    """
    kind = numbers.dtype.newbyteorder("=")
    if kind.kind == "b":
        kind = np.dtype(np.uint8)
    return np.ascontiguousarray(numbers, kind if kind.itemsize <= _FOUR else np.float64)


def wide(X: Features) -> Features:
    """Return features in float64, without a copy if they already are."""
    return X.astype(np.float64, copy=False)


def product(X: Features, v: Array) -> Array:
    """Return X v for `v` of shape (d,) or (d, k), a dense array."""
    result: Array = X.dot(v)
    return result


def transposed_product(X: Features, v: Array) -> Array:
    """Return X^T v for `v` of shape (n,) or (n, k), a dense array."""
    result: Array = (X.T if isinstance(X, np.ndarray) else _transpose(X)).dot(v)
    return result


_TRANSPOSED: dict[int, tuple[ReferenceType[Sparse], Any]] = {}
"""Sparse matrices by identity, with their transposes. A transpose is a view, but SciPy takes longer
to make one than for a product with a few hundred rows."""

_MOST_TRANSPOSED = 4096


def _transpose(X: Sparse) -> Any:
    """Return X^T, which is made once and kept as long as X exists."""
    key = id(X)
    known = _TRANSPOSED.get(key)
    # Python may reuse the id of a matrix that is gone.
    if known is not None and known[0]() is X:
        return known[1]
    transposed = X.T
    if len(_TRANSPOSED) < _MOST_TRANSPOSED:
        _TRANSPOSED[key] = ref(X, lambda _: _TRANSPOSED.pop(key, None)), transposed
    return transposed


def entries(X: Features) -> float:
    """Return the mean number of stored values per row: d, or fewer in a sparse matrix."""
    return float(X.shape[1]) if isinstance(X, np.ndarray) else X.nnz / max(X.shape[0], 1)


def scaled_rows(X: Features, factors: Array) -> Features:
    """Return diag(factors) X for factors of shape (n,); a sparse result shares X's indices."""
    if isinstance(X, np.ndarray):
        return np.asarray(factors[..., None] * X)
    data = X.data * np.repeat(factors, np.diff(X.indptr))
    return csr_array((data, X.indices, X.indptr), shape=X.shape)


def longest_row(X: Features) -> float | Array:
    """Return the largest Euclidean norm of a row; for stacked matrices, one per matrix."""
    if isinstance(X, np.ndarray):
        norms: Array = np.sqrt(np.einsum("...ij,...ij->...i", X, X).max(axis=-1))
        return norms if norms.ndim else float(norms)
    return float(np.sqrt(X.power(2).sum(axis=1).max()))


def gram(X: Features, weights: Array) -> Array:
    """Return X^T diag(weights) X, a dense array of shape (d, d)."""
    return dense(X.T @ scaled_rows(X, weights))


def dense(X: Features) -> Array:
    """Return a small matrix as an array."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def laid_out(X: Features) -> Features:
    """Return X in the memory layout that suits products with vectors and minibatches of rows.

    A tall matrix with few columns is stored column by column, which makes products about a quarter
    faster. Beyond `NARROW` columns little is gained, and minibatches are gathered many times faster
    if rows are contiguous. A sparse matrix stays as it is. Each of several stacked matrices is laid
    out like this.
    """
    if not isinstance(X, np.ndarray):
        return X
    if X.shape[-1] > min(NARROW, X.shape[-2] - 1):
        return np.ascontiguousarray(X)
    return np.ascontiguousarray(X.swapaxes(-1, -2)).swapaxes(-1, -2)


_AT_ONCE = 2**20
"""The number of values checked together."""

Precision = Literal["float64", "float32"]
"""The number type in which samples are held, and gradients and values computed."""

Block: TypeAlias = bytes | memoryview
"""Bytes in memory, as a digest takes them."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Rows of features with their labels.

    Attributes:
        X: features, shape (n, d): an array, C-contiguous, or compressed sparse rows with sorted
            indices and no zeros stored. Directly from a source, their type may differ from float64,
            such as the bytes of pixels.
        y: labels, shape (n,).
        client: the number of the client that each row belongs to, shape (n,), if the source
            provides it; used by the split `groups`.
        truth: the model planted by a generator, if any.
        described: the names of clients, labels and columns, if the source provides them.
    """

    X: Features
    y: Array
    client: NDArray[np.int64] | None = None
    truth: Array | None = None
    described: Description | None = None

    @property
    def rows(self) -> int:
        """The number of rows, n."""
        return len(self.y)

    @property
    def features(self) -> int:
        """The number of features, d."""
        return int(self.X.shape[1])

    def take(self, rows: NDArray[np.intp] | range) -> "Samples":
        """Return the given rows, in the given order.

        Consecutive rows of an array are not copied.
        """
        index: NDArray[np.intp] | slice
        if isinstance(rows, range):
            index = slice(rows.start, rows.stop)
        elif len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
            index = slice(int(rows[0]), int(rows[0]) + len(rows))
        else:
            index = rows
        client = None if self.client is None else self.client[index]
        return Samples(self.X[index], self.y[index], client, self.truth, self.described)

    def with_features(self, X: Features) -> "Samples":
        """Return the same rows with other features, without the planted truth."""
        return replace(self, X=X, truth=None)

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks that identify these samples, for a digest: features and labels.

        The first block states types and shapes, from which the lengths of all others follow. So
        different samples never yield the same bytes. Dense and sparse layouts of the same numbers
        yield different bytes.
        """
        types = f"{self.X.shape} {self.X.dtype.str} {self.y.dtype.str}"
        if isinstance(self.X, np.ndarray):
            yield types.encode()
            yield np.ascontiguousarray(self.X).data
        else:
            yield f"{types} csr {self.X.nnz}".encode()
            yield np.ascontiguousarray(self.X.data).data
            for positions in (self.X.indices, self.X.indptr):
                yield np.ascontiguousarray(positions, dtype=np.int64).data
        yield np.ascontiguousarray(self.y).data


def canonical(X: Sparse) -> Sparse:
    """Return compressed sparse rows with sorted indices and without stored zeros.

    The input is modified in place where possible.
    """
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def check(samples: Samples) -> None:
    """Check that samples are valid for computing.

    Raises:
        DataError: there are no rows or no features, lengths disagree, a number is not finite (its
            row and column are named, counted from 1), or the squares of numbers add up to more than
            a float64 holds.
    """
    if samples.X.ndim != 2 or samples.y.ndim != 1:
        raise DataError(
            "data",
            "features form a table (rows, features) and labels a list (rows,); "
            f"got the shapes {samples.X.shape} and {samples.y.shape}",
        )
    _check_lengths(samples)
    _check_finite(samples)
    _check_size(samples)
    d = samples.features
    check_budget("data", f"{d} features: a model and what is computed with it", MODELS * 8 * d)


def _check_lengths(samples: Samples) -> None:
    n, d = samples.X.shape
    if n == 0 or d == 0:
        raise DataError("data", f"at least one row and one feature are needed; got {n} x {d}")
    if samples.rows != n:
        raise DataError("data", f"{n} rows of features, but {samples.rows} labels")
    if samples.client is not None and samples.client.shape != (n,):
        raise DataError(
            "data", f"{n} rows of features, but client numbers of shape {samples.client.shape}"
        )


def _check_size(samples: Samples) -> None:
    """Check that squares can be summed, since smoothness, losses and optima need such sums."""
    stored = samples.X if isinstance(samples.X, np.ndarray) else samples.X.data
    for what, numbers in (("features", stored), ("labels", samples.y)):
        if not numbers.size:
            continue
        largest = max(float(numbers.max()), -float(numbers.min()))
        most = float(np.sqrt(np.finfo(np.float64).max / (4 * numbers.size)))
        if largest > most:
            text = f"the largest of the {what} is {largest:.3g} in magnitude"
            wanted = f"up to {most:.3g} is accepted, as the squares of all of them are summed"
            raise DataError("data", f"{text}; {wanted}")


def _check_finite(samples: Samples) -> None:
    stored = samples.X if isinstance(samples.X, np.ndarray) else samples.X.data
    # The mask of finite numbers takes memory, too, so rows are checked in blocks.
    step = max(_AT_ONCE * len(stored) // max(stored.size, 1), 1)
    if not all(np.isfinite(stored[i : i + step]).all() for i in range(0, len(stored), step)):
        row, column, value = _first_not_finite(samples.X)
        raise DataError(
            "data",
            f"row {row + 1}, column {column + 1} of the features is {value}; "
            "every number must be finite",
        )
    if not np.isfinite(samples.y).all():
        row = np.flatnonzero(~np.isfinite(samples.y))[0]
        raise DataError(
            "data", f"the label of row {row + 1} is {samples.y[row]}; every number must be finite"
        )


def _first_not_finite(X: Features) -> tuple[int, int, float]:
    """Return the row, the column and the value of the first number that is not finite."""
    if isinstance(X, np.ndarray):
        row, column = np.argwhere(~np.isfinite(X))[0]
        return int(row), int(column), float(X[row, column])
    place = np.flatnonzero(~np.isfinite(X.data))[0]
    row = np.searchsorted(X.indptr, place, side="right") - 1
    return int(row), int(X.indices[place]), float(X.data[place])


# Minibatches: the rows over which a stochastic gradient is taken.

Drawn = NDArray[np.intp] | None
"""The indices of a minibatch's samples, shape (b,); None for all samples."""

Minibatches = NDArray[np.intp] | Sequence[Drawn]
"""Minibatches as one array, shape (count, b); or one by one, if the last of a pass is smaller."""

Draw = Callable[[np.random.Generator, int, int, int], NDArray[np.intp]]
"""A function that draws minibatches like `draw_minibatches`; all of them draw the same ones."""


def draw_minibatches(
    rng: np.random.Generator, rows: int, batch: int, count: int
) -> NDArray[np.intp]:
    """Draw minibatches, each without replacement.

    Args:
        rng: the stream that they are drawn from, one after the other.
        rows: the number of rows.
        batch: the size of a minibatch, at most all rows.
        count: the number of minibatches.

    Returns:
        The indices of their rows, shape (count, batch), in no meaningful order.
    """
    taken = np.empty((count, batch), np.intp)
    for one in taken:
        # The order within a minibatch has no meaning, so it is not shuffled.
        one[:] = rng.choice(rows, batch, replace=False, shuffle=False)
    return taken


class SeededRows(np.ndarray[Any, np.dtype[np.intp]]):
    """The indices of a minibatch's samples, shape (b,), with the seed of the step's random draws.

    Attributes:
        seed: the seed of dropout masks, and of the variation of images.
    """

    seed: int


def seeded(
    drawn: Sequence[Drawn] | NDArray[np.intp], rows: int, rng: np.random.Generator
) -> list[Drawn]:
    """Return minibatches, each with its own seed; None becomes the indices of all rows.

    Args:
        drawn: the minibatches.
        rows: the number of rows.
        rng: the stream that the seeds are drawn from.
    """
    minibatches = list[Drawn]()
    for one, seed in zip(drawn, rng.integers(2**63, size=len(drawn)).tolist(), strict=True):
        named = (np.arange(rows) if one is None else one).view(SeededRows)
        named.seed = seed
        minibatches.append(named)
    return minibatches


def seed_of(drawn: Drawn) -> int | None:
    """Return the seed of a minibatch's step; None if it has none."""
    return drawn.seed if isinstance(drawn, SeededRows) else None


class LaterDraws(Sequence[NDArray[np.intp]]):
    """Minibatches that are drawn at their first use, from a stream that nothing else draws from.

    Args:
        rng: the stream; if the same work of many clients is described at once, all their streams.
        rows: see `draw_minibatches`.
        batch: see `draw_minibatches`.
        count: see `draw_minibatches`.
        draw: draws the minibatches, unless the kernels do.
    """

    __slots__ = ("_count", "_draw", "_drawn", "batch", "rng", "rows")

    def __init__(
        self,
        rng: np.random.Generator | StreamGroup,
        rows: int,
        batch: int,
        count: int,
        draw: Draw,
    ) -> None:
        self.rng = rng
        self.rows = rows
        self.batch = batch
        self._count = count
        self._draw = draw
        self._drawn: NDArray[np.intp] | None = None

    @property
    def one(self) -> np.random.Generator:
        """The stream of a single client.

        Raises:
            TypeError: there are streams of many clients.
        """
        if isinstance(self.rng, StreamGroup):
            raise TypeError("the minibatches of many clients are drawn by what computes with them")
        return self.rng

    @property
    def drawn(self) -> NDArray[np.intp]:
        """The rows, drawn at the first use, shape (count, batch)."""
        if self._drawn is None:
            self._drawn = self._draw(self.one, self.rows, self.batch, self._count)
        return self._drawn

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self.drawn[index]


def equal_sizes(drawn: Minibatches) -> bool:
    """Return whether minibatches have one size; the last one of a pass may be smaller."""
    if isinstance(drawn, LaterDraws):
        return True
    first, last = drawn[0], drawn[-1]
    return first is None or last is None or len(first) == len(last)


def all_or_some(drawn: Minibatches) -> bool:
    """Return whether either all minibatches have all rows, or all have drawn rows."""
    if isinstance(drawn, LaterDraws | np.ndarray):
        return True
    return len({minibatch is None for minibatch in drawn}) == 1


def shuffled_passes(
    rng: np.random.Generator, rows: int, batch: int, count: int, *, drop_last: bool
) -> list[NDArray[np.intp]]:
    """Draw the minibatches of passes over all rows, each pass in a new order.

    Args:
        rng: the stream; each pass takes one permutation of the rows from it.
        rows: the number of rows.
        batch: the size of a minibatch, at most all rows.
        count: the number of passes.
        drop_last: whether the last minibatch of a pass is left out if it is smaller.

    Returns:
        The indices of the rows of each minibatch, shape (b,).
    """
    end = rows - rows % batch if drop_last else rows
    orders = [rng.permutation(rows) for _ in range(count)]
    return [order[i : min(i + batch, end)] for order in orders for i in range(0, end, batch)]
