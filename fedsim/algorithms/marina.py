"""MARINA: compressed differences of gradients, and full gradients in random rounds.

Gorbunov, Burlachenko, Li, Richtarik, "MARINA: Faster Non-Convex Distributed Learning with
Compression", ICML 2021 (Algorithms 1 and 4). Both minimise f = sum_i p_i f_i (the paper: p_i = 1/n)
with an unbiased compressor Q. In every round a coin is 1 with probability p.

MARINA (Algorithm 1): if the coin is 1, g_i is the gradient of f_i at w, sent in full; otherwise,
with w' the model of the previous round,

    g_i <- g_i + Q(grad f_i(w) - grad f_i(w')).    In both cases    w <- w - gamma sum_i p_i g_i.

The server draws the coin, and the class of its message shows the result; the coin of round 1 is 1.
In a full round a client sends the difference between its gradient and g_i: this takes as many bits,
and the server stores only the sum of the g_i. A client that missed a round sends the difference to
the last gradient that its messages account for, so that every g_i stays right. The theory assumes
full participation, and so does this method; PP-MARINA is for samples of clients.

PP-MARINA (Algorithm 4): if the coin is 1, all clients send their gradients at w in full, and g is
their mean; otherwise only a sample S of them sends differences:

    g <- g + sum_S p_i/pi_i Q(grad f_i(w) - grad f_i(w')),

with pi_i the probability that client i is in S, |S|/M in a uniform sample, and w' the model whose
gradient g estimates. In both cases w <- w - gamma g. A client does not have w' if it was not
sampled then, so the server sends it both; in the paper all clients receive every model. The paper
draws its sample uniformly with replacement; here policies draw without, which adds no more noise.

Only replies of the present round change g; late ones are not counted. In a full round with missing
replies g is the mean over those received. A round without replies leaves w' and g unchanged.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import Algorithm, Combines, Memory, ProblemInfo, StepSize
from fedsim.algorithms.compressed import Gradient
from fedsim.algorithms.concerns import Concern, long_step
from fedsim.algorithms.error_feedback import Difference, FullDifference
from fedsim.algorithms.local_steps import Model, mean, of_this_round, shares, sum_of_all
from fedsim.core.ports import Array, Client, Meaning, Message, Noted, Payload, Reply, Server

# The base class of MARINA's family.
#
# After every round the server draws a coin. With probability p the next round is in full; otherwise
# compressed differences are sent. With the default of p, the full rounds together cost about as
# much as all others.


def odds(otherwise: str) -> float | None:
    """Return the field of p; `otherwise` describes its default."""
    return Field(
        default=None, gt=0, le=1, description=f"p, the probability of a full round; {otherwise}"
    )


class FullRounds(Algorithm[Memory]):
    """A method with full rounds, which a coin chooses."""

    step_size: StepSize = Field(description='gamma: a number, or a multiple of 1/L ("1/L")')
    probability: float | None = odds("the default is the method's own")

    @abstractmethod
    def usual(self, info: ProblemInfo) -> float:
        """Return the default of p."""

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with the step size and p as numbers."""
        ready = super().configure(info)
        if ready.probability is not None:
            return ready
        return ready.model_copy(update={"probability": self.usual(info)})

    @property
    def p(self) -> float:
        """The probability of a full round, after `configure`."""
        return 1.0 if self.probability is None else self.probability

    def in_full(self, server: Server) -> bool:
        """Draw whether the next round is in full."""
        return bool(server.rng.random() < self.p)


@dataclass(frozen=True, slots=True)
class FullRound(Message):
    """Server to client: the model, with the request for the gradient in full."""

    w: Payload


