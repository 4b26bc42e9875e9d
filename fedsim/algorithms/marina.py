"""MARINA: compressed differences of gradients, and full gradients now and then.

Gorbunov, Burlachenko, Li, Richtarik, "MARINA: Faster Non-Convex Distributed Learning with
Compression", ICML 2021 (Algorithm 1). It minimises f = sum_i p_i f_i (the paper: p_i = 1/n) with
an unbiased compressor Q. In every round a coin falls on 1 with probability p. If it does, g_i is
the gradient of f_i at w, sent in full; otherwise, w' being the model before w,

    g_i <- g_i + Q(grad f_i(w) - grad f_i(w')).    In both cases    w <- w - gamma sum_i p_i g_i.

The server draws the coin, and the class of its message carries the result; round 1 is in full. What
a client sends in full is the difference to the g_i that the server holds: as many bits, and the
server needs to keep the sum alone. A client that missed a round sends the difference to the last
gradient that it has accounted for, so that every g_i stays right. The theory is of clients that all
take part, and so is this; of a sample it is `fedsim.algorithms.pp_marina`.

Round k stands for w^k, the model whose gradients it has gathered.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import Algorithm, Concern, Memory, ProblemInfo, StepSize
from fedsim.algorithms.error_feedback import Difference, FullDifference
from fedsim.algorithms.local import Model, shares
from fedsim.algorithms.remedies import long_step
from fedsim.errors import ParameterError
from fedsim.ports import Array, Client, Meaning, Message, Noted, Payload, Server

# Full rounds by a coin: the base class of the methods of MARINA's family.
#
# The server throws a coin after every round. Where it falls on 1, with probability p, the next
# round is in full; otherwise differences are sent, compressed. With p not given, rounds in full
# cost about as much as all others together.


def odds(otherwise: str) -> float | None:
    """Return the field of p; `otherwise` describes its default."""
    return Field(default=None, gt=0, le=1, description=f"p, of a round in full; {otherwise}")


class FullRounds(Algorithm[Memory]):
    """A method of which some rounds are in full, by a coin."""

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
        """The probability of a round in full, once the method is `configure`."""
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
        """Record what is sent; return it with the resulting changes of state."""
        change = gradient - self.gradient
        self.g, self.gradient = self.g + d.values, gradient
        return Noted(d, change)

    def take_back(self, told: Noted[Array]) -> None:
        """Restore the state before a message that the server did not receive."""
        self.g = self.g - told.values
        self.gradient = self.gradient - told.note


class Marina(FullRounds[MarinaState]):
    """MARINA: compressed differences of gradients, and full ones now and then, by a coin."""

    kind: Literal["marina"] = "marina"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, FullRound, Difference, FullDifference)
    objective: ClassVar[Literal["sum", "mean"]] = "mean"
    source: ClassVar[str] = (
        "Gorbunov, Burlachenko, Li, Richtarik: MARINA: Faster Non-Convex Distributed Learning with"
        " Compression, ICML 2021, algorithm 1"
    )
    unbiased: ClassVar[bool] = True
    uplink: ClassVar[Mapping[str, Meaning]] = {
        "": Meaning.DIFFERENCE,
        "full": Meaning.EXACT,
    }
    synchronous: ClassVar[str] = "one coin decides for all clients what they send"

    probability: float | None = odds(
        "1/(1 + omega) of the uplink's compressor where it is not given, which is k/d for rand-k"
    )

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with the step size and p as numbers.

        Raises:
            ParameterError: only some of the clients are asked in a round.
        """
        if info.asked is not None:
            text = (
                "got a sample of the clients, but what marina sums up are differences"
                " between two rounds, of all clients; use participation: {kind: full}, or"
                " pp-marina, ef21 or diana"
            )
            raise ParameterError("kind", text)
        return super().configure(info)

    def usual(self, info: ProblemInfo) -> float:
        """Return p where it is not given: 1/(1 + omega)."""
        return 1 / (1 + info.uplink.constant)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Return that the step is longer than that of theorem 2.1."""
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
        """Return a client's memory: nothing sent yet."""
        return MarinaState(initial.size)

    async def serve(self, server: Server) -> None:
        """Run the server of MARINA."""
        w, g = server.initial, np.zeros_like(server.initial)
        asks: type[Model | FullRound] = FullRound
        while True:
            replies = await server.exchange(asks(server.pack(w)))
            server.commit(w)
            if replies:
                g = g + shares(server, replies, "d")
                w = w - float(self.step_size) * g
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
        told = message.d
        assert isinstance(told, Noted), "as it was sent"  # noqa: S101
        client.state.take_back(told)
