"""Composite methods: f + h, with the prox of the penalty h in local steps and at the server.

Yuan, Zaheer, Reddi, "Federated Composite Optimization", ICML 2021 (FedMiD, Algorithm 2;
FedDualAvg, Algorithm 3). They minimise sum_i p_i f_i + h for any h with a prox. In round
r = 0, 1, ... every client takes K local steps of size eta_c, and the server one of size eta_s:

    FedMiD      client  w_i <- prox_{eta_c h}(w_i - eta_c g_i(w_i)), K times from w;
                server  w <- prox_{eta_s eta_c K h}(w + eta_s mean(w_i - w));

    FedDualAvg  client  w_i = prox_{e h}(z_i), z_i <- z_i - eta_c g_i(w_i), K times from z,
                        with e = eta_s eta_c r K + eta_c k in step k = 0, ..., K - 1;
                server  z <- z + eta_s mean(z_i - z), w = prox_{eta_s eta_c (r + 1) K h}(z).

The mean has the weights p_i; if only some clients reply, `participation.estimate` decides how it is
estimated. Clients send the differences w_i - w and z_i - z, since a late difference is as useful as
a late gradient. Nothing else needs to be sent: r is in a message's header, and w follows from z.
Round r + 1 of the run stands for the w after its server step. A round without a reply changes
nothing, and is not counted in r.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fedsim.algorithms.base import Algorithm, Combines, Memory, ProblemInfo
from fedsim.algorithms.concerns import Concern, concern, long_step
from fedsim.algorithms.local_steps import LocalSteps, Model, mean
from fedsim.core.ports import Array, Client, Message, Payload, Server, Structure, Work
from fedsim.problems import NoPenalty, Regulariser

FCO = "Yuan, Zaheer, Reddi: Federated Composite Optimization, ICML 2021"


@dataclass(frozen=True, slots=True)
class Dual(Message):
    """Server to client: the dual state z. The number of its rounds follows from the header."""

    z: Payload


@dataclass(frozen=True, slots=True)
class CountedDual(Message):
    """Server to client: z and the number of rounds in it, if there were rounds without replies."""

    z: Payload
    rounds: Payload


@dataclass(frozen=True, slots=True)
class Step(Message):
    """Client to server: the result of its local steps, relative to the received state."""

    step: Payload


def dual(server: Server, z: Array, rounds: int) -> Dual | CountedDual:
    """Return the message that carries a dual state to the clients.

    Args:
        server: the server, in an open round.
        z: the dual state, shape (d,).
        rounds: the number of rounds with replies so far.
    """
    if rounds == server.round - 1:
        return Dual(server.pack(z))
    return CountedDual(server.pack(z), server.pack(np.array(float(rounds)), field="rounds"))


def rounds_of(client: Client, message: Dual | CountedDual) -> int:
    """Return the number of rounds in the dual state that a client receives."""
    if isinstance(message, CountedDual):
        return round(float(message.rounds.values))
    return client.round - 1


class Composite(Algorithm[Memory]):
    """A method whose clients compute a prox of the penalty h after each of their gradients."""

    proximal: ClassVar[bool] = True

    _regulariser: Regulariser = PrivateAttr(default=Regulariser(NoPenalty(), ()))

    @property
    def regulariser(self) -> Regulariser:
        """The penalty h, after `configure`."""
        return self._regulariser

    @property
    def structure(self) -> Structure:
        """The known structure of models."""
        return self._regulariser.structure

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with the penalty; errors as for `Algorithm.configure`."""
        ready = super().configure(info).model_copy()
        ready._regulariser = info.regulariser  # noqa: SLF001 - a copy of this very class
        return ready

    def with_prox(self, gradient: Work) -> Work:
        """Add the cost of a prox to the work of a gradient."""
        return gradient.plus(self._regulariser.operations)


class ServerRate(LocalSteps, Composite):
    """A composite method with two step sizes: eta_c of the clients, eta_s of the server."""

    combines: ClassVar[Combines] = "mean"

    server_rate: float = Field(default=1.0, gt=0, description="eta_s, the server's step size")

    @property
    def stride(self) -> float:
        """The weight of a round: eta_s eta_c K."""
        return self.server_rate * self.eta * self.local_steps

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the losses are not convex."""
        if not info.convex:
            text = "the theorems of Yuan, Zaheer, Reddi are on convex losses"
            yield Concern("kind", f"{info.loss} is not convex; {text}")


class FedMid(ServerRate):
    """FedMiD: federated mirror descent, a proximal gradient step on both sides.

    As h is applied on both sides, one client with K = 1, eta_s = 1 and an l1 penalty minimises
    f + 2 h. With the clients' prox alone h is applied once, but a mean of sparse models is less
    sparse.
    """

    kind: Literal["fedmid"] = "fedmid"
    source: ClassVar[str] = f"{FCO}, algorithm 2"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, Step)

    server_prox: bool = Field(
        default=True,
        description="whether the server applies the proximal operator, too, as in the paper",
    )

    async def serve(self, server: Server) -> None:
        """Run the server; the model is sent with the structure that h gives it."""
        w = server.initial
        while True:
            replies = await server.exchange(Model(server.pack(w, self.structure)))
            if replies:
                w = w + self.server_rate * mean(server, replies, "step")
                w = self.regulariser.prox(w, self.stride) if self.server_prox else w
            server.commit(w)

    async def handle(self, client: Client, message: Model) -> Step:
        """Run a client: K proximal gradient steps."""
        start = w = message.w.values
        for _ in range(self.local_steps):
            g = await client.compute(self.with_prox(self.gradient(client, w)))
            w = self.regulariser.prox(w - self.eta * g, self.eta)
        return Step(client.pack(w - start, self.structure))


class FedDualAvg(ServerRate):
    """FedDualAvg: federated dual averaging, which averages dual states instead of models."""

    kind: Literal["fed-dual-avg"] = "fed-dual-avg"
    source: ClassVar[str] = f"{FCO}, algorithm 3"
    messages: ClassVar[tuple[type[Message], ...]] = (Dual, CountedDual, Step)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if a step size or the losses are outside the paper's theorems."""
        yield from super().concerns(info)
        if self.server_rate != 1.0:
            text = f"got {self.server_rate:g}; the theorems of Yuan, Zaheer, Reddi take 1"
            yield concern("server_rate", text, "1")
        yield from long_step(self.eta, 4 * info.largest_smoothness, self._longest, "0.25/L_max")

    def _longest(self, bound: float) -> str:
        return (
            f"got {self.eta:g}, above 1/(4 L_max) = {bound:g}, with the largest smoothness"
            " constant of a client's loss; the theorems of Yuan, Zaheer, Reddi take at most that"
        )

    async def serve(self, server: Server) -> None:
        """Run the server: average the dual states, and compute the model from them."""
        w = z = server.initial
        rounds = 0
        while True:
            replies = await server.exchange(dual(server, z, rounds))
            if replies:
                rounds += 1
                z = z + self.server_rate * mean(server, replies, "step")
                w = self.regulariser.prox(z, self.stride * rounds)
            server.commit(w)

    async def handle(self, client: Client, message: Dual | CountedDual) -> Step:
        """Run a client: K steps of z, with the model computed from z for each gradient."""
        start = z = message.z.values
        weight = self.stride * rounds_of(client, message)
        for k in range(self.local_steps):
            w = self.regulariser.prox(z, weight + self.eta * k)
            g = await client.compute(self.with_prox(self.gradient(client, w)))
            z = z - self.eta * g
        return Step(client.pack(z - start))
