"""Censored gradient methods: a worker with a small innovation does not transmit.

Chen, Blum, Sadler, "Heavy Ball Momentum for Communication-Efficient Distributed Learning"
(CHB), with its special cases HB, LAG and GD; the rules of the LAG paper itself are in
`fedsim.algorithms.lag`.

All minimise F = sum_m w_m f_m. The papers' f_m is w_m f_m: a worker multiplies its gradient by its
weight w_m. The server has G, the sum of the last weighted gradients that the workers transmitted,
and iterates

    theta^{k+1} = theta^k - alpha G^k + beta (theta^k - theta^{k-1}).

Round k ends with theta^{k+1}. The papers plot f(theta^k) - f* against the messages of k rounds,
which is `counting: iterates` of a scenario.

A worker censors its innovation if it is small compared to the last step of the model. If a worker
does not receive every model (client sampling, an asynchronous server, a lost broadcast), it uses
the mean of the server's steps between the last two models that it received; the difference of their
round numbers is the number of steps. The distance of the two models would be the sum of these
steps, and the threshold too large by their number, which can make the method diverge (see the
comment below).
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedsim.algorithms.base import Algorithm, Combines, ProblemInfo, StepSize
from fedsim.algorithms.concerns import EXCESS, Concern, at_most, concern
from fedsim.core.errors import ParameterError
from fedsim.core.ports import (
    SILENCE,
    Array,
    Client,
    Meaning,
    Message,
    Payload,
    Reply,
    Server,
    Silence,
)
from fedsim.problems.stacked_gradients import squares

# The step sizes for which censored heavy ball is known to converge on a quadratic.
#
# With all M workers the method is d^{k+1} = -alpha (g^k - e^k) + beta d^k, where d^k = theta^k -
# theta^{k-1}, g^k is the gradient of f, and e^k the sum of the censored innovations. Each of these
# is at most sqrt(eps1) |d^k|, so alpha |e^k| <= sqrt(c) |d^k| with c = eps1 alpha^2 M^2. The
# following is derived here; how it compares with conditions (10) to (12) of Chen, Blum, Sadler on
# alpha, beta and eps1 has not been established.
#
# **On a quadratic** with curvatures up to L, heavy ball is a linear system with the input alpha e
# and the output d; censoring feeds d back to the input with a gain of at most sqrt(c). By the small
# gain theorem (Zames, IEEE Trans. Autom. Control 1966) the loop is stable, whichever innovations
# are censored, if sqrt(c) times the gain of the system is below 1. That gain, the largest
# |z - 1|/|z^2 - (1 + beta - a) z + beta| over |z| = 1 and 0 < a <= s = alpha L, is
#
#     1/sqrt((1 - beta)^2 - s (1 - sqrt(beta))^2)    for s <= 4 sqrt(beta),
#     2/(2 (1 + beta) - s)                           from there up to 2 (1 + beta).
#
# For c = 0 the condition is alpha < 2 (1 + beta)/L, as in Polyak 1964; for beta = 0 it is
# alpha < 2 (1 - sqrt(c))/L. In the first branch the maximum over z is in the interior, a resonance;
# only from s = 4 sqrt(beta) on is it at z = -1. Evaluating z = -1 alone would underestimate the
# gain.
#
# **On any smooth f**, with kappa = beta + sqrt(c), V^k = f(theta^k) + kappa/(2 alpha) |d^k|^2 does
# not increase if alpha <= 2 (1 - kappa)/L, which is a shorter step, since
#
#     V^{k+1} - V^k <= -(1/alpha - L/2) |d^{k+1}|^2 + (kappa/alpha) |d^k| |d^{k+1}|
#                      + kappa/(2 alpha) (|d^{k+1}|^2 - |d^k|^2).
#
# Longer steps than that give no warning: those of the paper's own runs are longer, and converge.
#
# **Under an asynchronous server** the gradient of worker m belongs to a model that is t_m <= T
# steps old. So e^k has a second part: the sum over j < T of H_j d^{k-j}, where H_j is the sum of
# the Hessians of those m with t_m > j. For convex losses H_j is at most the Hessian of f, and this
# part at most L times the sum of T steps: alpha L T times d in the norm of the small gain theorem.
# The first part is the censored one. If a worker compared its innovation with the whole distance
# between two received models, s steps of the server apart, its threshold would be s times too
# large: alpha |e^k| <= s sqrt(c) |d|, and with eight workers the errors make the model diverge
# where heavy ball converges. Compared with the mean step of that distance, the error stays within
# sqrt(c) |d|, if successive receptions of a worker are equally far apart: the square of the mean is
# at most the mean of the s squares (Jensen), and it stands for s steps. So the method converges if
#
#     (sqrt(c) + alpha L T) gain(alpha L, beta) < 1.
#
# Without momentum this is alpha < 2 (1 - sqrt(c))/((1 + 2 T) L). For c = 0 the bound is tight up to
# a factor of pi/2: a single worker whose gradient is always T steps old diverges from
# 2 sin(pi/(4 T + 2))/L on.

WHERE = "(small gain, derived for conditions like those of Chen, Blum, Sadler)"


_LEAST = 1e-150
"""Numbers between this and its inverse have squares that neither overflow nor underflow."""


def area(alpha: float, clients: int, weight: str, remedy: str) -> float:
    """Return alpha^2 M^2, the divisor of the weights of the model's steps.

    Args:
        alpha: the step size.
        clients: M.
        weight: the name of the numerator, for the message.
        remedy: for the message: what to change instead of the step size, as a phrase.

    Raises:
        ParameterError: the result, or its inverse, is out of the range of float64.
    """
    scale = alpha * clients
    if _LEAST < scale < 1 / _LEAST:
        return scale**2
    text = (
        f"got {alpha:g}, whose square is out of the range of numbers, so {weight}/(alpha^2 M^2) is,"
        f" too; {remedy} another step size"
    )
    raise ParameterError("step_size", text)


def gain(s: float, beta: float) -> float:
    """Return the gain from an error of the gradient to a step; inf if heavy ball may diverge.

    Args:
        s: alpha L.
        beta: the momentum, below 1.
    """
    if s <= 4 * sqrt(beta):
        left = (1 - beta) ** 2 - s * (1 - sqrt(beta)) ** 2
        return 1 / sqrt(left) if left > 0 else inf
    return 2 / (2 * (1 + beta) - s) if s < 2 * (1 + beta) else inf


def longest(L: float, beta: float, c: float) -> float:
    """Return the largest alpha with known convergence, for eps1 = c/(alpha^2 M^2).

    Args:
        L: the smoothness constant of f.
        beta: the momentum, below 1.
        c: a number below (1 - beta)^2.
    """
    if not L:
        return inf
    resonant = ((1 - beta) ** 2 - c) / (1 - sqrt(beta)) ** 2
    return (resonant if resonant <= 4 * sqrt(beta) else 2 * (1 + beta - sqrt(c))) / L


def longest_at(L: float, beta: float, threshold: float) -> float:
    """Return the largest alpha with known convergence for a fixed eps1.

    Args:
        L: the smoothness constant of f.
        beta: the momentum, below 1.
        threshold: M sqrt(eps1), above 0.
    """
    from scipy.optimize import brentq

    free = (1 - beta) / threshold

    def left(alpha: float) -> float:
        return 1 / gain(alpha * L, beta) - alpha * threshold

    return free if left(free) >= 0 else float(brentq(left, 0.0, free, rtol=1e-14))


def longest_stale(L: float, beta: float, age: int, threshold: Callable[[float], float]) -> float:
    """Return the largest alpha with known convergence under an asynchronous server.

    Args:
        L: the smoothness constant of f.
        beta: the momentum, below 1.
        age: T, the age of the server's oldest gradient in server steps, above 0.
        threshold: returns sqrt(c) for an alpha.
    """
    from scipy.optimize import brentq  # takes 0.2 s

    if not L:
        return inf

    def left(alpha: float) -> float:
        return 1 / gain(alpha * L, beta) - threshold(alpha) - alpha * L * age

    return 0.0 if left(0.0) <= 0 else float(brentq(left, 0.0, 2 * (1 + beta) / L, rtol=1e-14))


def largest(beta: float) -> float:
    """Return the recommended c: a quarter of its upper bound, (1 - beta)^2."""
    return ((1 - beta) / 2) ** 2


CHB = "Chen, Blum, Sadler: Heavy Ball Momentum for Communication-Efficient Distributed Learning"


@dataclass(frozen=True, slots=True)
class Iterate(Message):
    """Server to worker: the model theta^k."""

    theta: Payload


@dataclass(frozen=True, slots=True)
class Innovation(Message):
    """Worker to server: delta_m, its gradient minus the server's copy of it."""

    delta: Payload


