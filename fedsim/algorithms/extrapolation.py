"""FedExProx: extrapolation beyond the mean of proximal steps.

Li, Acharya, Richtarik, "The Power of Extrapolation in Federated Learning", NeurIPS 2024
(FedExProx, Algorithm 1). It minimises f = sum_i p_i f_i (the paper: p_i = 1/n) where one model
minimises every f_i (interpolation); elsewhere its limit is another one, as FedProx' is:

    x <- x + alpha sum_i p_i (prox_i(x) - x),
    prox_i(x) = argmin_z f_i(z) + |z - x|^2/(2 gamma).

alpha = 1 is FedProx. alpha is a number, in theory best at 1/(gamma L_gamma) with L_gamma the
smoothness constant of the mean of the Moreau envelopes M_i of f_i; or it follows from the diversity
of their gradients, (x - prox_i(x))/gamma (FedExProx-GraDS):

    alpha = sum_i p_i |prox_i(x) - x|^2 / |sum_i p_i (prox_i(x) - x)|^2 >= 1,

which has bounds for all clients together and for samples. The paper's proximal steps are exact;
here they are local steps on f_i + mu/2 |. - x|^2, mu = 1/gamma, as FedProx takes them (Li,
Richtarik, "On the Convergence of FedProx with Extrapolation and Inexact Prox", 2024).
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from fedsim.algorithms.averaging import FedProx
from fedsim.algorithms.local import Model, mean
from fedsim.ports import Array, Reply, Server


class FedExProx(FedProx):
    """FedExProx: FedProx with a server that extrapolates beyond the clients' mean."""

    kind: Literal["fedexprox"] = "fedexprox"  # type: ignore[assignment]  # each has its own name
    source: ClassVar[str] = (
        "Li, Acharya, Richtarik: The Power of Extrapolation in Federated Learning, NeurIPS 2024,"
        " algorithm 1"
    )

    extrapolation: PositiveFloat | Literal["diversity"] = Field(
        default="diversity",
        description='alpha, how far beyond: a number, 1 for FedProx, or "diversity", which makes it'
        " of how much the clients' steps differ",
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
