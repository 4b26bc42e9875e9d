"""Dictionaries: matrices with columns, the atoms, of which models are sparse combinations.

A dictionary is a matrix A, shape (n, D), with one atom per column: a model is A x, where few
coefficients x are nonzero. A model that is a matrix, such as that of softmax regression with one
column per class, is A X: each column is a combination of few atoms. Matrices are flattened row by
row, like models. Jeong, Needell, Qin, "Federated Gradient Matching Pursuit", IEEE Trans. Inf.
Theory 2024, section on general dictionaries.

All clients have the dictionary before the first round: the identity and random dictionaries from a
shared seed need no message, and learnt atoms are assumed to be installed.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from scipy.sparse import csc_array

from fedsim.algorithms.base import ProblemInfo
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError, ParameterError
from fedsim.core.files import read_arrays
from fedsim.core.memory import check_budget
from fedsim.core.ports import Array
from fedsim.problems.projections import Indices, hard_threshold, largest
from fedsim.problems.samples import Features, Sparse, dense


class Atoms(Protocol):
    """The operations of a dictionary A, shape (n, D), that methods use."""

    @property
    def count(self) -> int:
        """D, the number of atoms (for each column of a matrix model)."""
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
        """Return some atoms in the form of `Oracle.restricted`."""
        ...

    def truncate(self, x: Array, count: int) -> Array:
        """Return coefficients of the projection of A x on its best atoms, shape (D,).

        Args:
            x: shape (D,).
            count: the number of atoms, those with the largest coefficients of x in magnitude.
        """
        ...

    def largest(self, x: Array, count: int) -> Indices:
        """Return the indices of the `count` largest coefficients (of each column), ascending."""
        ...

    def operations(self, count: int) -> float:
        """Return the operations of a local step of matching pursuit, without those of the loss.

        `Oracle.restricted` charges for expressing the features by atoms.

        Args:
            count: tau; the step selects up to 3 tau atoms, and keeps tau.
        """
        ...


class UnitVectors:
    """The identity: no matrix is formed, and its products cost nothing."""

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
        """Return the indices of the largest coefficients."""
        return largest(x, count)

    def operations(self, count: int) -> float:
        """Return 0."""
        return 0.0


class Frame:
    """A matrix of atoms, shape (n, D), which need not be orthogonal or independent."""

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
        """Return least-squares coefficients on the atoms with the largest coefficients.

        NaN and infinity are passed on, so that divergence is detected.
        """
        if not np.isfinite(x).all():
            return x
        kept = largest(x, count)
        projected = np.zeros_like(x)
        projected[kept] = np.linalg.lstsq(self.matrix[:, kept], self.model(x))[0]
        return projected

    def largest(self, x: Array, count: int) -> Indices:
        """Return the indices of the largest coefficients."""
        return largest(x, count)

    def operations(self, count: int) -> float:
        """Return the operations of products and least squares.

        With n entries of a model: 2 n tau for A x, 2 n D for A^T r, 2 n tau^2 for least
        squares on tau atoms.
        """
        n, D = self.matrix.shape
        return float(2 * n * (count + D + count * count))


class Columnwise:
    """A dictionary for matrix models, shape (n, C): coefficients have the shape (D, C).

    Args:
        atoms: the atoms of each column.
        columns: C.
    """

    def __init__(self, atoms: UnitVectors | Frame, columns: int) -> None:
        self.atoms, self.columns = atoms, columns
        self.count = atoms.count

    @property
    def norm(self) -> float:
        """The largest singular value of A, which is also that of the map of all columns."""
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
        """Return coordinates; for a frame, columns of shape (n C, k), each an atom in one class."""
        if isinstance(self.atoms, UnitVectors):
            return kept
        n, k, C = self.atoms.matrix.shape[0], len(kept), self.columns
        atom, column = kept // C, kept % C
        rows = np.arange(n) * C + column[:, None]
        ends = np.arange(k + 1) * n  # each column of the basis holds the n entries of one atom
        by_column = (self.atoms.matrix.T[atom].ravel(), rows.ravel(), ends)
        return csc_array(by_column, shape=(n * C, k))

    def truncate(self, x: Array, count: int) -> Array:
        """Return the coefficients of each column's projection on its best atoms."""
        return self._each(lambda column: self.atoms.truncate(column, count), x)

    def largest(self, x: Array, count: int) -> Indices:
        """Return the indices of the largest coefficients of each column."""
        X, C = x.reshape(-1, self.columns), self.columns
        return np.sort(np.concatenate([largest(X[:, c], count) * C + c for c in range(C)]))

    def operations(self, count: int) -> float:
        """Return the operations of all columns."""
        return self.columns * self.atoms.operations(count)

    def _each(self, change: Callable[[Array], Array], x: Array) -> Array:
        columns = x.reshape(-1, self.columns).T
        return np.stack([change(column) for column in columns], axis=1).ravel()


