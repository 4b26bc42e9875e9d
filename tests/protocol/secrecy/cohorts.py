"""A round of secure aggregation with real cryptography, without a world around it."""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.protocol.secrecy.agreement import Agreement
from fedsim.protocol.secrecy.blocks import Secrecy
from fedsim.protocol.secrecy.integers import Integers
from fedsim.protocol.secrecy.pairwise import SigningSecrets
from fedsim.protocol.secrecy.scheme import Scheme, Secrets


@dataclass
class Cohort:
    """The clients of a round, each with integers of its own.

    Attributes:
        block: the protocol.
        clients: those that have sent keys.
        coordinates: m.
        seed: of everything that is drawn.
    """

    block: Secrecy
    clients: list[ClientId]
    coordinates: int = 3
    seed: int = 0
    sent: dict[ClientId, dict[ClientId, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def rng(*names: object) -> np.random.Generator:
            words = [sum(map(ord, str(name))) for name in names]
            return np.random.default_rng([self.seed, *words])

        known = Agreement(block=self.block, method="fedavg", coordinates=self.coordinates, rng=rng)
        self.scheme: Scheme = known.scheme_among(self.clients, 1)
        draw, most = rng("integers"), self.scheme.code.largest
        self.integers: dict[ClientId, Integers] = {
            client: draw.integers(-most, most + 1, self.coordinates) for client in self.clients
        }
        self.secrets: dict[ClientId, Secrets] = {
            client: known.scheme.secrets(rng("secrecy", client)) for client in self.clients
        }
        self.keys = {client: one.public for client, one in self.secrets.items()}

    def share(self, shared: set[ClientId]) -> None:
        """Let some clients send shares, which reach all others of them."""
        graph = self.scheme.graph
        for client in sorted(shared):
            near = {other: self.keys[other] for other in graph.of(client)}
            self.sent[client] = dict(
                self.secrets[client].share(client, near, self.scheme, self.coordinates)
            )
        self.scheme.shared = shared
        for client in sorted(shared):
            received = {v: self.sent[v][client] for v in graph.of(client) if v in shared}
            self.secrets[client].receive(received)

    def masked(self, client: ClientId) -> Integers:
        return self.secrets[client].mask(self.integers[client])

    def unmasked(self, included: set[ClientId], answering: set[ClientId]) -> Integers:
        """Return what the server makes of the masked vectors of some and the answers of others."""
        if self.scheme.signed:
            self.sign(included, answering)
        told: dict[ClientId, Any] = {v: self.secrets[v].reveal(included) for v in answering}
        code, total = self.scheme.code, np.zeros(self.coordinates, np.int64)
        for client in included:
            total = code.reduce(total + self.masked(client))
        sum_ = self.scheme.unmask(total, self.keys, self.scheme.shared, included, told)
        return code.centre(sum_)

    def sign(self, included: set[ClientId], answering: set[ClientId]) -> None:
        """Let some clients sign the list of those in the sum, and check each other's signatures."""
        signing = {v: cast("SigningSecrets", self.secrets[v]) for v in answering}
        signatures = {v: one.sign(1, included) for v, one in signing.items()}
        for one in signing.values():
            one.check(1, included, signatures)

    def plain(self, included: set[ClientId]) -> list[int]:
        """Return the sum of their integers."""
        total: list[int] = np.sum([self.integers[client] for client in included], axis=0).tolist()
        return total
