"""Peers that exchange in pairs, without rounds: random gossip and AD-PSGD.

A node does not wait for the others. It sends its model x_i to a random neighbour j, an offer, and
both take (x_i + x_j)/2. AD-PSGD also takes steps x_i <- x_i - gamma g_i. Boyd, Ghosh, Prabhakar,
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
    """To a neighbour: the model of the node that wants to average, shape (d,)."""

    x: Payload


@dataclass(frozen=True, slots=True)
class Counteroffer(Message):
    """The neighbour's answer: its model before it took the average, shape (d,)."""

    x: Payload


class PairwiseAlgorithm(PeerAlgorithm):
    """A method of peers that exchange in pairs: every node runs `live`, and answers offers.

    It needs a connected graph of undirected edges, and no weights: neighbours are chosen with
    equal probability.
    """

    needs: ClassVar[Need] = "symmetric"
    weighs: ClassVar[bool] = False

    @abstractmethod
    async def live(self, node: PairNode) -> None:  # type: ignore[override]  # it has no rounds
        """Run a node: contact neighbours and commit models, until a stop rule applies."""

    @abstractmethod
    def answer(self, node: PairNode, offer: Reply) -> Message:
        """Answer an offer at once, at a node that is free; this may change `node.model`."""


class AveragesPairs(PairwiseAlgorithm):
    """A method in which two nodes replace their models by the mean of the two.

    The model of the node that offers does not change until the answer has arrived. So an exchange
    preserves the mean of all models once it is over, but not while the answer is on its way. If the
    answer is lost, or its receiver leaves, the mean stays changed. Models are sent uncompressed.
    """

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.EXACT}
    downlink: ClassVar[Mapping[str, Meaning]] = {}
    messages: ClassVar[tuple[type[Message], ...]] = (Offer, Counteroffer)

    def answer(self, node: PairNode, offer: Reply) -> Counteroffer:
        """Take the average with an offered model, and answer with the model before it."""
        answer = Counteroffer(node.pack(node.model))
        node.model = (node.model + offer.message.x.values) / 2
        return answer

    async def average(self, node: PairNode) -> Array | None:
        """Return the average with a random neighbour, shape (d,); None if it has refused."""
        neighbour = node.neighbours[int(node.rng.integers(len(node.neighbours)))]
        reply = await node.contact(neighbour, Offer(node.pack(node.model)))
        return None if reply is None else (node.model + reply.message.x.values) / 2


class PairwiseGossip(DrawnStart, AveragesPairs):
    """Random pairwise gossip: a node wakes at random times, and averages with a random neighbour.

    The clock of a node ticks as a Poisson process. If exchanges take no time, every exchange
    multiplies the expected squared distance of the vectors to their mean by at most the second
    largest eigenvalue of E[W], where W is the matrix of an exchange; on a complete graph by exactly
    this, 1 - 1/(M - 1). A tick has no effect if the node is busy, or if its offer is refused.
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
    """AD-PSGD: a node computes a gradient, averages with a random neighbour, and takes a step.

    The gradient is at the model that the node had when the computation began; others may have
    averaged with the node since. If its offer is refused, or if all its neighbours have left, the
    node takes the step without an average. So a node waits for a slow one only during an exchange.
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
