"""What differs between protocols of secure aggregation: sizes, work, and cryptography."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.protocol.secrecy.costs import Bits
from fedsim.protocol.secrecy.integers import IntegerCode, Integers

Keys = Mapping[ClientId, Sequence[bytes]]
"""The public keys of clients."""

Ciphertexts = Mapping[ClientId, bytes]
"""Encrypted shares, by receiver at their sender, by sender at their receiver."""


class Graph:
    """With whom each client of a round shares keys and masks: all others, or a part of a ring.

    Args:
        clients: the clients that have sent keys, ascending.
        degree: the number of neighbours of each.
        rng: draws the order of the ring; not called if all are neighbours.
    """

    def __init__(
        self, clients: Sequence[ClientId], degree: int, rng: Callable[[], np.random.Generator]
    ) -> None:
        self.clients, self.degree = clients, degree
        self.complete = degree >= len(clients) - 1
        self._of: dict[ClientId, list[ClientId]] = {}
        if not self.complete:
            ring = rng().permutation(np.asarray(clients)).tolist()
            size, half = len(ring), degree // 2
            steps = [*range(-half, 0), *range(1, half + 1)]
            self._of = {
                client: sorted(ring[(place + step) % size] for step in steps)
                for place, client in enumerate(ring)
            }

    def of(self, client: ClientId) -> list[ClientId]:
        """Return the neighbours of a client, ascending."""
        if self.complete:
            return [other for other in self.clients if other != client]
        return self._of[client]

    def count(self, client: ClientId, among: set[ClientId]) -> int:
        """Return how many of its neighbours belong to a set, without itself."""
        if self.complete:
            return len(among) - (client in among)
        return sum(other in among for other in self._of[client])


class Secrets(ABC):
    """One client's secrets in one round of a protocol, with real cryptography.

    Args:
        rng: the client's stream of secrets.
    """

    @abstractmethod
    def __init__(self, rng: np.random.Generator) -> None: ...

    @property
    @abstractmethod
    def public(self) -> list[bytes]:
        """Its public keys."""

    @abstractmethod
    def share(self, me: ClientId, keys: Keys, scheme: Any, coordinates: int) -> Ciphertexts:
        """Return a share for each neighbour, encrypted for it.

        Args:
            me: this client.
            keys: the public keys of its neighbours.
            scheme: the protocol, now that its clients are known.
            coordinates: m.
        """

    @abstractmethod
    def receive(self, received: Ciphertexts) -> None:
        """Open the shares of its neighbours that are still there."""

    @abstractmethod
    def mask(self, integers: Integers) -> Integers:
        """Return the integers of its vectors plus masks modulo R, shape (m,)."""

    @abstractmethod
    def reveal(self, included: set[ClientId]) -> Any:
        """Return what it tells the server, so that the masks of the included clients vanish."""


class Scheme(ABC):
    """A protocol in one round, at the server and with all that its clients know of it.

    Args:
        graph: the neighbours of the clients that have sent keys.
        code: how vectors become integers.
        needed: the number of clients, or of neighbours of each, that have to answer.
    """

    secrets: type[Secrets]
    """The class of a client's secrets."""

    keys: int
    """The number of public keys of a client."""

    begin_work: float
    """A client's operations for its keys."""

    def __init__(self, graph: Graph, code: IntegerCode, needed: int) -> None:
        self.graph, self.code, self.needed = graph, code, needed
        self.shared: set[ClientId] = set(graph.clients)
        """The clients that have sent shares, as soon as they are known."""

    def left_of(self, client: ClientId) -> int:
        """Return how many neighbours of a client have sent shares."""
        return self.graph.count(client, self.shared)

    @abstractmethod
    def bits(self, degree: int, coordinates: int, left: int | None = None) -> Bits:
        """Return the bits of a client's messages.

        Args:
            degree: the number of its neighbours.
            coordinates: m, the coordinates of its vectors.
            left: how many neighbours are left after the exchange of shares; all by default.
        """

    @abstractmethod
    def share_work(self, degree: int, coordinates: int) -> float:
        """Return a client's operations for its shares."""

    @abstractmethod
    def open_work(self, left: int, coordinates: int) -> float:
        """Return a client's operations for the shares of its neighbours."""

    @abstractmethod
    def mask_work(self, left: int, coordinates: int) -> float:
        """Return a client's operations for the masks of its vectors."""

    @abstractmethod
    def reveal_work(self, included: int, coordinates: int) -> float:
        """Return a client's operations for the unmasking."""

    @abstractmethod
    def server_work(
        self, included: set[ClientId], shared: set[ClientId], coordinates: int
    ) -> float:
        """Return the server's operations for the unmasking.

        Args:
            included: the clients whose vectors are in the sum.
            shared: the clients that have sent shares.
            coordinates: m.
        """

    @abstractmethod
    def unmask(
        self,
        total: Integers,
        keys: Keys,
        shared: set[ClientId],
        included: set[ClientId],
        revealed: Mapping[ClientId, Any],
    ) -> Integers:
        """Return the sum modulo R without masks, shape (m,).

        Args:
            total: the sum of the masked vectors of the included clients, modulo R.
            keys: all public keys.
            shared: the clients that have sent shares.
            included: those whose vectors are in the sum.
            revealed: what clients have sent for the unmasking.
        """

    def short(self, shared: set[ClientId], answered: set[ClientId]) -> str:
        """Return why the answers do not suffice for the unmasking; empty if they do."""
        if len(answered) >= self.needed:
            return ""
        return f"{len(answered)} clients have answered, {self.needed} are needed"
