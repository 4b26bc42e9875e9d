"""Adaptive federated optimisation: the mean update as a gradient for Adam and Yogi.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive Federated
Optimization", ICLR 2021 (Algorithm 2). Clients are those of FedAvg. From the mean Delta of their
updates, weighted with p_i as in `fedsim.algorithms.averaging`, the server computes

    m <- beta1 m + (1 - beta1) Delta,
    v <- beta2 v + (1 - beta2) Delta^2                      (FedAdam)
    v <- v - (1 - beta2) Delta^2 sign(v - Delta^2)          (FedYogi)
    w <- w + eta_g m/(sqrt(v) + tau),

coordinate by coordinate, from m = 0 and v = tau^2, without bias correction. A round without a reply
changes none of the three.
"""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.algorithms.averaging import LocalUpdates
from fedsim.algorithms.local_steps import Model, mean
from fedsim.ports import Array, Server

REDDI = "Reddi et al.: Adaptive Federated Optimization, ICLR 2021, algorithm 2"


class AdaptiveServer(LocalUpdates):
    """A server whose step in each coordinate is scaled by past updates of that coordinate."""

    source: ClassVar[str] = REDDI

    server_rate: float = Field(default=0.1, gt=0, description="eta_g, the server's step size")
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of the mean update")
    beta2: float = Field(default=0.99, ge=0, lt=1, description="decay of its square")
    tau: float = Field(default=1e-3, gt=0, description="tau, which bounds the adaptivity")

    @abstractmethod
    def second_moment(self, v: Array, square: Array) -> Array:
        """Return the next v, shape (d,), from the last one and Delta^2."""

    async def serve(self, server: Server) -> None:
        """Run the server of Algorithm 2."""
        w = server.initial
        m, v = np.zeros_like(w), np.full_like(w, self.tau * self.tau)
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            if replies:
                delta = mean(server, replies, "delta")
                m = self.beta1 * m + (1 - self.beta1) * delta
                v = self.second_moment(v, delta**2)
                w = w + self.server_rate * m / (np.sqrt(v) + self.tau)
            server.commit(w)


class FedAdam(AdaptiveServer):
    """FedAdam: v is a moving average of squared updates."""

    kind: Literal["fedadam"] = "fedadam"

    def second_moment(self, v: Array, square: Array) -> Array:
        """Return beta2 v + (1 - beta2) Delta^2."""
        return self.beta2 * v + (1 - self.beta2) * square


class FedYogi(AdaptiveServer):
    """FedYogi: v moves towards squared updates by amounts that depend on the updates alone."""

    kind: Literal["fedyogi"] = "fedyogi"

    def second_moment(self, v: Array, square: Array) -> Array:
        """Return v - (1 - beta2) Delta^2 sign(v - Delta^2)."""
        return v - (1 - self.beta2) * square * np.sign(v - square)
