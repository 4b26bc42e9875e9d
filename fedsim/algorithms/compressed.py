"""Gradient descent on compressed gradients, and on compressed differences of gradients.

Khirirat, Feyzmahdavian, Johansson, "Distributed Learning with Compressed Gradients", 2018
(DCGD). It minimises F = sum_m w_m f_m; f_m below is w_m f_m, which clients multiply out:

    w^{k+1} = w^k - alpha sum_m C_m(grad f_m(w^k)),

where C_m is the scenario's uplink compressor. With `error_feedback: ef` this is EF-SGD on full
gradients (Stich, Cordonnier, Jaggi 2018; Karimireddy et al. 2019), with `ef21` it is EF21
(Richtarik, Sokolov, Fatkhullin 2021), and without compression gradient descent.

DIANA. Mishchenko, Gorbunov, Takac, Richtarik, "Distributed Learning with Compressed Gradient
Differences", 2019 (Algorithm 1), and Horvath, Kovalev, Mishchenko, Richtarik, Stich, "Stochastic
Distributed Learning with Gradient Quantization and Variance Reduction", 2019, for any unbiased
compressor Q. It minimises f = sum_i p_i f_i (the papers: p_i = 1/n). Client i has a shift h_i, 0 at
first, which converges to its gradient at the optimum; the server has h = sum_i p_i h_i.

    d_i = Q(g_i(w) - h_i),    g = h + sum_i p_i d_i,    v <- beta v + g,    w <- w - gamma v,
    h_i <- h_i + alpha d_i,   h <- h + alpha sum_i p_i d_i.

At the optimum h_i is the gradient of f_i, so the compressed differences vanish, and with them the
noise floor that compressed gradients have if clients differ. If only a cohort S of the M clients
replies, sum_S p_i/pi_i d_i replaces the sum in g. It is unbiased, where pi_i is the probability of
a reply (|S|/M in a uniform sample). h changes by the d_i that were sent. A late reply changes h,
but not the step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.algorithms.base import Algorithm, Combines, ProblemInfo, StepSize
from fedsim.algorithms.concerns import EXCESS, Concern, at_most, concern, long_step
from fedsim.algorithms.error_feedback import Difference
from fedsim.algorithms.local_steps import (
    Batch,
    GrowingBatch,
    Model,
    draw_count,
    of_this_round,
    shares,
    stochastic_gradient,
    sum_of_all,
)
from fedsim.core.ports import Array, Client, Meaning, Message, Payload, Server


@dataclass(frozen=True, slots=True)
class Gradient(Message):
    """Client to server: its gradient, compressed."""

    g: Payload


class CompressedDescent(Algorithm):
    """Compressed gradient descent (DCGD): every client sends its gradient, compressed."""

    kind: Literal["dcgd"] = "dcgd"
    combines: ClassVar[Combines] = "sum"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, Gradient)
    handles_rows: ClassVar[bool] = True
    weighs_losses: ClassVar[bool] = True
    sampled: ClassVar[bool] = False
    source: ClassVar[str] = (
        "Khirirat, Feyzmahdavian, Johansson: Distributed Learning with Compressed Gradients, 2018"
    )

    step_size: StepSize = Field(description='alpha: a number, or a multiple of 1/L ("1/L")')
    momentum: float = Field(default=0.0, ge=0, lt=1, description="weight of the last step")

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the noise of an unbiased compressor requires a shorter step."""
        omega, alpha = info.uplink.constant, float(self.step_size)
        if info.uplink.kind != "unbiased" or self.momentum:
            return

        def text(bound: float) -> str:
            return (
                f"got {alpha:.4g}, but with omega = {omega:.3g} compressed gradients are known to"
                f" settle for steps of at most 1/((1 + 2 omega/M) M L_max) = {bound:.4g} (Gorbunov,"
                " Hanzely, Richtarik 2020, on quantized gradients)"
            )

        whole = info.clients * info.largest_smoothness
        yield from long_step(alpha, (1 + 2 * omega / info.clients) * whole, text)

    async def serve(self, server: Server) -> None:
        """Run the server; the sum of partial replies is scaled to estimate that of all."""
        alpha, equal = float(self.step_size), np.ones(len(server.clients))
        w, step = server.initial, np.zeros_like(server.initial)
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            if replies:
                step = self.momentum * step - alpha * sum_of_all(server, replies, "g", equal)
                w = w + step
            server.commit(w)

    async def handle(self, client: Client, message: Model) -> Gradient:
        """Run a client: send the gradient at the received model."""
        gradient = await client.compute(client.oracle.gradient(message.w.values))
        return Gradient(client.pack(client.weight * gradient))


