"""Gossip: peers average their vectors with their neighbours', with or without gradient steps.

W is the mixing matrix, a the step size, and x and g are the nodes' vectors and gradients, one per
row. Averaging alone is x <- W x; D-PSGD is x <- W x - a g; DFedAvg is x <- W z, where z are the
models after K local steps from x.

Averaging alone: Xiao, Boyd, "Fast linear iterations for distributed averaging", Systems & Control
Letters 2004. D-PSGD: Lian, Zhang, Zhang, Hsieh, Zhang, Liu, "Can Decentralized Algorithms
Outperform Centralized Algorithms? A Case Study for Decentralized Parallel Stochastic Gradient
Descent", NeurIPS 2017, algorithm 1. With full gradients it is decentralised gradient descent
(Nedic, Ozdaglar, "Distributed Subgradient Methods for Multi-Agent Optimization", IEEE Trans.
Autom. Control 2009). DFedAvg: Sun, Li, Wang, "Decentralized Federated Averaging", IEEE Trans.
Pattern Anal. Mach. Intell. 2023.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from fedsim.algorithms.base import StepSize
from fedsim.algorithms.local_steps import Model, local_steps
from fedsim.algorithms.peer_mixing import DrawnStart, PeerAlgorithm, mix
from fedsim.core.ports import Array, Meaning, Message, Node, PairNode


class SendsPeerModels(PeerAlgorithm):
    """A method whose nodes send vectors that replace the ones sent before."""

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}
    downlink: ClassVar[Mapping[str, Meaning]] = {}
    messages: ClassVar[tuple[type[Message], ...]] = (Model,)

    async def mix_models(self, node: Node, x: Array) -> Array:
        """Exchange a vector, shape (d,), with the neighbours; return the weighted mean."""
        replies = await node.exchange(Model(node.pack(x)))
        return mix(node, x, [(reply.client, reply.message.w.values) for reply in replies])


class Descends(PeerAlgorithm):
    """A method whose nodes compute stochastic gradients of their own losses."""

    measured_by: ClassVar[Literal["L", "L_max"]] = "L_max"

    step_size: StepSize = Field(
        description='gamma: a number, or a multiple of 1/L_max ("1/L_max"), L_max the largest'
        " smoothness constant of a node's weighted loss, or of 1/L"
    )
    batch: PositiveInt | None = Field(
        default=None, description="samples per gradient; all samples of the client by default"
    )

    @property
    def rate(self) -> float:
        """The step size as a number, after `configure`."""
        return float(self.step_size)

    async def gradient(self, node: Node | PairNode, x: Array) -> Array:
        """Compute a stochastic gradient of a node's weighted loss, shape (d,)."""
        return node.weight * await node.compute(node.oracle.minibatch(x, self.batch, node.rng))


class Gossip(DrawnStart, SendsPeerModels):
    """Averaging alone: nodes draw random vectors, and mix them with their neighbours'.

    Every exchange multiplies the distance of the nodes to their mean, the column `consensus`, by at
    most the second largest eigenvalue of the mixing matrix, and in the long run by about that.
    """

    kind: Literal["gossip"] = "gossip"
    source: ClassVar[str] = (
        "Xiao, Boyd: Fast linear iterations for distributed averaging, Systems & Control Letters"
        " 2004"
    )
    graph_may_change: ClassVar[bool] = True
    lives_rows: ClassVar[bool] = True
    mixes_by_rule: ClassVar[bool] = True

    async def live(self, node: Node) -> None:
        """Run a node."""
        x = self.start(node.initial, node.rng)
        while True:
            x = await self.mix_models(node, x)
            node.commit(x)


class DPSGD(Descends, SendsPeerModels):
    """Decentralised parallel SGD: a node mixes its model with its neighbours', and takes a step.

    The paper's f_i is M w_i f_i here, so that the mean over the nodes is F. With a constant step
    size the models end near the optimum and near one another; a shorter step brings them nearer. It
    needs a doubly stochastic W, so that mixing preserves the mean of the models. If a model has not
    arrived, because its sender has left or is late, a node uses its own model instead, so that its
    row of W still adds up to 1. After a node has left for good, a symmetric W stays symmetric among
    the others. If only one of two neighbours has received the other's model, a column of W does not
    add up to 1 in that round, and mixing changes the mean.
    """

    kind: Literal["d-psgd"] = "d-psgd"
    source: ClassVar[str] = (
        "Lian, Zhang, Zhang, Hsieh, Zhang, Liu: Can Decentralized Algorithms Outperform"
        " Centralized Algorithms?, NeurIPS 2017, algorithm 1"
    )
    graph_may_change: ClassVar[bool] = True
    lives_rows: ClassVar[bool] = True
    mixes_by_rule: ClassVar[bool] = True

    async def live(self, node: Node) -> None:
        """Run a node; comments give the line numbers of Algorithm 1."""
        x = node.initial
        while True:
            gradient = await self.gradient(node, x)  # 2, 3
            x = await self.mix_models(node, x) - self.rate * gradient  # 4, 5
            node.commit(x)


class DFedAvg(Descends, SendsPeerModels):
    """Decentralised federated averaging: local SGD steps, then a mean with the neighbours.

    Local steps are without momentum.
    """

    kind: Literal["dfedavg"] = "dfedavg"
    source: ClassVar[str] = (
        "Sun, Li, Wang: Decentralized Federated Averaging, IEEE Trans. Pattern Anal. Mach. Intell."
        " 2023, algorithm 1 without momentum"
    )
    graph_may_change: ClassVar[bool] = True
    lives_rows: ClassVar[bool] = True
    mixes_by_rule: ClassVar[bool] = True

    local_steps: PositiveInt = Field(default=1, description="K, local steps per round")

    async def live(self, node: Node) -> None:
        """Run a node."""
        x = node.initial
        while True:
            z = await local_steps(node, x, node.weight * self.rate, self.local_steps, self.batch)
            x = await self.mix_models(node, z)
            node.commit(x)
