"""Compressors with dense payloads: no compression, and the factors of a low-rank matrix."""

from math import isqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.core.ports import Array
from fedsim.wire.compressors.base import Compressor, Contract, Sender
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Dense, LowRank
from fedsim.wire.payloads.dense import columns_of


class Identity(Compressor):
    """No compression: every coordinate, rounded to the value format."""

    source: ClassVar[str] = (
        "IEEE 754-2019; Kalamkar et al.: A Study of BFLOAT16 for Deep Learning Training, 2019"
    )
    law: ClassVar[str] = "exact"
    lengthens: ClassVar[bool] = False

    kind: Literal["identity"] = "identity"

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Dense:
        """Return the vector."""
        return Dense.of(vector, form)

    def contract(self, dimension: int) -> Contract:
        """Return the contract: exact."""
        return Contract("exact")


class PowerSGD(Compressor):
    """Rank-r factors of the vector read as a matrix, by one step of power iteration.

    The matrix M has m rows and n = ceil(d/m) columns, filled row by row and padded with zeros. P is
    an orthonormal basis of the range of M Q; the payload is P and V = M^T P, and the decoded matrix
    P V^T is a projection of M (Algorithm 1, for one sender).

    Q is random at first. Later its range is that of the V sent last (warm start), which `sender`
    stores. From a random Q the contraction is delta = r/min(m, n) in expectation: a direction with
    a larger singular value has the larger expected share in the range of M Q, and the shares of all
    min(m, n) directions add up to r. Equal singular values attain it. A warm start has no guarantee
    for a single step, but approaches the best rank-r factors if the matrix changes slowly.
    """

    source: ClassVar[str] = (
        "Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for "
        "Distributed Optimization, NeurIPS 2019"
    )
    law: ClassVar[str] = "contractive from a random start, delta = r/min(m, n)"

    kind: Literal["low-rank"] = "low-rank"
    rank: int = Field(default=1, ge=1, description="r, at most the matrix's smaller side")
    rows: int | None = Field(
        default=None, ge=1, description="m, at most d; floor(sqrt d) by default"
    )

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> LowRank:
        """Return the factors from a random start."""
        return self.iterate(vector, self.start(vector.size, rng), form)

    def contract(self, dimension: int) -> Contract:
        """Return: contractive, from a random start."""
        sides = min(self.shape(dimension))
        return Contract("contractive", min(self.rank, sides) / sides if sides else 1.0)

    def for_layer(self, shape: tuple[int, ...]) -> "PowerSGD":
        """Return a copy that reads a layer as a matrix with the first extent of its shape as rows.

        A vector, such as biases, is a matrix of one row, which has rank 1 and is sent without loss.
        """
        rows = shape[0] if len(shape) > 1 else 1
        return self.model_copy(update={"rows": self.rows or max(rows, 1)})

    def sender(self) -> Sender:
        """Return a sender with warm starts."""
        return _WarmStart(self)

    def shape(self, dimension: int) -> tuple[int, int]:
        """Return m and n."""
        rows = min(self.rows or isqrt(dimension), dimension)
        return rows, columns_of(dimension, rows)

    def iterate(self, vector: Array, right: Array, form: ValueFormat) -> LowRank:
        """Return the factors from a start Q, shape (n, r)."""
        rows, columns = self.shape(vector.size)
        matrix = np.zeros((rows, columns))
        matrix.ravel()[: vector.size] = vector  # a view, since it is contiguous
        with np.errstate(over="ignore", invalid="ignore"):
            basis = form.round(np.linalg.qr(matrix @ right).Q)
            return LowRank.of(basis, matrix.T @ basis, vector.size, form)

    def start(self, dimension: int, rng: np.random.Generator) -> Array:
        """Return a random Q, shape (n, r)."""
        rows, columns = self.shape(dimension)
        return rng.standard_normal((columns, min(self.rank, rows, columns)))


class _WarmStart:
    """The compression of one sender, which starts from the factor V that it sent last."""

    def __init__(self, compressor: PowerSGD) -> None:
        self._compressor = compressor
        self._last: Array | None = None

    def __call__(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> LowRank:
        """Return the factors of a vector."""
        right, columns = self._last, self._compressor.shape(vector.size)[1]
        # A factor of another shape, of zeros or not finite spans no start.
        if right is None or right.shape[0] != columns or not _spans(right):
            right = self._compressor.start(vector.size, rng)
        payload = self._compressor.iterate(vector, right, form)
        self._last = payload.right
        return payload


def _spans(right: Array) -> bool:
    return bool(np.isfinite(right).all() and right.any())
