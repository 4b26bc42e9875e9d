"""Compressors that send some of the coordinates."""

# ruff: noqa: ARG002 - a compressor takes what any of them may need

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.ports import Array
from fedsim.wire.bitstream import Numbers
from fedsim.wire.compressors.base import Compressor, Contract, Sized
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Encodable, SeededSparse, Sparse


class TopK(Sized):
    """The k coordinates of largest magnitude.

    Of equal magnitudes the lowest index is kept. Zeros are not sent, so a vector with fewer
    than k coordinates that are not zero takes fewer bits.
    """

    source: ClassVar[str] = "Aji, Heafield 2017; Stich, Cordonnier, Jaggi 2018"
    law: ClassVar[str] = "contractive, delta = k/d"

    kind: Literal["top-k"] = "top-k"

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        """Return the k largest."""
        return Sparse.at(largest(vector, self.size(vector.size)), vector, form)

    def contract(self, dimension: int) -> Contract:
        """Return: contractive; attained where all magnitudes are equal."""
        return Contract("contractive", self.size(dimension) / dimension if dimension else 1.0)


class RandK(Sized):
    """k coordinates drawn uniformly, multiplied with d/k.

    Which they are follows from a seed of 64 bits that is sent in their place, or is written
    out: the draw is the same.
    """

    source: ClassVar[str] = "Wangni, Wang, Liu, Zhang 2018; Stich, Cordonnier, Jaggi 2018"
    law: ClassVar[str] = "unbiased, omega = d/k - 1"

    kind: Literal["rand-k"] = "rand-k"
    indices: Literal["seed", "explicit"] = Field(
        default="seed", description="how the receiver learns which coordinates were drawn"
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
        """Return the bits with the longest indices, where they are written out."""
        return payload.longest if isinstance(payload, Sparse) else payload.bits

    def contract(self, dimension: int) -> Contract:
        """Return: unbiased; every vector attains omega."""
        return Contract(
            "unbiased", dimension / max(self.size(dimension), 1) - 1 if dimension else 0
        )


class HardThreshold(Compressor):
    """The coordinates whose magnitude reaches a threshold, however many they are.

    What it leaves out is below d threshold^2. For a vector it is contractive, with the share of
    |v|^2 that is sent as its delta, which is 0 where nothing reaches the threshold.
    """

    source: ClassVar[str] = "Strom 2015; Sahu et al. 2021"
    law: ClassVar[str] = "absolute, |C(v) - v|^2 <= d threshold^2"

    kind: Literal["threshold"] = "threshold"
    threshold: float = Field(gt=0, description="the least magnitude that is sent")

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        """Return what reaches the threshold."""
        return Sparse.at(np.flatnonzero(~(np.abs(vector) < self.threshold)), vector, form)

    def contract(self, dimension: int) -> Contract:
        """Return: absolute; no delta above 0 holds for all vectors."""
        # Python's power of a number that is too large is an error; the product is infinite.
        return Contract("absolute", dimension * self.threshold * self.threshold)

    def contract_for(self, vector: Array) -> Contract:
        """Return: contractive, with the share of |v|^2 that is sent."""
        sent = vector[np.abs(vector) >= self.threshold]
        whole = float(vector @ vector)
        return Contract("contractive", float(sent @ sent) / whole if whole else 1.0)


def largest(vector: Array, count: int) -> Numbers:
    """Return where the k largest magnitudes stand that are not zero, ascending.

    Of equal magnitudes the lowest index comes first. What is not a number is largest.
    """
    magnitudes = np.abs(vector)
    magnitudes[np.isnan(magnitudes)] = np.inf
    if 0 < count < vector.size:
        least = np.partition(magnitudes, vector.size - count)[vector.size - count]
        kept = magnitudes > least
        kept[np.flatnonzero(magnitudes == least)[: count - np.count_nonzero(kept)]] = True
        magnitudes[~kept] = 0.0
    return np.flatnonzero(magnitudes)