# K-SVD: dictionaries learnt from signals.
#
# Aharon, Elad, Bruckstein, "K-SVD: An Algorithm for Designing Overcomplete Dictionaries for Sparse
# Representation", IEEE Trans. Signal Process. 2006. An atom and its coefficients are updated by one
# step of the power method in place of an SVD, as proposed by Rubinstein, Zibulevsky, Elad,
# "Efficient Implementation of the K-SVD Algorithm using Batch Orthogonal Matching Pursuit",
# Technion 2008.


def k_svd(
    signals: Array, atoms: int, sparsity: int, iterations: int, rng: np.random.Generator
) -> Array:
    """Return a dictionary, shape (n, D), with columns of length 1.

    Args:
        signals: one per column, shape (n, N).
        atoms: D.
        sparsity: the largest number of atoms of a signal.
        iterations: passes over the atoms; the signals are encoded again before each.
        rng: the stream for the choice of initial signals, and for random substitutes.
    """
    A = _start(signals, atoms, rng)
    for _ in range(iterations):
        codes = encode_sparse(A, signals, sparsity)
        residuals = signals - A @ codes
        for atom in range(atoms):
            _update(A, codes, residuals, atom)
    return A


def encode_sparse(A: Array, signals: Array, sparsity: int) -> Array:
    """Return coefficients of signals, shape (D, N), by orthogonal matching pursuit.

    Args:
        A: shape (n, D), columns of length 1.
        signals: shape (n, N).
        sparsity: the largest number of nonzero coefficients of a signal.
    """
    from sklearn.linear_model import orthogonal_mp  # takes most of a second

    count = min(sparsity, *A.shape)
    with warnings.catch_warnings():
        # A signal that fewer atoms represent exactly gets fewer coefficients.
        warnings.simplefilter("ignore", RuntimeWarning)
        codes = orthogonal_mp(A, signals, n_nonzero_coefs=count)
    return np.asarray(codes, dtype=np.float64).reshape(A.shape[1], signals.shape[1])


def _start(signals: Array, atoms: int, rng: np.random.Generator) -> Array:
    """Return distinct signals, scaled to length 1, padded with random directions."""
    A = rng.standard_normal((len(signals), atoms))
    usable = np.flatnonzero(np.linalg.norm(signals, axis=0))
    drawn = rng.permutation(usable)[:atoms]
    A[:, : len(drawn)] = signals[:, drawn]
    return np.asarray(A / np.linalg.norm(A, axis=0))


def _update(A: Array, codes: Array, residuals: Array, atom: int) -> None:
    """Change an atom a and its coefficients g to better approximate the signals that use it.

    E are the residuals of these signals without the atom. The best rank-one approximation a g^T of
    E has its leading singular vectors; a along E g, then g = E^T a is one step of the power method.
    """
    users = np.flatnonzero(codes[atom])
    if not len(users):
        return
    E = residuals[:, users] + np.outer(A[:, atom], codes[atom, users])
    direction = E @ codes[atom, users]
    length = float(np.linalg.norm(direction))
    if length > 0:
        A[:, atom] = direction / length
        codes[atom, users] = A[:, atom] @ E
        residuals[:, users] = E - np.outer(A[:, atom], codes[atom, users])


