"""Peers that meet in pairs, each at a time of its own: random gossip and AD-PSGD.

There are no rounds: a node that is done goes on, whatever the others do. Boyd, Ghosh, Prabhakar,
Shah, "Randomized Gossip Algorithms", IEEE Trans. Inf. Theory 2006. Lian, Zhang, Zhang, Liu,
"Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from fedsim.algorithms.gossip import Descends
from fedsim.algorithms.peer_mixing import DrawnStart, PeerAlgorithm
from fedsim.core.blocks.quantities import Duration
from fedsim.core.blocks.spec import as_written
from fedsim.core.ports import Array, Meaning, Message, PairNode, Payload, Reply
from fedsim.physics.overlay import Need


@dataclass(frozen=True, slots=True)
class Offer(Message):
    """To a neighbour: the model of the node that asks for an average, shape (d,)."""

    x: Payload


@dataclass(frozen=True, slots=True)
class Counteroffer(Message):
    """Back from it: its model as it was before it took the average, shape (d,)."""

    x: Payload


class PairwiseAlgorithm(PeerAlgorithm):
    """A method of peers that meet in pairs: every node runs `live`, and answers offers.

    It needs a connected graph of undirected edges, and no weights: neighbours are chosen with
    equal probability.
    """

    needs: ClassVar[Need] = "symmetric"
    weighs: ClassVar[bool] = False

    @abstractmethod
    async def live(self, node: PairNode) -> None:  # type: ignore[override]  # of another world
        """Run a node: contacts with its neighbours and commits, until a stop rule applies."""

    @abstractmethod
    def answer(self, node: PairNode, offer: Reply) -> Message:
        """Answer an offer at a node that is free, at once; it may change `node.model`."""


class AveragesPairs(PairwiseAlgorithm):
    """A method whose nodes replace their models by the mean of two.

    The one that offers has its model preserved until the answer is there; so the mean of all models
    is that of before once an exchange is over. It is not while one is on its way, and stays another
    one if an answer is lost, or its receiver leaves. Models are sent uncompressed.
    """

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.EXACT}
    downlink: ClassVar[Mapping[str, Meaning]] = {}
    messages: ClassVar[tuple[type[Message], ...]] = (Offer, Counteroffer)

    def answer(self, node: PairNode, offer: Reply) -> Counteroffer:
        """Take the average with a model that is offered, and answer with the one before."""
        answer = Counteroffer(node.pack(node.model))
        node.model = (node.model + offer.message.x.values) / 2
        return answer

    async def average(self, node: PairNode) -> Array | None:
        """Return the average with a random neighbour, shape (d,); None where it has refused."""
        neighbour = node.neighbours[int(node.rng.integers(len(node.neighbours)))]
        reply = await node.contact(neighbour, Offer(node.pack(node.model)))
        return None if reply is None else (node.model + reply.message.x.values) / 2


class PairwiseGossip(DrawnStart, AveragesPairs):
    """Random pairwise gossip: a node wakes at random, and averages with a random neighbour.

    The clock of a node ticks as a Poisson process. Where exchanges take no time, the expected
    squared distance of the drawn vectors to their mean falls at least by the second eigenvalue of
    E[W] an exchange, W the matrix of an exchange; on a complete graph by exactly that, 1 - 1/(M -
    1). A tick while the node is busy is void, and so is one whose offer is refused.
    """

    kind: Literal["pairwise-gossip"] = "pairwise-gossip"
    source: ClassVar[str] = (
        "Boyd, Ghosh, Prabhakar, Shah: Randomized Gossip Algorithms, IEEE Trans. Inf. Theory 2006"
    )

    every: Duration = as_written("1 s", "mean time between two ticks of a node's clock")

    async def live(self, node: PairNode) -> None:  # type: ignore[override]  # see above
        """Run a node."""
        node.model = self.start(node.initial, node.rng)
        while node.neighbours:
            await node.sleep(float(node.rng.exponential(self.every)))
            if node.neighbours and (mean := await self.average(node)) is not None:
                node.commit(mean)


class ADPSGD(Descends, AveragesPairs):
    """AD-PSGD: a node computes a gradient, averages with a random neighbour, and then steps.

    The gradient is that at the model which the node had when it began to compute; others may have
    averaged with it since. A node whose offer is refused, or which has no neighbours any more,
    steps without an average. So no node waits for a slow one but while that is in an exchange.
    """

    kind: Literal["ad-psgd"] = "ad-psgd"
    source: ClassVar[str] = (
        "Lian, Zhang, Zhang, Liu: Asynchronous Decentralized Parallel Stochastic Gradient Descent,"
        " ICML 2018, algorithm 1"
    )

    async def live(self, node: PairNode) -> None:  # type: ignore[override]  # see above
        """Run a node."""
        while True:
            gradient = await self.gradient(node, node.model)
            mean = await self.average(node) if node.neighbours else None
            node.commit((node.model if mean is None else mean) - self.rate * gradient)