def total(server: Server, replies: Sequence[Reply]) -> Array | float:
    """Return the sum of the innovations; 0.0 for none."""
    return server.aggregate(replies, "delta", changes=True) if replies else 0.0


class WorkerMemory:
    """A worker's state between rounds.

    Attributes:
        held: the server's copy of this worker's gradient, shape (d,); zero at the start.
        theta: the last model received, shape (d,); the initial model at the start.
        steps: |theta^{k+1-j} - theta^{k-j}|^2 for j = 1, 2, ..., newest first; each of the steps
            between two receptions counts as their mean.
        round: the round of the last model received; 0 at the start.
        received: the number of received models.
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

        Only the sum of the server's steps since the last reception is known. Each of them is
        replaced by their mean, whose square is at most the mean of their squares (Jensen).
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
    combines: ClassVar[Combines] = "changes"
    messages: ClassVar[tuple[type[Message], ...]] = (Iterate, Innovation)
    source: ClassVar[str] = CHB
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.DIFFERENCE}
    weighs_losses: ClassVar[bool] = True
    sampled: ClassVar[bool] = False
    handles_rows: ClassVar[bool] = True
    window: ClassVar[int] = 1
    """The number of steps of the model that a worker stores."""

    step_size: StepSize = Field(description='alpha: a number, or a multiple of 1/L ("1/L")')

    @property
    def alpha(self) -> float:
        """The step size as a number, after `configure`."""
        return float(self.step_size)

    @property
    def beta(self) -> float:
        """The weight of the last step of the model in the next one."""
        return 0.0

    def censors(self, innovation: Any, client: Client[WorkerMemory]) -> Any:
        """Return whether a worker is censored: whether it does not transmit.

        Args:
            innovation: |delta_m|^2, a number, or that of many workers, shape (n,).
            client: the worker, theta^k received.
        """
        return False

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the step size is at or beyond 2 (1 + beta)/L.

        From there on heavy ball diverges on a quadratic (Polyak 1964), and for beta = 0 gradient
        descent. The other methods are equal to these two if no worker is censored.
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
        """Yield a concern for sampled clients; `concerns` covers asynchronous servers."""
        if info.arrivals is None:
            yield from super().participation_concerns(info)

    def _stale_concerns(
        self, info: ProblemInfo, age: int, threshold: Callable[[float], float]
    ) -> Iterator[Concern]:
        """Yield a concern if the step size is beyond the known bound for gradients of this age."""
        most = longest_stale(info.smoothness(), self.beta, age, threshold)
        if most and self.alpha > most * (1 + EXCESS):
            text = (
                f"got {self.alpha:g}, but under this asynchronous server, whose gradients are up"
                f" to {age} updates old, only below {most:g} is the method known to converge on"
                f" quadratics of curvature L {WHERE}"
            )
            yield concern("step_size", text, at_most(most))

    def memory(self, initial: Array) -> WorkerMemory:
        """Return a worker's initial state."""
        return WorkerMemory(initial, self.window)

    async def serve(self, server: Server) -> None:
        """Run the server of CHB (Algorithm 1)."""
        theta = previous = server.initial
        aggregate = np.zeros_like(theta)  # G^k
        while True:
            replies = await server.exchange(Iterate(server.pack(theta)))
            aggregate = aggregate + total(server, replies)
            step = theta - self.alpha * aggregate + self.beta * (theta - previous)
            theta, previous = step, theta
            server.commit(theta)

    async def handle(self, client: Client[WorkerMemory], message: Iterate) -> Innovation | Silence:
        """Run a worker of CHB (Algorithm 1): transmit the innovation unless it is censored."""
        memory = client.state
        memory.receive(message.theta.values, client.round)
        gradient = client.weight * await client.compute(client.oracle.gradient(memory.theta))
        innovation = gradient - memory.held
        if self.censors(float(innovation.dot(innovation)), client):
            return SILENCE
        delta = client.pack(innovation)
        memory.held = memory.held + delta.values
        return Innovation(delta)

    async def handle_rows(
        self, clients: Client[WorkerMemory], message: Iterate
    ) -> tuple[Innovation, NDArray[np.bool_]]:
        """Run many workers as `handle` does each; see `Algorithm.handles_rows`."""
        memory = clients.state  # its `held` has a row for each of them, shape (n, d)
        memory.receive(message.theta.values, clients.round)
        gradients = clients.weight * await clients.compute(clients.oracle.gradient(memory.theta))
        innovations = gradients - memory.held
        silent = np.broadcast_to(self.censors(squares(innovations), clients), len(innovations))
        deltas = clients.pack(innovations)
        memory.held = np.where(silent[:, None], memory.held, memory.held + deltas.values)
        return Innovation(deltas), silent

    def undelivered(self, client: Client[WorkerMemory], message: Innovation) -> None:
        """Take back an innovation that the server will not receive."""
        client.state.held = client.state.held - message.delta.values


