"""Averaging of local models: federated averaging, variants against client drift, and extrapolation.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient Learning of Deep
Networks from Decentralized Data", AISTATS 2017 (FedAvg, Algorithm 1); Li, Sahu, Zaheer,
Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks", MLSys 2020
(FedProx, Algorithm 2); Wang, Liu, Liang, Joshi, Poor, "Tackling the Objective Inconsistency
Problem in Heterogeneous Federated Optimization", NeurIPS 2020 (FedNova, Algorithm 1).

All minimise f = sum_i p_i f_i, p_i = n_i/n. In a round client i starts from the server's w,
takes tau_i stochastic gradient steps w_i <- w_i - eta g_i(w_i), and sends Delta_i = w_i - w:

    FedAvg   w <- w + sum_i p_i Delta_i, which is sum_i p_i w_i;
    FedProx  the same, with steps on f_i + mu/2 |. - w|^2;
    FedNova  w <- w + (sum_i p_i tau_i) (sum_i p_i Delta_i/tau_i).

If only some clients reply, their p_i are scaled to add up to one. Update and model carry the same
information, but the error of a compressed update shrinks with the updates. Round t stands for the
model after aggregation. A late update is aggregated like any other.

FedExProx. Li, Acharya, Richtarik, "The Power of Extrapolation in Federated Learning", NeurIPS 2024
(Algorithm 1): extrapolation beyond the mean of proximal steps. It minimises f = sum_i p_i f_i (the
paper: p_i = 1/n) if one model minimises every f_i (interpolation); otherwise it converges to
another model, as FedProx does:

    x <- x + alpha sum_i p_i (prox_i(x) - x),
    prox_i(x) = argmin_z f_i(z) + |z - x|^2/(2 gamma).

alpha = 1 is FedProx. alpha is a number, in theory best at 1/(gamma L_gamma) with L_gamma the
smoothness constant of the mean of the Moreau envelopes M_i of f_i; or it follows from the diversity
of their gradients, (x - prox_i(x))/gamma (FedExProx-GraDS):

    alpha = sum_i p_i |prox_i(x) - x|^2 / |sum_i p_i (prox_i(x) - x)|^2 >= 1.

The paper bounds both for full participation and for samples of clients. Its proximal steps are
exact; here they are local steps on f_i + mu/2 |. - x|^2, mu = 1/gamma, like those of FedProx (Li,
Richtarik, "On the Convergence of FedProx with Extrapolation and Inexact Prox", 2024).
"""

from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from fedsim.algorithms.base import ProblemInfo
from fedsim.algorithms.concerns import Concern, long_step
from fedsim.algorithms.local_steps import LocalSteps, Model, batch_size, local_steps, mean
from fedsim.ports import Array, Client, Message, Payload, Reply, Server


@dataclass(frozen=True, slots=True)
class Update(Message):
    """Client to server: the difference of its model after local steps to the received one."""

    delta: Payload


@dataclass(frozen=True, slots=True)
class NormalisedUpdate(Message):
    """Client to server: its mean step, and the number of steps."""

    delta: Payload
    tau: Payload


def local_step_concern(eta: float, curvature: float, called: str) -> Iterator[Concern]:
    """Return a concern if local steps are longer than the theory of local methods allows.

    Khaled, Mishchenko, Richtarik, "Tighter Theory for Local SGD", AISTATS 2020, and Karimireddy
    et al. 2020 require a fraction of 1/L_max that depends on the number of steps; above 1/L_max
    itself none of their theorems applies.

    Args:
        eta: the clients' step size.
        curvature: the largest curvature of the clients' local objectives.
        called: its name, such as "L_max".
    """

    def text(bound: float) -> str:
        return (
            f"got {eta:g}, but 1/{called} = {bound:g}: the theory of local steps (Khaled,"
            " Mishchenko, Richtarik 2020; Karimireddy et al. 2020) has none longer than that"
        )

    return long_step(eta, curvature, text, "1/L_max" if called == "L_max" else "")


