"""Scaffnew: a random number of local steps, with control variates that are never sent.

Mishchenko, Malinovsky, Stich, Richtarik, "ProxSkip: Yes! Local Gradient Steps Provably Lead to
Communication Acceleration! Finally!", ICML 2022 (Algorithm 2, which is ProxSkip for a consensus
of clients). It minimises f = sum_i p_i f_i (the paper: p_i = 1/n). In every iteration client i goes

    y_i = x_i - gamma (g_i(x_i) - h_i),

and a coin falls on 1 with probability p, for all at once. If it does, x_i = sum_j p_j y_j, and h_i
becomes h_i + (p/gamma) (x_i - y_i); otherwise x_i = y_i, without communication.

A round is the iterations up to a 1: how many they are is geometric, and the server draws it and
sends it with the model. Of round k, x^k being the mean that it starts from, client i sends d_i =
y_i - x^k. With D_i the sum of its d_i so far, what the paper adds to h_i telescopes:

    x^{k+1} = x^k + sum_i p_i d_i,    h_i = (p/gamma) (x^k - x^0 - D_i).

So a client keeps D_i alone, and sum_i p_i h_i = 0 because the server's model is x^0 plus sum_i p_i
D_i, also where only some replies arrive, or late. What a compressor does to d_i is in both sums.
The model stays put only where every h_i is the gradient of f_i, which is at the optimum.

Round k stands for the mean that it ends with.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.algorithms.averaging import Update, local_step_concern
from fedsim.algorithms.base import Algorithm, Concern, ProblemInfo, StepSize
from fedsim.algorithms.local import Batch, GrowingBatch, draw_count, shares, stochastic_gradient
from fedsim.ports import Array, Client, Meaning, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class Start(Message):
    """Server to client: the model, and how many local steps to take from it."""

    x: Payload
    steps: Payload


@dataclass(slots=True)
class Moved:
    """A client's state between rounds.

    Attributes:
        start: x^0, the initial model of all, shape (d,).
        total: D_i, all that it has sent, shape (d,).
    """

    start: Array
    total: Array


class Scaffnew(Algorithm[Moved]):
    """Scaffnew (ProxSkip): a random number of local steps, corrected by all updates sent so far."""

    kind: Literal["scaffnew"] = "scaffnew"
    messages: ClassVar[tuple[type[Message], ...]] = (Start, Update)
    objective: ClassVar[Literal["sum", "mean"]] = "mean"
    source: ClassVar[str] = (
        "Mishchenko, Malinovsky, Stich, Richtarik: ProxSkip, ICML 2022, algorithm 2"
    )
    measured_by: ClassVar[Literal["L", "L_max"]] = "L_max"
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.DIFFERENCE}
    synchronous: ClassVar[str] = "one coin decides for all clients when they communicate"

    step_size: StepSize = Field(
        description='gamma: a number, or a multiple of 1/L_max ("1/L_max") or of 1/L'
    )
    probability: float = Field(
        gt=0,
        le=1,
        description="p, of communicating after a step, so that 1/p steps make a round; in theory"
        " best at sqrt(gamma mu) for losses that are strongly convex of mu",
    )
    batch: GrowingBatch | PositiveInt | None = Batch

    def samples_per_round(self, rows: int) -> float:
        """Return how many samples the local steps take on average."""
        return draw_count(self.batch, rows) / self.probability

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that a local step is longer than 1/L_max, or that only some are asked."""
        yield from local_step_concern(float(self.step_size), info.largest_smoothness, "L_max")
        if info.asked is not None:
            text = "a sample of the clients is beyond the theory of scaffnew"
            yield Concern("kind", f"{text} (Mishchenko et al. 2022, theorem 3.6)")

    def memory(self, initial: Array) -> Moved:
        """Return a client's memory: nothing sent yet."""
        return Moved(initial, np.zeros_like(initial))

    async def serve(self, server: Server) -> None:
        """Run the server of Scaffnew."""
        x = server.initial
        while True:
            steps = np.array(float(server.rng.geometric(self.probability)))
            replies = await server.exchange(Start(server.pack(x, field="x"), server.pack(steps)))
            x = x + shares(server, replies, "delta")
            server.commit(x)

    async def handle(self, client: Client[Moved], message: Start) -> Update:
        """Run a client of Scaffnew."""
        moved, gamma = client.state, float(self.step_size)
        x = y = message.x.values
        h = self.probability / gamma * (x - moved.start - moved.total)
        for _ in range(round(float(message.steps.values))):
            y = y - gamma * (await client.compute(stochastic_gradient(client, y, self.batch)) - h)
        delta = client.pack(y - x)
        moved.total = moved.total + delta.values
        return Update(delta)

    def undelivered(self, client: Client[Moved], message: Update) -> None:
        """Take back an update that the server's model will not contain."""
        client.state.total = client.state.total - message.delta.values
