"""Federated dual averaging for strongly convex losses: Fast-FedDA, C-FedDA and MC-FedDA.

Bao, Crawshaw, Luo, Liu, "Fast Composite Optimization and Statistical Recovery in Federated
Learning", ICML 2022. All minimise sum_i p_i f_i + h. mu is the parameter of strong convexity, gamma
the damping, w0 the centre, which is the initial model of all clients; with the weight A so far

    P_A(z) = argmin_w <z, w> + A (mu/4 |w|^2 + h(w)) + gamma/2 |w - w0|^2
           = prox_{h/b}(-(z/A - gamma w0/A)/b)    with b = mu/2 + gamma/A.

Fast-FedDA starts with w = w0, xs = w0, gs = 0. Round r = 1, 2, ... is

    client  v = w, g = gs, x = xs, and for k = 1..K, with A = (r - 1) K + k:
            g += grad F_i(v), v = P_A(g - (mu/2) x), x += v;
    server  gs = mean g, xs = mean x, w = P_A(gs - (mu/2) xs) with A = r K, xs += w.

Messages of Fast-FedDA. Of gs and xs a client needs only z = gs - (mu/2) xs, and w is P_A of the z
before w was added to xs. So the downlink carries one vector, from which a client computes w at the
cost of one more prox. The uplink carries only this round's sums of the gradients and of the v,
since the server has the rest. This is the same information, but the numbers do not grow from round
to round, the sum of the v is sparse if the v are, and a late message is as useful as a late
gradient. The uplink has two vectors, as in the paper; with `combined` it has the one that the
server computes from them, (sum of gradients) - (mu/2) (sum of v). A follows from the round in a
message's header, except after rounds without replies, which do not count.

Round r of the run stands for the server's new w, or for the mean of all w so far, weighted by the
growth of A. Theorem 3.1 bounds a sum of values with these weights, and so, by Jensen's inequality,
the value at the mean. Every round adds K to A, so the weights are equal.

C-FedDA and MC-FedDA, for sparse models. Let P^R_A(z) be the minimiser P_A(z) under the additional
constraint |w - w0|_h <= R, in the norm of which h is a multiple. P^R_A is computed exactly; for w0
other than 0 this differs from P_A followed by a projection (`fedsim.problems.penalties.bounded`).
C-FedDA starts with w = w0, xs = w0, gs = 0; round r = 1, 2, ... has a constant A = r K:

    client  v = w, g = gs, and K times: g += grad F_i(v), v = P^R_A(g - (mu/2) K xs);
    server  gs = mean g, w = P^R_A(gs - (mu/2) K xs), xs += w.

MC-FedDA is C-FedDA in stages, each with a weight of h and a radius of its own: w0 is the output of
the previous stage, its last model or the mean of its models; xs = w0 and gs = 0 again. The last
stage lasts until the run stops.

Messages of C-FedDA and MC-FedDA. The downlink carries z = gs - (mu/2) K xs without the last w, from
which a client computes w; after MC-FedDA's first stage also the centre w0, which may be sparse, and
the count of rounds, since a client may have missed the message that changed them. The uplink
carries the sum of the gradients of this round. Round r of the run stands for the server's new w; a
round without replies does not count.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveInt, PrivateAttr

from fedsim.algorithms.base import Combines, ProblemInfo
from fedsim.algorithms.composite import Composite, CountedDual, Dual, dual, rounds_of
from fedsim.algorithms.concerns import Concern, at_most, concern
from fedsim.algorithms.local_steps import (
    Average,
    Batch,
    GrowingBatch,
    StepCount,
    draw_count,
    mean,
    stochastic_gradient,
)
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array, Client, Message, Payload, Server, Work
from fedsim.problems import PENALTIES, Problem, Reference, Regulariser
from fedsim.problems.penalties.bounded import Bounded


@dataclass(frozen=True, slots=True)
class Sums(Message):
    """Client to server: the sums of its gradients and of its models in this round."""

    g: Payload
    x: Payload


@dataclass(frozen=True, slots=True)
class Combined(Message):
    """Client to server: the sum of its gradients minus mu/2 times the sum of its models."""

    z: Payload


class StronglyConvex(Composite[Array]):
    """A method of Bao et al.: the parameters mu and gamma, and the map P_A."""

    combines: ClassVar[Combines] = "mean"
    source: ClassVar[str] = (
        "Bao, Crawshaw, Luo, Liu: Fast Composite Optimization and Statistical Recovery in"
        " Federated Learning, ICML 2022"
    )

    local_steps: int = StepCount
    batch: GrowingBatch | PositiveInt | None = Batch
    mu: float = Field(ge=0, description="mu, the assumed parameter of strong convexity of the loss")
    gamma: float = Field(gt=0, description="gamma, the damping towards the centre w0")
    output: Literal["last", "average"] = Field(
        default="last",
        description="the model of a round: the server's last, or the weighted mean of all its "
        "models so far (with stages: of the current stage; the next one starts from it)",
    )

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the loss cannot be mu-strongly convex."""
        if not info.convex:
            text = f"{info.loss} is not convex; the theorems of Bao et al. assume losses that are"
            yield Concern("mu", f"got {self.mu:g}, but {text} mu-strongly convex")
        smoothness = info.largest_smoothness
        if self.mu > smoothness:
            text = (
                f"got {self.mu:g}, but the largest smoothness constant of a client's loss is"
                f" {smoothness:g}, and the strong convexity in the theorems of Bao et al. cannot be"
                " greater"
            )
            yield concern("mu", text, at_most(smoothness))

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of the K gradients."""
        return float(self.local_steps * draw_count(self.batch, rows))

    def gradient(self, client: Client, w: Array) -> Work:
        """Describe a stochastic gradient at `w`, with the cost of the prox after it."""
        return self.with_prox(stochastic_gradient(client, w, self.batch))

    def reported_model(self, w: Array, average: Average) -> Array:
        """Return the model of a round: the server's last one, or the mean."""
        return average.or_else(w) if self.output == "average" else w

    def memory(self, initial: Array) -> Array:
        """Return a client's initial state: the initial model w0."""
        return initial

    def point(self, z: Array, weight: float, centre: Array, h: Regulariser) -> Array:
        """Return P_A(z) for the weight A, in a form that also holds for A = 0."""
        return h.prox(*self.prox_arguments(z, weight, centre))

    def prox_arguments(self, z: Array, weight: float, centre: Array) -> tuple[Array, float]:
        """Return the argument of the prox that computes P_A(z), and its step."""
        curvature = weight * self.mu / 2 + self.gamma  # A b
        return (self.gamma * centre - z) / curvature, weight / curvature


