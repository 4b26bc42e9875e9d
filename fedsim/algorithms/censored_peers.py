"""Censored ADMM among peers, which are silent while their models change little: COLA and COKE.

Let s_i be the last model that node i has sent. In round k it sends its model x_i if

    |x_i - s_i| > threshold * decay^k.

After the exchange it changes its multiplier, l_i <- l_i + c sum_j (s_i - s_j) over its neighbours
j. The methods differ in the step of x_i: COLA linearises the node's loss, and COKE minimises it.
Li, Liu, Tian, Ling, "COLA: Communication-Censored Linearized ADMM for Decentralized Consensus
Optimization", IEEE Trans. Signal Inf. Process. Netw. 2020. Xu, Wang, Chen, Tian, "COKE:
Communication-Censored Decentralized Kernel Learning", JMLR 2021.
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

    The multipliers l_i start at 0 and always add up to 0, unless a message is late or lost. It
    needs undirected edges, and no mixing weights.
    """

    needs: ClassVar[Need] = "symmetric"
    weighs: ClassVar[bool] = False
    may_be_silent: ClassVar[bool] = True

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
            node: the node.
            x: its model, shape (d,).
            sent: s_i, the model that its neighbours have.
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

    x_i <- x_i - (g_i + c sum_j (s_i - s_j) + l_i) / (2 c d_i + rho), with the number d_i of
    neighbours. With a threshold of 0 it is DLM (Ling, Shi, Wu, Ribeiro, IEEE Trans. Signal Process.
    2015), decentralised ADMM with a linearised step of x_i. At its fixed point all models are
    equal, and the gradients add up to 0, because the l_i do. The update is derived from DLM and the
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
    """Communication-censored ADMM: a node minimises its loss, and sends its model if it has moved.

    x_i <- argmin f_i(x) + c d_i |x|^2 + x.(l_i - c sum_j (s_i + s_j)), with the number d_i of
    neighbours. This is the minimiser of f_i + c d_i |x - a|^2 with a = (sum_j (s_i + s_j) - l_i/c)
    / (2 d_i). It is exact for a squared loss, as in the paper (kernels as random features); for
    other losses it has the accuracy of `solver`. threshold * decay^k is the paper's h(k). A node
    whose neighbours have all left keeps its model. With a threshold of 0 it is decentralised
    consensus ADMM (Shi, Ling, Yuan, Wu, Yin, IEEE Trans. Signal Process. 2014; the paper's DKLA).
    The update is that ADMM with the paper's rule of censoring, in all terms of neighbours; its
    order within a round was not compared with the paper's listing.
    """

    kind: Literal["coke"] = "coke"
    source: ClassVar[str] = (
        "Xu, Wang, Chen, Tian: COKE: Communication-Censored Decentralized Kernel Learning, JMLR"
        " 2021, algorithm 2"
    )

    solver: AnySolver = Field(default=Exact(), description="how a node minimises")

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with a configured solver.

        The solver's L is that of a node with all others as neighbours.

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
