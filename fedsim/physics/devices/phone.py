"""Phones whose speeds are drawn, a phone for each client."""

from typing import Literal, Self

import numpy as np
from pydantic import Field

from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import Speed, Stored, Watts
from fedsim.physics.devices.base import DeviceLaw

AI_BENCHMARK = (
    (0.0, 0.068),
    (0.05, 0.141),
    (0.1, 0.177),
    (0.25, 0.367),
    (0.5, 1.0),
    (0.75, 1.391),
    (0.9, 2.205),
    (0.95, 2.385),
    (1.0, 2.784),
)
"""Shares of phones, and the speed that they do not exceed, as a multiple of the median.

Scores of floating-point inference on the processor (CPU-F) of the 333 phones in the ranking of AI
Benchmark of 2019: Ignatov et al., "AI Benchmark: All About Deep Learning on Smartphones in 2019",
arXiv:1910.06663, as kept in github.com/PKU-Chengxu/FLASH, models/utils/device_util. Every model
counts once, however many were sold. The median phone is as fast as a Redmi Note 8."""

_SHARES, _FACTORS = np.array(AI_BENCHMARK).T


class Phone(DeviceLaw):
    """A phone whose speed is drawn: each client of the group has one of its own.

    Its speed is the median's times a factor from AI Benchmark's ranking of phones (Ignatov et al.,
    arXiv:1910.06663), linear in between its quantiles. The median, 1.8 Gflop/s, is about that of
    the Redmi Note 8 as it trains in FLASH: Yang et al., WWW 2021. What a phone draws and holds is
    the same for all. The draws depend on the seed alone, so that variants have the same phones.
    """

    kind: Literal["phone"] = Field(default="phone", description="a phone of its own each client")
    draw: Literal["ai-benchmark"] = Field(
        default="ai-benchmark", description="the distribution of the speeds"
    )
    speed: Speed = as_written("1.8 Gflop/s", "what training reaches on the median phone")
    active: Watts = as_written("4.5 W", "power while it computes, idle or more")
    idle: Watts = as_written("0.35 W", "power while it does not")
    battery: Stored = as_written("15 Wh", 'what a full battery holds; "mains" for none')

    @property
    def varies(self) -> bool:
        """Yes."""
        return True

    @property
    def constant(self) -> float:
        """Its speed; that of the median phone, before one is drawn."""
        return self.speed

    @property
    def fastest(self) -> Self:
        """The fastest phone of the ranking."""
        return self._times(float(_FACTORS[-1]))

    def one(self, rng: np.random.Generator) -> Self:
        """Return a phone, drawn by inverting the distribution."""
        return self._times(float(np.interp(rng.random(), _SHARES, _FACTORS)))

    def seconds(self, operations: float, samples: float) -> float:  # noqa: ARG002 - by operations
        """Return operations / speed."""
        return operations / self.speed

    def working(self) -> float:
        """Return active."""
        return self.active

    def _times(self, factor: float) -> Self:
        return self.model_copy(update={"speed": factor * self.speed})
