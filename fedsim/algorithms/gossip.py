"""Stochastic gradient descent of peers, each of which mixes its model with its neighbours'.

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
    """Decentralised parallel SGD: every node mixes its model with its neighbours', and steps.

    It minimises (1/M) sum_i f_i, and so their sum. With a constant step size it ends near the
    optimum, and the models near one another, the nearer the shorter the step. Neighbours send to
    each other: edges have no direction, and an arrow of a file without one back is refused. So W,
    of the weights of Metropolis and Hastings, is symmetric and doubly stochastic, and mixing keeps
    the mean of the models. In the place of a model that has not arrived, as its sender is gone or
    late, a node takes its own: its row of W still adds up to 1. For a neighbour that has left for
    good W stays symmetric among the others; where one of two has received the other's model and the
    other has not, the column does not add up to 1 in that round, and the mean moves.
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
        default=None, description="samples of a gradient; all of a client's where null"
    )

    async def live(self, node: Node) -> None:
        """Run a node; the numbers are those of the box."""
        x, gamma = node.initial, float(self.step_size)
        while True:
            gradient = await node.compute(node.oracle.minibatch(x, self.batch, node.rng))  # 2, 3
            mixed = x
            for reply in await node.exchange(Model(node.pack(x))):  # 4
                mixed = mixed + node.weights[reply.client] * (reply.message.w.values - x)
            x = mixed - gamma * gradient  # 5
            node.commit(x)
