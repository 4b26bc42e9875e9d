"""Costs of secure aggregation: exact bits of its messages, and operations of its work.

Bits are those of Bonawitz et al. 2017, section 7: public keys and shares of 256 bits. A client of n
sends two keys, 2 (n - 1) shares and n shares of the unmasking; it receives 2 (n - 1) keys and as
many shares. With all clients present until the end these are 2 n keys and 5 n - 4 shares.

Operations are processor cycles, each counted as one operation of the device:

- A key or a key agreement: 640,838 cycles (Bernstein, "Curve25519: New Diffie-Hellman Speed
  Records", PKC 2006, Pentium M). A multiplication modulo 2^255 - 19 takes about 250 of them: the
  ladder has 255 steps of 9 or 10, and an inversion has 265.
- A byte of a mask or of a ciphertext: 7.59 cycles (Käsper, Schwabe, "Faster and Timing-Attack
  Resistant AES-GCM", CHES 2009, long AES-CTR streams on a Core 2). Processors with instructions for
  AES take a tenth of it.
- A multiplication and an addition modulo a prime of 32 bits: 2.
- A signature of Ed25519: 87,548 cycles to sign, 273,364 to verify (Bernstein, Duif, Lange, Schwabe,
  Yang, "High-speed high-security signatures", CHES 2011, Westmere).
"""

from math import ceil, log2
from typing import NamedTuple

AGREEMENT = 640_838.0
"""Operations of a key pair, or of a key agreement."""

MULTIPLICATION = 250.0
"""Operations of a multiplication modulo 2^255 - 19."""

STREAM = 7.59
"""Operations per byte of AES in counter mode."""

SIGN, VERIFY = 87_548.0, 273_364.0
"""Operations to sign, and to verify a signature."""

SIGNATURE = 512
"""Bits of a signature (RFC 8032)."""

VOTE = 32
"""Bits of a client's vote on the silence of its group."""

KEY = SHARE = 256
"""Bits of a public key, and of a share of a secret."""

NAME = 32
"""Bits of the number of a client or of a round in a list."""

CIPHERTEXT = 96 + 128 + NAME
"""Bits that an encrypted share adds: nonce, tag, and the number of its sender or receiver."""


class Bits(NamedTuple):
    """The bits of one client's messages, framing apart.

    Attributes:
        keys_up, keys_down: its public keys, and those of its neighbours, with signatures if any.
        shares_up, shares_down: its encrypted shares, and those for it.
        vector: its masked vector.
        unmasking: what it sends to remove masks.
        signatures_up, signatures_down: its signature of the list of the clients in the sum, and
            those of the others.
        framing_up, framing_down: what encryption and lists of clients add.
    """

    keys_up: int
    keys_down: int
    shares_up: int
    shares_down: int
    vector: int
    unmasking: int
    signatures_up: int = 0
    signatures_down: int = 0
    framing_up: int = 0
    framing_down: int = 0

    @property
    def up(self) -> int:
        """What it sends."""
        return self.keys_up + self.shares_up + self.vector + self.unmasking + self.signatures_up

    @property
    def down(self) -> int:
        """What it receives, without the method's own message."""
        return self.keys_down + self.shares_down + self.signatures_down


def word_bytes(modulus_bits: int) -> int:
    """Return the bytes of a word of a mask's stream: 4, or 8 for a modulus above 2^32."""
    return 4 if modulus_bits <= 32 else 8


def expansion(coordinates: int, modulus_bits: int) -> float:
    """Return the operations of a mask: its stream, and its addition to a vector."""
    return coordinates * (word_bytes(modulus_bits) * STREAM + 1)


def support(count: int, coordinates: int) -> int:
    """Return the bits of a set of coordinates: a list, or one bit for each coordinate.

    >>> support(3, 1000), support(300, 1000)
    (30, 1000)
    """
    return min(count * ceil(log2(max(coordinates, 2))), coordinates)


def sharing(degree: int, threshold: int) -> float:
    """Return the operations of shares of a secret: `degree` evaluations of a polynomial."""
    return degree * (threshold - 1) * MULTIPLICATION


def weights_at_zero(threshold: int) -> float:
    """Return the operations of the Lagrange weights of a set of shares."""
    return 3.0 * threshold * threshold * MULTIPLICATION
