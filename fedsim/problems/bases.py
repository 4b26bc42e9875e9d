"""Bases of a subspace of models, w = B c: some of the coordinates, or the columns of a matrix."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.problems.features import Features, dense, product


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """Distinct coordinates as a basis: the columns of B are unit vectors of R^d."""

    indices: NDArray[np.intp]
    length: int
    norm = least = 1.0
    operations = 0.0

    def embed(self, c: Array) -> Array:
        """Return B c, shape (d,)."""
        w = np.zeros(self.length)
        w[self.indices] = c
        return w

    def pull(self, g: Array) -> Array:
        """Return B^T g for `g` of shape (d,) or (d, columns)."""
        return g[self.indices]

    def features(self, X: Features) -> Array:
        """Return X B, shape (n, k), dense."""
        return dense(X[:, self.indices])


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of a matrix B, shape (d, k), as a basis; they need not be orthonormal."""

    matrix: Features

    @property
    def norm(self) -> float:
        """The largest singular value of B."""
        return float(np.linalg.norm(dense(self.matrix), 2))

    @property
    def least(self) -> float:
        """The largest s with |B c| >= s |c| for all c: 0 where columns depend on each other."""
        gram = dense(self.matrix.T @ self.matrix)
        values = np.linalg.eigvalsh(gram)
        rounding = len(values) * float(np.finfo(np.float64).eps) * float(values[-1])
        return float(np.sqrt(values[0])) if values[0] > rounding else 0.0

    @property
    def operations(self) -> float:
        """The floating-point operations of one product with B: 2 d k, of what is stored."""
        return 2.0 * self.matrix.size

    def embed(self, c: Array) -> Array:
        """Return B c, shape (d,)."""
        return product(self.matrix, c)

    def pull(self, g: Array) -> Array:
        """Return B^T g for `g` of shape (d,) or (d, columns)."""
        return np.asarray(self.matrix.T @ g)

    def features(self, X: Features) -> Array:
        """Return X B, shape (n, k)."""
        return dense(X @ self.matrix)


Span = Coordinates | Columns
"""What a model is taken from."""
