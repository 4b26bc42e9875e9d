"""Vectors as integers modulo R, whose sum is exact.

A vector is clipped to an L2 norm of c, multiplied by a factor w in (0, 1], scaled by
s = (2^(b-1) - 1)/c integers per unit, and rounded stochastically, so that the expectation of the
rounded vector is the vector. Its integers lie in [-(2^(b-1) - 1), 2^(b-1) - 1], which is symmetric:
zero is exactly zero. The sum of n of them, modulo R = 2^r with r = ceil(log2(n (2^b - 1) + 1)) bits
as in Bonawitz et al., CCS 2017, is the sum of the integers. Noise that clients add needs room: h
bits of headroom make R 2^h times larger.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import Failed
from fedsim.core.ports import Array

Integers = NDArray[np.int64]

Noise: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], float], Integers]
"""Draws the noise of one client: from its stream, with a shape, and with a scale, the number of
integers per unit of the vector. It is added to the rounded integers before they are masked."""


@dataclass(frozen=True, slots=True)
class IntegerCode:
    """How the vectors of at most n clients become integers, and their sum a vector again.

    Attributes:
        clients: n, the largest number of vectors in a sum.
        bits: b, the bits of a coordinate of one vector.
        clip: c, the largest L2 norm of a vector.
        headroom: h, the bits by which R is larger than the sum of the vectors needs.
        prime: whether R is the next prime in place of the next power of two.
    """

    clients: int
    bits: int = 16
    clip: float = 1.0
    headroom: int = 0
    prime: bool = False

    @property
    def largest(self) -> int:
        """The largest integer of a coordinate, 2^(b-1) - 1."""
        return int(2 ** (self.bits - 1) - 1)

    @property
    def scale(self) -> float:
        """The integers per unit."""
        return self.largest / self.clip

    @property
    def modulus_bits(self) -> int:
        """The bits of a masked coordinate, ceil(log2(n (2^b - 1) + 1)) + h.

        >>> IntegerCode(1024).modulus_bits, IntegerCode(2**14).modulus_bits
        (26, 30)
        """
        if self.prime:
            return (self.modulus - 1).bit_length()
        return int(self.clients * (2**self.bits - 1)).bit_length() + self.headroom

    @property
    def modulus(self) -> int:
        """R."""
        if self.prime:
            return next_prime((self.clients * (2**self.bits - 1) + 1) * 2**self.headroom)
        return int(2**self.modulus_bits)

    @property
    def room(self) -> int:
        """The largest absolute value of one client's integer with which no sum exceeds R."""
        return int((self.modulus - 1) // (2 * self.clients))

    def clipped(self, vector: Array) -> Array:
        """Return a vector scaled down to a norm of `clip`, if it is longer."""
        norm = float(np.linalg.norm(vector))
        return vector * (self.clip / norm) if norm > self.clip else vector

    def encode(
        self,
        vector: Array,
        rng: np.random.Generator,
        factor: float = 1.0,
        noise: Noise | None = None,
    ) -> Integers:
        """Return the integers of a vector; the shape is kept.

        Args:
            vector: the vector, shape (d,), or a number, shape (). It is clipped.
            rng: the client's stream, for the rounding and then for the noise.
            factor: w, by which the clipped vector is multiplied.
            noise: draws integers that are added.

        Raises:
            Failed: the vector is not finite, or integers with noise have no room in R.
        """
        if not np.isfinite(vector).all():
            raise Failed("secrecy: a vector that is not finite has no integers")
        scaled = self.clipped(vector) * (factor * self.scale)
        low = np.floor(scaled)
        # Rounding of the products may pass the end of the range by one unit of the last place.
        rounded = np.clip(
            low + (rng.random(scaled.shape) < scaled - low), -self.largest, self.largest
        )
        integers: Integers = np.asarray(rounded).astype(np.int64)
        if noise is None:
            return integers
        noisy: Integers = integers + noise(rng, scaled.shape, self.scale)
        over = int(np.count_nonzero(np.abs(noisy) > self.room))
        if over:
            raise Failed(
                f"secrecy: {over} of {noisy.size} integers with noise exceed {self.room}, so that"
                f" the sum of {self.clients} may pass R = 2^{self.modulus_bits}; give more headroom"
            )
        return noisy

    def decode(self, integers: Integers, factor: float = 1.0) -> Array:
        """Return the vector of integers, or of a sum of them."""
        return integers / (factor * self.scale)

    def reduce(self, integers: Integers) -> Integers:
        """Return integers modulo R, from 0 to R - 1."""
        return integers % self.modulus

    def centre(self, residues: Integers) -> Integers:
        """Return the integers of residues, from -R/2 to below R/2."""
        return np.asarray(
            np.where(residues > (self.modulus - 1) // 2, residues - self.modulus, residues)
        )


@lru_cache
def next_prime(number: int) -> int:
    """Return the smallest prime that is at least a number.

    >>> next_prime(1), next_prime(14), next_prime(17)
    (2, 17, 17)
    """
    while number < 2 or any(number % divisor == 0 for divisor in range(2, isqrt(number) + 1)):
        number += 1
    return number
