"""Schedules: the factor of a step size by round or by local step.

Let t = 0, 1, ... be the number of rounds, or of the client's local steps, before this one. In the
first `warm_up` of them, the factor is (t + 1)/warm_up. After them t starts again at 0, and the
factors are

    constant             1;
    step                 to^floor(t/every);
    cosine               least + (1 - least)(1 + cos(pi min(t, over)/over))/2;
    inverse-square-root  sqrt(scale/(scale + t)).

Local steps are counted as if the client had taken part in every round, with as many steps as in
this one.

Sources: Goyal et al., "Accurate, Large Minibatch SGD", 2017 (warm-up); Loshchilov, Hutter, "SGDR",
ICLR 2017 (cosine); Vaswani et al., "Attention Is All You Need", NeurIPS 2017 (inverse square root).
"""

from abc import abstractmethod
from math import cos, pi
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, KindFirst


class Schedule(KindFirst):
    """The factor of a step size, as a function of time."""

    kind: str
    by: Literal["round", "step"] = Field(
        default="round",
        description="whether t counts rounds or local steps; at the server they are the same",
    )
    warm_up: NonNegativeInt = Field(
        default=0, description="rounds or steps in which the factor grows linearly to 1"
    )

    def factor(self, t: int) -> float:
        """Return the factor after `t` rounds or steps."""
        if t < self.warm_up:
            return (t + 1) / self.warm_up
        return self.decay(t - self.warm_up)

    def rates(self, eta: float, number: int, steps: int) -> tuple[float, ...]:
        """Return the step sizes of the local steps of a round.

        Args:
            eta: the step size.
            number: the number of the round, from 1.
            steps: the number of steps.
        """
        if self.by == "round":
            return (eta * self.factor(number - 1),) * steps
        first = (number - 1) * steps
        return tuple(eta * self.factor(first + k) for k in range(steps))

    @abstractmethod
    def decay(self, t: int) -> float:
        """Return the factor after the warm-up and `t` further rounds or steps."""


class ConstantSchedule(Schedule):
    """The same step size throughout, after a warm-up if there is one."""

    kind: Literal["constant"] = "constant"

    def decay(self, t: int) -> float:
        """Return 1."""
        return 1.0


class StepSchedule(Schedule):
    """A step size that falls by a factor at regular intervals."""

    kind: Literal["step"] = "step"
    every: PositiveInt = Field(description="rounds or steps between two falls")
    to: float = Field(default=0.1, gt=0, le=1, description="the factor of each fall")

    def decay(self, t: int) -> float:
        """Return to^floor(t/every)."""
        return float(self.to ** (t // self.every))


class CosineSchedule(Schedule):
    """A step size that falls along half a cosine."""

    kind: Literal["cosine"] = "cosine"
    over: PositiveInt = Field(description="rounds or steps of the fall")
    least: float = Field(default=0.0, ge=0, le=1, description="the factor at its end and after it")

    def decay(self, t: int) -> float:
        """Return least + (1 - least)(1 + cos(pi min(t, over)/over))/2."""
        return self.least + (1 - self.least) * (1 + cos(pi * min(t, self.over) / self.over)) / 2


class InverseSquareRootSchedule(Schedule):
    """A step size that falls like 1/sqrt(t)."""

    kind: Literal["inverse-square-root"] = "inverse-square-root"
    scale: float = Field(
        default=1.0, gt=0, description="rounds or steps; after three times as many it is halved"
    )

    def decay(self, t: int) -> float:
        """Return sqrt(scale/(scale + t))."""
        return float((self.scale / (self.scale + t)) ** 0.5)


SCHEDULES: Registry[Schedule] = Registry(
    "schedule", (ConstantSchedule, StepSchedule, CosineSchedule, InverseSquareRootSchedule)
)
"""The schedules of a step size that a scenario can name."""

AnySchedule = Given[Annotated[Schedule, OneOf(SCHEDULES)] | None, Schedule | Block | None]
"""A field for a schedule; None for a constant step size."""
