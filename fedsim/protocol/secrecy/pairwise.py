"""SecAgg and SecAgg+: masks of pairs that cancel, and shares of what is left of them.

Client u sends y_u = x_u + PRG(b_u) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv) mod R, over its
neighbours v that have sent shares. The server gets b_u of the clients in the sum, and the private
keys of those that dropped out, each from `needed` shares (Bonawitz et al. 2017, figure 4; the graph
of neighbours: Bell et al. 2020).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsim.core.errors import Failed
from fedsim.core.ports import ClientId
from fedsim.protocol.secrecy import costs, masks, shamir
from fedsim.protocol.secrecy.costs import Bits
from fedsim.protocol.secrecy.integers import Integers
from fedsim.protocol.secrecy.scheme import Ciphertexts, Keys, Scheme, Secrets

_SHARE = costs.SHARE // 8


class PairwiseSecrets(Secrets):
    """A client's keys, its seed, and the shares that it holds; see `Secrets`."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self._masking, self._seed = masks.private_key(rng), masks.private_key(rng)
        self._held: dict[ClientId, tuple[int, int]] = {}  # shares of the key, and of the seed

    @property
    def public(self) -> list[bytes]:
        """The keys for encryption and for masks."""
        return [masks.public_key(self._encrypting), masks.public_key(self._masking)]

    def share(self, me: ClientId, keys: Keys, scheme: "Pairwise", coordinates: int) -> Ciphertexts:
        """See `Secrets.share`; a client's point is its number plus 1."""
        self._me, self._keys, self._code = me, keys, scheme.code
        everyone = sorted([me, *keys])
        points = [client + 1 for client in everyone]
        of_key, of_seed = (
            shamir.shares(secret, self._coefficients(scheme.needed - 1), points)
            for secret in (self._masking, self._seed)
        )
        sent = dict(zip(everyone, zip(of_key, of_seed, strict=True), strict=True))
        self._held = {me: sent.pop(me)}
        return {
            other: masks.encrypt(
                self.common(other),
                b"".join(share.to_bytes(_SHARE, "little") for share in pair),
                self._rng,
            )
            for other, pair in sent.items()
        }

    def _coefficients(self, count: int) -> list[int]:
        draws = (self._rng.bytes(40) for _ in range(count))
        # 320 bits: the remainder is uniform up to 2^-65.
        return [int.from_bytes(draw, "little") % shamir.PRIME for draw in draws]

    def receive(self, received: Ciphertexts) -> None:
        """See `Secrets.receive`."""
        self._left = list(received)
        for other, ciphertext in received.items():
            plain = masks.decrypt(self.common(other), ciphertext)
            of_key, of_seed = (
                int.from_bytes(part, "little") for part in (plain[:_SHARE], plain[_SHARE:])
            )
            self._held[other] = of_key, of_seed

    def mask(self, integers: Integers) -> Integers:
        """See `Secrets.mask`."""
        size, bits = len(integers), self._code.modulus_bits
        masked = integers + masks.mask(masks.seed_key(self._seed), size, bits)
        for other in self._left:
            pair = masks.agree(self._masking, self._keys[other][1], masks.MASKING)
            added = masks.mask(pair, size, bits)
            masked = masked + (added if other > self._me else -added)
        return self._code.reduce(masked)

    def reveal(self, included: set[ClientId]) -> dict[ClientId, int]:
        """Return of each neighbour either the share of its seed, or that of its key, never both."""
        return {
            client: of_seed if client in included else of_key
            for client, (of_key, of_seed) in self._held.items()
        }


