"""Sparsifiers: compressors that send some of the coordinates."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.core.ports import Array
from fedsim.wire.bitstream import Numbers
from fedsim.wire.compressors.base import Compressor, Contract, Sized
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Encodable, SeededSparse, Sparse


class TopK(Sized):
    """The k coordinates of largest magnitude.

    Of equal magnitudes the lowest index is sent. Zeros are not sent, so a vector with fewer than k
    nonzero coordinates takes fewer bits.
    """

    source: ClassVar[str] = (
        "Aji, Heafield: Sparse Communication for Distributed Gradient Descent, EMNLP 2017; "
        "Stich, Cordonnier, Jaggi: Sparsified SGD with Memory, NeurIPS 2018"
    )
    law: ClassVar[str] = "contractive, delta = k/d"
    own_support: ClassVar[bool] = True
    lengthens: ClassVar[bool] = False

    kind: Literal["top-k"] = "top-k"

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        """Return the k largest."""
        return Sparse.at(largest(vector, self.size(vector.size)), vector, form)

    def contract(self, dimension: int) -> Contract:
        """Return: contractive; attained if all magnitudes are equal."""
        return Contract("contractive", self.size(dimension) / dimension if dimension else 1.0)


class RandK(Sized):
    """k coordinates drawn uniformly, multiplied with d/k.

    The payload has a seed of 64 bits, from which the receiver draws the indices, or the indices
    themselves: the draw is the same.
    """

    source: ClassVar[str] = (
        "Wangni, Wang, Liu, Zhang: Gradient Sparsification for Communication-Efficient "
        "Distributed Optimization, NeurIPS 2018; Stich, Cordonnier, Jaggi: Sparsified SGD "
        "with Memory, NeurIPS 2018"
    )
    law: ClassVar[str] = "unbiased, omega = d/k - 1"
    common_support: ClassVar[bool] = True

    kind: Literal["rand-k"] = "rand-k"
    indices: Literal["seed", "explicit"] = Field(
        default="seed", description="what is sent to identify the drawn coordinates"
    )

    def compress(
        self, vector: Array, rng: np.random.Generator, form: ValueFormat
    ) -> SeededSparse | Sparse:
        """Return k at random."""
        dimension = vector.size
        count = self.size(dimension)
        seed = int(rng.integers(2**64, dtype=np.uint64))
        with np.errstate(over="ignore"):
            payload = SeededSparse.of(seed, count, vector * (dimension / max(count, 1)), form)
        if self.indices == "seed":
            return payload
        return Sparse(payload.indices, payload.entries, dimension, form)

    def longest(self, vector: Array, payload: Encodable) -> int:
        """Return the length, in bits, with the longest code of indices if they are sent."""
        return payload.longest if isinstance(payload, Sparse) else payload.bits

    def contract(self, dimension: int) -> Contract:
        """Return: unbiased; every vector attains omega."""
        return Contract(
            "unbiased", dimension / max(self.size(dimension), 1) - 1 if dimension else 0
        )


class HardThreshold(Compressor):
    """The coordinates whose magnitude is at least a threshold.

    The squares of the coordinates left out add up to less than d threshold^2. For a given vector it
    is contractive; delta is the share of |v|^2 that is sent, 0 if no coordinate reaches the
    threshold.
    """

    source: ClassVar[str] = (
        "Strom: Scalable Distributed DNN Training Using Commodity GPU Cloud Computing, "
        "INTERSPEECH 2015; Sahu et al.: Rethinking Gradient Sparsification as Total Error "
        "Minimization, NeurIPS 2021"
    )
    law: ClassVar[str] = "absolute, |C(v) - v|^2 <= d threshold^2"
    own_support: ClassVar[bool] = True
    lengthens: ClassVar[bool] = False

    kind: Literal["threshold"] = "threshold"
    threshold: float = Field(gt=0, description="the least magnitude that is sent")

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        """Return the coordinates at or above the threshold."""
        # Negated so that NaN, for which every comparison is false, is sent and shows the
        # divergence.
        return Sparse.at(np.flatnonzero(~(np.abs(vector) < self.threshold)), vector, form)

    def contract(self, dimension: int) -> Contract:
        """Return: absolute; no delta above 0 holds for all vectors."""
        # A product overflows to infinity, where Python's power would raise OverflowError.
        return Contract("absolute", dimension * self.threshold * self.threshold)

    def contract_for(self, vector: Array) -> Contract:
        """Return: contractive, with the share of |v|^2 that is sent."""
        sent = vector[np.abs(vector) >= self.threshold]
        whole = float(vector @ vector)
        return Contract("contractive", float(sent @ sent) / whole if whole else 1.0)


def largest(vector: Array, count: int) -> Numbers:
    """Return the indices of the k largest nonzero magnitudes, ascending.

    Of equal magnitudes the lowest index is taken. NaN counts as infinite.
    """
    magnitudes = np.abs(vector)
    magnitudes[np.isnan(magnitudes)] = np.inf
    if 0 < count < vector.size:
        least = np.partition(magnitudes, vector.size - count)[vector.size - count]
        kept = magnitudes > least
        kept[np.flatnonzero(magnitudes == least)[: count - np.count_nonzero(kept)]] = True
        magnitudes[~kept] = 0.0
    return np.flatnonzero(magnitudes)
