"""Censored gradient methods: a worker whose news is small keeps quiet.

Chen, Blum, Sadler, "Heavy Ball Momentum for Communication-Efficient Distributed Learning"
(CHB), with its special cases HB, LAG and GD; those of the paper on LAG itself are in
`fedsim.algorithms.lag`.

All minimise f = sum_m f_m. The server keeps G, the sum of the last gradients that the
workers transmitted, and iterates

    theta^{k+1} = theta^k - alpha G^k + beta (theta^k - theta^{k-1}).

Round k of these methods stands for theta^k, the model whose gradients it gathered: that
is how the papers count, so f(theta^k) - f* is set against the messages of k rounds.

Where a worker does not receive every model (a sample of the clients, an asynchronous server, a lost
broadcast), the step that its innovation is weighed against is the mean one of the server's steps
between the two models that it received last, which their rounds number. Their distance would be the
sum of these steps, and the threshold so many times too large: `censored_theory` says why.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.algorithms import censored_theory
from fedsim.algorithms.base import Algorithm, Concern, ProblemInfo
from fedsim.algorithms.remedies import EXCESS, at_most, concern
from fedsim.algorithms.step_sizes import StepSize
from fedsim.ports import SILENCE, Array, Client, Meaning, Message, Payload, Reply, Server, Silence

CHB = "Chen, Blum, Sadler: Heavy Ball Momentum for Communication-Efficient Distributed Learning"


@dataclass(frozen=True, slots=True)
class Iterate(Message):
    """Server to worker: the model theta^k."""

    theta: Payload


@dataclass(frozen=True, slots=True)
class Innovation(Message):
    """Worker to server: delta_m, its gradient less what the server holds of it."""

    delta: Payload


def total(replies: Sequence[Reply]) -> Array | float:
    """Return the sum of the innovations, in the order of the clients; 0.0 for none."""
    return sum((reply.message.delta.values for reply in replies), start=0.0)


class WorkerMemory:
    """What a worker remembers between rounds.

    Attributes:
        held: the server's copy of this worker's gradient, shape (d,); zero at the start.
        theta: the last model received, shape (d,); the initial model at the start.
        steps: |theta^{k+1-j} - theta^{k-j}|^2 for j = 1, 2, ...: newest first. The steps between
            two receptions count as their mean, each of them.
        round: the round of that model; 0 at the start.
        received: how many models were received.
    """

    __slots__ = ("held", "received", "round", "steps", "theta")

    def __init__(self, initial: Array, window: int) -> None:
        self.held = np.zeros_like(initial)
        self.theta = initial
        self.steps: deque[float] = deque(maxlen=window)
        self.round = 0
        self.received = 0

    def receive(self, theta: Array, number: int) -> None:
        """Store the model theta^k of round k = `number`.

        Of the server's steps since the last reception only their sum is known. Their mean stands
        for each: its square is at most the mean of their squares (Jensen).
        """
        passed = max(number - self.round, 1) if self.received else 1
        step = (theta - self.theta) / passed
        self.steps.extendleft([float(step.dot(step))] * min(passed, self.steps.maxlen or passed))
        self.theta = theta
        self.round = number
        self.received += 1


class GradientDescent(Algorithm[WorkerMemory]):
    """Gradient descent: every worker transmits its innovation in every round."""

    kind: Literal["gd"] = "gd"
    messages: ClassVar[tuple[type[Message], ...]] = (Iterate, Innovation)
    objective: ClassVar[Literal["sum", "mean"]] = "sum"
    source: ClassVar[str] = CHB
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.DIFFERENCE}
    sampled: ClassVar[bool] = False
    window: ClassVar[int] = 1
    """How many steps of the model a worker remembers."""

    step_size: StepSize = Field(description='alpha: a number, or a multiple of 1/L ("1/L")')

    @property
    def alpha(self) -> float:
        """The step size as a number, which it is once `configured`."""
        return float(self.step_size)

    @property
    def beta(self) -> float:
        """The weight of the last step of the model in the next one."""
        return 0.0

    def censors(self, innovation: float, client: Client[WorkerMemory]) -> bool:  # noqa: ARG002 - for subclasses
        """Say whether a worker keeps quiet.

        Args:
            innovation: |delta_m|^2.
            client: the worker, theta^k received.
        """
        return False

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that the step size is beyond 2 (1 + beta)/L.

        It is where heavy ball stops to converge on a quadratic (Polyak 1964), and for beta = 0
        gradient descent. The others are these two where nobody is censored.
        """
        L, most = info.smoothness(), 2 * (1 + self.beta)
        if info.arrivals is not None and info.arrivals.age:
            yield from self._stale_concerns(info, info.arrivals.age, lambda _: 0.0)
        elif self.alpha * L >= most:
            called = "2 (1 + momentum)/L" if self.beta else "2/L"
            text = (
                f"got {self.alpha:g}, but it must be below {called} = {most / L:g}: from there on"
                " the method diverges on a quadratic of curvature L (Polyak 1964)"
            )
            yield concern("step_size", text, "1/L")

    def participation_concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that only some are asked; `concerns` has the bound of an asynchronous server."""
        if info.arrivals is None:
            yield from super().participation_concerns(info)

    def _stale_concerns(
        self, info: ProblemInfo, age: int, threshold: Callable[[float], float]
    ) -> Iterator[Concern]:
        """Yield that the step size is beyond what is known for gradients of such an age."""
        most = censored_theory.longest_stale(info.smoothness(), self.beta, age, threshold)
        if most and self.alpha > most * (1 + EXCESS):
            text = (
                f"got {self.alpha:g}, but under this asynchronous server, whose gradients are up"
                f" to {age} updates old, only below {most:g} is the method known to converge on"
                f" quadratics of curvature L {censored_theory.WHERE}"
            )
            yield concern("step_size", text, at_most(most))

    def memory(self, initial: Array) -> WorkerMemory:
        """Return a worker's memory: nothing transmitted yet."""
        return WorkerMemory(initial, self.window)

    async def serve(self, server: Server) -> None:
        """Run the server of CHB (Algorithm 1)."""
        theta = previous = server.initial
        aggregate = np.zeros_like(theta)  # G^k
        while True:
            aggregate = aggregate + total(await server.exchange(Iterate(server.pack(theta))))
            server.commit(theta)
            step = theta - self.alpha * aggregate + self.beta * (theta - previous)
            theta, previous = step, theta

    async def handle(self, client: Client[WorkerMemory], message: Iterate) -> Innovation | Silence:
        """Run a worker of CHB (Algorithm 1): transmit the innovation unless it is censored."""
        memory = client.state
        memory.receive(message.theta.values, client.round)
        gradient = await client.compute(client.oracle.gradient(memory.theta))
        innovation = gradient - memory.held
        if self.censors(float(innovation.dot(innovation)), client):
            return SILENCE
        delta = client.pack(innovation)
        memory.held = memory.held + delta.values
        return Innovation(delta)

    def undelivered(self, client: Client[WorkerMemory], message: Innovation) -> None:
        """Take back an innovation that the server will not hold."""
        client.state.held = client.state.held - message.delta.values


