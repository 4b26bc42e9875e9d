"""What differs between protocols of secure aggregation: sizes, work, and cryptography."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.protocol.secrecy import costs, masks
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
        self._ring = clients
        if not self.complete:
            self._ring = ring = rng().permutation(np.asarray(clients)).tolist()
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

    def groups(self, size: int) -> list[list[ClientId]]:
        """Return the clients in groups of at least this size, if there are as many.

        They are in the order of their numbers, or of the ring; sizes differ by one at most.
        """
        count = max(len(self._ring) // size, 1)
        return [part.tolist() for part in np.array_split(np.asarray(self._ring), count)]


class Secrets(ABC):
    """One client's secrets in one round of a protocol, with real cryptography.

    Args:
        rng: the client's stream of secrets.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._encrypting = masks.private_key(rng)
        self._keys: Keys = {}

    @property
    @abstractmethod
    def public(self) -> list[bytes]:
        """Its public keys; the first one is for encryption."""

    def common(self, other: ClientId, purpose: bytes = masks.ENCRYPTING) -> bytes:
        """Return the common key of this client and a neighbour, 32 bytes."""
        return masks.agree(self._encrypting, self._keys[other][0], purpose)

    def vote(self, me: ClientId, group: Iterable[ClientId], *, speaks: bool) -> int:
        """Return a client's vote on the silence of its group, an integer of `VOTE` bits.

        It is 0, or a random number if the client speaks, plus masks of pairs of the group's clients
        that cancel (Chaum, Journal of Cryptology 1988). So the sum over the group is 0 if all are
        silent; it is uniform if one speaks, or if a vote is missing.
        """
        vote = int.from_bytes(self._rng.bytes(costs.VOTE // 8)) if speaks else 0
        for other in group:
            if other != me:
                added = int(masks.mask(self.common(other, masks.VOTING), 1, costs.VOTE)[0])
                vote += added if other > me else -added
        return vote % (1 << costs.VOTE)

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

    key_bits: int
    """Bits of a client's public keys, with their signature."""

    signed = False
    """Whether clients sign the list of those in the sum."""

    begin_work: float
    """A client's operations for its keys."""

    def __init__(self, graph: Graph, code: IntegerCode, needed: int) -> None:
        self.graph, self.code, self.needed = graph, code, needed
        self.shared: set[ClientId] = set(graph.clients)
        """The clients that have sent shares, as soon as they are known."""
        self.group_of: dict[ClientId, list[ClientId]] = {}
        """The group of each client under `silence: grouped`."""

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
