"""Atoms: the columns of a dictionary, a matrix A of shape (n, D), and its operations.

A model is A x, with coefficients x of few entries other than zero. A model that is a matrix, such
as that of softmax regression with its column a class, is A X: a dictionary makes each column, out
of few atoms of its own. Matrices are flat here, row by row, coefficients as models.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsim.ports import Array
from fedsim.problems.projections import Indices, hard_threshold, largest
from fedsim.problems.samples import Sparse


class Atoms(Protocol):
    """The operations that a method needs of a dictionary A, shape (n, D)."""

    @property
    def count(self) -> int:
        """D, the number of atoms (that a column has to choose from)."""
        ...

    @property
    def norm(self) -> float:
        """The largest singular value of A."""
        ...

    def model(self, x: Array) -> Array:
        """Return A x, shape (n,)."""
        ...

    def coefficients(self, w: Array) -> Array:
        """Return the shortest x of least |A x - w|, shape (D,)."""
        ...

    def correlations(self, r: Array) -> Array:
        """Return A^T r, shape (D,)."""
        ...

    def basis(self, kept: Indices) -> NDArray[np.generic] | Sparse:
        """Return some atoms as `Oracle.restricted` takes them."""
        ...

    def truncate(self, x: Array, count: int) -> Array:
        """Return coefficients of the projection of A x on its best atoms, shape (D,).

        Args:
            x: shape (D,).
            count: how many atoms: those whose coefficients in x are largest in magnitude.
        """
        ...

    def largest(self, x: Array, count: int) -> Indices:
        """Return where the largest coefficients of x stand, ascending: so many, of each column."""
        ...

    def operations(self, count: int) -> float:
        """Return the operations of a local step of matching pursuit, beside those of the loss.

        The features in terms of atoms are the loss's: `Oracle.restricted` charges for them.

        Args:
            count: tau, of which the step keeps tau atoms, having looked at 3 tau.
        """
        ...


class UnitVectors:
    """The identity: no matrix is formed, and nothing costs anything."""

    norm = 1.0

    def __init__(self, count: int) -> None:
        self.count = count

    def model(self, x: Array) -> Array:
        """Return x."""
        return x

    def coefficients(self, w: Array) -> Array:
        """Return w."""
        return w

    def correlations(self, r: Array) -> Array:
        """Return r."""
        return r

    def basis(self, kept: Indices) -> NDArray[np.generic]:
        """Return the coordinates."""
        return kept

    def truncate(self, x: Array, count: int) -> Array:
        """Return H_count(x)."""
        return hard_threshold(x, count)

    def largest(self, x: Array, count: int) -> Indices:
        """Return where the largest coefficients stand."""
        return largest(x, count)

    def operations(self, count: int) -> float:  # noqa: ARG002
        """Return 0."""
        return 0.0


class Frame:
    """A matrix of atoms, shape (n, D); atoms need be neither orthogonal nor independent."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix

    @property
    def count(self) -> int:
        """D."""
        return int(self.matrix.shape[1])

    @cached_property
    def norm(self) -> float:
        """The largest singular value."""
        return float(np.linalg.norm(self.matrix, 2))

    def model(self, x: Array) -> Array:
        """Return A x."""
        used = np.flatnonzero(x)
        return np.asarray(self.matrix[:, used] @ x[used])

    def coefficients(self, w: Array) -> Array:
        """Return A^+ w."""
        return np.asarray(np.linalg.lstsq(self.matrix, w)[0])

    def correlations(self, r: Array) -> Array:
        """Return A^T r."""
        return np.asarray(self.matrix.T @ r)

    def basis(self, kept: Indices) -> NDArray[np.generic]:
        """Return the columns, shape (n, k)."""
        return np.asarray(self.matrix[:, kept])

    def truncate(self, x: Array, count: int) -> Array:
        """Return the coefficients of least squares on the atoms of the largest ones.

        NaNs and infinities are passed on, so that divergence is detected.
        """
        if not np.isfinite(x).all():
            return x
        kept = largest(x, count)
        projected = np.zeros_like(x)
        projected[kept] = np.linalg.lstsq(self.matrix[:, kept], self.model(x))[0]
        return projected

    def largest(self, x: Array, count: int) -> Indices:
        """Return where the largest coefficients stand."""
        return largest(x, count)

    def operations(self, count: int) -> float:
        """Return those of products and least squares.

        With n entries of a model: 2 n tau for A x, 2 n D for A^T r, 2 n tau^2 for least
        squares on tau atoms.
        """
        n, D = self.matrix.shape
        return float(2 * n * (count + D + count * count))


class Columnwise:
    """A dictionary for matrix models, shape (n, C): coefficients have the shape (D, C).

    Args:
        atoms: what each column is made of.
        columns: C.
    """

    def __init__(self, atoms: UnitVectors | Frame, columns: int) -> None:
        self.atoms, self.columns = atoms, columns
        self.count = atoms.count

    @property
    def norm(self) -> float:
        """The largest singular value of A, which is that of all columns together, too."""
        return self.atoms.norm

    def model(self, x: Array) -> Array:
        """Return A X."""
        return self._each(self.atoms.model, x)

    def coefficients(self, w: Array) -> Array:
        """Return A^+ W."""
        return self._each(self.atoms.coefficients, w)

    def correlations(self, r: Array) -> Array:
        """Return A^T R."""
        return self._each(self.atoms.correlations, r)

    def basis(self, kept: Indices) -> NDArray[np.generic] | Sparse:
        """Return the coordinates; or of a frame columns, shape (n C, k), an atom in one class."""
        if isinstance(self.atoms, UnitVectors):
            return kept
        n, k, C = self.atoms.matrix.shape[0], len(kept), self.columns
        atom, column = kept // C, kept % C
        rows = np.arange(n) * C + column[:, None]
        places = (self.atoms.matrix.T[atom].ravel(), (rows.ravel(), np.repeat(np.arange(k), n)))
        return csr_array(places, shape=(n * C, k))

    def truncate(self, x: Array, count: int) -> Array:
        """Return the coefficients of every column's projection on its best atoms."""
        return self._each(lambda column: self.atoms.truncate(column, count), x)

    def largest(self, x: Array, count: int) -> Indices:
        """Return where the largest coefficients of each column stand."""
        X, C = x.reshape(-1, self.columns), self.columns
        return np.sort(np.concatenate([largest(X[:, c], count) * C + c for c in range(C)]))

    def operations(self, count: int) -> float:
        """Return those of all columns."""
        return self.columns * self.atoms.operations(count)

    def _each(self, change: Callable[[Array], Array], x: Array) -> Array:
        columns = x.reshape(-1, self.columns).T
        return np.stack([change(column) for column in columns], axis=1).ravel()
