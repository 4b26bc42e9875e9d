"""Fine-tuning by low-rank adapters, of which only the factors travel: FedIT and FLoRA.

Zhang, Vahidian, Kuo, Li, Zhang, Yu, Wang, Chen, "Towards Building the Federated GPT: Federated
Instruction Tuning", ICASSP 2024 (FedIT); Wang, Shen, He, Sun, Wang, Lyu, Li, "FLoRA: Federated
Fine-Tuning Large Language Models with Heterogeneous Low-Rank Adaptations", NeurIPS 2024; adapters:
Hu et al., "LoRA", ICLR 2022. Every matrix W of the model, m x n, is taken as W + s B A, with B of
shape (m, r), A of shape (r, n) and s = alpha/r; all else stays as it is. With G the gradient at
W + s B A, that for B is s G A^T and that for A is s B^T G. In a round client k takes K steps on
its B_k and A_k, and sends them; with p_k its share among the clients that reply,

    FedIT   they start from the server's B and A, B <- sum_k p_k B_k and A <- sum_k p_k A_k, and
            the model is W + s B A: a mean of factors is not the factor of a mean;
    FLoRA   they start from B_k = 0 and an A_k of their own, W <- W + s sum_k p_k B_k A_k, which
            is s B A with the stacks B = [p_1 B_1, p_2 B_2, ...] and A = [A_1; A_2; ...]. The
            stacks are sent down, and clients add their product to their W.

Under FLoRA a client is sent the stacks of all rounds since the last one that it has answered in, to
be added to the W that it had then; or W itself, where that is shorter.

A client's gradients are those of the whole model, and priced so; a module whose W is frozen, on
which `fedavg` is FedIT, is spared those of W.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import Memory
from fedsim.algorithms.local_steps import LocalSteps
from fedsim.core.ports import Array, Client, Meaning, Message, Payload, Reply, Server

Factors = list[tuple[Array, Array]]
"""B, shape (m, R), and A, shape (R, n), of each matrix."""


@dataclass(frozen=True, slots=True)
class Adapters(Message):
    """Either way: the factors of all matrices, as one vector."""

    factors: Payload


@dataclass(frozen=True, slots=True)
class Stacks(Message):
    """Server to client: the stacks of the rounds since one, which it knows; none where none were.

    Attributes:
        factors: of all matrices.
        since: the last round in which it received the model and replied; 0 for the start.
    """

    factors: Payload
    since: Payload


@dataclass(frozen=True, slots=True)
class Same(Message):
    """Server to client: the model is what it was in a round."""

    since: Payload


@dataclass(frozen=True, slots=True)
class Whole(Message):
    """Server to client: the model itself."""

    w: Payload


class Part(NamedTuple):
    """A matrix in the flat model.

    Attributes:
        start: the number of its first entry.
        rows, columns: m and n.
    """

    start: int
    rows: int
    columns: int

    def of(self, w: Array) -> Array:
        """Return the matrix as a view of the flat model."""
        return w[self.start : self.start + self.rows * self.columns].reshape(
            self.rows, self.columns
        )


class LowRank(LocalSteps[Memory]):
    """A method whose clients train adapters."""

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.ESTIMATE}
    synchronous: ClassVar[str] = "the server puts together what clients send in one round"

    layers: tuple[tuple[int, ...], ...] = Field(
        description="the shapes of the parts of the flat model, in order; those of two axes or "
        "more are matrices, of as many rows as the first axis is long"
    )
    rank: int = Field(default=4, ge=1, description="r")
    alpha: float = Field(default=8.0, gt=0, description="alpha; s = alpha/r")

    @property
    def parts(self) -> list[Part]:
        """The matrices."""
        sizes = [int(np.prod(shape)) for shape in self.layers]
        starts = np.cumsum([0, *sizes])
        return [
            Part(int(start), shape[0], size // shape[0])
            for start, size, shape in zip(starts[:-1], sizes, self.layers, strict=True)
            if len(shape) > 1
        ]

    @property
    def breadth(self) -> int:
        """How many numbers the factors of rank 1 are."""
        return sum(part.rows + part.columns for part in self.parts)

    def flat(self, factors: Factors) -> Array:
        """Return factors as one vector, shape (breadth R,)."""
        return np.concatenate([each.ravel() for pair in factors for each in pair])

    def read(self, vector: Array) -> Factors:
        """Return the factors that a vector holds, of whatever rank."""
        rank = len(vector) // self.breadth
        cuts = np.cumsum([0, *(rank * side for p in self.parts for side in (p.rows, p.columns))])
        held = [vector[a:b] for a, b in pairwise(cuts)]
        return [
            (held[2 * i].reshape(part.rows, rank), held[2 * i + 1].reshape(rank, part.columns))
            for i, part in enumerate(self.parts)
        ]

    def added(self, w: Array, factors: Factors) -> Array:
        """Return the model W + s B A."""
        model = w.copy()
        for part, (left, right) in zip(self.parts, factors, strict=True):
            part.of(model)[:] += self.alpha / self.rank * (left @ right)
        return model

    def drawn(self, rng: np.random.Generator) -> Factors:
        """Return adapters to begin with: B = 0, and A normal of variance 1/n."""
        return [
            (
                np.zeros((part.rows, self.rank)),
                rng.standard_normal((self.rank, part.columns)) / np.sqrt(part.columns),
            )
            for part in self.parts
        ]

    async def trained(self, client: Client[Memory], w: Array, factors: Factors) -> Factors:
        """Return the factors after K steps; products cost 4 r m n operations a matrix and step."""
        scale, size = self.alpha / self.rank, sum(p.rows * p.columns for p in self.parts)
        for _ in range(self.local_steps):
            work = self.gradient(client, self.added(w, factors))
            g = await client.compute(work.plus(6.0 * self.rank * size))
            slopes = [
                (scale * part.of(g) @ right.T, scale * left.T @ part.of(g))
                for part, (left, right) in zip(self.parts, factors, strict=True)
            ]
            factors = [
                (left - self.eta * b, right - self.eta * a)
                for (left, right), (b, a) in zip(factors, slopes, strict=True)
            ]
        return factors

    def weighed(self, server: Server, replies: Sequence[Reply]) -> Iterator[tuple[float, Factors]]:
        """Yield p_k and the factors of the clients that replied."""
        weights = server.weights[[reply.client for reply in replies]]
        for weight, reply in zip(weights / weights.sum(), replies, strict=True):
            yield float(weight), self.read(reply.message.factors.values)


class FedIT(LowRank[Array]):
    """FedIT: the factors are averaged each by itself."""

    kind: Literal["fedit"] = "fedit"
    source: ClassVar[str] = "Zhang et al.: Towards Building the Federated GPT, ICASSP 2024"
    messages: ClassVar[tuple[type[Message], ...]] = (Adapters,)

    def memory(self, initial: Array) -> Array:
        """Return W."""
        return initial

    async def serve(self, server: Server) -> None:
        """Run the server."""
        factors = self.flat(self.drawn(server.rng))
        while True:
            sent = server.pack(factors)
            replies = await server.exchange(Adapters(sent))
            if replies:
                each = list(self.weighed(server, replies))
                factors = np.sum([weight * self.flat(own) for weight, own in each], axis=0)
            server.commit(self.added(server.initial, self.read(factors)))

    async def handle(self, client: Client[Array], message: Adapters) -> Adapters:
        """Train the server's factors further."""
        factors = self.read(message.factors.values)
        return Adapters(client.pack(self.flat(await self.trained(client, client.state, factors))))