class MarinaState:
    """A client's state in MARINA.

    Attributes:
        g: the server's g_i, shape (d,); 0 at first.
        gradient: the gradient that g_i estimates, shape (d,); 0 at first.
    """

    __slots__ = ("g", "gradient")

    def __init__(self, d: int) -> None:
        self.g = self.gradient = np.zeros(d)

    def record(self, d: Payload, gradient: Array) -> Noted[Array]:
        """Update the state by a sent difference; return it with the previous state as its note."""
        change = gradient - self.gradient
        self.g, self.gradient = self.g + d.values, gradient
        return Noted(d, change)

    def take_back(self, sent: Noted[Array]) -> None:
        """Restore the state before a message that the server did not receive."""
        self.g = self.g - sent.values
        self.gradient = self.gradient - sent.note


class Marina(FullRounds[MarinaState]):
    """MARINA: compressed differences of gradients, and full gradients by a coin."""

    kind: Literal["marina"] = "marina"
    combines: ClassVar[Combines] = "changes"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, FullRound, Difference, FullDifference)
    source: ClassVar[str] = (
        "Gorbunov, Burlachenko, Li, Richtarik: MARINA: Faster Non-Convex Distributed Learning with"
        " Compression, ICML 2021, algorithm 1"
    )
    unbiased: ClassVar[tuple[Literal["up", "down"], ...]] = ("up",)
    uplink: ClassVar[Mapping[str, Meaning]] = {
        "": Meaning.DIFFERENCE,
        "full": Meaning.EXACT,
    }
    synchronous: ClassVar[str] = "one coin decides for all clients what they send"
    full_participation: ClassVar[str] = (
        "marina adds up differences between two rounds of all clients; use participation:"
        " {kind: full}, or pp-marina, ef21 or diana"
    )

    probability: float | None = odds(
        "by default 1/(1 + omega) of the uplink's compressor, which is k/d for rand-k"
    )

    def usual(self, info: ProblemInfo) -> float:
        """Return the default of p, 1/(1 + omega)."""
        return 1 / (1 + info.uplink.constant)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the step is longer than that of theorem 2.1."""
        omega, p, gamma = info.uplink.constant, self.p, float(self.step_size)
        shares, squares = info.shares, info.client_smoothness() ** 2
        # With equal shares it is theorem 2.1; the noise of client i enters by p_i^2.
        noise = (1 - p) / p * omega * float(shares**2 @ squares)

        def text(bound: float) -> str:
            return (
                f"got {gamma:.4g}, but omega = {omega:.3g} and p = {p:.3g} take steps of at most"
                f" 1/(L (1 + sqrt((1 - p) omega/(p M)))) = {bound:.4g} (Gorbunov et al. 2021,"
                " theorem 2.1, with the clients' shares for 1/M)"
            )

        return long_step(gamma, sqrt(shares @ squares) + sqrt(noise), text)

    def memory(self, initial: Array) -> MarinaState:
        """Return a client's initial state."""
        return MarinaState(initial.size)

    async def serve(self, server: Server) -> None:
        """Run the server of MARINA."""
        w, g = server.initial, np.zeros_like(server.initial)
        asks: type[Model | FullRound] = FullRound
        while True:
            replies = await server.exchange(asks(server.pack(w)))
            if replies:
                g = g + shares(server, replies, "d")
                w = w - float(self.step_size) * g
            server.commit(w)
            asks = FullRound if self.in_full(server) else Model

    async def handle(
        self, client: Client[MarinaState], message: Model | FullRound
    ) -> Difference | FullDifference:
        """Run a client of MARINA."""
        gradient = await client.compute(client.oracle.gradient(message.w.values))
        estimate = client.state
        if isinstance(message, FullRound):
            d = client.pack(gradient - estimate.g, field="full")
            return FullDifference(estimate.record(d, gradient))
        d = client.pack(gradient - estimate.gradient)
        return Difference(estimate.record(d, gradient))

    def undelivered(
        self, client: Client[MarinaState], message: Difference | FullDifference
    ) -> None:
        """Take back a difference that the server will not receive."""
        sent = message.d
        assert isinstance(sent, Noted), "as it was sent"  # noqa: S101
        client.state.take_back(sent)