class HeavyBall(GradientDescent):
    """Heavy ball (Polyak): gradient descent with momentum, without censoring."""

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
    may_be_silent: ClassVar[bool] = True

    censor: float | None = Field(
        default=None, ge=0, description="c in eps1 = c/(alpha^2 M^2); 0.1 if eps1 is not given"
    )
    eps1: float | None = Field(
        default=None, ge=0, description="silence while |delta|^2 <= eps1 |theta^k - theta^{k-1}|^2"
    )

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.censor is not None and self.eps1 is not None:
            raise ValueError("give either censor or eps1, not both")
        return self

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with step size and eps1 as numbers."""
        ready = super().configure(info)
        if ready.eps1 is not None:
            return ready
        censor = 0.1 if ready.censor is None else ready.censor
        remedy = "give eps1 in place of censor, or"
        scale = area(ready.alpha, info.clients, "eps1 = censor", remedy)
        return ready.model_copy(update={"censor": None, "eps1": censor / scale})

    @property
    def relative(self) -> bool:
        """Whether eps1 is relative, c/(alpha^2 M^2); also after `configure`."""
        return "censor" in self.model_fields_set or "eps1" not in self.model_fields_set

    def certain(self, info: ProblemInfo, c: float) -> float:
        """Return the largest step with known convergence for c, or for the recommended c."""
        L = info.smoothness()
        if not self.relative:
            threshold = info.clients * float(self.eps1 or 0.0) ** 0.5
            return longest_at(L, self.beta, threshold)
        bears = c < (1 - self.beta) ** 2
        return longest(L, self.beta, c if bears else largest(self.beta))

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if heavy ball diverges, or convergence with censoring is not known."""
        scale = self.alpha * info.clients
        c = float(self.eps1 or 0.0) * scale * scale
        if not c:
            yield from super().concerns(info)
            return
        if self.relative and c >= (1 - self.beta) ** 2:
            text = (
                f"got {c:g}, but c must be below (1 - momentum)^2 for the censored errors to vanish"
                f" on a quadratic {WHERE}"
            )
            yield concern("censor", text, at_most(largest(self.beta)))
        if info.arrivals is not None and info.arrivals.age:
            root = c**0.5 / self.alpha
            relative = min(c**0.5, largest(self.beta) ** 0.5)
            threshold = (lambda _: relative) if self.relative else (lambda alpha: root * alpha)
            yield from self._stale_concerns(info, info.arrivals.age, threshold)
            return
        most = self.certain(info, c)
        if self.alpha > most * (1 + EXCESS):
            text = (
                f"got {self.alpha:g}, but only below {most:g} is the method known to converge on"
                f" quadratics of curvature L for any censoring {WHERE}"
            )
            yield concern("step_size", text, at_most(most))

    def censors(self, innovation: Any, client: Client[WorkerMemory]) -> Any:
        """Censor while |delta_m|^2 <= eps1 |theta^k - theta^{k-1}|^2."""
        return innovation <= float(self.eps1 or 0.0) * client.state.steps[0]


class CensoredHeavyBall(LazyGradient, HeavyBall):
    """Censored heavy ball (CHB): momentum at the server, censoring at the workers."""

    kind: Literal["chb"] = "chb"  # type: ignore[assignment]
