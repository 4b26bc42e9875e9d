"""Shares of a secret (Shamir, Communications of the ACM 1979) modulo 2^255 - 19.

The secrets are private keys of X25519 and seeds of masks, of 255 bits, which this prime covers in
one piece, so that a share has 256 bits as in Bonawitz et al. The library pycryptodome has shares in
GF(2^128) only, for secrets of 16 bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

PRIME = 2**255 - 19


def shares(secret: int, coefficients: Sequence[int], points: Iterable[int]) -> list[int]:
    """Return the values of the polynomial secret + c_1 x + c_2 x^2 + ... at some points.

    Any len(coefficients) + 1 of them give the secret, and fewer give nothing.

    Args:
        secret: the secret, 0 to PRIME - 1.
        coefficients: c_1, c_2, ..., uniform in the same range.
        points: distinct numbers above 0.
    """
    values = []
    for point in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value + coefficient) * point % PRIME
        values.append((value + secret) % PRIME)
    return values


def secret_of(held: Mapping[int, int]) -> int:
    """Return the secret of enough shares, by their points."""
    weights = _weights(tuple(held))
    return sum(w * share for w, share in zip(weights, held.values(), strict=True)) % PRIME


@lru_cache(maxsize=64)
def _weights(points: tuple[int, ...]) -> list[int]:
    """Return the Lagrange weights of points for the value at 0."""
    weights = []
    for point in points:
        above = below = 1
        for other in points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights
