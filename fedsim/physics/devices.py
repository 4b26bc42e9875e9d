"""Devices: how long work takes, and what it costs in joules."""

from dataclasses import dataclass
from math import inf
from typing import Self

from fedsim.physics.slowdowns import Slowdown


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A processor.

    Attributes:
        speed: effective floating-point operations per second; cycles per second where
            `cycles_per_sample` is given.
        active: power while it computes, W.
        idle: power all the time, W.
        slowdown: a factor on the time of every task; None for none.
        cycles_per_sample: where given, a task takes so many cycles for every sample that it
            passes over, whatever its operations.
    """

    speed: float = inf
    active: float = 0.0
    idle: float = 0.0
    slowdown: Slowdown | None = None
    cycles_per_sample: float | None = None

    @classmethod
    def of_cycles(
        cls,
        per_sample: float,
        frequency: float,
        kappa: float,
        slowdown: Slowdown | None = None,
    ) -> Self:
        """Return the model of the literature: cycles / f seconds, kappa * cycles * f^2 joules.

        Yang et al., "Energy Efficient Federated Learning Over Wireless Communication
        Networks", IEEE Trans. Wireless Comm. 2021; Tran et al., INFOCOM 2019. The two say
        that the power is kappa * f^3 while it computes.

        Args:
            per_sample: cycles for every sample that a task passes over.
            frequency: f, Hz.
            kappa: the effective switched capacitance, W/Hz^3.
            slowdown: as above.
        """
        return cls(frequency, kappa * frequency**3, 0.0, slowdown, per_sample)

    def nominal(self, operations: float, samples: float) -> float:
        """Return the seconds of a task without its slowdown."""
        work = operations if self.cycles_per_sample is None else self.cycles_per_sample * samples
        return work / self.speed
