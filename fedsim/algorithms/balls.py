"""Federated dual averaging in balls, for losses that are strongly convex on sparse models.

Bao, Crawshaw, Luo, Liu, "Fast Composite Optimization and Statistical Recovery in Federated
Learning", ICML 2022 (C-FedDA, MC-FedDA). With mu, gamma, w0 and P_A of Fast-FedDA
(`fedsim.algorithms.dual_averaging`) let P^R_A(z) be the minimiser that P_A(z) is, but under
|w - w0|_h <= R, in the norm that h is a multiple of: exactly, which for w0 other than 0 is not
P_A followed by the projection (`fedsim.problems.penalties.bounded`). C-FedDA starts with w = w0,
xs = w0, gs = 0; round r = 1, 2, ... holds A = r K:

    client  v = w, g = gs, and K times: g += grad F_i(v), v = P^R_A(g - (mu/2) K xs);
    server  gs = mean g, w = P^R_A(gs - (mu/2) K xs), xs += w.

MC-FedDA is C-FedDA in stages, each with a weight of h and a radius of its own: w0 is the last
stage's output, its last model or the mean of its models, xs = w0 and gs = 0 anew. The last stage
goes on until the run stops.

What is sent. Down comes z = gs - (mu/2) K xs without the last w, of which a client computes w;
after MC-FedDA's first stage also the centre w0, as sparse as it is, and the count of rounds, for
a client may have missed the message that changed them. Up goes the sum of the gradients of this
round. Round r of the run stands for the server's new w; one without replies does not count.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fedsim.algorithms.base import Concern, ProblemInfo
from fedsim.algorithms.composite import CountedDual, Dual, dual, rounds_of
from fedsim.algorithms.dual_averaging import StronglyConvex
from fedsim.algorithms.local import Average, mean
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import join_names
from fedsim.errors import ParameterError
from fedsim.ports import Array, Client, Message, Payload, Server, Work
from fedsim.problems import PENALTIES, Problem, Reference, Regulariser
from fedsim.problems.penalties.bounded import Bounded


@dataclass(frozen=True, slots=True)
class Gradients(Message):
    """Client to server: the sum of its gradients in this round."""

    g: Payload


@dataclass(frozen=True, slots=True)
class StagedDual(Message):
    """Server to client, after the first stage: z, the stage's centre, and the rounds so far."""

    z: Payload
    centre: Payload
    rounds: Payload


_NORMS = {kind: model.ball for kind, model in PENALTIES.own.items() if model.ball}
_BALLS = join_names([f"{ball} of {kind}" for kind, ball in _NORMS.items()], "or")


class Ball(Spec):
    """A ball of the penalty's norm."""

    kind: str = Field(description=f"of the penalty's norm: {_BALLS}")
    radius: float = Field(gt=0, description="R")


class Stage(Spec):
    """A stage of MC-FedDA."""

    weight: float = Field(ge=0, description="lambda, of the penalty in this stage")
    radius: float = Field(gt=0, description="R, of the ball around what the last stage ended with")
    rounds: int = Field(ge=1, description="its length; the last one goes on until the run stops")


class RunningStage(NamedTuple):
    """A stage as it runs.

    Attributes:
        h: the penalty in its weight.
        radius: R.
        start: how many rounds have gone before.
        end: how many have when it is over.
    """

    h: Regulariser
    radius: float
    start: int
    end: float


class InBalls(StronglyConvex):
    """Dual averaging in balls: C-FedDA in one phase, MC-FedDA in several."""

    messages: ClassVar[tuple[type[Message], ...]] = (Dual, CountedDual, StagedDual, Gradients)

    _phases: tuple[RunningStage, ...] = PrivateAttr(default=())

    def gradient_in(self, client: Client, v: Bounded) -> Work:
        """Describe a gradient at v, and the proxes and projections, at one price, that led to v."""
        work = super().gradient(client, v.point)
        return work.plus((v.evaluations - 1) * self.regulariser.operations)

    def within(self, z: Array, weight: float, centre: Array, phase: RunningStage) -> Bounded:
        """Return P^R_A(z) for the weight A."""
        w, step = self.prox_arguments(z, weight, centre)
        return phase.h.prox_in_ball(w, step, centre, phase.radius)

    def dual_message(
        self, server: Server, z: Array, centre: Array, rounds: int
    ) -> Dual | CountedDual | StagedDual:
        """Return the message to clients: after the first phase it includes the centre."""
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
        """Run a client: K gradients, from the server's w on."""
        if isinstance(message, StagedDual):
            rounds, centre = round(float(message.rounds.values)), message.centre.values
        else:
            rounds, centre = rounds_of(client, message), client.state
        phase = self._phases[bisect_right([each.end for each in self._phases], rounds)]
        weight, z = (rounds - phase.start) * self.local_steps, message.z.values
        v = self.within(z, weight, centre, phase)
        z, g = z - self.mu / 2 * self.local_steps * v.point, np.zeros_like(z)
        for k in range(self.local_steps):
            if k:
                v = self.within(z + g, weight + self.local_steps, centre, phase)
            g = g + await client.compute(self.gradient_in(client, v))
        return Gradients(client.pack(g))


class CFedDA(InBalls):
    """C-FedDA: dual averaging in a ball around the start, its weight held through a round."""

    kind: Literal["c-fedda"] = "c-fedda"

    ball: Ball = Field(description="the set of admissible models, around the initial model")

    def reference(self, problem: Problem) -> Reference | None:
        """Return the optimum; None where it is not in the ball around zero, the usual start."""
        found = super().reference(problem)
        if found is None or not problem.penalty.ball:
            return found
        return found if problem.regulariser.norm(found.model) <= self.ball.radius else None

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy that knows its penalty.

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
        """Return a copy that knows its penalty and its stages.

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
        """Yield that it ends with another penalty, and what all dual averaging does."""
        last, weight = self.stages[-1].weight, getattr(info.regulariser.penalty, "weight", 0.0)
        if last != weight:
            text = (
                f"the last stage has the weight {last:g}, but problem.penalty.weight, of the"
                f" objective that is reported, is {weight:g}; MC-FedDA goes to the minimiser with"
                " the former"
            )
            yield Concern("stages", text)
        yield from super().concerns(info)


def _ball_of(info: ProblemInfo) -> str:
    """Return the kind of ball that the penalty has."""
    penalty = info.regulariser.penalty
    if penalty.ball:
        return f"the penalty is {penalty.kind}, and the ball is one of its norm"
    return (
        f"the penalty {penalty.kind} is no multiple of a norm that could have a ball; it takes"
        f" {join_names(list(_NORMS), 'or')}, or the method fast-fedda, which has no ball"
    )
