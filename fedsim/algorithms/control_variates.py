"""Control variates: local steps corrected towards the direction of all clients together.

SCAFFOLD. Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: Stochastic Controlled Averaging
for Federated Learning", ICML 2020 (Algorithm 1 with option II). The server has a model x and a
control c, client i has its own c_i; all controls start at 0. On receiving (x, c), the client
computes

    y <- y - eta_l (g_i(y) - c_i + c),  K times from y = x,
    c_i+ = c_i - c + (x - y)/(K eta_l),

sends y - x and c_i+ - c_i, and stores c_i+. From the cohort S the server computes

    x <- x + eta_g sum_S p_i (y_i - x)/sum_S p_i,    c <- c + sum_S p_i (c_i+ - c_i).

With equal shares p_i = 1/N this is the paper's step, c <- c + |S|/N mean_S(c_i+ - c_i). For other
shares c stays equal to sum_i p_i c_i, as the gradient of f = sum_i p_i f_i requires, however the
cohort is drawn; a factor for the probabilities of the draw would break this equality. The mean in
the step of x estimates the mean over all clients, as `participation.estimate` says. A client stores
c_i as the server has received it, so that its next message corrects a compression error.

Scaffnew. Mishchenko, Malinovsky, Stich, Richtarik, "ProxSkip: Yes! Local Gradient Steps Provably
Lead to Communication Acceleration! Finally!", ICML 2022 (Algorithm 2, which is ProxSkip for a
consensus of clients): a random number of local steps, with control variates that are never sent. It
minimises f = sum_i p_i f_i (the paper: p_i = 1/n). In every iteration client i computes

    y_i = x_i - gamma (g_i(x_i) - h_i),

and one coin, shared by all clients, falls on 1 with probability p. If it does, x_i = sum_j p_j y_j,
and h_i becomes h_i + (p/gamma) (x_i - y_i); otherwise x_i = y_i, without communication.

A round consists of the iterations up to the next 1. Their number has a geometric distribution; the
server draws it and sends it with the model. In round k, which starts from the mean x^k, client i
sends d_i = y_i - x^k. With D_i the sum of its d_i so far, the paper's increments of h_i telescope:

    x^{k+1} = x^k + sum_i p_i d_i,    h_i = (p/gamma) (x^k - x^0 - D_i).

So a client stores D_i alone. sum_i p_i h_i = 0, because the server's model is x^0 plus sum_i p_i
D_i, also if some replies are missing or late. A compression error of d_i is in both sums. The model
is stationary only if every h_i is the gradient of f_i. Then the gradient of f is sum_i p_i h_i = 0,
and the model is the optimum.

Round k stands for the mean at its end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.algorithms.base import Algorithm, Combines, ProblemInfo, StepSize
from fedsim.algorithms.concerns import Concern
from fedsim.algorithms.local_steps import (
    Batch,
    GrowingBatch,
    LocalSteps,
    draw_count,
    mean,
    shares,
    stochastic_gradient,
)
from fedsim.algorithms.local_training import Update, local_step_concern
from fedsim.core.ports import Array, Client, Meaning, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class Controlled(Message):
    """Server to client: the model x and the control c."""

    x: Payload
    c: Payload


@dataclass(frozen=True, slots=True)
class ControlledUpdate(Message):
    """Client to server: y - x, and c_i+ - c_i."""

    x: Payload
    c: Payload


@dataclass(slots=True)
class Control:
    """A client's state between rounds.

    Attributes:
        c: c_i as the server has received it, shape (d,).
    """

    c: Array


class Scaffold(LocalSteps[Control]):
    """SCAFFOLD: local steps corrected by the difference of the server's and their own control."""

    kind: Literal["scaffold"] = "scaffold"
    combines: ClassVar[Combines] = "mean"
    messages: ClassVar[tuple[type[Message], ...]] = (Controlled, ControlledUpdate)
    source: ClassVar[str] = (
        "Karimireddy et al.: SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML"
        " 2020, algorithm 1, option II"
    )
    uplink: ClassVar[Mapping[str, Meaning]] = {
        "x": Meaning.INCREMENT,
        "c": Meaning.DIFFERENCE,
    }
    downlink: ClassVar[Mapping[str, Meaning]] = {"x": Meaning.STATE, "c": Meaning.STATE}

    server_rate: float = Field(default=1.0, gt=0, description="eta_g, the server's step size")

    def memory(self, initial: Array) -> Control:
        """Return a client's initial state: c_i = 0."""
        return Control(np.zeros_like(initial))

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if a local step is longer than 1/L_max."""
        yield from local_step_concern(self.eta, info.largest_smoothness, "L_max")

    async def serve(self, server: Server) -> None:
        """Run the server of SCAFFOLD."""
        x, c = server.initial, np.zeros_like(server.initial)
        while True:
            message = Controlled(server.pack(x, field="x"), server.pack(c, field="c"))
            replies = await server.exchange(message)
            if replies:
                x = x + self.server_rate * mean(server, replies, "x")
                c = c + shares(server, replies, "c")
            server.commit(x)

    async def handle(self, client: Client[Control], message: Controlled) -> ControlledUpdate:
        """Run a client of SCAFFOLD."""
        control = client.state
        x, correction = message.x.values, message.c.values - control.c
        y = x
        for _ in range(self.local_steps):
            gradient = await client.compute(self.gradient(client, y))
            y = y - self.eta * (gradient + correction)
        renewed = (x - y) / (self.local_steps * self.eta) - correction
        change = client.pack(renewed - control.c, field="c")
        control.c = control.c + change.values
        return ControlledUpdate(client.pack(y - x, field="x"), change)

    def undelivered(self, client: Client[Control], message: ControlledUpdate) -> None:
        """Take back a change of c_i that the server will not receive."""
        client.state.c = client.state.c - message.c.values


@dataclass(frozen=True, slots=True)
class Start(Message):
    """Server to client: the model, and the number of local steps to take from it."""

    x: Payload
    steps: Payload


@dataclass(slots=True)
class Moved:
    """A client's state between rounds.

    Attributes:
        start: x^0, the initial model of all, shape (d,).
        total: D_i, the sum of its sent updates, shape (d,).
    """

    start: Array
    total: Array


class Scaffnew(Algorithm[Moved]):
    """Scaffnew (ProxSkip): a random number of local steps, corrected by all updates sent so far."""

    kind: Literal["scaffnew"] = "scaffnew"
    combines: ClassVar[Combines] = "changes"
    messages: ClassVar[tuple[type[Message], ...]] = (Start, Update)
    source: ClassVar[str] = (
        "Mishchenko, Malinovsky, Stich, Richtarik: ProxSkip: Yes! Local Gradient Steps Provably"
        " Lead to Communication Acceleration! Finally!, ICML 2022, algorithm 2"
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
        description="p, the probability of communicating after a step, so that a round has 1/p"
        " steps on average; in theory best at sqrt(gamma mu) for mu-strongly convex losses",
    )
    batch: GrowingBatch | PositiveInt | None = Batch

    def samples_per_round(self, rows: int) -> float:
        """Return the mean number of samples of the local steps."""
        return draw_count(self.batch, rows) / self.probability

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if a local step is longer than 1/L_max, or clients are sampled."""
        yield from local_step_concern(float(self.step_size), info.largest_smoothness, "L_max")
        if info.cohort_size is not None:
            text = "the theory of scaffnew (Mishchenko et al. 2022, theorem 3.6) assumes that all"
            yield Concern("kind", f"{text} clients take part; this scenario samples them")

    def memory(self, initial: Array) -> Moved:
        """Return a client's initial state."""
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
