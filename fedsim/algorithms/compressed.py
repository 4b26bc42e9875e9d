"""Gradient descent on compressed gradients.

Khirirat, Feyzmahdavian, Johansson, "Distributed Learning with Compressed Gradients", 2018
(DCGD). It minimises f = sum_m f_m by

    w^{k+1} = w^k - alpha sum_m C_m(grad f_m(w^k)),

where C_m is whatever the scenario's uplink does to a vector. With `error_feedback: ef` it is
EF-SGD on full gradients (Stich, Cordonnier, Jaggi 2018; Karimireddy et al. 2019), with `ef21`
it is EF21 (Richtarik, Sokolov, Fatkhullin 2021), and with nothing compressed gradient descent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import Algorithm, Concern, ProblemInfo, StepSize
from fedsim.algorithms.local import Model
from fedsim.algorithms.remedies import long_step
from fedsim.ports import Array, Client, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class Gradient(Message):
    """Client to server: its gradient, compressed."""

    g: Payload


class CompressedDescent(Algorithm):
    """Compressed gradient descent (DCGD): every client sends its gradient, compressed."""

    kind: Literal["dcgd"] = "dcgd"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, Gradient)
    objective: ClassVar[Literal["sum", "mean"]] = "sum"
    sampled: ClassVar[bool] = False
    source: ClassVar[str] = (
        "Khirirat, Feyzmahdavian, Johansson: Distributed Learning with Compressed Gradients, 2018"
    )

    step_size: StepSize = Field(description='alpha: a number, or a multiple of 1/L ("1/L")')
    momentum: float = Field(default=0.0, ge=0, lt=1, description="weight of the last step")

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that the noise of an unbiased compressor takes a shorter step."""
        omega, alpha = info.uplink.constant, float(self.step_size)
        if info.uplink.kind != "unbiased" or self.momentum:
            return

        def text(bound: float) -> str:
            return (
                f"got {alpha:.4g}, but with omega = {omega:.3g} compressed gradients are known to"
                f" settle for steps of at most 1/((1 + 2 omega/M) M L_max) = {bound:.4g} (Gorbunov,"
                " Hanzely, Richtarik 2020, on quantised gradients)"
            )

        whole = info.clients * info.largest_smoothness
        yield from long_step(alpha, (1 + 2 * omega / info.clients) * whole, text)

    async def serve(self, server: Server) -> None:
        """Run the server; the sum of partial replies is scaled to estimate that of all."""
        alpha, clients = float(self.step_size), len(server.clients)
        w, step = server.initial, np.zeros_like(server.initial)
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            server.commit(w)
            if replies:
                received: list[Array] = [reply.message.g.values for reply in replies]
                total = sum(received[1:], start=received[0]) * (clients / len(received))
                step = self.momentum * step - alpha * total
                w = w + step

    async def handle(self, client: Client, message: Model) -> Gradient:
        """Run a client: its gradient at the model it has received."""
        gradient = await client.compute(client.oracle.gradient(message.w.values))
        return Gradient(client.pack(gradient))
