"""Devices of a speed, and those that count cycles; most are presets."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import ClassVar

from pydantic import Field

from fedsim.blocks.fields import as_written
from fedsim.blocks.presets import Preset, Presettable
from fedsim.blocks.quantities import HertzOrNone, SpeedOrNone, Watts, WattsOrNone
from fedsim.physics.devices.base import DeviceLaw
from fedsim.physics.devices.presets import DEVICES

_LINEAR = ("speed", "active")
_CYCLES = ("kappa", "cycles_per_sample", "frequency")


class Device(Presettable, DeviceLaw):
    """A client's processor: `operations / speed` seconds a task.

    Its energy is idle power for all the time that it is on, and the difference of active
    and idle power for the time that it is busy. In the model of the literature a task takes
    `cycles / frequency` seconds and kappa * cycles * frequency^2 joules instead, with
    cycles_per_sample cycles for every sample that it passes over: Yang et al., "Energy Efficient
    Federated Learning Over Wireless Communication Networks", IEEE Trans. Wireless Comm. 2021;
    Tran et al., INFOCOM 2019.
    """

    presets: ClassVar[Mapping[str, Preset]] = DEVICES

    speed: SpeedOrNone = as_written(
        None, "floating-point operations per second that training reaches"
    )
    active: WattsOrNone = as_written(None, "power while it computes, idle or more")
    idle: Watts = Field(description="power while it does not")
    kappa: float | None = Field(
        default=None, gt=0, le=1, description="effective switched capacitance, W/Hz^3"
    )
    cycles_per_sample: float | None = Field(
        default=None, gt=0, le=1e24, description="processor cycles for every sample of a task"
    )
    frequency: HertzOrNone = as_written(None, "processor cycles per second")

    @property
    def constant(self) -> float | None:
        """Its speed, unless it counts cycles."""
        return self.speed

    def seconds(self, operations: float, samples: float) -> float:
        """Return operations / speed, or cycles / frequency."""
        if self.speed is not None:
            return operations / self.speed
        return (self.cycles_per_sample or 0.0) * samples / (self.frequency or inf)

    def working(self) -> float:
        """Return what it draws while it computes, W.

        The paper's energy is that of the work, kappa * frequency^3 W while it lasts; what else is
        drawn comes on top of it.
        """
        if self.active is not None:
            return self.active
        frequency = self.frequency or 0.0
        return (self.kappa or 0.0) * frequency * frequency * frequency + self.idle

    def _faults(self) -> Iterator[tuple[str, str, object]]:
        """Yield what keeps the block from being of one of the two models, completely."""
        by_cycles = any(getattr(self, name) is not None for name in _CYCLES)
        wrong = list(self._left_over() if by_cycles else ())
        wrong += [
            (name, self._missing(name), None)
            for name in (_CYCLES if by_cycles else _LINEAR)
            if getattr(self, name) is None
        ]
        yield from wrong or super()._faults()

    def _left_over(self) -> Iterator[tuple[str, str, object]]:
        given = ", ".join(name for name in _CYCLES if getattr(self, name) is not None)
        text = (
            f"is not used beside {given}: time and power follow from cycles; leave one of the two"
            " out, and start from custom, yang-2021 or tran-2019 for cycles"
        )
        for name in _LINEAR:
            if getattr(self, name) is not None:
                yield name, text, getattr(self, name)

    @classmethod
    def _missing(cls, name: str) -> str:
        return f"missing, and has no default ({cls.model_fields[name].description})"
