"""Compressed gossip: CHOCO-Gossip, CHOCO-SGD, and SPARQ-SGD, whose nodes send only large changes.

Koloskova, Stich, Jaggi, "Decentralized Stochastic Optimization and Gossip Algorithms with
Compressed Communication", ICML 2019. Singh, Data, George, Diggavi, "SPARQ-SGD: Event-Triggered and
Compressed Communication in Decentralized Optimization", CDC 2020.

Every node i has a copy y_j of its neighbours' vectors and of its own, y_i, which the neighbours
have, too. It sends q_i = C(x_i - y_i), and all advance their copy, y_i <- y_i + q_i. Then

    x_i <- x_i + gamma sum_j w_ij (y_j - y_i).

CHOCO-Gossip does this to average vectors. CHOCO-SGD takes a stochastic gradient step of x_i before
it, SPARQ-SGD several local steps, after which a node may be silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from fedsim.algorithms.gossip import Descends
from fedsim.algorithms.local_steps import local_steps
from fedsim.algorithms.peer_mixing import Copies, DrawnStart, PeerAlgorithm, fires
from fedsim.core.ports import Array, ClientId, Meaning, Message, Node, Payload
from fedsim.physics.overlay import Need


@dataclass(frozen=True, slots=True)
class PeerDifference(Message):
    """Between peers: the compressed difference to the copy that the receiver has, shape (d,)."""

    q: Payload


class CompressedGossip(PeerAlgorithm):
    """A method whose nodes mix copies of their vectors, which advance by compressed differences.

    The copies start at the initial model, which all nodes have, not at zero. An unbiased compressor
    is scaled to be a contraction, as in the papers' example 3. Every difference has to arrive, so a
    deadline is refused.
    """

    needs: ClassVar[Need] = "symmetric"
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.DIFFERENCE}
    downlink: ClassVar[Mapping[str, Meaning]] = {}
    messages: ClassVar[tuple[type[Message], ...]] = (PeerDifference,)

    gamma: float = Field(gt=0, le=1, description="the consensus step; 1 without a compressor")

    async def mixed_copies(self, node: Node, copies: Copies, x: Array, *, sends: bool) -> Array:
        """Send the difference of a vector to its copy, or nothing; return the mixed vector."""
        nothing: Mapping[ClientId, Message] = {}
        message = PeerDifference(copies.advance(x)) if sends else nothing
        for reply in await node.exchange(message):
            copies.receive(reply.client, reply.message.q.values)
        return x + self.gamma * copies.pull()


class ChocoGossip(DrawnStart, CompressedGossip):
    """CHOCO-Gossip: averaging of random vectors by compressed differences."""

    kind: Literal["choco-gossip"] = "choco-gossip"
    source: ClassVar[str] = (
        "Koloskova, Stich, Jaggi: Decentralized Stochastic Optimization and Gossip Algorithms with"
        " Compressed Communication, ICML 2019, algorithm 1"
    )

    async def live(self, node: Node) -> None:
        """Run a node."""
        x, copies = self.start(node.initial, node.rng), Copies(node)
        while True:
            x = await self.mixed_copies(node, copies, x, sends=True)
            node.commit(x)


class ChocoSgd(Descends, CompressedGossip):
    """CHOCO-SGD: a stochastic gradient step, then the mixing of CHOCO-Gossip."""

    kind: Literal["choco-sgd"] = "choco-sgd"
    source: ClassVar[str] = (
        "Koloskova, Stich, Jaggi: Decentralized Stochastic Optimization and Gossip Algorithms with"
        " Compressed Communication, ICML 2019, algorithm 2"
    )

    async def live(self, node: Node) -> None:
        """Run a node."""
        x, copies = node.initial, Copies(node)
        while True:
            half = x - self.rate * await self.gradient(node, x)
            x = await self.mixed_copies(node, copies, half, sends=True)
            node.commit(x)


class SparqSgd(Descends, CompressedGossip):
    """SPARQ-SGD: local steps, and a message only if the model has moved far from its copy.

    A node sends its difference if |x - copy|^2 > c_t step_size^2, where c_t = threshold * t^growth
    in round t. Otherwise it is silent, and its neighbours keep the copy.
    """

    kind: Literal["sparq-sgd"] = "sparq-sgd"
    source: ClassVar[str] = (
        "Singh, Data, George, Diggavi: SPARQ-SGD: Event-Triggered and Compressed Communication in"
        " Decentralized Optimization, CDC 2020, algorithm 1"
    )
    may_be_silent: ClassVar[bool] = True

    threshold: float = Field(
        ge=0, description="c_0 of the trigger threshold; 0: a node sends in every round"
    )
    growth: float = Field(default=0.0, ge=0, lt=1, description="exponent of t in c_t")
    local_steps: PositiveInt = Field(default=1, description="H, local steps per round")

    async def live(self, node: Node) -> None:
        """Run a node."""
        x, copies = node.initial, Copies(node)
        while True:
            least = self.rate * (self.threshold * node.round**self.growth) ** 0.5
            rate = node.weight * self.rate
            half = await local_steps(node, x, rate, self.local_steps, self.batch)
            sends = fires(half, copies.own, least)
            x = await self.mixed_copies(node, copies, half, sends=sends)
            node.commit(x)