class SigningSecrets(PairwiseSecrets):
    """The secrets of a client that signs its keys and the list of the clients in the sum.

    The keys that verify signatures are known to all clients before, from a public key
    infrastructure (Bonawitz et al. 2017, figure 4): they are handed on with the other keys, and are
    no part of a message. They are drawn anew for each round, as the secrets are.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self._signing, self._signed = rng.bytes(32), b""

    @property
    def public(self) -> list[bytes]:
        """The keys for encryption and for masks, their signature, and the key that verifies it."""
        keys = super().public
        signature = masks.sign(self._signing, b"".join(keys))
        return [*keys, signature, masks.verification_key(self._signing)]

    def share(self, me: ClientId, keys: Keys, scheme: "Pairwise", coordinates: int) -> Ciphertexts:
        """See `Secrets.share`.

        Raises:
            Failed: keys of a neighbour are not signed by it.
        """
        for other, (encrypting, masking, signature, verifying) in keys.items():
            _require(verifying, signature, encrypting + masking, f"the keys of client {other}")
        return super().share(me, keys, scheme, coordinates)

    def sign(self, run: int, included: set[ClientId]) -> bytes:
        """Return the signature of the list of the included clients."""
        self._signed = _listed(run, included)
        return masks.sign(self._signing, self._signed)

    def check(self, run: int, included: set[ClientId], signers: Mapping[ClientId, bytes]) -> None:
        """Check a list of the included clients against what the clients have signed.

        Raises:
            Failed: it is another list than this client has signed, or a signature does not fit.
        """
        if _listed(run, included) != self._signed:
            raise Failed("secrecy: the server sends another list of clients than was signed")
        for other, signature in signers.items():
            if other != self._me:
                what = f"the list of client {other}"
                _require(self._keys[other][3], signature, self._signed, what)


def _listed(run: int, clients: set[ClientId]) -> bytes:
    return np.array([run, *sorted(clients)], "<u4").tobytes()


def _require(verifying: bytes, signature: bytes, text: bytes, what: str) -> None:
    if not masks.is_signed(verifying, signature, text):
        raise Failed(f"secrecy: the signature of {what} does not fit")


class Pairwise(Scheme):
    """SecAgg on a graph of neighbours."""

    secrets: type[Secrets] = PairwiseSecrets
    key_bits = 2 * costs.KEY
    begin_work = 2 * costs.AGREEMENT

    def bits(self, degree: int, coordinates: int, left: int | None = None) -> Bits:
        """See `Scheme.bits`."""
        left = degree if left is None else left
        return Bits(
            keys_up=self.key_bits,
            keys_down=self.key_bits * degree,
            shares_up=2 * costs.SHARE * degree,
            shares_down=2 * costs.SHARE * left,
            vector=coordinates * self.code.modulus_bits,
            unmasking=costs.SHARE * (left + 1),
            signatures_up=costs.SIGNATURE * self.signed,
            signatures_down=costs.SIGNATURE * left * self.signed,
            framing_up=costs.CIPHERTEXT * degree,
            framing_down=costs.CIPHERTEXT * left,
        )

    def share_work(self, degree: int, coordinates: int) -> float:
        """Return: an agreement for each neighbour, and shares of two secrets."""
        agreements = degree * (costs.AGREEMENT + 2 * _SHARE * costs.STREAM)
        return agreements + 2 * costs.sharing(degree + 1, self.needed)

    def open_work(self, left: int, coordinates: int) -> float:
        """Return: the decryption of two shares of each."""
        return left * 2 * _SHARE * costs.STREAM

    def mask_work(self, left: int, coordinates: int) -> float:
        """Return: an agreement for each neighbour, a mask for each and its own."""
        mask = costs.expansion(coordinates, self.code.modulus_bits)
        return left * costs.AGREEMENT + (left + 1) * mask

    def reveal_work(self, included: int, coordinates: int) -> float:
        """Return 0: the shares are there."""
        return 0.0

    def server_work(
        self, included: set[ClientId], shared: set[ClientId], coordinates: int
    ) -> float:
        """Return: a secret for each client, masks of those included and of pairs with a lost one.

        All secrets come from the same set of clients if all are neighbours.
        """
        mask = costs.expansion(coordinates, self.code.modulus_bits)
        weights = costs.weights_at_zero(self.needed)
        weights *= 1 if self.graph.complete else len(shared)
        secrets = len(shared) * self.needed * costs.MULTIPLICATION + weights
        pairs = sum(self.graph.count(lost, included) for lost in shared - included)
        return secrets + len(included) * mask + pairs * (mask + costs.AGREEMENT)

    def unmask(
        self,
        total: Integers,
        keys: Keys,
        shared: set[ClientId],
        included: set[ClientId],
        revealed: Mapping[ClientId, Any],
    ) -> Integers:
        """See `Scheme.unmask`."""
        size, bits = len(total), self.code.modulus_bits
        for client in sorted(shared):
            near = [client, *(v for v in self.graph.of(client) if v in shared)]
            told = {v + 1: revealed[v][client] for v in sorted(near) if v in revealed}
            secret = shamir.secret_of(dict(list(told.items())[: self.needed]))
            if client in included:
                total = total - masks.mask(masks.seed_key(secret), size, bits)
                continue
            for other in near:
                if other in included:
                    # What `other` has added for the lost client.
                    key = masks.agree(secret, keys[other][1], masks.MASKING)
                    added = masks.mask(key, size, bits)
                    total = total - (added if client > other else -added)
        return self.code.reduce(total)

    def short(self, shared: set[ClientId], answered: set[ClientId]) -> str:
        """See `Scheme.short`; on a ring each neighbourhood needs its own answers."""
        if self.graph.complete:
            return super().short(shared, answered)
        for client in sorted(shared):
            left = self.graph.count(client, answered) + (client in answered)
            if left < self.needed:
                few = f"{left} clients around client {client} have answered"
                return f"{few}, {self.needed} are needed"
        return ""


class SignedPairwise(Pairwise):
    """SecAgg with its consistency check: keys, and the list of those in the sum, are signed."""

    secrets = SigningSecrets
    key_bits = 2 * costs.KEY + costs.SIGNATURE
    begin_work = 2 * costs.AGREEMENT + costs.SIGN
    signed = True

    def share_work(self, degree: int, coordinates: int) -> float:
        """Return: a signature of each neighbour is verified, too."""
        return super().share_work(degree, coordinates) + degree * costs.VERIFY
