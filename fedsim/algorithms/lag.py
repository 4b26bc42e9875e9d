"""LAG, lazily aggregated gradients: innovations are compared with the latest model steps.

Chen, Giannakis, Sun, Yin, "LAG: Lazily Aggregated Gradient for Communication-Efficient
Distributed Learning", NeurIPS 2018 (LAG-WK, LAG-PS). The server's sum and its iteration are
those of gradient descent in `fedsim.algorithms.censored`; a worker transmits its innovation if its
square exceeds (xi/(alpha^2 M^2)) sum_j |theta^{k+1-j} - theta^{k-j}|^2, j = 1..D. Under LAG-WK each
worker evaluates its gradient and decides; under LAG-PS the server bounds the innovation by L_m, and
sends the model only to the workers whose bound exceeds the trigger. L_m is the constant of the
weighted loss w_m f_m, which is the paper's f_m.

The trigger needs D = 10 steps of the model, so it applies from round D + 1 on. In the first D
rounds nothing is left out, and the method is gradient descent: under LAG-WK a worker transmits its
innovation until it has received D + 1 models, and under LAG-PS the server sends the model to all
workers in rounds 1 to D. A worker that missed models counts those that it has received; each step
between two of them counts as their mean. The trigger of `lag`, the baseline of the CHB paper, has
one step, which is zero in round 1: there a worker transmits unless its gradient is zero.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fedsim.algorithms import censored
from fedsim.algorithms.base import ProblemInfo
from fedsim.algorithms.censored import GradientDescent, Iterate, WorkerMemory, total
from fedsim.core.errors import DataError, ParameterError
from fedsim.core.ports import Client, Server
from fedsim.wire import of_round, senders

LAG = (
    "Chen, Giannakis, Sun, Yin: LAG: Lazily Aggregated Gradient for "
    "Communication-Efficient Distributed Learning, NeurIPS 2018"
)

DEPTH = 10
"""D of LAG: the number of model steps in a trigger, and of rounds before the first trigger."""


class LagWorker(GradientDescent):
    """LAG-WK: a worker compares its innovation with the latest D steps of the model."""

    kind: Literal["lag-wk"] = "lag-wk"  # type: ignore[assignment]
    source: ClassVar[str] = LAG + ", LAG-WK"
    may_be_silent: ClassVar[bool] = True
    window: ClassVar[int] = DEPTH

    xi: float = Field(default=0.1, ge=0, description="weight of each of the latest 10 steps")
    _area: float = PrivateAttr(default=1.0)

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with the numbers of its step size and of alpha^2 M^2.

        Raises:
            ParameterError: the latter is out of the range of float64.
        """
        ready = super().configure(info)
        area = censored.area(ready.alpha, info.clients, "the trigger xi", "give")
        ready._area = area  # noqa: SLF001 - a copy of this very class
        return ready

    def trigger(self, steps: Sequence[float]) -> float:
        """Return (xi/(alpha^2 M^2)) sum_j |theta^{k+1-j} - theta^{k-j}|^2, j = 1..D."""
        return self.xi / self._area * sum(steps)

    def censors(self, innovation: Any, client: Client[WorkerMemory]) -> Any:
        """Censor while |delta_m|^2 is at most the trigger, once k > D."""
        memory = client.state
        return memory.received > DEPTH and innovation <= self.trigger(memory.steps)


class LagServer(LagWorker):
    """LAG-PS: the server sends only to workers whose gradient may have changed enough."""

    kind: Literal["lag-ps"] = "lag-ps"  # type: ignore[assignment]
    source: ClassVar[str] = LAG + ", LAG-PS"
    asks_all: ClassVar[bool] = False
    handles_rows: ClassVar[bool] = False

    xi: float = Field(default=1.0, ge=0, description="weight of each of the latest 10 steps")

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy whose step size is a number.

        Raises:
            ParameterError: the loss has no known smoothness constants.
        """
        try:
            info.client_smoothness()
        except DataError:
            text = (
                "lag-ps selects clients by the smoothness constants of their losses, and none is"
                f" known for {info.loss}; use lag-wk"
            )
            raise ParameterError("kind", text) from None
        return super().configure(info)

    def censors(self, innovation: Any, client: Client[WorkerMemory]) -> bool:
        """Return False: a worker that receives the model replies."""
        return False

    async def serve(self, server: Server) -> None:
        """Run the server of LAG-PS: send to m if L_m^2 |theta_hat_m - theta^k|^2 > trigger."""
        theta = server.initial
        aggregate = np.zeros_like(theta)
        asked_at = np.tile(theta, (len(server.clients), 1))  # theta_hat_m, row by row
        server_state = WorkerMemory(theta, self.window)
        while True:
            server_state.receive(theta, server_state.round + 1)
            change = server.smoothness**2 * np.square(asked_at - theta).sum(axis=1)
            worth = (
                change > self.trigger(server_state.steps)
                if server_state.received > DEPTH
                else np.full(len(change), fill_value=True)
            )
            to = [client for client in server.clients if worth[client]]
            replies = await server.exchange(Iterate(server.pack(theta)), to=to)
            # theta_hat_m is the model of m's last gradient at the server: a lost or late reply does
            # not count.
            asked_at[senders(of_round(replies, server_state.round))] = theta
            aggregate = aggregate + total(server, replies)
            theta = theta - self.alpha * aggregate
            server.commit(theta)