class FastFedDA(StronglyConvex):
    """Fast-FedDA: dual averaging whose weights also grow within a round.

    In a round x grows by K + 1 models, the server's and K local ones, while A grows by K. So a
    single client converges to the minimiser of f + h - mu/(4 K) |w|^2. C-FedDA does not have this
    error.
    """

    kind: Literal["fast-fedda"] = "fast-fedda"
    messages: ClassVar[tuple[type[Message], ...]] = (Dual, CountedDual, Sums, Combined)

    combined: bool = Field(
        default=False,
        description="whether clients send one vector, the combination that the server computes "
        "from the two vectors of the paper",
    )

    async def serve(self, server: Server) -> None:
        """Run the server; z is gs - (mu/2) xs without the last w."""
        w, z, rounds = server.initial, np.zeros_like(server.initial), 0
        average = Average(w)
        while True:
            replies = await server.exchange(dual(server, z, rounds))
            if replies:
                rounds += 1
                z = z - self.mu / 2 * w
                if self.combined:
                    z = z + mean(server, replies, "z")
                else:
                    z = z + mean(server, replies, "g") - self.mu / 2 * mean(server, replies, "x")
                w = self.point(z, rounds * self.local_steps, server.initial, self.regulariser)
                average.add(w, self.local_steps)
            server.commit(self.reported_model(w, average))

    async def handle(self, client: Client[Array], message: Dual | CountedDual) -> Sums | Combined:
        """Run a client: compute the server's w, and take K steps from it."""
        h, centre, z = self.regulariser, client.state, message.z.values
        weight = rounds_of(client, message) * self.local_steps
        v = self.point(z, weight, centre, h)
        z = z - self.mu / 2 * v
        g, x = np.zeros_like(z), np.zeros_like(z)
        for k in range(1, self.local_steps + 1):
            work = self.gradient(client, v).plus(h.operations if k == 1 else 0.0)
            g = g + await client.compute(work)
            v = self.point(z + g - self.mu / 2 * x, weight + k, centre, h)
            x = x + v
        if self.combined:
            return Combined(client.pack(g - self.mu / 2 * x))
        return Sums(client.pack(g, field="g"), client.pack(x, self.structure, field="x"))


