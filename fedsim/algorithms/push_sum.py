"""Push-sum: averages on directed graphs, whose nodes know only their receivers.

Every node has a vector x_i and a mass m_i, 1 at first. With a column stochastic W, in which a
sender chooses the shares of its receivers, an exchange is x <- W x, m <- W m, and x_i/m_i converges
to the mean of all vectors. SGP also takes stochastic gradient steps at x_i/m_i. Kempe, Dobra,
Gehrke, "Gossip-Based Computation of Aggregate Information", FOCS 2003. Assran, Loizou, Ballas,
Rabbat, "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsim.algorithms.gossip import Descends
from fedsim.algorithms.peer_mixing import DrawnStart, PeerAlgorithm
from fedsim.core.ports import Array, Meaning, Message, Node, Payload
from fedsim.physics.overlay import Need


@dataclass(frozen=True, slots=True)
class Pushed(Message):
    """Between peers: a vector, shape (d,), and its mass, a number."""

    x: Payload
    mass: Payload


class PushesMass(PeerAlgorithm):
    """A method whose nodes divide a vector and a mass among their receivers and themselves.

    It needs a column stochastic W of a strongly connected graph: a sender's shares add up to 1, so
    that the sums over all nodes are preserved. The shares in a message that is lost or late are
    missing from the sums, and the column `mass`, the nodes' mean mass, falls below 1. So are those
    that are sent to a node that has left, and its own vector and mass.
    """

    needs: ClassVar[Need] = "column-stochastic"
    graph_may_change: ClassVar[bool] = True
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.EXACT, "mass": Meaning.EXACT}
    downlink: ClassVar[Mapping[str, Meaning]] = {}
    messages: ClassVar[tuple[type[Message], ...]] = (Pushed,)

    async def push(self, node: Node, x: Array, mass: float) -> tuple[Array, float]:
        """Exchange a vector, shape (d,), and its mass; return the sums of all shares."""
        message = Pushed(node.pack(x), node.pack(np.asarray(mass), field="mass"))
        replies = await node.exchange(message)
        total, weight = node.own_weight * x, node.own_weight * mass
        for reply in replies:
            share = node.weights[reply.client]
            total = total + share * reply.message.x.values
            weight += share * float(reply.message.mass.values)
        return total, weight


class PushSum(DrawnStart, PushesMass):
    """Push-sum: averaging of random vectors; a node's estimate is its vector over its mass."""

    kind: Literal["push-sum"] = "push-sum"
    source: ClassVar[str] = (
        "Kempe, Dobra, Gehrke: Gossip-Based Computation of Aggregate Information, FOCS 2003,"
        " protocol push-sum"
    )

    async def live(self, node: Node) -> None:
        """Run a node."""
        x, mass = self.start(node.initial, node.rng), 1.0
        while True:
            x, mass = await self.push(node, x, mass)
            node.commit(x / mass, mass=mass)


class StochasticGradientPush(Descends, PushesMass):
    """SGP: a stochastic gradient step at x_i/m_i, then an exchange of push-sum."""

    kind: Literal["sgp"] = "sgp"
    source: ClassVar[str] = (
        "Assran, Loizou, Ballas, Rabbat: Stochastic Gradient Push for Distributed Deep Learning,"
        " ICML 2019, algorithm 1"
    )

    async def live(self, node: Node) -> None:
        """Run a node."""
        x, mass = node.initial, 1.0
        while True:
            half = x - self.rate * await self.gradient(node, x / mass)
            x, mass = await self.push(node, half, mass)
            node.commit(x / mass, mass=mass)
