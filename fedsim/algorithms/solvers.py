"""Solvers of a client's loss over a few coefficients: exact, or to an accuracy.

Jeong, Needell, Qin, "Federated Gradient Matching Pursuit", IEEE Trans. Inf. Theory 2024,
algorithm 1 (exact argmin) and algorithm 2 (an approximate argmin b with |b - b*| <= delta). Every
evaluation is awaited separately, so that it is charged time and energy.

A gradient method has an error bound if its loss is mu-strongly convex: |b - b*| <= |g|/mu. It stops
when the bound is at most delta; mu is the least curvature of a quadratic on the coefficients, or
that of an l2 term. If neither is known to be positive, it takes all its steps.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.algorithms.base import ProblemInfo, StepSize, resolve
from fedsim.algorithms.concerns import Concern
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array, Client
from fedsim.problems.proximal import Minimisable

HALVINGS = 30
"""The largest number of halvings of a Newton step that increases the loss."""
ROUNDING = 1e-12
"""The relative increase of a loss that is attributed to rounding."""


class Solver(Spec):
    """A method that minimises a client's loss over the coefficients of a basis."""

    kind: str

    def configure(self, info: ProblemInfo, smoothness: Callable[[], float]) -> Self:
        """Return a copy configured for a problem.

        Args:
            info: the problem's properties.
            smoothness: returns a common smoothness constant L of all clients' losses as functions
                of coefficients, to which "c/L" refers.

        Raises:
            ParameterError: the solver does not apply to this problem.
            DataError: there is no such L.
        """
        return self

    def samples(self, rows: int) -> float:
        """Return the approximate largest number of samples that a minimisation evaluates."""
        return float(rows)

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield the parts of the solver's guarantee that cannot be verified on this problem."""
        yield from ()

    @abstractmethod
    async def minimise(self, client: Client, oracle: Minimisable, c: Array) -> Array:
        """Return coefficients, shape (k,), that minimise a loss, exactly or approximately.

        Args:
            client: on which the work is computed.
            oracle: its loss as a function of coefficients.
            c: the initial coefficients, shape (k,).
        """


def _suits_newton(info: ProblemInfo) -> bool:
    return info.hessian and not info.has_l1


class Exact(Solver):
    """Least squares: one Newton step, which minimises a quadratic."""

    kind: Literal["exact"] = "exact"

    def configure(self, info: ProblemInfo, smoothness: Callable[[], float]) -> Self:
        """Return this solver, after a check that the losses are quadratic."""
        if not info.quadratic:
            newton = "newton, " if _suits_newton(info) else ""
            raise ParameterError(
                "solver.kind",
                "exact needs a squared loss without l1, which one Newton step minimises; give "
                f"{newton}gradient-descent, svrg or sgd",
            )
        return super().configure(info, smoothness)

    async def minimise(self, client: Client, oracle: Minimisable, c: Array) -> Array:
        """Return the minimiser, by one Newton step."""
        return await client.compute(oracle.newton(c))


class Newton(Solver):
    """Newton's method; a step is halved until the loss does not increase."""

    kind: Literal["newton"] = "newton"
    accuracy: float = Field(
        default=1e-8,
        gt=0,
        description="delta: it stops after a full step no longer than this; the remaining error is "
        "of second order in it",
    )
    steps: PositiveInt = Field(default=20, description="largest number of Newton steps")

    def configure(self, info: ProblemInfo, smoothness: Callable[[], float]) -> Self:
        """Return this solver, after a check that the losses have a Hessian."""
        if not _suits_newton(info):
            seen = "has an l1 term" if info.has_l1 else "does not provide its Hessian"
            raise ParameterError(
                "solver.kind",
                f"newton needs a loss with a Hessian and without l1, but {info.loss} {seen}; give "
                "gradient-descent, svrg or sgd",
            )
        return super().configure(info, smoothness)

    def samples(self, rows: int) -> float:
        """Return the samples of all steps, each on all rows."""
        return float(self.steps * rows)

    async def minimise(self, client: Client, oracle: Minimisable, c: Array) -> Array:
        """Return an approximate minimiser, shape (k,)."""
        value = await client.compute(oracle.value(c))
        for _ in range(self.steps):
            step = await client.compute(oracle.newton(c)) - c
            length = np.linalg.norm(step)
            for _ in range(HALVINGS):
                reached = await client.compute(oracle.value(c + step))
                if reached <= value + ROUNDING * abs(value):
                    break
                step = step / 2
            else:
                break
            c, value = c + step, reached
            if length <= self.accuracy:
                break
        return c