@dataclass(frozen=True, slots=True)
class Gradients(Message):
    """Client to server: the sum of its gradients in this round."""

    g: Payload


@dataclass(frozen=True, slots=True)
class StagedDual(Message):
    """Server to client, after the first stage: z, the centre of the stage, and the round count."""

    z: Payload
    centre: Payload
    rounds: Payload


_NORMS = {kind: model.ball for kind, model in PENALTIES.own.items() if model.ball}
_BALLS = join_names([f"{ball} of {kind}" for kind, ball in _NORMS.items()], "or")


class Ball(Spec):
    """A ball of the penalty's norm."""

    kind: str = Field(description=f"norm of the ball, that of the penalty: {_BALLS}")
    radius: float = Field(gt=0, description="R, the radius")


class Stage(Spec):
    """A stage of MC-FedDA."""

    weight: float = Field(ge=0, description="lambda, the weight of the penalty in this stage")
    radius: float = Field(
        gt=0, description="R, the radius of the ball around the output of the previous stage"
    )
    rounds: int = Field(
        ge=1, description="number of rounds; the last stage lasts until the run stops"
    )


class RunningStage(NamedTuple):
    """A stage of a run.

    Attributes:
        h: the penalty with the weight of the stage.
        radius: R.
        start: the number of rounds before the stage.
        end: the number of rounds at its end.
    """

    h: Regulariser
    radius: float
    start: int
    end: float


class InBalls(StronglyConvex):
    """Dual averaging in balls: C-FedDA with one stage, MC-FedDA with several."""

    messages: ClassVar[tuple[type[Message], ...]] = (Dual, CountedDual, StagedDual, Gradients)

    _phases: tuple[RunningStage, ...] = PrivateAttr(default=())

    def gradient_in(self, client: Client, v: Bounded) -> Work:
        """Describe a gradient at v, with the cost of the proxes and projections that gave v."""
        work = self.gradient(client, v.point)
        return work.plus((v.evaluations - 1) * self.regulariser.operations)

    def within(self, z: Array, weight: float, centre: Array, phase: RunningStage) -> Bounded:
        """Return P^R_A(z) for the weight A."""
        w, step = self.prox_arguments(z, weight, centre)
        return phase.h.prox_in_ball(w, step, centre, phase.radius)

    def dual_message(
        self, server: Server, z: Array, centre: Array, rounds: int
    ) -> Dual | CountedDual | StagedDual:
        """Return the message to clients; after the first stage it includes the centre."""
        if rounds < self._phases[0].end:
            return dual(server, z, rounds)
        count = server.pack(np.array(float(rounds)), field="rounds")
        return StagedDual(
            server.pack(z), server.pack(centre, self.structure, field="centre"), count
        )

    async def serve(self, server: Server) -> None:
        """Run the server; z is gs - (mu/2) K xs without the last w."""
        w, rounds = server.initial, 0
        half = self.mu / 2 * self.local_steps
        for phase in self._phases:
            centre, z, average = w, np.zeros_like(w), Average(w)
            while rounds < phase.end:
                replies = await server.exchange(self.dual_message(server, z, centre, rounds))
                if replies:
                    rounds += 1
                    z = z - half * w + mean(server, replies, "g")
                    weight = (rounds - phase.start) * self.local_steps
                    w = self.within(z, weight, centre, phase).point
                    average.add(w, self.local_steps)
                server.commit(self.reported_model(w, average))
            w = self.reported_model(w, average)

    async def handle(
        self, client: Client[Array], message: Dual | CountedDual | StagedDual
    ) -> Gradients:
        """Run a client: K gradients, starting at the server's w."""
        if isinstance(message, StagedDual):
            rounds, centre = round(float(message.rounds.values)), message.centre.values
        else:
            rounds, centre = rounds_of(client, message), client.state
        phase = self._phases[bisect_right([stage.end for stage in self._phases], rounds)]
        weight, z = (rounds - phase.start) * self.local_steps, message.z.values
        v = self.within(z, weight, centre, phase)
        z, g = z - self.mu / 2 * self.local_steps * v.point, np.zeros_like(z)
        for k in range(self.local_steps):
            if k:
                v = self.within(z + g, weight + self.local_steps, centre, phase)
            g = g + await client.compute(self.gradient_in(client, v))
        return Gradients(client.pack(g))


