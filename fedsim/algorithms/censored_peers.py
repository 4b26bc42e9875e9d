"""COLA: decentralised ADMM with linearised steps, whose nodes keep silent while little changes."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.algorithms.gossip import SendsPeerModels
from fedsim.algorithms.local_steps import Model
from fedsim.algorithms.peer_mixing import SymmetricMixing, fires
from fedsim.ports import Array, ClientId, Node


class Cola(SendsPeerModels, SymmetricMixing):
    """Communication-censored linearised ADMM: a node sends its model only if it has moved enough.

    x_i <- x_i - (g_i + c sum_j (s_i - s_j) + l_i) / (2 c d_i + rho), s the models that were last
    sent, d_i the number of neighbours; then l_i <- l_i + c sum_j (s_i - s_j). In round k a node
    sends where |x_i - s_i| > threshold * decay^k. It needs undirected edges, and no mixing weights.
    With a threshold of 0 it is DLM (Ling, Shi, Wu, Ribeiro, IEEE Trans. Signal Process. 2015), the
    decentralised ADMM whose step in x_i is linearised: the fixed point has equal models, and
    gradients that add up to 0, because the l_i always do. The update is derived from DLM and the
    paper's rule of censoring; its order within a round was not compared with the paper's listing.
    """

    kind: Literal["cola"] = "cola"
    source: ClassVar[str] = (
        "Li, Liu, Tian, Ling: COLA: Communication-Censored Linearized ADMM for Decentralized"
        " Consensus Optimization, IEEE Trans. Signal Inf. Process. Netw. 2020"
    )

    penalty: float = Field(gt=0, description="c, the penalty of a difference between neighbours")
    rho: float = Field(gt=0, description="the proximal weight; of the order of L_max")
    threshold: float = Field(default=0.0, ge=0, description="of a move; 0 sends in every round")
    decay: float = Field(
        default=0.95, gt=0, lt=1, description="the factor of the threshold a round"
    )

    async def live(self, node: Node) -> None:
        """Run a node."""
        x = sent = node.initial
        others: dict[ClientId, Array] = dict.fromkeys(node.senders, sent)
        dual = apart = np.zeros_like(x)
        while True:
            gradient = await node.compute(node.oracle.gradient(x))
            scale = 2 * self.penalty * len(node.senders) + self.rho
            x = x - (gradient + apart + dual) / scale
            moved = fires(x, sent, self.threshold * self.decay**node.round)
            message = Model(node.pack(x)) if moved else None
            if message is not None:
                sent = message.w.values
            for reply in await node.exchange({} if message is None else message):
                others[reply.client] = reply.message.w.values
            apart = np.zeros_like(x)
            for sender in node.senders:
                apart = apart + self.penalty * (sent - others[sender])
            dual = dual + apart
            node.commit(x)
