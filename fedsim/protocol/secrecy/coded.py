"""LightSecAgg: masks encoded so that the sum of the masks is recovered at once.

Client u draws a mask z_u of m elements of a prime field, cuts it into U - T parts, adds T random
parts, and sends to each client v one combination of the U parts. A client sends the sum of the
combinations of those in the sum; any U of these sums give the sum of the masks, and any T
combinations of one mask give nothing of it (So et al., MLSys 2022, algorithm 1). The combinations
are the values of polynomials, with the parts as coefficients: any U x U minor of their matrix can
be inverted, and so can any T x T minor of its last T rows.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from fedsim.core.errors import DataError
from fedsim.core.ports import ClientId
from fedsim.protocol.secrecy import costs, masks
from fedsim.protocol.secrecy.costs import Bits
from fedsim.protocol.secrecy.integers import IntegerCode, Integers
from fedsim.protocol.secrecy.scheme import Ciphertexts, Graph, Keys, Scheme, Secrets

_FIELD = 2.0
"""Operations of a multiplication and an addition in the field."""


class CodedSecrets(Secrets):
    """A client's key, its mask, and the parts of the others' masks that it holds."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self._held: dict[ClientId, Integers] = {}

    @property
    def public(self) -> list[bytes]:
        """The key for encryption."""
        return [masks.public_key(self._encrypting)]

    def share(self, me: ClientId, keys: Keys, scheme: "Coded", coordinates: int) -> Ciphertexts:
        """See `Secrets.share`.

        Raises:
            DataError: products of the field's elements have more than 63 bits.
        """
        prime = scheme.code.modulus
        if prime >= 2**31:
            text = f"got exact, but the field of {len(keys) + 1} clients is beyond 2^31"
            raise DataError("secrecy.values", f"{text}; use counted, or fewer bits")
        self._keys, self._scheme = keys, scheme
        self._parts = self._rng.integers(prime, size=(scheme.needed, scheme.part(coordinates)))
        everyone = sorted([me, *keys])
        matrix = powers([client + 1 for client in everyone], scheme.needed, prime)
        sent = dict(zip(everyone, product(matrix, self._parts, prime), strict=True))
        self._held = {me: sent.pop(me)}
        return {
            other: masks.encrypt(self.common(other), part.astype("<u4").tobytes(), self._rng)
            for other, part in sent.items()
        }

    def receive(self, received: Ciphertexts) -> None:
        """See `Secrets.receive`."""
        for other, ciphertext in received.items():
            plain = masks.decrypt(self.common(other), ciphertext)
            self._held[other] = np.frombuffer(plain, "<u4").astype(np.int64)

    def mask(self, integers: Integers) -> Integers:
        """See `Secrets.mask`."""
        wanted = self._scheme.needed - self._scheme.colluding
        own = self._parts[:wanted].ravel()[: len(integers)]
        return self._scheme.code.reduce(integers + own)

    def reveal(self, included: set[ClientId]) -> Integers:
        """Return the sum of the parts of the included clients' masks."""
        held = [part for client, part in self._held.items() if client in included]
        return self._scheme.code.reduce(np.sum(held, axis=0))