@dataclass(frozen=True, slots=True)
class Pair(Message):
    """Server to client: the model, and the model whose gradient the server's g estimates."""

    w: Payload
    before: Payload


@dataclass(frozen=True, slots=True)
class GradientDifference(Message):
    """Client to server: the difference of its gradients at the two models, compressed."""

    d: Payload


class PPMarina(FullRounds):
    """PP-MARINA: compressed differences of a sample, and full gradients of all by a coin."""

    kind: Literal["pp-marina"] = "pp-marina"
    combines: ClassVar[Combines] = "sum"
    messages: ClassVar[tuple[type[Message], ...]] = (FullRound, Pair, Gradient, GradientDifference)
    source: ClassVar[str] = (
        "Gorbunov, Burlachenko, Li, Richtarik: MARINA: Faster Non-Convex Distributed Learning with"
        " Compression, ICML 2021, algorithm 4"
    )
    unbiased: ClassVar[tuple[Literal["up", "down"], ...]] = ("up",)
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.ESTIMATE, "full": Meaning.EXACT}
    downlink: ClassVar[Mapping[str, Meaning]] = {"w": Meaning.STATE, "before": Meaning.STATE}
    synchronous: ClassVar[str] = "one coin decides for all clients what they send"

    probability: float | None = odds(
        "by default r/(M (1 + omega)) for a sample of r, so that full rounds and"
        " differences cost about the same"
    )

    def usual(self, info: ProblemInfo) -> float:
        """Return the default of p, r/(M (1 + omega))."""
        share = (info.cohort_size or info.clients) / info.clients
        return min(share, 1.0) / (1 + info.uplink.constant)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the step is longer than that of theorem 4.1."""
        omega, gamma = info.uplink.constant, float(self.step_size)
        p, r = self.p, info.cohort_size or info.clients
        root_mean_square = sqrt(info.shares @ info.client_smoothness() ** 2)
        noise = sqrt((1 - p) * (1 + omega) / (p * r))

        def text(bound: float) -> str:
            return (
                f"got {gamma:.4g}, but omega = {omega:.3g}, p = {p:.3g} and {r} clients per round"
                f" take steps of at most 1/(L (1 + sqrt((1 - p) (1 + omega)/(p r)))) = {bound:.4g}"
                " (Gorbunov et al. 2021, theorem 4.1)"
            )

        yield from long_step(gamma, root_mean_square * (1 + noise), text)

    async def serve(self, server: Server) -> None:
        """Run the server of PP-MARINA."""
        w = before = server.initial
        g, full, begun = np.zeros_like(w), True, False
        while True:
            replies = of_this_round(server, await self._collect(server, w, before, full))
            if replies:
                g, before = self._estimate(server, g, replies, full), w
                w, begun = w - float(self.step_size) * g, True
            server.commit(w)
            full = self.in_full(server) or not begun

    async def _collect(
        self,
        server: Server,
        w: Array,
        before: Array,
        full: bool,  # noqa: FBT001
    ) -> Sequence[Reply]:
        """Return the replies of all clients, or of a sample."""
        sent = server.pack(w, field="w")
        if full:
            return await server.exchange(FullRound(sent), to=server.clients)
        return await server.exchange(Pair(sent, server.pack(before, field="before")))

    def _estimate(self, server: Server, g: Array, replies: Sequence[Reply], full: bool) -> Array:  # noqa: FBT001
        if full:
            return mean(server, replies, "g")
        return g + sum_of_all(server, replies, "d")

    async def handle(
        self, client: Client, message: FullRound | Pair
    ) -> Gradient | GradientDifference:
        """Run a client of PP-MARINA."""
        gradient = await client.compute(client.oracle.gradient(message.w.values))
        if isinstance(message, FullRound):
            return Gradient(client.pack(gradient, field="full"))
        old = await client.compute(client.oracle.gradient(message.before.values))
        return GradientDifference(client.pack(gradient - old))