@dataclass(slots=True)
class Shift:
    """A client's state in DIANA.

    Attributes:
        h: h_i, which is part of the server's h, shape (d,).
    """

    h: Array


class Diana(Algorithm[Shift]):
    """DIANA: clients send compressed differences to a shift that follows their gradients."""

    kind: Literal["diana"] = "diana"
    combines: ClassVar[Combines] = "sum"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, Difference)
    sampled: ClassVar[bool] = False
    source: ClassVar[str] = (
        "Mishchenko, Gorbunov, Takac, Richtarik: Distributed Learning with Compressed Gradient"
        " Differences, 2019, algorithm 1"
    )
    unbiased: ClassVar[tuple[Literal["up", "down"], ...]] = ("up",)
    measured_by: ClassVar[Literal["L", "L_max"]] = "L_max"
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.DIFFERENCE}
    synchronous: ClassVar[str] = "a step combines the clients' answers to one model"

    step_size: StepSize = Field(description='gamma: a number, or a multiple of 1/L ("1/L")')
    shift_rate: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="alpha, the rate at which a shift follows its gradient; by default"
        " 1/(1 + omega) of the uplink's compressor",
    )
    momentum: float = Field(default=0.0, ge=0, lt=1, description="beta, weight of the last step")
    batch: GrowingBatch | PositiveInt | None = Batch

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of a stochastic gradient."""
        return float(draw_count(self.batch, rows))

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with the step size and alpha as numbers."""
        ready = super().configure(info)
        if ready.shift_rate is not None:
            return ready
        return ready.model_copy(update={"shift_rate": 1 / (1 + info.uplink.constant)})

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if alpha or the step size is larger than DIANA's theory allows."""
        omega, gamma, alpha = info.uplink.constant, float(self.step_size), self._alpha
        if alpha * (1 + omega) > 1 + EXCESS:
            text = (
                f"got {alpha:.4g}, but it is at most 1/(1 + omega) = {1 / (1 + omega):.4g}"
                " (Horvath et al. 2019, theorem 1)"
            )
            yield concern("shift_rate", text, at_most(1 / (1 + omega)))
        largest = float(info.shares.max())

        def longest(bound: float) -> str:
            return (
                f"got {gamma:.4g}, but DIANA is known to converge for steps of at most"
                f" 1/((1 + 6 omega/M) L_max) = {bound:.4g} with omega = {omega:.3g} and the largest"
                f" share, {largest:.3g}, for 1/M (Gorbunov, Hanzely, Richtarik 2020, on DIANA)"
            )

        yield from long_step(gamma, (1 + 6 * omega * largest) * info.largest_smoothness, longest)

    @property
    def _alpha(self) -> float:
        return 1.0 if self.shift_rate is None else self.shift_rate

    def memory(self, initial: Array) -> Shift:
        """Return a client's initial state: h_i = 0."""
        return Shift(np.zeros_like(initial))

    async def serve(self, server: Server) -> None:
        """Run the server of DIANA."""
        w = server.initial
        h, v = np.zeros_like(w), np.zeros_like(w)
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            fresh = of_this_round(server, replies)
            late = [reply for reply in replies if reply.round < server.round]
            h = h + self._alpha * shares(server, late, "d")
            if fresh:
                v = self.momentum * v + h + sum_of_all(server, fresh, "d")
                w = w - float(self.step_size) * v
                h = h + self._alpha * shares(server, fresh, "d")
            server.commit(w)

    async def handle(self, client: Client[Shift], message: Model) -> Difference:
        """Run a client of DIANA."""
        work = stochastic_gradient(client, message.w.values, self.batch)
        shift = client.state
        d = client.pack(await client.compute(work) - shift.h)
        shift.h = shift.h + self._alpha * d.values
        return Difference(d)

    def undelivered(self, client: Client[Shift], message: Difference) -> None:
        """Take back a change of h_i that the server's h will not contain."""
        client.state.h = client.state.h - self._alpha * message.d.values
