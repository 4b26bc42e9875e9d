"""Matrices of features, dense or in compressed sparse rows, and what kernels ask of them.

A sparse matrix stays sparse: nothing here makes a dense array of its shape.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsim.ports import Array

if TYPE_CHECKING:
    # Stubs have no type for what an array and a sparse matrix have in common, so a checker
    # is told of arrays only: what it finds wrong with them is wrong with both.
    Sparse: TypeAlias = Any
else:
    Sparse = csr_array

Features: TypeAlias = Array | Sparse
"""Rows of features, shape (n, d): an array, or compressed sparse rows."""

_FOUR = 4
"""Up to so many bytes, a number is held as its file has it."""

_NARROW = 64
"""Up to this many columns a tall matrix is stored column by column."""


def as_read(numbers: NDArray[np.generic]) -> Array:
    """Return the numbers of a file in the type that they are held in, C-contiguous.

    That is their own, in this machine's order of bytes, where a number takes up to four bytes:
    all of these are exact in float64. Truth values are bytes, and all else is float64.
    """
    kind = numbers.dtype.newbyteorder("=")
    if kind.kind == "b":
        kind = np.dtype(np.uint8)
    return np.ascontiguousarray(numbers, kind if kind.itemsize <= _FOUR else np.float64)


def wide(X: Features) -> Features:
    """Return features in float64, which are not copied where they are that already."""
    return X.astype(np.float64, copy=False)


def product(X: Features, v: Array) -> Array:
    """Return X v for `v` of shape (d,) or (d, k), a dense array."""
    result: Array = X.dot(v)
    return result


def transposed_product(X: Features, v: Array) -> Array:
    """Return X^T v for `v` of shape (n,) or (n, k), a dense array."""
    result: Array = X.T.dot(v)
    return result


def entries(X: Features) -> float:
    """Return how many numbers a row stores on average: d, or fewer in a sparse matrix."""
    return float(X.shape[1]) if isinstance(X, np.ndarray) else X.nnz / max(X.shape[0], 1)


def scaled_rows(X: Features, factors: Array) -> Features:
    """Return diag(factors) X for factors of shape (n,); a sparse one shares its indices."""
    if isinstance(X, np.ndarray):
        return np.asarray(factors[..., None] * X)
    data = X.data * np.repeat(factors, np.diff(X.indptr))
    return csr_array((data, X.indices, X.indptr), shape=X.shape)


def longest_row(X: Features) -> float | Array:
    """Return the largest Euclidean norm of a row, of each matrix where they are stacked."""
    if isinstance(X, np.ndarray):
        norms: Array = np.sqrt(np.einsum("...ij,...ij->...i", X, X).max(axis=-1))
        return norms if norms.ndim else float(norms)
    return float(np.sqrt(X.power(2).sum(axis=1).max()))


def gram(X: Features, weights: Array) -> Array:
    """Return X^T diag(weights) X, a dense array of shape (d, d)."""
    return dense(X.T @ scaled_rows(X, weights))


def dense(X: Features) -> Array:
    """Return a matrix as an array: for those that are small whatever they are made of."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def laid_out(X: Features) -> Features:
    """Return X as products with vectors and the rows of minibatches want it in memory.

    Products of a tall matrix of few columns run about a quarter faster column by column.
    Beyond `_NARROW` columns little is gained, and rows are gathered many times faster where
    each is contiguous. A sparse matrix stays as it is. Of matrices that are stacked, each is laid
    out like this.
    """
    if not isinstance(X, np.ndarray):
        return X
    if X.shape[-1] > min(_NARROW, X.shape[-2] - 1):
        return np.ascontiguousarray(X)
    return np.ascontiguousarray(X.swapaxes(-1, -2)).swapaxes(-1, -2)
