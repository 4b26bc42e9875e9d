"""PP-MARINA: MARINA of which only a sample of the clients sends differences.

Gorbunov, Burlachenko, Li, Richtarik, "MARINA: Faster Non-Convex Distributed Learning with
Compression", ICML 2021 (Algorithm 4). It minimises f = sum_i p_i f_i (the paper: p_i = 1/n) with
an unbiased compressor Q. In every round a coin falls on 1 with probability p. If it does, all
clients send their gradients at w in full, and g is their mean; otherwise a sample S of them does

    g <- g + M/|S| sum_S p_i Q(grad f_i(w) - grad f_i(w')),

w' being the model whose gradient g estimates. In both cases w <- w - gamma g. A client has not seen
w' if it was not sampled then, so it is sent both; in the paper all clients receive every model. Its
sample is drawn with replacement, and this one without, which adds no more noise.

g is of one round and the next: a late reply is of neither, and is not counted; in a full round with
    missing replies g is the mean over those received. A round without replies leaves w' and g as
    they are. M/|S| stands for all where clients are drawn uniformly.

Round k stands for w^k, the model whose gradients it has gathered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from fedsim.algorithms.base import Concern, ProblemInfo
from fedsim.algorithms.compressed import Gradient
from fedsim.algorithms.local import mean, of_this_round, shares
from fedsim.algorithms.marina import FullRound, FullRounds, odds
from fedsim.algorithms.remedies import long_step
from fedsim.ports import Array, Client, Meaning, Message, Payload, Reply, Server


@dataclass(frozen=True, slots=True)
class Pair(Message):
    """Server to client: the model, and the one whose gradient the server's g estimates."""

    w: Payload
    before: Payload


@dataclass(frozen=True, slots=True)
class GradientDifference(Message):
    """Client to server: the difference of its gradients at the two models, compressed."""

    d: Payload


class PPMarina(FullRounds):
    """PP-MARINA: compressed differences of a sample, and full gradients of all now and then."""

    kind: Literal["pp-marina"] = "pp-marina"
    messages: ClassVar[tuple[type[Message], ...]] = (FullRound, Pair, Gradient, GradientDifference)
    objective: ClassVar[Literal["sum", "mean"]] = "mean"
    source: ClassVar[str] = (
        "Gorbunov, Burlachenko, Li, Richtarik: MARINA: Faster Non-Convex Distributed Learning with"
        " Compression, ICML 2021, algorithm 4"
    )
    unbiased: ClassVar[bool] = True
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.ESTIMATE, "full": Meaning.EXACT}
    downlink: ClassVar[Mapping[str, Meaning]] = {"w": Meaning.STATE, "before": Meaning.STATE}
    synchronous: ClassVar[str] = "one coin decides for all clients what they send"

    probability: float | None = odds(
        "r/(M (1 + omega)) for a sample of r where it is not"
        " given, so that full rounds and differences cost about the same"
    )

    def usual(self, info: ProblemInfo) -> float:
        """Return p where it is not given: r/(M (1 + omega))."""
        share = (info.asked or info.clients) / info.clients
        return min(share, 1.0) / (1 + info.uplink.constant)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that the step is longer than that of theorem 4.1."""
        omega, gamma = info.uplink.constant, float(self.step_size)
        p, r = self.p, info.asked or info.clients
        each = sqrt(info.shares @ info.client_smoothness() ** 2)
        noise = sqrt((1 - p) * (1 + omega) / (p * r))

        def text(bound: float) -> str:
            return (
                f"got {gamma:.4g}, but omega = {omega:.3g}, p = {p:.3g} and {r} clients a round"
                f" take steps of at most 1/(L (1 + sqrt((1 - p) (1 + omega)/(p r)))) = {bound:.4g}"
                " (Gorbunov et al. 2021, theorem 4.1)"
            )

        yield from long_step(gamma, each * (1 + noise), text)

    async def serve(self, server: Server) -> None:
        """Run the server of PP-MARINA."""
        w = before = server.initial
        g, full, begun = np.zeros_like(w), True, False
        while True:
            replies = of_this_round(server, await self._collect(server, w, before, full))
            server.commit(w)
            if replies:
                g, before = self._estimate(server, g, replies, full), w
                w, begun = w - float(self.step_size) * g, True
            full = self.in_full(server) or not begun

    async def _collect(self, server: Server, w: Array, before: Array, full: bool) -> list[Reply]:  # noqa: FBT001
        """Return the replies of all clients, or of a sample."""
        sent = server.pack(w, field="w")
        if full:
            return await server.exchange(FullRound(sent), to=server.clients)
        return await server.exchange(Pair(sent, server.pack(before, field="before")))

    def _estimate(self, server: Server, g: Array, replies: list[Reply], full: bool) -> Array:  # noqa: FBT001
        """Return the next g."""
        if full:
            return mean(server, replies, "g")
        return g + shares(server, replies, "d") * (len(server.clients) / len(replies))

    async def handle(
        self, client: Client, message: FullRound | Pair
    ) -> Gradient | GradientDifference:
        """Run a client of PP-MARINA."""
        gradient = await client.compute(client.oracle.gradient(message.w.values))
        if isinstance(message, FullRound):
            return Gradient(client.pack(gradient, field="full"))
        old = await client.compute(client.oracle.gradient(message.before.values))
        return GradientDifference(client.pack(gradient - old))
