"""D-PSGD: stochastic gradient descent of peers that average with their neighbours (gossip).

Lian, Zhang, Zhang, Hsieh, Zhang, Liu, "Can Decentralized Algorithms Outperform Centralized
Algorithms? A Case Study for Decentralized Parallel Stochastic Gradient Descent", NeurIPS 2017,
algorithm 1 (D-PSGD). With full gradients it is decentralised gradient descent (Nedic, Ozdaglar,
"Distributed Subgradient Methods for Multi-Agent Optimization", IEEE Trans. Autom. Control 2009).
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from fedsim.algorithms.base import PeerAlgorithm, StepSize
from fedsim.algorithms.local_steps import Model
from fedsim.ports import Meaning, Message, Node


class DPSGD(PeerAlgorithm):
    """Decentralised parallel SGD: every node mixes its model with its neighbours' and steps.

    It minimises (1/M) sum_i f_i, and so their sum. With a constant step size the models end near
    the optimum and near one another, the nearer the shorter the step. Edges have no direction: a
    directed edge of a file without its reverse is refused. So W, with the weights of Metropolis and
    Hastings, is symmetric and doubly stochastic, and mixing preserves the mean of the models. In
    place of a model that has not arrived, because its sender has left or is late, a node uses its
    own: its row of W still adds up to 1. For a neighbour that has left for good, W stays symmetric
    among the others. If only one of two neighbours has received the other's model, the column does
    not add up to 1 in that round, and mixing changes the mean.
    """

    kind: Literal["d-psgd"] = "d-psgd"
    source: ClassVar[str] = (
        "Lian, Zhang, Zhang, Hsieh, Zhang, Liu: Can Decentralized Algorithms Outperform"
        " Centralized Algorithms?, NeurIPS 2017, algorithm 1"
    )
    measured_by: ClassVar[Literal["L", "L_max"]] = "L_max"
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}
    downlink: ClassVar[Mapping[str, Meaning]] = {}
    messages: ClassVar[tuple[type[Message], ...]] = (Model,)

    step_size: StepSize = Field(description='gamma: a number, or a multiple of 1/L_max ("1/L_max")')
    batch: PositiveInt | None = Field(
        default=None, description="samples of a gradient; all samples of the client by default"
    )

    async def live(self, node: Node) -> None:
        """Run a node; comments give the line numbers of Algorithm 1."""
        x, gamma = node.initial, float(self.step_size)
        while True:
            gradient = await node.compute(node.oracle.minibatch(x, self.batch, node.rng))  # 2, 3
            mixed = x
            for reply in await node.exchange(Model(node.pack(x))):  # 4
                mixed = mixed + node.weights[reply.client] * (reply.message.w.values - x)
            x = mixed - gamma * gradient  # 5
            node.commit(x)
