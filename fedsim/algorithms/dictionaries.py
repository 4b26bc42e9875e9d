"""Dictionaries: the atoms of which a model is a sparse combination.

A dictionary is a matrix A, shape (n, D), with an atom a column: a model is A x with
coefficients x of few entries other than zero. Jeong, Needell, Qin, "Federated Gradient
Matching Pursuit", IEEE Trans. Inf. Theory 2024, section on general dictionaries.

All clients have it before the first round: the identity and what is drawn from a shared seed
take no message, and learnt atoms are assumed to be installed.
"""

import warnings
from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.algorithms.atoms import Frame, UnitVectors
from fedsim.algorithms.base import ProblemInfo
from fedsim.blocks.spec import Spec
from fedsim.errors import DataError, ParameterError
from fedsim.files import read_arrays
from fedsim.memory import check_budget
from fedsim.ports import Array
from fedsim.problems.samples import Features, dense

# K-SVD: dictionaries that are learnt from signals.
#
# Aharon, Elad, Bruckstein, "K-SVD: An Algorithm for Designing Overcomplete Dictionaries for
# Sparse Representation", IEEE Trans. Signal Process. 2006; an atom and its coefficients are
# updated by one step of the power method in the place of an SVD, as Rubinstein, Zibulevsky,
# Elad, "Efficient Implementation of the K-SVD Algorithm using Batch Orthogonal Matching
# Pursuit", Technion 2008, propose.


def k_svd(
    signals: Array, atoms: int, sparsity: int, iterations: int, rng: np.random.Generator
) -> Array:
    """Return a dictionary, shape (n, D), with columns of length 1.

    Args:
        signals: one a column, shape (n, N).
        atoms: D.
        sparsity: the largest number of atoms of a signal.
        iterations: passes over the atoms, signals coded again before each.
        rng: draws the initial signals, and substitutes for missing ones.
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
        sparsity: coefficients other than 0 of a signal, at most.
    """
    from sklearn.linear_model import orthogonal_mp  # noqa: PLC0415 - takes most of a second

    count = min(sparsity, *A.shape)
    with warnings.catch_warnings():
        # Signals that fewer atoms make up exactly are coded with fewer.
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
    """Change an atom and its coefficients to approximate the signals that use it better.

    The residuals E of those signals without the atom are nearest to a g^T with a along E g and
    g = E^T a, which is the power method's step towards the leading singular vectors of E.
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
    """The atoms of which a model is a sparse combination."""

    kind: str

    @abstractmethod
    def atoms(self, info: ProblemInfo) -> UnitVectors | Frame:
        """Return the atoms for models of `info.dimension` entries.

        Raises:
            ParameterError: no atoms suit it.
        """


class IdentityDictionary(Dictionary):
    """Coordinates: the model itself is sparse."""

    kind: Literal["identity"] = "identity"

    def atoms(self, info: ProblemInfo) -> UnitVectors:
        """Return unit vectors."""
        return UnitVectors(info.dimension)


class Gaussian(Dictionary):
    """Atoms drawn from N(0, 1/n) entry by entry, from the seed of the run."""

    kind: Literal["gaussian"] = "gaussian"
    columns: PositiveInt = Field(description="D, the number of atoms")

    def atoms(self, info: ProblemInfo) -> Frame:
        """Return atoms that are drawn."""
        n = info.dimension
        _check_size(n, self.columns)
        draws = info.rng("dictionary").standard_normal((n, self.columns))
        return Frame(draws / np.sqrt(n))


class Learnt(Dictionary):
    """Atoms of length 1 that K-SVD finds, for signals to be sparse combinations of them.

    The signals are rows of the clients' features, which no server sees: a real one would learn
    from public signals of their kind, which `path` gives.
    """

    kind: Literal["k-svd"] = "k-svd"
    columns: PositiveInt = Field(description="D, the number of atoms")
    sparsity: PositiveInt = Field(default=5, description="atoms of a signal")
    iterations: PositiveInt = Field(default=10, description="passes over the atoms")
    signals: PositiveInt = Field(
        default=1000, description="signals to learn from, drawn from all where there are more"
    )
    path: Path | None = Field(
        default=None,
        description="NumPy archive with an array `signals`, a row a signal, relative to the "
        "scenario file's folder; the features of all clients where not given",
    )

    def atoms(self, info: ProblemInfo) -> Frame:
        """Return atoms that are learnt."""
        _check_size(info.dimension, self.columns)
        signals, rng = self._signals(info), info.rng("dictionary")
        if signals.shape[1] != info.dimension:
            raise ParameterError(
                "dictionary.path" if self.path else "dictionary.kind",
                f"the signals have {signals.shape[1]} entries, but the model has "
                f"{info.dimension}; atoms are as long as the model",
            )
        if signals.shape[0] > self.signals:
            signals = signals[rng.choice(signals.shape[0], self.signals, replace=False)]
        return Frame(k_svd(dense(signals).T, self.columns, self.sparsity, self.iterations, rng))

    def _signals(self, info: ProblemInfo) -> Features:
        return info.features() if self.path is None else _read(info.folder / self.path)


def _check_size(entries: int, columns: int) -> None:
    """Raise a ParameterError where atoms do not fit into the limit of memory."""
    what = f"{columns} atoms of {entries} entries"
    check_budget("dictionary.columns", what, 16 * entries * columns, ParameterError)


def _read(path: Path) -> Array:
    """Return the array `signals` of an archive, shape (N, n).

    Raises:
        ParameterError: the file is not there, or no such archive.
    """
    try:
        found = read_arrays(path, "dictionary.path")
        signals = np.asarray(found["signals"], dtype=np.float64)
    except DataError as error:
        raise ParameterError("dictionary.path", str(error)) from error
    except (KeyError, ValueError, TypeError) as error:
        raise ParameterError(
            "dictionary.path",
            f"{path} has no array `signals` of numbers ({error}); accepted is what "
            "numpy.savez(path, signals=...) writes",
        ) from error
    if signals.ndim != 2 or not signals.size or not np.isfinite(signals).all():
        raise ParameterError(
            "dictionary.path",
            f"{path}: the array `signals` has shape {signals.shape}; a table of finite numbers "
            "is needed, a row a signal",
        )
    return signals


AnyDictionary = Annotated[IdentityDictionary | Gaussian | Learnt, Field(discriminator="kind")]
"""A dictionary's block."""
