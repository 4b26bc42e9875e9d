"""SecAgg and SecAgg+: masks of pairs that cancel, and shares of what is left of them.

Client u sends y_u = x_u + PRG(b_u) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv) mod R, over its
neighbours v that have sent shares. The server gets b_u of the clients in the sum, and the private
keys of those that dropped out, each from `needed` shares (Bonawitz et al. 2017, figure 4; the graph
of neighbours: Bell et al. 2020).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.protocol.secrecy import costs, masks, shamir
from fedsim.protocol.secrecy.costs import Bits
from fedsim.protocol.secrecy.integers import Integers
from fedsim.protocol.secrecy.scheme import Ciphertexts, Keys, Scheme, Secrets

_SHARE = costs.SHARE // 8


class PairwiseSecrets(Secrets):
    """A client's keys, its seed, and the shares that it holds; see `Secrets`."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._encrypting, self._masking = masks.private_key(rng), masks.private_key(rng)
        self._seed = masks.private_key(rng)
        self._keys: Keys = {}
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
                masks.agree(self._encrypting, keys[other][0], masks.ENCRYPTING),
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
            key = masks.agree(self._encrypting, self._keys[other][0], masks.ENCRYPTING)
            plain = masks.decrypt(key, ciphertext)
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


class Pairwise(Scheme):
    """SecAgg on a graph of neighbours."""

    secrets = PairwiseSecrets
    keys = 2
    begin_work = 2 * costs.AGREEMENT

    def bits(self, degree: int, coordinates: int, left: int | None = None) -> Bits:
        """See `Scheme.bits`."""
        left = degree if left is None else left
        return Bits(
            keys_up=2 * costs.KEY,
            keys_down=2 * costs.KEY * degree,
            shares_up=2 * costs.SHARE * degree,
            shares_down=2 * costs.SHARE * left,
            vector=coordinates * self.code.modulus_bits,
            unmasking=costs.SHARE * (left + 1),
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
