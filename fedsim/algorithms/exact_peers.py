"""Peers that converge to the optimum with a constant step: EXTRA, NIDS and gradient tracking.

D-PSGD with a constant step ends near the optimum, not at it, because the nodes' own gradients do
not vanish there. These methods correct the step by the difference of two successive gradients. W is
the mixing matrix, a the step size, and x_k and g_k are the nodes' models and gradients, one per
row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from fedsim.algorithms.gossip import Descends, SendsPeerModels
from fedsim.algorithms.peer_mixing import mix
from fedsim.core.ports import Meaning, Message, Node, Payload
from fedsim.physics.overlay import Need


class Extra(Descends, SendsPeerModels):
    """EXTRA: decentralised gradient descent, corrected by the step before.

    x_1 = W x_0 - a g_0, and then x_{k+2} = (I + W) x_{k+1} - (I + W)/2 x_k - a (g_{k+1} - g_k). It
    needs a symmetric W. The corrections accumulate, so a message that is late or lost leaves a
    permanent error.
    """

    kind: Literal["extra"] = "extra"
    needs: ClassVar[Need] = "symmetric"
    source: ClassVar[str] = (
        "Shi, Ling, Wu, Yin: EXTRA: An Exact First-Order Algorithm for Decentralized Consensus"
        " Optimization, SIAM J. Optim. 2015, (2.13)"
    )

    async def live(self, node: Node) -> None:
        """Run a node."""
        old, old_gradient = node.initial, await self.gradient(node, node.initial)
        old_mixed = await self.mix_models(node, old)
        x = old_mixed - self.rate * old_gradient
        node.commit(x)
        while True:
            gradient = await self.gradient(node, x)
            mixed = await self.mix_models(node, x)
            step = self.rate * (gradient - old_gradient)
            new = x + mixed - (old + old_mixed) / 2 - step
            old, old_mixed, old_gradient, x = x, mixed, gradient, new
            node.commit(x)


class Nids(Descends, SendsPeerModels):
    """NIDS: unlike under EXTRA, the largest step size does not depend on the network.

    x_1 = x_0 - a g_0, and then x_{k+2} = (I + W)/2 (2 x_{k+1} - x_k - a (g_{k+1} - g_k)). It needs
    a symmetric W. A message that is late or lost leaves a permanent error.
    """

    kind: Literal["nids"] = "nids"
    needs: ClassVar[Need] = "symmetric"
    source: ClassVar[str] = (
        "Li, Shi, Yan: A Decentralized Proximal-Gradient Method With Network Independent Step-Sizes"
        " and Separated Convergence Rates, IEEE Trans. Signal Process. 2019, algorithm 1"
    )

    async def live(self, node: Node) -> None:
        """Run a node."""
        old, old_gradient = node.initial, await self.gradient(node, node.initial)
        x = old - self.rate * old_gradient
        while True:
            gradient = await self.gradient(node, x)
            z = 2 * x - old - self.rate * (gradient - old_gradient)
            mixed = await self.mix_models(node, z)
            old, old_gradient, x = x, gradient, (z + mixed) / 2
            node.commit(x)


@dataclass(frozen=True, slots=True)
class TrackedModel(Message):
    """Between peers: a model and the tracked mean of all gradients, each of shape (d,)."""

    w: Payload
    gradient: Payload


class Diging(Descends):
    """DIGing: every node tracks the mean gradient of all nodes, and steps along it.

    x_{k+1} = W x_k - a y_k and y_{k+1} = W y_k + g_{k+1} - g_k, with y_0 = g_0. It needs a doubly
    stochastic W; the graph may be directed. A message has two vectors. A message that is late or
    lost leaves a permanent error.
    """

    kind: Literal["diging"] = "diging"
    source: ClassVar[str] = (
        "Nedic, Olshevsky, Shi: Achieving Geometric Convergence for Distributed Optimization over"
        " Time-Varying Graphs, SIAM J. Optim. 2017, algorithm 1"
    )
    graph_may_change: ClassVar[bool] = True
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE, "gradient": Meaning.STATE}
    downlink: ClassVar[Mapping[str, Meaning]] = {}
    messages: ClassVar[tuple[type[Message], ...]] = (TrackedModel,)

    async def live(self, node: Node) -> None:
        """Run a node."""
        x = node.initial
        y = gradient = await self.gradient(node, x)
        while True:
            sent = TrackedModel(node.pack(x), node.pack(y, field="gradient"))
            replies = await node.exchange(sent)
            models = [(reply.client, reply.message.w.values) for reply in replies]
            tracked = [(reply.client, reply.message.gradient.values) for reply in replies]
            x = mix(node, x, models) - self.rate * y
            node.commit(x)
            new = await self.gradient(node, x)
            y = mix(node, y, tracked) + new - gradient
            gradient = new
