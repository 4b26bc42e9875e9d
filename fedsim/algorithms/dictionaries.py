"""Dictionaries: what a model is a sparse combination of.

A dictionary is a matrix A, shape (n, D), with an atom a column: a model is A x with
coefficients x of few entries other than zero. Jeong, Needell, Qin, "Federated Gradient
Matching Pursuit", IEEE Trans. Inf. Theory 2024, section on general dictionaries.

All clients have it before the first round: the identity and what is drawn from a shared seed
take no message, and what was learnt is taken to have been installed.
"""

from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.algorithms.atoms import Frame, UnitVectors
from fedsim.algorithms.base import ProblemInfo
from fedsim.algorithms.k_svd import k_svd
from fedsim.blocks.spec import Spec
from fedsim.errors import DataError, ParameterError
from fedsim.files import read_arrays
from fedsim.limits import afford
from fedsim.ports import Array
from fedsim.problems.features import Features, dense


class Dictionary(Spec):
    """What a model is a sparse combination of."""

    kind: str

    @abstractmethod
    def atoms(self, info: ProblemInfo) -> UnitVectors | Frame:
        """Return the atoms for models of `info.dimension` entries.

        Raises:
            ParameterError: there are none that suit it.
        """


class Identity(Dictionary):
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
    sparsity: PositiveInt = Field(default=5, description="atoms that a signal is made of")
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
    afford("dictionary.columns", what, 16 * entries * columns, ParameterError)


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


AnyDictionary = Annotated[Identity | Gaussian | Learnt, Field(discriminator="kind")]
"""A dictionary's block."""
