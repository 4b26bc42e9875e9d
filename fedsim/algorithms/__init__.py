"""The algorithms: one file a family of methods, each written as its paper's box."""

from fedsim.algorithms.base import Algorithm, Setting, StepSize
from fedsim.algorithms.censored import (
    CensoredHeavyBall,
    GradientDescent,
    HeavyBall,
    LagServer,
    LagWorker,
    LazyGradient,
)
from fedsim.algorithms.charge import ChargeAwareHeavyBall
from fedsim.algorithms.compressed import CompressedDescent

ALGORITHMS: tuple[type[Algorithm], ...] = (
    CensoredHeavyBall,
    HeavyBall,
    LazyGradient,
    GradientDescent,
    LagWorker,
    LagServer,
    ChargeAwareHeavyBall,
    CompressedDescent,
)
"""Every algorithm that a scenario can name by its kind."""

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "CensoredHeavyBall",
    "ChargeAwareHeavyBall",
    "CompressedDescent",
    "GradientDescent",
    "HeavyBall",
    "LagServer",
    "LagWorker",
    "LazyGradient",
    "Setting",
    "StepSize",
]
