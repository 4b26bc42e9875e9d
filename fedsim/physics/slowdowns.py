"""Slowdowns: random factors on the nominal time of a task. Each block is its own law."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, Spec


class Slowdown(Spec):
    """A law of the random factor on the nominal time of a task, drawn for each task."""

    kind: str

    @property
    def least(self) -> float:
        """The lower bound of the factor."""
        return 0.0

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that times are random."""
        if self.drawn:
            yield "", Nature(draws=f"{self.kind} is random")

    @property
    def drawn(self) -> bool:
        """Whether the factor is random."""
        return True

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> float:
        """Return the factor of one task, above 0."""


class NoSlowdown(Slowdown):
    """Every task takes its nominal time."""

    kind: Literal["none"] = Field(default="none", description="no task is slowed down")

    @property
    def least(self) -> float:
        """One."""
        return 1.0

    @property
    def drawn(self) -> bool:
        """False."""
        return False

    def draw(self, rng: np.random.Generator) -> float:
        """Return one."""
        return 1.0


class LognormalSlowdown(Slowdown):
    """Every task takes exp(sigma Z) times its nominal time, Z standard normal: median 1."""

    kind: Literal["lognormal"] = Field(default="lognormal", description="by a lognormal factor")
    sigma: float = Field(
        gt=0, le=10, description="the standard deviation of the factor's logarithm"
    )

    def draw(self, rng: np.random.Generator) -> float:
        """Return the factor of one task."""
        return float(rng.lognormal(0.0, self.sigma))


class ShiftedExponentialSlowdown(Slowdown):
    """Every task takes a + E/mu times its nominal time, E exponential with mean 1.

    Lee et al., "Speeding Up Distributed Machine Learning Using Codes", IEEE Trans. Inf.
    Theory 2018: P(T <= t) = 1 - exp(-(mu/D)(t - a D)) for a task of nominal time D.
    """

    kind: Literal["shifted-exponential"] = Field(
        default="shifted-exponential", description="by a shifted exponential factor"
    )
    shift: float = Field(ge=0, le=1e24, description="a: the smallest factor")
    rate: float = Field(ge=1e-24, description="mu: the mean factor is a + 1/mu")

    @property
    def least(self) -> float:
        """The shift a."""
        return self.shift

    def draw(self, rng: np.random.Generator) -> float:
        """Return the factor of one task."""
        return self.shift + float(rng.standard_exponential()) / self.rate


SLOWDOWNS: Registry[Slowdown] = Registry(
    "slowdown", (NoSlowdown, LognormalSlowdown, ShiftedExponentialSlowdown), Slowdown
)
"""The kinds of slowdowns."""

_CONSTANT = "a device that is always slower has a lower `speed`, such as speed: 1 Gflop/s"

AnySlowdown = Given[Annotated[Slowdown, OneOf(SLOWDOWNS, number=_CONSTANT)], Slowdown | Block]
"""A field for a slowdown."""
