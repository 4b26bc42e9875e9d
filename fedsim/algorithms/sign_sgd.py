"""signSGD with majority vote: one bit per coordinate on uplink and downlink.

Bernstein, Wang, Azizzadenesheli, Anandkumar, "signSGD: Compressed Optimisation for Non-Convex
Problems", ICML 2018 (Algorithm 3: signSGD with majority vote; with momentum it is Signum). Client i
sends sign(m_i), m_i <- beta m_i + (1 - beta) g_i(w), and the step of every coordinate has the sign
of the majority of the clients:

    w <- w - delta sign(sum_i sign(m_i)).

The server sends the vote alone, one bit per coordinate, if all clients have answered the previous
round: each of them then has w and takes the same step as the server. Otherwise it sends the model,
so that a client that was not sampled, was offline or whose reply was lost continues from the
server's model. It also sends the model in the first round, and in the round after an abandoned one.
The server continues from the model as it has sent it. A bit has no third value, so a coin decides
the sign of 0, and ties. A reply to an earlier round is not counted. All votes have equal weight,
whatever `problem.weights` says; the reported objective has these weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.algorithms.base import Algorithm, ProblemInfo, StepSize
from fedsim.algorithms.local_steps import (
    Batch,
    GrowingBatch,
    Model,
    draw_count,
    of_this_round,
    stochastic_gradient,
)
from fedsim.core.errors import ParameterError
from fedsim.core.ports import SIGNS, Array, Client, Meaning, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class Vote(Message):
    """Server to client: the sign of the sum of all signs."""

    signs: Payload


@dataclass(frozen=True, slots=True)
class Ballot(Message):
    """Client to server: the signs of its gradient."""

    signs: Payload


@dataclass(slots=True)
class Voter:
    """A client's state between rounds.

    Attributes:
        w: the model of its last reply, shape (d,).
        m: the running mean of its gradients, shape (d,).
    """

    w: Array
    m: Array


class SignSGD(Algorithm[Voter]):
    """signSGD with majority vote: clients send signs, and receive the signs of the sum."""

    kind: Literal["signsgd"] = "signsgd"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, Vote, Ballot)
    source: ClassVar[str] = (
        "Bernstein, Wang, Azizzadenesheli, Anandkumar: signSGD: Compressed Optimisation for"
        " Non-Convex Problems, ICML 2018, algorithm 3"
    )
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.EXACT}
    downlink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.EXACT}
    synchronous: ClassVar[str] = "a vote counts the answers to one model"

    step_size: StepSize = Field(description='delta: a number, or a multiple of 1/L ("1/L")')
    momentum: float = Field(default=0.0, ge=0, lt=1, description="beta of Signum; 0 for signSGD")
    batch: GrowingBatch | PositiveInt | None = Batch

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of a stochastic gradient."""
        return float(draw_count(self.batch, rows))

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy whose step size is a number.

        Raises:
            ParameterError: a compressor is configured.
        """
        if info.uplink.kind != "exact" or info.downlink.kind != "exact":
            text = (
                "got a compressor, but signsgd sends one bit per coordinate already, and clients"
                " need the exact model of the server; leave wire.up.compressor and"
                " wire.down.compressor out"
            )
            raise ParameterError("kind", text)
        return super().configure(info)

    def memory(self, initial: Array) -> Voter:
        """Return a client's initial state."""
        return Voter(initial, np.zeros_like(initial))

    async def serve(self, server: Server) -> None:
        """Run the server of signSGD with majority vote."""
        w, vote, in_step = server.initial, server.initial, False
        while True:
            model = _InFull(server, w)
            message = Vote(server.pack(vote, SIGNS)) if in_step else model()
            # After an abandoned round some clients have taken the step of its vote, others have
            # not: the model is sent, since a repeated vote would be applied twice by some.
            replies = of_this_round(server, await server.exchange(message, again=model))
            w = model.w
            in_step = len(replies) == len(server.clients)
            if replies:
                vote = signs(server.aggregate(replies, "signs"), server.rng)
                w = self.step(w, vote)
            server.commit(w)

    async def handle(self, client: Client[Voter], message: Model | Vote) -> Ballot:
        """Run a client of signSGD."""
        voter = client.state
        if isinstance(message, Vote):
            w = self.step(voter.w, message.signs.values)
        else:
            w = message.w.values
        gradient = await client.compute(stochastic_gradient(client, w, self.batch))
        voter.w, voter.m = w, self.momentum * voter.m + (1 - self.momentum) * gradient
        return Ballot(client.pack(signs(voter.m, client.rng), SIGNS))

    def step(self, w: Array, vote: Array) -> Array:
        """Return w - delta vote, the same bits at server and clients."""
        return w - float(self.step_size) * vote


class _InFull:
    """Creates the message with the model.

    Args:
        server: encodes the model.
        w: the model, shape (d,).

    Attributes:
        w: the model; after it has been sent, as decoded.
    """

    def __init__(self, server: Server, w: Array) -> None:
        self.w = w
        self._server = server

    def __call__(self) -> Model:
        sent = self._server.pack(self.w)
        self.w = sent.values
        return Model(sent)


def signs(vector: Array, rng: np.random.Generator) -> Array:
    """Return the signs of a vector, shape (d,), 1 or -1; zeros get a random sign."""
    signs = np.sign(vector)
    zeros = np.flatnonzero(signs == 0)
    if zeros.size:
        signs[zeros] = rng.choice((-1.0, 1.0), zeros.size)
    return signs