class FLoRA(LowRank[dict[int, Array]]):
    """FLoRA: the factors are stacked, so that what is added is the sum of the products."""

    kind: Literal["flora"] = "flora"
    source: ClassVar[str] = "Wang et al.: FLoRA, NeurIPS 2024"
    messages: ClassVar[tuple[type[Message], ...]] = (Same, Stacks, Whole, Adapters)
    downlink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.EXACT, "since": Meaning.EXACT}

    def memory(self, initial: Array) -> dict[int, Array]:
        """Return the models by the round in which they were sent: two at most."""
        return {0: initial}

    def stacked(self, each: Sequence[tuple[float, Factors]]) -> Factors:
        """Return [p_1 B_1, p_2 B_2, ...] and [A_1; A_2; ...] of every matrix."""
        return [
            (
                np.hstack([weight * own[i][0] for weight, own in each]),
                np.vstack([own[i][1] for _, own in each]),
            )
            for i in range(len(self.parts))
        ]

    async def serve(self, server: Server) -> None:
        """Run the server."""
        w, sent = server.initial, dict[int, Array]()  # by round, as one vector
        knows = dict.fromkeys(server.clients, 0)
        while True:
            ways = {since: self.way(server, w, sent, since) for since in sorted({*knows.values()})}
            replies = await server.exchange({client: ways[knows[client]] for client in knows})
            knows |= {reply.client: max(reply.round, knows[reply.client]) for reply in replies}
            if replies:
                stack = self.stacked(list(self.weighed(server, replies)))
                sent[server.round] = server.pack(self.flat(stack)).values  # as it will arrive
                w = self.added(w, self.read(sent[server.round]))
            server.commit(w)

    def way(self, server: Server, w: Array, sent: Mapping[int, Array], since: int) -> Message:
        """Return how a client learns of W that knows what it was in a round."""
        missed = [self.read(stack) for number, stack in sent.items() if number >= since]
        label = server.pack(np.array(float(since)), field="since")
        if not missed:
            return Same(label)
        stack = self.flat(self.stacked([(1.0, each) for each in missed]))
        return Whole(server.pack(w)) if stack.size > w.size else Stacks(server.pack(stack), label)

    async def handle(
        self, client: Client[dict[int, Array]], message: Same | Stacks | Whole
    ) -> Adapters:
        """Add what came, and train new adapters."""
        known = client.state
        if isinstance(message, Whole):
            since, w = client.round, message.w.values
        else:
            since = round(float(message.since.values))
            w = known[since]
        if isinstance(message, Stacks):
            w = self.added(w, self.read(message.factors.values))
        factors = await self.trained(client, w, self.drawn(client.rng))
        before = {since: known[since]} if since in known else {}
        known.clear()
        known.update(before | {client.round: w})
        return Adapters(client.pack(self.flat(factors)))
