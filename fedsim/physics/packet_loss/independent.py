"""Losses without a memory, and none."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.quantities import Fraction
from fedsim.physics.packet_loss.base import ALL_LOST, PacketLoss


class NoLoss(PacketLoss):
    """Every packet passes."""

    kind: Literal["none"] = Field(default="none", description="no packet is lost")

    @property
    def mean(self) -> float:
        """Nothing."""
        return 0.0

    def process(self, rng: np.random.Generator) -> "IndependentLosses":
        """Return the losses of one link: none."""
        return IndependentLosses(0.0, rng)


class IndependentLoss(PacketLoss):
    """Every packet is lost with the same probability, whatever became of the others."""

    kind: Literal["independent"] = Field(
        default="independent", description="each packet for itself"
    )
    rate: Fraction = Field(description="the share of packets that are lost, below 100 %")

    @model_validator(mode="after")
    def _some_pass(self) -> Self:
        if self.rate >= 1:
            raise failure(("rate", f'got "100 %": {ALL_LOST}', self.rate))
        return self

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        return self.rate

    def process(self, rng: np.random.Generator) -> "IndependentLosses":
        """Return the losses of one link."""
        return IndependentLosses(self.rate, rng)


@dataclass(slots=True)
class IndependentLosses:
    """Losses without a memory.

    Attributes:
        mean: the probability of loss.
    """

    mean: float
    _rng: np.random.Generator

    def losses(self, packets: int) -> int:
        """Return how many of the next so many packets are lost."""
        return int(self._rng.binomial(packets, self.mean))
