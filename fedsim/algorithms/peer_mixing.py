"""Methods of peers: their base class, mixing, copies that advance by differences, and triggers.

A mixing step replaces a node's vector by a weighted mean of its own vector and those of its
senders. If vectors are compressed, a node sends the difference to a copy of its vector that its
neighbours have, too, and mixes the copies. A node with a trigger sends only if its vector has moved
far enough.
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

    It needs a network with `peers`. The meaning of a node's vectors is that of `uplink`. A node
    that fails leaves for good: its coroutine is cancelled at an `await`, and its neighbours
    continue without it.
    """

    weighs_losses: ClassVar[bool] = True

    needs: ClassVar[Need] = "doubly-stochastic"
    """The kind of mixing matrix that its theory needs; others are refused."""

    graph_may_change: ClassVar[bool] = False
    """Whether its theory covers graphs that change from exchange to exchange. `live` then reads the
    neighbours and weights of an exchange only after it."""

    lives_rows: ClassVar[bool] = False
    """Whether `live` may run once for many nodes, whose vectors are rows of an array (n, d). It
    computes entry by entry, reads only messages and the node's loss, and all rounds are alike."""

    weighs: ClassVar[bool] = True
    """Whether it reads the weights of the mixing matrix; otherwise `network.mixing` is refused."""

    mixes_by_rule: ClassVar[bool] = False
    """Whether all its vectors are mixed by `mix`, and its theory has a robust form of that."""

    def start(self, initial: Array, rng: np.random.Generator) -> Array:
        """Return the vector that a node begins with; most methods take the initial model.

        A method with random initial vectors draws them here, not in `live`, because round 0 reports
        the mean of these vectors and their distance to it.

        Args:
            initial: the initial model, shape (d,), or a row for each of many nodes, (n, d).
            rng: the node's random stream, from its beginning.
        """
        return initial

    @abstractmethod
    async def live(self, node: Node) -> None:
        """Run a node: exchange with its neighbours and commit models, until a stop rule applies."""

    async def serve(self, server: Server) -> Never:
        """Not available: there is no server."""
        raise TypeError(f"{self.kind} is a method of peers: it has no server")

    async def handle(self, client: Client, message: object) -> Never:
        """Not available: there is no server."""
        raise TypeError(f"{self.kind} is a method of peers: no server sends it a message")


# Parts of several methods of peers.


class DrawnStart(PeerAlgorithm):
    """A method that averages random vectors, which nodes draw around the initial model."""

    spread: float = Field(
        default=1.0,
        ge=0,
        description="standard deviation of the drawn vectors of nodes around the initial model",
    )

    def start(self, initial: Array, rng: np.random.Generator) -> Array:
        """Return a node's vector, of which peers compute the mean."""
        return initial + self.spread * rng.standard_normal(initial.shape)


def mix(node: Node, x: Array, received: Sequence[tuple[ClientId, Array]]) -> Array:
    """Return a node's row of W x: the weighted mean of its vector and the received ones.

    Its own vector replaces one that has not arrived, so that the weights still add up to 1. Under
    another `aggregation` than the mean, that rule mixes.

    Args:
        node: the node, which has the weights.
        x: its vector, shape (d,).
        received: the senders and their vectors.
    """
    if node.mix is not None:
        return node.mix(x, received, node.weights)
    weights, mixed = node.weights, x.copy()
    for sender, vector in received:
        apart = vector - x
        apart *= weights[sender]
        mixed += apart
    return mixed


class Copies:
    """A node's copies of its own vector, which its neighbours have, too, and of its senders'.

    All start at the initial model, and advance by the differences that are sent. So a compression
    error is not permanent: the next difference contains it.

    Attributes:
        own: the copy of the node's vector, shape (d,).
        others: the copies of its senders' vectors, by sender.
    """

    __slots__ = ("_node", "others", "own")

    def __init__(self, node: Node) -> None:
        self._node = node
        self.own = node.initial
        self.others: dict[ClientId, Array] = dict.fromkeys(node.senders, node.initial)

    def advance(self, x: Array) -> Payload:
        """Advance the node's own copy towards a vector, and return the payload that does so."""
        payload = self._node.pack(x - self.own)
        self.own = self.own + payload.values
        return payload

    def receive(self, sender: ClientId, difference: Array) -> None:
        """Advance the copy of a sender's vector."""
        self.others[sender] = self.others[sender] + difference

    def pull(self) -> Array:
        """Return sum_j w_ij (copy of j - own copy) over the present senders, shape (d,)."""
        total = np.zeros_like(self.own)
        for sender in self._node.senders:
            total = total + self._node.weights[sender] * (self.others[sender] - self.own)
        return total


def fires(x: Array, copy: Array, threshold: float) -> bool:
    """Return whether a vector has moved further than a threshold from what neighbours have."""
    return bool(np.linalg.norm(x - copy) > threshold)