class Dictionary(Spec):
    """The block of a dictionary."""

    kind: str

    @abstractmethod
    def atoms(self, info: ProblemInfo) -> UnitVectors | Frame:
        """Return the atoms for models of `info.dimension` entries.

        Raises:
            ParameterError: the dictionary does not fit models of this length.
        """


class IdentityDictionary(Dictionary):
    """Unit vectors: the model itself is sparse."""

    kind: Literal["identity"] = "identity"

    def atoms(self, info: ProblemInfo) -> UnitVectors:
        """Return unit vectors."""
        return UnitVectors(info.dimension)


class Gaussian(Dictionary):
    """Random atoms with entries from N(0, 1/n), drawn from the seed of the run."""

    kind: Literal["gaussian"] = "gaussian"
    columns: PositiveInt = Field(description="D, the number of atoms")

    def atoms(self, info: ProblemInfo) -> Frame:
        """Return random atoms."""
        n = info.dimension
        _check_size(n, self.columns)
        draws = info.rng("dictionary").standard_normal((n, self.columns))
        return Frame(draws / np.sqrt(n))


class Learnt(Dictionary):
    """Atoms of length 1 learnt by K-SVD, so that signals are sparse combinations of them.

    By default the signals are rows of the clients' features, which a real server does not have: it
    would learn from similar public signals, which `path` gives.
    """

    kind: Literal["k-svd"] = "k-svd"
    columns: PositiveInt = Field(description="D, the number of atoms")
    sparsity: PositiveInt = Field(default=5, description="atoms per signal")
    iterations: PositiveInt = Field(default=10, description="passes over the atoms")
    signals: PositiveInt = Field(
        default=1000, description="the largest number of signals, drawn from all if there are more"
    )
    path: Path | None = Field(
        default=None,
        description="NumPy archive with an array `signals`, one row per signal, relative to the "
        "scenario file's folder; by default the features of all clients",
    )

    def atoms(self, info: ProblemInfo) -> Frame:
        """Return learnt atoms."""
        _check_size(info.dimension, self.columns)
        signals, rng = self._signals(info), info.rng("dictionary")
        if signals.shape[1] != info.dimension:
            raise ParameterError(
                "dictionary.path" if self.path else "dictionary.kind",
                f"the signals have {signals.shape[1]} entries, but the model has "
                f"{info.dimension}; atoms have the length of the model",
            )
        if signals.shape[0] > self.signals:
            signals = signals[rng.choice(signals.shape[0], self.signals, replace=False)]
        return Frame(k_svd(dense(signals).T, self.columns, self.sparsity, self.iterations, rng))

    def _signals(self, info: ProblemInfo) -> Features:
        return info.features() if self.path is None else _read(info.folder / self.path)


def _check_size(entries: int, columns: int) -> None:
    what = f"{columns} atoms of {entries} entries"
    check_budget("dictionary.columns", what, 16 * entries * columns, ParameterError)


def _read(path: Path) -> Array:
    """Return the array `signals` of an archive, shape (N, n).

    Raises:
        ParameterError: the file is missing, or not such an archive.
    """
    try:
        archive = read_arrays(path, "dictionary.path")
        signals = np.asarray(archive["signals"], dtype=np.float64)
    except DataError as error:
        raise ParameterError("dictionary.path", str(error)) from error
    except (KeyError, ValueError, TypeError) as error:
        raise ParameterError(
            "dictionary.path",
            f"{path} has no array `signals` of numbers ({error}); expected the output of "
            "numpy.savez(path, signals=...)",
        ) from error
    if signals.ndim != 2 or not signals.size or not np.isfinite(signals).all():
        raise ParameterError(
            "dictionary.path",
            f"{path}: the array `signals` has shape {signals.shape}; expected a table of finite "
            "numbers, one row per signal",
        )
    return signals


AnyDictionary = Annotated[IdentityDictionary | Gaussian | Learnt, Field(discriminator="kind")]
"""A dictionary's block."""
