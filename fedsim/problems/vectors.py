"""Functions on vectors and matrices of NumPy and PyTorch alike, for the rules of optimizers."""

from typing import Any, TypeAlias

import numpy as np

from fedsim.core.ports import Array

Vector: TypeAlias = Any
"""An array of NumPy or a tensor of PyTorch, of any shape: most rules work number by number."""


def fill(like: Vector, value: float) -> Vector:
    """Return a vector like another one, filled with one value."""
    if isinstance(like, np.ndarray):
        return np.full_like(like, value)
    return like.new_full(like.shape, value)


def like(w: Vector, part: Array) -> Vector:
    """Return numbers as a vector of the type of `w`, copied."""
    if isinstance(w, np.ndarray):
        return part.astype(w.dtype)
    return w.new_tensor(part)


def numpy_of(vector: Vector) -> Array:
    """Return a vector as an array of NumPy."""
    array = vector if isinstance(vector, np.ndarray) else vector.detach().cpu().numpy()
    return np.asarray(array)


def root(v: Vector) -> Vector:
    """Return the square roots."""
    return np.sqrt(v) if isinstance(v, np.ndarray) else v.sqrt()


def sign(v: Vector) -> Vector:
    """Return -1, 0 or 1 for each number."""
    return np.sign(v) if isinstance(v, np.ndarray) else v.sign()


QUINTIC = (3.4445, -4.7750, 2.0315)
"""The coefficients of Jordan et al., which bring singular values to 0.7 to 1.2 in a few
iterations."""

LEAST = 1e-7
"""The least norm that a matrix is divided by."""


def orthogonal(matrix: Vector, iterations: int) -> Vector:
    """Return a matrix with the singular vectors of another one, and singular values near 1.

    It starts from X = M/|M|, transposed if M has more rows than columns, and iterates X <- a X + (b
    X X^T + c (X X^T)^2) X. Each iteration applies the same polynomial to all singular values (the
    method of Newton and Schulz).

    Args:
        matrix: M, shape (m, n).
        iterations: the number of iterations.

    >>> np.linalg.svd(orthogonal(np.diag([3.0, 1.0]), 5)).S.round(2).tolist()
    [1.13, 0.75]
    """
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    X = matrix.T if tall else matrix
    X = X / max(float((X * X).sum()) ** 0.5, LEAST)
    for _ in range(iterations):
        A = X @ X.T
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.T if tall else X