class CFedDA(InBalls):
    """C-FedDA: dual averaging in a ball around the start, with a constant weight in a round."""

    kind: Literal["c-fedda"] = "c-fedda"

    ball: Ball = Field(description="the set of admissible models, around the initial model")

    def reference(self, problem: Problem) -> Reference | None:
        """Return the optimum; None if it is not in the ball around zero, the usual start."""
        optimum = super().reference(problem)
        if optimum is None or not problem.penalty.ball:
            return optimum
        return optimum if problem.regulariser.norm(optimum.model) <= self.ball.radius else None

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with its penalty.

        Raises:
            ParameterError: the ball is not one of the penalty's norm.
        """
        ready, kind = super().configure(info), info.regulariser.penalty.ball
        if self.ball.kind != kind:
            text = f"got {self.ball.kind}, but {_ball_of(info)}"
            raise ParameterError("ball.kind", f"{text}; give {kind}" if kind else text)
        ready._phases = (RunningStage(info.regulariser, self.ball.radius, 0, inf),)  # noqa: SLF001
        return ready


class MCFedDA(InBalls):
    """MC-FedDA: C-FedDA in stages, from a heavy penalty in a large ball to a light one."""

    kind: Literal["mc-fedda"] = "mc-fedda"

    stages: tuple[Stage, ...] = Field(
        min_length=1, description="weight of the penalty, radius and rounds of every stage"
    )

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with its penalty and its stages.

        Raises:
            ParameterError: the penalty is no multiple of a norm.
        """
        ready, h = super().configure(info), info.regulariser
        if not h.penalty.ball:
            raise ParameterError("stages", f"got balls, but {_ball_of(info)}")
        starts = [0, *accumulate(stage.rounds for stage in self.stages)]
        ends = [*map(float, starts[1:-1]), inf]
        ready._phases = tuple(  # noqa: SLF001 - a copy of this very class
            RunningStage(h.with_weight(stage.weight), stage.radius, start, end)
            for stage, start, end in zip(self.stages, starts[:-1], ends, strict=True)
        )
        return ready

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the last stage has another penalty, and those of the base class."""
        last, weight = self.stages[-1].weight, getattr(info.regulariser.penalty, "weight", 0.0)
        if last != weight:
            text = (
                f"the last stage has the weight {last:g}, but problem.penalty.weight, of the"
                f" reported objective, is {weight:g}; MC-FedDA converges to the minimiser with the"
                " former"
            )
            yield Concern("stages", text)
        yield from super().concerns(info)


def _ball_of(info: ProblemInfo) -> str:
    """Return a message on the balls that the penalty admits."""
    penalty = info.regulariser.penalty
    if penalty.ball:
        return f"the penalty is {penalty.kind}, and the ball must be one of its norm"
    return (
        f"the penalty {penalty.kind} is no multiple of a norm that has a ball; give the penalty"
        f" {join_names(list(_NORMS), 'or')}, or use the method fast-fedda, which has no ball"
    )
