"""EF21: gradient descent on the server's estimates of clients' gradients, sent incrementally.

Richtarik, Sokolov, Fatkhullin, "EF21: A New, Simpler, Theoretically Better, and Practically
Faster Error Feedback", NeurIPS 2021 (Algorithm 2). It minimises f = sum_i p_i f_i (the paper:
p_i = 1/n) with a contractive compressor C. Client i and the server both have g_i, and iterate

    w <- w - gamma sum_i p_i g_i,    c_i = C(grad f_i(w) - g_i),    g_i <- g_i + c_i;

only c_i is sent. The initial g_i is 0, so that the first message is C(grad f_i(w^0)); or it is the
gradient, which is then sent in full. The server stores the weighted sum of the g_i alone, not each
of them: memory does not grow with the number of clients. The g_i of clients that are not sampled,
or whose reply is lost, does not change (Fatkhullin et al., "EF21 with Bells & Whistles", 2021,
EF21-PP).

g_i must change at both ends by the same decoded vector, not by the difference before compression:
then a compression error stays in grad f_i - g_i, and the next message corrects it. After a lost
reply the two copies would differ for good, so the client takes the change back (`undelivered`).

For the sum of the f_i in place of their mean, use `gd` with a compressor
(`fedsim.algorithms.censored`). An unbiased compressor is scaled by 1/(1 + omega) to be contractive.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import Algorithm, Combines, ProblemInfo, StepSize
from fedsim.algorithms.concerns import Concern, long_step
from fedsim.algorithms.local_steps import Model, shares
from fedsim.core.ports import Array, Client, Meaning, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class Difference(Message):
    """Client to server: its gradient minus the server's estimate of it, compressed."""

    d: Payload


@dataclass(frozen=True, slots=True)
class FullDifference(Message):
    """Client to server: the difference in full, so that the server's estimate is exact."""

    d: Payload


@dataclass(slots=True)
class ErrorFeedbackState:
    """A client's state between rounds.

    Attributes:
        g: the server's copy of its gradient, shape (d,).
        started: whether a message of the client was delivered.
    """

    g: Array
    started: bool = False


class EF21(Algorithm[ErrorFeedbackState]):
    """EF21: clients send compressed differences to the server's estimates of their gradients."""

    kind: Literal["ef21"] = "ef21"
    combines: ClassVar[Combines] = "changes"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, Difference, FullDifference)
    sampled: ClassVar[bool] = False
    source: ClassVar[str] = (
        "Richtarik, Sokolov, Fatkhullin: EF21: A New, Simpler, Theoretically Better, and "
        "Practically Faster Error Feedback, NeurIPS 2021, algorithm 2"
    )
    uplink: ClassVar[Mapping[str, Meaning]] = {
        "": Meaning.DIFFERENCE,
        "full": Meaning.EXACT,
    }

    step_size: StepSize = Field(description='gamma: a number, or a multiple of 1/L ("1/L")')
    start: Literal["zero", "gradient"] = Field(
        default="zero",
        description="the server's estimate before a client's first message: zero; or the client's"
        " gradient, which the first message then carries in full",
    )

    def memory(self, initial: Array) -> ErrorFeedbackState:
        """Return a client's initial state."""
        return ErrorFeedbackState(np.zeros_like(initial))

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the step is longer than that of theorem 1."""
        delta = 1.0 if info.uplink.kind == "exact" else info.uplink.delta
        L, each = info.smoothness(), info.client_smoothness()
        gamma = float(self.step_size)

        def text(bound: float) -> str:
            return (
                f"got {gamma:.4g}, but a contraction of delta = {delta:.3g} takes steps of at"
                f" most {bound:.4g} (Richtarik, Sokolov, Fatkhullin 2021, theorem 1)"
            )

        return long_step(gamma, L + sqrt(info.shares @ each**2) * distortion(delta), text)

    async def serve(self, server: Server) -> None:
        """Run the server of EF21."""
        w, g = server.initial, np.zeros_like(server.initial)
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            if replies:
                g = g + shares(server, replies, "d")
                w = w - float(self.step_size) * g
            server.commit(w)

    async def handle(
        self, client: Client[ErrorFeedbackState], message: Model
    ) -> Difference | FullDifference:
        """Run a client of EF21."""
        held = client.state
        difference = await client.compute(client.oracle.gradient(message.w.values)) - held.g
        in_full = self.start == "gradient" and not held.started
        d = client.pack(difference, field="full" if in_full else "")
        held.g, held.started = held.g + d.values, True
        return FullDifference(d) if in_full else Difference(d)

    def undelivered(
        self, client: Client[ErrorFeedbackState], message: Difference | FullDifference
    ) -> None:
        """Take back a difference that the server will not receive."""
        held = client.state
        held.g = held.g - message.d.values
        if isinstance(message, FullDifference):
            held.started = False


def distortion(delta: float) -> float:
    """Return sqrt(beta/theta) of theorem 1, for |C(v) - v|^2 <= (1 - delta) |v|^2.

    theta = 1 - sqrt(1 - delta) and beta = (1 - delta)/theta. It is infinite if a compressor is not
    contractive.

    >>> distortion(1.0), round(distortion(0.75), 9)
    (0.0, 1.0)
    """
    if not delta:
        return inf
    rest = sqrt(1 - min(delta, 1.0))
    return rest / (1 - rest)
