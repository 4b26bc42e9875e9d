"""Censored ADMM among peers, whose nodes keep silent while little changes: COLA and COKE.

Both send where |x_i - s_i| > threshold * decay^k in round k, s the models that were last sent,
and both have nodes add up c sum_j (s_i - s_j), their multipliers. COLA linearises a node's loss;
COKE minimises it.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import ProblemInfo
from fedsim.algorithms.concerns import Concern
from fedsim.algorithms.gossip import SendsPeerModels
from fedsim.algorithms.local_steps import Model
from fedsim.algorithms.peer_mixing import fires
from fedsim.algorithms.solvers import AnySolver, Exact
from fedsim.core.ports import Array, ClientId, Node
from fedsim.physics.overlay import Need
from fedsim.problems.proximal import ProximalLoss


class CensoredAdmm(SendsPeerModels):
    """Decentralised ADMM whose nodes send their models only if these have moved enough.

    l_i <- l_i + c sum_j (s_i - s_j) after each exchange, from 0: the l_i always add up to 0, unless
    a message is late or lost. It needs undirected edges, and no mixing weights.
    """

    needs: ClassVar[Need] = "symmetric"
    weighs: ClassVar[bool] = False

    penalty: float = Field(gt=0, description="c, the penalty of a difference between neighbours")
    threshold: float = Field(
        default=0.0,
        ge=0,
        description=(
            "a node sends if its model has moved by more than this; 0: it sends in every round"
        ),
    )
    decay: float = Field(default=0.95, gt=0, lt=1, description="factor on the threshold per round")

    @abstractmethod
    async def step(self, node: Node, x: Array, sent: Array, apart: Array, dual: Array) -> Array:
        """Return a node's next model, shape (d,).

        Args:
            node: its world.
            x: its model, shape (d,).
            sent: s_i, the one that its neighbours have.
            apart: c sum_j (s_i - s_j).
            dual: l_i.
        """

    async def live(self, node: Node) -> None:
        """Run a node."""
        x = sent = node.initial
        others: dict[ClientId, Array] = dict.fromkeys(node.senders, sent)
        dual = apart = np.zeros_like(x)
        while True:
            x = await self.step(node, x, sent, apart, dual)
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


class Cola(CensoredAdmm):
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

    rho: float = Field(gt=0, description="the proximal weight; of the order of L_max")

    async def step(
        self,
        node: Node,
        x: Array,
        sent: Array,
        apart: Array,
        dual: Array,
    ) -> Array:
        """Return the model after a step down the linearised loss; see `CensoredAdmm.step`."""
        gradient = node.weight * await node.compute(node.oracle.gradient(x))
        scale = 2 * self.penalty * len(node.senders) + self.rho
        return x - (gradient + apart + dual) / scale


class Coke(CensoredAdmm):
    """Communication-censored ADMM: a node minimises its loss, and sends only what has moved.

    x_i <- argmin f_i(x) + c d_i |x|^2 + x.(l_i - c sum_j (s_i + s_j)), s the models that were last
    sent, d_i the number of neighbours; then l_i <- l_i + c sum_j (s_i - s_j). In round k a node
    sends where |x_i - s_i| > threshold * decay^k, the paper's h(k). The minimiser is that of f_i +
    c d_i |x - a|^2, a = (sum_j (s_i + s_j) - l_i/c) / (2 d_i): exact for a squared loss, which is
    the paper's (kernels as random features), and to the accuracy of `solver` for another one. A
    node whose neighbours have all left keeps its model. With a threshold of 0 it is decentralised
    consensus ADMM (Shi, Ling, Yuan, Wu, Yin, IEEE Trans. Signal Process. 2014; the paper's DKLA).
    The update is that ADMM with the paper's rule of censoring, all terms of neighbours censored;
    its order within a round was not compared with the paper's listing.
    """

    kind: Literal["coke"] = "coke"
    source: ClassVar[str] = (
        "Xu, Wang, Chen, Tian: COKE: Communication-Censored Decentralized Kernel Learning, JMLR"
        " 2021, algorithm 2"
    )

    solver: AnySolver = Field(default=Exact(), description="how a node minimises")

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with a configured solver.

        Its L is that of a node which all others are neighbours of.

        Raises:
            ParameterError: the solver does not fit the loss.
            DataError: the step size is relative to a constant that the problem lacks.
        """

        def smoothness() -> float:
            least = 1.0 if info.coefficients is None else float(info.coefficients.min())
            return (info.largest_smoothness + 2 * self.penalty * (info.clients - 1)) / least

        return self.model_copy(update={"solver": self.solver.configure(info, smoothness)})

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of a minimisation."""
        return self.solver.samples(rows)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the accuracy of the solver is not known."""
        yield from self.solver.concerns(info)

    async def step(self, node: Node, x: Array, sent: Array, apart: Array, dual: Array) -> Array:
        """Return the minimiser of the augmented loss; see `CensoredAdmm.step`."""
        pull = 2 * self.penalty * len(node.senders)
        if not pull:
            return x
        # c sum_j (s_i + s_j) = 2 c d_i s_i - c sum_j (s_i - s_j)
        anchor = sent - (apart + dual) / pull
        # The minimiser of M w_i f_i + pull/2 |x - a|^2 is that of f_i with the pull over M w_i.
        loss = ProximalLoss(node.oracle, anchor, pull / node.weight)
        return await self.solver.minimise(node, loss, x)