class LocalUpdates(LocalSteps):
    """A method whose clients send the result of their local steps."""

    asks: ClassVar[Literal["loss", "steps", "program"]] = "steps"

    messages: ClassVar[tuple[type[Message], ...]] = (Model, Update)

    epochs: PositiveInt | None = Field(
        default=None,
        description="instead of local_steps: the number of passes over the client's samples, "
        "tau_i = epochs ceil(n_i/batch) steps",
    )

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.epochs is not None and self.local_steps != 1:
            raise ValueError("give either local_steps or epochs, not both")
        return self

    def samples_per_round(self, rows: int) -> float:
        """Return how many samples the local steps take."""
        return super().samples_per_round(rows) if self.epochs is None else float(self.epochs * rows)

    def steps(self, client: Client) -> int:
        """Return tau_i, the client's number of steps in this round."""
        if self.epochs is None:
            return self.local_steps
        rows = client.oracle.rows
        return self.epochs * ceil(rows / (batch_size(self.batch, client.round) or rows))

    @property
    def pull(self) -> float | None:
        """mu, for local steps on f_i + mu/2 |. - w|^2 with the received model w; None for 0."""
        return None

    def descend(self, client: Client, start: Array) -> Awaitable[Array]:
        """Compute w_i, the model that local steps reach from the received one."""
        return local_steps(client, start, self.eta, self.steps(client), self.batch, self.pull)

    async def change(self, client: Client, start: Array) -> Array:
        """Compute Delta_i = w_i - w, from the received model w."""
        if type(self).descend is not LocalUpdates.descend:
            return await self.descend(client, start) - start
        eta, steps = self.eta, self.steps(client)
        return await local_steps(client, start, eta, steps, self.batch, self.pull, change=True)

    async def handle(self, client: Client, message: Model) -> Message:
        """Run a client: take local steps, and return the update."""
        return Update(client.pack(await self.change(client, message.w.values)))

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that a local step is longer than 1/L_max."""
        yield from local_step_concern(self.eta, info.largest_smoothness, "L_max")


class FedAvg(LocalUpdates):
    """Federated averaging (FedAvg): the mean of the clients' models after local steps."""

    kind: Literal["fedavg"] = "fedavg"
    source: ClassVar[str] = (
        "McMahan et al.: Communication-Efficient Learning of Deep Networks from Decentralized"
        " Data, AISTATS 2017, algorithm 1"
    )

    async def serve(self, server: Server) -> None:
        """Run the server: the weighted mean of the updates is its step."""
        w = server.initial
        while True:
            w = await self._average(server, w)
            server.commit(w)

    async def _average(self, server: Server, w: Array) -> Array:
        """Return the model after a round; the replies are freed before the next ones arrive."""
        replies = await server.exchange(Model(server.pack(w)))
        return w + mean(server, replies, "delta") if replies else w


class FedProx(FedAvg):
    """FedProx: federated averaging whose local steps are pulled back to the server's model."""

    kind: Literal["fedprox"] = "fedprox"  # type: ignore[assignment]  # each has its own name
    source: ClassVar[str] = (
        "Li et al.: Federated Optimization in Heterogeneous Networks, MLSys 2020, algorithm 2"
    )

    mu: float = Field(default=0.01, ge=0, description="mu, the weight of |w - w_t|^2/2")

    @property
    def pull(self) -> float:
        """mu, for local steps on h_i(w; w_t) = f_i(w) + mu/2 |w - w_t|^2."""
        return self.mu

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that a local step is longer than 1/(L_max + mu)."""
        curvature = info.largest_smoothness + self.mu
        yield from local_step_concern(self.eta, curvature, "(L_max + mu)")


class FedNova(LocalUpdates):
    """FedNova: the mean of mean steps, so that more local steps give no larger weight."""

    kind: Literal["fednova"] = "fednova"
    asks: ClassVar[Literal["loss", "steps", "program"]] = "loss"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, NormalisedUpdate)
    source: ClassVar[str] = (
        "Wang et al.: Tackling the Objective Inconsistency Problem in Heterogeneous Federated"
        " Optimization, NeurIPS 2020"
    )

    async def serve(self, server: Server) -> None:
        """Run the server: the mean step, times the mean number of local steps."""
        w = server.initial
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            if replies:
                tau = mean(server, replies, "tau")
                w = w + tau * mean(server, replies, "delta")
            server.commit(w)

    async def handle(self, client: Client, message: Model) -> NormalisedUpdate:
        """Run a client: take local steps, and return the mean step."""
        w, tau = message.w.values, self.steps(client)
        delta = await self.change(client, w) / tau
        return NormalisedUpdate(client.pack(delta, field="delta"), client.pack(np.array(tau)))


class FedExProx(FedProx):
    """FedExProx: FedProx with a server that extrapolates beyond the clients' mean."""

    kind: Literal["fedexprox"] = "fedexprox"  # type: ignore[assignment]  # each has its own name
    source: ClassVar[str] = (
        "Li, Acharya, Richtarik: The Power of Extrapolation in Federated Learning, NeurIPS 2024,"
        " algorithm 1"
    )

    extrapolation: PositiveFloat | Literal["diversity"] = Field(
        default="diversity",
        description='alpha: a number, 1 for FedProx, or "diversity", which computes it from the '
        "differences of the clients' steps",
    )

    async def _average(self, server: Server, w: Array) -> Array:
        """Return the model after a round."""
        replies = await server.exchange(Model(server.pack(w)))
        if not replies:
            return w
        step = mean(server, replies, "delta")
        return w + self.alpha(server, replies, step) * step

    def alpha(self, server: Server, replies: list[Reply], step: Array) -> float:
        """Return alpha; `step` is the mean of the replies' steps, shape (d,)."""
        if self.extrapolation != "diversity":
            return float(self.extrapolation)
        weights = server.weights[[reply.client for reply in replies]]
        squares = [float(np.sum(reply.message.delta.values**2)) for reply in replies]
        length = float(step @ step)
        return float(weights @ squares / weights.sum()) / length if length else 1.0