class _Stepping(Solver):
    """A solver with a step size."""

    step_size: StepSize = Field(
        default="1/L",
        description='a number, or a multiple of 1/L ("1/L"), L the largest smoothness constant '
        "of a client's loss in the coefficients",
    )

    def configure(self, info: ProblemInfo, smoothness: Callable[[], float]) -> Self:
        """Return a copy whose step size is a number; see `Solver.configure`."""
        ready = super().configure(info, smoothness)
        constants = {"L": smoothness, "L_max": smoothness}
        step_size = resolve(ready.step_size, constants, "solver.step_size")
        return ready.model_copy(update={"step_size": step_size})


class _Certified(_Stepping):
    """A solver that stops when a gradient certifies that the error is at most delta."""

    accuracy: float = Field(
        default=1e-8,
        gt=0,
        description="delta: it stops when the distance to the minimiser is known to be at most "
        "this, which needs a quadratic loss or an l2 term",
    )

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if no bound on its error is known."""
        if not (info.quadratic or info.strongly_convex):
            text = (
                "no curvature of the loss is known, so the error of "
                f"{self.kind} is not known: it takes all its steps, whatever the accuracy; an l2 "
                "term of the loss gives a bound"
            )
            yield Concern("solver.accuracy", text)

    async def gradient_bound(self, client: Client, oracle: Minimisable) -> float:
        """Return mu delta, the norm of the gradient at which it stops."""
        return self.accuracy * float(await client.compute(oracle.strong_convexity()))


class DescentSolver(_Certified):
    """Gradient descent, c <- c - gamma grad f(c), to the given accuracy."""

    kind: Literal["gradient-descent"] = "gradient-descent"
    steps: PositiveInt = Field(default=100, description="largest number of steps")

    def samples(self, rows: int) -> float:
        """Return the samples of all steps, each on all rows."""
        return float(self.steps * rows)

    async def minimise(self, client: Client, oracle: Minimisable, c: Array) -> Array:
        """Return an approximate minimiser, shape (k,)."""
        allowed = await self.gradient_bound(client, oracle)
        for _ in range(self.steps):
            g = await client.compute(oracle.gradient(c))
            if np.linalg.norm(g) <= allowed:
                break
            c = c - float(self.step_size) * g
        return c


class VarianceReduced(_Certified):
    """Stochastic variance reduced gradient (SVRG).

    Johnson, Zhang, NeurIPS 2013, option I: an epoch computes the full gradient at its start s, then
    takes steps along g_B(c) - g_B(s) + g(s) with minibatches B. This estimate is unbiased, and its
    variance vanishes at the minimiser.
    """

    kind: Literal["svrg"] = "svrg"
    step_size: StepSize = Field(
        default="0.1/L",
        description='a number, or a multiple of 1/L ("0.1/L"), L the largest smoothness constant '
        "of a client's loss in the coefficients; that of a minibatch may be larger",
    )
    batch: PositiveInt = Field(default=10, description="samples per stochastic gradient")
    epochs: PositiveInt = Field(default=10, description="largest number of full gradients")
    inner: PositiveInt = Field(default=20, description="number of steps after each full gradient")

    def samples(self, rows: int) -> float:
        """Return the samples of all full gradients and of the steps after them."""
        return float(self.epochs * (rows + self.inner * self.batch))

    async def minimise(self, client: Client, oracle: Minimisable, c: Array) -> Array:
        """Return an approximate minimiser, shape (k,)."""
        allowed = await self.gradient_bound(client, oracle)
        for _ in range(self.epochs):
            start, g = c, await client.compute(oracle.gradient(c))
            if np.linalg.norm(g) <= allowed:
                break
            for _ in range(self.inner):
                change = oracle.minibatch_change(c, start, self.batch, client.rng)
                c = c - float(self.step_size) * (await client.compute(change) + g)
        return c


class StochasticDescent(_Stepping):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"
    batch: PositiveInt = Field(default=10, description="samples per stochastic gradient")
    steps: PositiveInt = Field(default=100, description="number of steps")

    def samples(self, rows: int) -> float:
        """Return the samples of all steps, each on a minibatch."""
        return float(self.steps * self.batch)

    async def minimise(self, client: Client, oracle: Minimisable, c: Array) -> Array:
        """Return an approximate minimiser, shape (k,)."""
        for _ in range(self.steps):
            g = await client.compute(oracle.minibatch(c, self.batch, client.rng))
            c = c - float(self.step_size) * g
        return c


AnySolver = Annotated[
    Exact | Newton | DescentSolver | VarianceReduced | StochasticDescent,
    Field(discriminator="kind"),
]
