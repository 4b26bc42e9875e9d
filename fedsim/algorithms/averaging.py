"""Averaging of local models: FedAvg, FedProx and FedNova against client drift, and FedExProx.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient Learning of Deep
Networks from Decentralized Data", AISTATS 2017 (FedAvg, Algorithm 1); Li, Sahu, Zaheer,
Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks", MLSys 2020
(FedProx, Algorithm 2); Wang, Liu, Liang, Joshi, Poor, "Tackling the Objective Inconsistency
Problem in Heterogeneous Federated Optimization", NeurIPS 2020 (FedNova, Algorithm 1).

All minimise f = sum_i p_i f_i; the p_i are the problem's weights, n_i/n by default. In a round
client i starts from the server's w, takes tau_i stochastic gradient steps
w_i <- w_i - eta g_i(w_i), and sends Delta_i = w_i - w:

    FedAvg   w <- w + sum_i p_i Delta_i, which is sum_i p_i w_i;
    FedProx  the same, with steps on f_i + mu/2 |. - w|^2;
    FedNova  w <- w + (sum_i p_i tau_i) (sum_i p_i Delta_i/tau_i).

If only some clients reply, `participation.estimate` decides how the sums are estimated. By default,
if clients are drawn uniformly, the p_i are scaled to add up to one. Clients send the update, not
the model: both carry the same information, but the error of a compressed update shrinks with the
updates. Round t stands for the model after aggregation. A late update is aggregated like any other.

FedExProx. Li, Acharya, Richtarik, "The Power of Extrapolation in Federated Learning", NeurIPS 2024
(Algorithm 1): extrapolation beyond the mean of proximal steps. It minimises f = sum_i p_i f_i (the
paper: p_i = 1/n) if one model minimises every f_i (interpolation). Otherwise it converges to
another model, as FedProx does. A round is

    x <- x + alpha sum_i p_i (prox_i(x) - x),
    prox_i(x) = argmin_z f_i(z) + |z - x|^2/(2 gamma).

With alpha = 1 this is FedProx. alpha is a number: in theory the best one is 1/(gamma L_gamma),
where L_gamma is the smoothness constant of the mean of the Moreau envelopes of the f_i. Or it
follows from the diversity of the envelopes' gradients, (x - prox_i(x))/gamma (FedExProx-GraDS):

    alpha = sum_i p_i |prox_i(x) - x|^2 / |sum_i p_i (prox_i(x) - x)|^2 >= 1.

The paper has convergence bounds for both choices, for full participation and for samples of
clients. Its proximal steps are exact. With mu = 1/gamma, they are local steps on f_i +
mu/2 |. - x|^2 here, like those of FedProx (Li, Richtarik, "On the Convergence of FedProx with
Extrapolation and Inexact Prox", 2024).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedsim.algorithms.base import ProblemInfo
from fedsim.algorithms.concerns import Concern
from fedsim.algorithms.local_steps import Model, mean, ratio
from fedsim.algorithms.local_training import Kept, LocalUpdates
from fedsim.core.blocks.nature import Nature
from fedsim.core.ports import Array, Client, Message, Payload, Reply, Server


@dataclass(frozen=True, slots=True)
class NormalisedUpdate(Message):
    """Client to server: its mean step, and the number of steps."""

    delta: Payload
    tau: Payload


class FedAvg(LocalUpdates):
    """Federated averaging (FedAvg): the mean of the clients' models after local steps."""

    kind: Literal["fedavg"] = "fedavg"
    source: ClassVar[str] = (
        "McMahan et al.: Communication-Efficient Learning of Deep Networks from Decentralized"
        " Data, AISTATS 2017, algorithm 1"
    )


class FedProx(LocalUpdates):
    """FedProx: federated averaging whose local steps are pulled back to the server's model."""

    kind: Literal["fedprox"] = "fedprox"
    source: ClassVar[str] = (
        "Li et al.: Federated Optimization in Heterogeneous Networks, MLSys 2020, algorithm 2"
    )

    mu: float = Field(default=0.01, ge=0, description="mu, the weight of |w - w_t|^2/2")

    @property
    def pull(self) -> float:
        """mu, for local steps on h_i(w; w_t) = f_i(w) + mu/2 |w - w_t|^2."""
        return self.mu

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if a local step is longer than 1/(L_max + mu)."""
        yield from self.step_concerns(info.largest_smoothness + self.mu, "(L_max + mu)")


class FedNova(LocalUpdates):
    """FedNova: clients send their mean step, so that more local steps give no larger weight."""

    kind: Literal["fednova"] = "fednova"
    asks: ClassVar[Literal["loss", "steps", "program"]] = "loss"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, NormalisedUpdate)
    handles_rows: ClassVar[bool] = True
    source: ClassVar[str] = (
        "Wang et al.: Tackling the Objective Inconsistency Problem in Heterogeneous Federated"
        " Optimization, NeurIPS 2020, algorithm 1"
    )

    @model_validator(mode="after")
    def _mean_steps(self) -> Self:
        text = "a mean step, Delta_i/tau_i, is a mean of gradient steps of one size"
        if self.optimizer is not None and not self.optimizer.plain:
            raise ValueError(f"optimizer: got one, but {text}; leave it out, or take fedavg")
        if self.schedule is not None and self.schedule.by == "step":
            raise ValueError(f"schedule: got by: step, but {text}; give by: round, or take fedavg")
        return self

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature: clients send a number, too."""
        yield from super().natures()
        text = "got fednova, whose clients send their number of steps beside the update"
        yield "kind", Nature(unbounded=text)

    def server_step(self, server: Server, replies: Sequence[Reply]) -> Array:
        """Return the mean step, times the mean number of local steps."""
        return ratio(server, replies, "tau") * mean(server, replies, "delta")

    async def handle(self, client: Client[Kept], message: Model) -> NormalisedUpdate:
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

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature if alpha is computed from the lengths of single updates."""
        yield from super().natures()
        if self.extrapolation == "diversity":
            text = "got diversity, which the server computes from the length of each update"
            yield "extrapolation", Nature(apart=text)

    def server_step(self, server: Server, replies: Sequence[Reply]) -> Array:
        """Return alpha times the mean of the updates."""
        step = mean(server, replies, "delta")
        return self.alpha(server, replies, step) * step

    def alpha(self, server: Server, replies: Sequence[Reply], step: Array) -> float:
        """Return alpha.

        Args:
            server: the server, which has the weights.
            replies: the replies of the round.
            step: the mean of their updates, shape (d,).
        """
        if self.extrapolation != "diversity":
            return float(self.extrapolation)
        squares = [float(np.sum(reply.message.delta.values**2)) for reply in replies]
        length = float(step @ step)
        return float(server.coefficients(replies) @ squares) / length if length else 1.0
