"""Methods of peers: their base class, mixing, copies that advance by differences, and triggers.

A mixing step replaces a node's vector by a weighted mean of its own and its senders'. Where vectors
are compressed, a node sends the difference to a copy of its vector that its neighbours have, too,
and mixes with the copies. A node with a trigger sends only if its vector has moved far enough.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Never

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import Algorithm
from fedsim.core.ports import Array, Client, ClientId, Node, Payload, Server
from fedsim.physics.overlay import Need

# Base class of algorithms among peers: every node runs the same coroutine.


class PeerAlgorithm(Algorithm):
    """An algorithm without a server: every node runs `live`, and exchanges with its neighbours.

    It needs a network with `peers`. Messages of nodes are packed by `uplink`. A node that fails has
    left for good: its coroutine is cancelled at an `await`, and its neighbours continue without it.
    """

    weighs_losses: ClassVar[bool] = True

    needs: ClassVar[Need] = "doubly-stochastic"
    """The mixing matrix that its theory needs; another one is refused."""

    graph_may_change: ClassVar[bool] = False
    """Whether its theory covers graphs that change from exchange to exchange, and `live` reads
    neighbours and weights of an exchange only after it."""

    lives_rows: ClassVar[bool] = False
    """Whether `live` computes entry by entry, from its messages and the node's loss alone, and does
    the same in every round: then it may run once for many nodes, whose vectors are rows (n, d)."""

    weighs: ClassVar[bool] = True
    """Whether it reads the weights of the mixing matrix; else `network.mixing` is refused."""

    def start(self, initial: Array, rng: np.random.Generator) -> Array:
        """Return the vector that a node begins with; most methods take the initial model.

        Round 0 has the mean and the distance of these vectors, so a method whose `live` draws one
        draws it here.

        Args:
            initial: the initial model, shape (d,), or a row for each of many nodes, (n, d).
            rng: the node's random stream, from its beginning.
        """
        return initial

    @abstractmethod
    async def live(self, node: Node) -> None:
        """Run a node: exchanges with its neighbours and commits, until a stop rule applies."""

    async def serve(self, server: Server) -> Never:
        """Not available: there is no server."""
        raise TypeError(f"{self.kind} is a method of peers: it has no server")

    async def handle(self, client: Client, message: object) -> Never:
        """Not available: there is no server."""
        raise TypeError(f"{self.kind} is a method of peers: no server sends it a message")


# What they share.


class DrawnStart(PeerAlgorithm):
    """A method that averages vectors, which nodes draw around the initial model."""

    spread: float = Field(
        default=1.0,
        ge=0,
        description="standard deviation of the drawn vectors of nodes around the initial model",
    )

    def start(self, initial: Array, rng: np.random.Generator) -> Array:
        """Return a node's vector, of which peers compute the mean."""
        return initial + self.spread * rng.standard_normal(initial.shape)


def mix(node: Node, x: Array, received: Sequence[tuple[ClientId, Array]]) -> Array:
    """Return a node's row of W x: its vector and the received ones, with their weights.

    For one that has not arrived its own vector stands, so that the weights still add up to 1.

    Args:
        node: has the weights, whose row adds up to 1 with its own.
        x: its vector, shape (d,).
        received: the senders and their vectors.
    """
    weights, mixed = node.weights, x.copy()
    for sender, vector in received:
        apart = vector - x
        apart *= weights[sender]
        mixed += apart
    return mixed


class Copies:
    """A node's copy of its own vector, which its neighbours have too, and its copies of theirs.

    All start at the initial model, and advance by the differences that are sent. So a compressor
    loses nothing for good: the next difference contains its error.

    Attributes:
        own: the copy of the node's vector, shape (d,).
        others: of its senders' vectors, by number.
    """

    __slots__ = ("_node", "others", "own")

    def __init__(self, node: Node) -> None:
        self._node = node
        self.own = node.initial
        self.others: dict[ClientId, Array] = dict.fromkeys(node.senders, node.initial)

    def advance(self, x: Array) -> Payload:
        """Return the payload of the difference of a vector to its copy, by which that advances."""
        payload = self._node.pack(x - self.own)
        self.own = self.own + payload.values
        return payload

    def receive(self, sender: ClientId, difference: Array) -> None:
        """Advance the copy of a sender's vector."""
        self.others[sender] = self.others[sender] + difference

    def pull(self) -> Array:
        """Return sum_j w_ij (copy of j - own copy), over the senders that are left, shape (d,)."""
        total = np.zeros_like(self.own)
        for sender in self._node.senders:
            total = total + self._node.weights[sender] * (self.others[sender] - self.own)
        return total


def fires(x: Array, copy: Array, threshold: float) -> bool:
    """Return whether a vector has moved further than a threshold from what neighbours have."""
    return bool(np.linalg.norm(x - copy) > threshold)