class Coded(Scheme):
    """LightSecAgg.

    Args:
        graph, code: see `Scheme`.
        colluding: T.
        needed: U, above T.
    """

    secrets = CodedSecrets
    key_bits = costs.KEY
    begin_work = costs.AGREEMENT

    def __init__(self, graph: Graph, code: IntegerCode, colluding: int, needed: int) -> None:
        super().__init__(graph, code, needed)
        self.colluding = colluding

    def part(self, coordinates: int) -> int:
        """Return the coordinates of a part of a mask, m/(U - T)."""
        return ceil(coordinates / (self.needed - self.colluding))

    def bits(self, degree: int, coordinates: int, left: int | None = None) -> Bits:
        """See `Scheme.bits`."""
        left = degree if left is None else left
        symbol = self.code.modulus_bits
        part = self.part(coordinates) * symbol
        return Bits(
            keys_up=self.key_bits,
            keys_down=self.key_bits * degree,
            shares_up=part * degree,
            shares_down=part * left,
            vector=coordinates * symbol,
            unmasking=part,
            framing_up=costs.CIPHERTEXT * degree,
            framing_down=costs.CIPHERTEXT * left,
        )

    def _encryption(self, coordinates: int) -> float:
        """Return the operations of an encrypted part."""
        size = costs.word_bytes(self.code.modulus_bits) * self.part(coordinates)
        return costs.AGREEMENT + size * costs.STREAM

    def share_work(self, degree: int, coordinates: int) -> float:
        """Return: the mask, its combinations, and their encryption."""
        drawn = costs.expansion(coordinates, self.code.modulus_bits)
        combining = (degree + 1) * self.needed * self.part(coordinates) * _FIELD
        return drawn + combining + degree * self._encryption(coordinates)

    def open_work(self, left: int, coordinates: int) -> float:
        """Return: the decryption of all parts; keys are agreed already."""
        return left * (self._encryption(coordinates) - costs.AGREEMENT)

    def mask_work(self, left: int, coordinates: int) -> float:
        """Return: an addition."""
        return float(coordinates)

    def reveal_work(self, included: int, coordinates: int) -> float:
        """Return: a sum of parts."""
        return float(included * self.part(coordinates))

    def server_work(
        self, included: set[ClientId], shared: set[ClientId], coordinates: int
    ) -> float:
        """Return: the inverse of a matrix (U, U), and its product with the sums of parts."""
        size, wanted = self.needed, self.needed - self.colluding
        return _FIELD * (size**3 / 3 + wanted * size * self.part(coordinates)) + coordinates

    def unmask(
        self,
        total: Integers,
        keys: Keys,
        shared: set[ClientId],
        included: set[ClientId],
        revealed: Mapping[ClientId, Any],
    ) -> Integers:
        """See `Scheme.unmask`."""
        told = sorted(revealed)[: self.needed]
        prime = self.code.modulus
        matrix = powers([client + 1 for client in told], self.needed, prime)
        sums = np.array([revealed[client] for client in told])
        parts = solve(matrix, sums, prime)[: self.needed - self.colluding]
        return self.code.reduce(total - parts.ravel()[: len(total)])


# Arithmetic modulo a prime below 2^31: products have at most 62 bits.


def powers(points: Sequence[int], count: int, prime: int) -> Integers:
    """Return the matrix of x^0, ..., x^(count - 1) for each point x, shape (points, count)."""
    columns = [np.ones(len(points), np.int64)]
    for _ in range(count - 1):
        columns.append(columns[-1] * np.asarray(points, np.int64) % prime)
    return np.stack(columns, axis=1)


def product(left: Integers, right: Integers, prime: int) -> Integers:
    """Return the matrix product modulo a prime."""
    total = np.zeros((len(left), right.shape[1]), np.int64)
    for place in range(left.shape[1]):
        total = (total + left[:, place, None] * right[place]) % prime
    return total


def solve(matrix: Integers, right: Integers, prime: int) -> Integers:
    """Return X with matrix X = right modulo a prime (Gauss, Jordan), shape of `right`.

    Args:
        matrix: an invertible matrix, shape (n, n).
        right: shape (n, k).
        prime: the prime.
    """
    rows = np.concatenate([matrix, right], axis=1) % prime
    size = len(matrix)
    for place in range(size):
        pivot = place + int(np.flatnonzero(rows[place:, place])[0])
        rows[[place, pivot]] = rows[[pivot, place]]
        rows[place] = rows[place] * pow(int(rows[place, place]), -1, prime) % prime
        others = np.arange(size) != place
        rows[others] = (rows[others] - rows[others, place, None] * rows[place]) % prime
    return rows[:, size:]