class HeavyBall(GradientDescent):
    """Heavy ball (Polyak): gradient descent with momentum, nobody censored."""

    kind: Literal["hb"] = "hb"  # type: ignore[assignment]  # each class has a name of its own

    momentum: float = Field(
        default=0.4, ge=0, lt=1, description="beta, the weight of the last step"
    )

    @property
    def beta(self) -> float:
        """The weight of the last step of the model in the next one."""
        return self.momentum


class LazyGradient(GradientDescent):
    """LAG as the CHB paper's baseline: gradient descent with CHB's censoring rule."""

    kind: Literal["lag"] = "lag"  # type: ignore[assignment]

    censor: float | None = Field(
        default=None, ge=0, description="c in eps1 = c/(alpha^2 M^2); 0.1 where eps1 is not given"
    )
    eps1: float | None = Field(
        default=None, ge=0, description="silence while |delta|^2 <= eps1 |theta^k - theta^{k-1}|^2"
    )

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.censor is not None and self.eps1 is not None:
            raise ValueError("give either censor or eps1, not both")
        return self

    def configured(self, info: ProblemInfo) -> Self:
        """Return a copy with step size and eps1 as numbers."""
        ready = super().configured(info)
        if ready.eps1 is not None:
            return ready
        censor = 0.1 if ready.censor is None else ready.censor
        remedy = "give eps1 in place of censor, or"
        area = censored_theory.area(ready.alpha, info.clients, "eps1 = censor", remedy)
        return ready.model_copy(update={"censor": None, "eps1": censor / area})

    @property
    def relative(self) -> bool:
        """Whether eps1 goes with 1/alpha^2, once `configured`."""
        return "censor" in self.model_fields_set or "eps1" not in self.model_fields_set

    def certain(self, info: ProblemInfo, c: float) -> float:
        """Return the longest step that bears c, or a lesser one; see `censored_theory`."""
        L = info.smoothness()
        if not self.relative:
            threshold = info.clients * float(self.eps1 or 0.0) ** 0.5
            return censored_theory.longest_at(L, self.beta, threshold)
        bears = c < (1 - self.beta) ** 2
        return censored_theory.longest(
            L, self.beta, c if bears else censored_theory.largest(self.beta)
        )

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that heavy ball diverges, or that with censoring nobody knows that it does not."""
        scale = self.alpha * info.clients
        c = float(self.eps1 or 0.0) * scale * scale
        if not c:
            yield from super().concerns(info)
            return
        if self.relative and c >= (1 - self.beta) ** 2:
            text = (
                f"got {c:g}, but c must be below (1 - momentum)^2 for what is censored to die out"
                f" on a quadratic {censored_theory.WHERE}"
            )
            yield concern("censor", text, at_most(censored_theory.largest(self.beta)))
        if info.arrivals is not None and info.arrivals.age:
            root = c**0.5 / self.alpha
            relative = min(c**0.5, censored_theory.largest(self.beta) ** 0.5)
            threshold = (lambda _: relative) if self.relative else (lambda alpha: root * alpha)
            yield from self._stale_concerns(info, info.arrivals.age, threshold)
            return
        most = self.certain(info, c)
        if self.alpha > most * (1 + EXCESS):
            text = (
                f"got {self.alpha:g}, but only below {most:g} is the method known to converge on"
                f" quadratics of curvature L, whatever is censored {censored_theory.WHERE}"
            )
            yield concern("step_size", text, at_most(most))

    def censors(self, innovation: float, client: Client[WorkerMemory]) -> bool:
        """Censor while |delta_m|^2 <= eps1 |theta^k - theta^{k-1}|^2."""
        return bool(innovation <= float(self.eps1 or 0.0) * client.state.steps[0])


class CensoredHeavyBall(LazyGradient, HeavyBall):
    """Censored heavy ball (CHB): momentum at the server, censoring at the workers."""

    kind: Literal["chb"] = "chb"  # type: ignore[assignment]
