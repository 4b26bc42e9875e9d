"""Push-sum: averages on directed graphs, whose nodes know their receivers alone.

Kempe, Dobra, Gehrke, "Gossip-Based Computation of Aggregate Information", FOCS 2003. Assran,
Loizou, Ballas, Rabbat, "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019.
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
    """Between peers: a vector, shape (d,), and the mass that it stands for, a number."""

    x: Payload
    mass: Payload


class PushesMass(PeerAlgorithm):
    """A method whose nodes divide a vector and a mass among those that they send to.

    It needs a column stochastic W of a strongly connected graph: a sender's shares add up to 1,
    and so the sums over all nodes are preserved. A message that is lost or late takes its share of
    both with it: the sums are no longer those of before, and the column `mass`, the nodes' mean
    mass, falls below 1. The same holds for what is sent to a node that has left, and for its own.
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
    """Push-sum: the mean of vectors that are drawn, each a sum divided by its mass."""

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
    """SGP: a stochastic gradient step at the node's mean, and then push-sum's division."""

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
