"""Charging: what power a battery is offered. The block is the law."""

# ruff: noqa: ARG002 - only what follows a file reads one

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.given import AnyPath, Block, Given
from fedsim.blocks.quantities import Power, TimeOfDay
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.physics.formats.flash import read_charging
from fedsim.physics.radios.traces import Shift, check_shift
from fedsim.physics.signals import Constant, Signal, Steps
from fedsim.physics.traces import read_power

_DAY = 86400.0

NO_POWER = Constant(0.0)
"""What is offered where nothing charges a battery."""


class Reading(Protocol):
    """Reads the power that a file says, W: as `read_power` does, or as told."""

    def __call__(
        self,
        path: Path,
        read: Callable[..., Steps] = read_power,
        **options: bool | float | str,
    ) -> Steps:
        """Return what a function makes of a file, which it is called with, and the options."""
        ...


class Charging(Spec):
    """What charges a battery."""

    kind: str

    @property
    def starts_anywhere(self) -> bool:
        """Whether each client starts somewhere else in the pattern, as drawn for it."""
        return False

    @abstractmethod
    def source(self, read: Reading) -> Signal:
        """Return the power that is offered, W; `read` reads a file of that."""


class NoCharging(Charging):
    """The battery is never charged."""

    kind: Literal["none"] = Field(default="none", description="what is drawn is gone")

    def source(self, read: Reading) -> Signal:
        """Return nothing."""
        return NO_POWER


class ConstantCharging(Charging):
    """A charger that is always there."""

    kind: Literal["constant"] = Field(default="constant", description="the same power for ever")
    power: Power = Field(description="what the charger offers")

    def source(self, read: Reading) -> Signal:
        """Return the one power."""
        return Constant(self.power)


class DailyCharging(Charging):
    """A charger that is there for some hours of every day; time 0 is midnight."""

    kind: Literal["daily"] = Field(default="daily", description="some hours of every day")
    power: Power = Field(description="what the charger offers")
    start: TimeOfDay = as_written("22 h", "when charging begins, from midnight")
    end: TimeOfDay = as_written("6 h", "when it ends; past midnight where it is before start")

    @model_validator(mode="after")
    def _some_hours(self) -> Self:
        if (self.start - self.end) % _DAY == 0:
            text = "the same time as start; for all hours of the day use kind: constant"
            raise failure(("end", text, self.end))
        return self

    def source(self, read: Reading) -> Signal:
        """Return the power by the hours of a day."""
        start, end = self.start % _DAY, self.end % _DAY
        times = sorted({0.0, start, end})
        long = (end - start) % _DAY
        values = [self.power if (time - start) % _DAY < long else 0.0 for time in times]
        return Steps(times, values, _DAY)


class HarvestCharging(Charging):
    """A harvester whose power follows a file: seconds, and watts from then on."""

    kind: Literal["harvest"] = Field(default="harvest", description="as a file says")
    path: AnyPath = Field(description="the CSV file, relative to that of the scenario")
    repeat: bool = Field(
        default=True, description="whether it starts again at its end; else the last power stays"
    )
    scale: float = Field(default=1.0, gt=0, description="a factor on the power")
    shift: Shift = Field(
        default="none", description="where each client starts in the pattern: none or random"
    )

    @model_validator(mode="after")
    def _shiftable(self) -> Self:
        check_shift(self.shift, repeat=self.repeat)
        return self

    @property
    def starts_anywhere(self) -> bool:
        """As was written."""
        return self.shift == "random"

    def source(self, read: Reading) -> Signal:
        """Return what the file says, times the scale."""
        offered = read(self.path, repeat=self.repeat)
        return Steps(offered.times, offered.values * self.scale, offered.period)


class FlashCharging(Charging):
    """A charger that is there while a phone has told that it charges, by FLASH's traces.

    The trace of a user is that of all clients of the group, and starts again at its end. Yang et
    al., "Characterizing Impacts of Heterogeneity in Federated Learning upon Large-Scale Smartphone
    Data", WWW 2021.
    """

    kind: Literal["flash"] = Field(default="flash", description="as a phone of FLASH has told")
    path: AnyPath = Field(description="the JSON file, relative to that of the scenario")
    power: Power = Field(description="what the charger offers")
    user: int = Field(default=0, ge=0, description="which user of the file, of those that charge")
    shift: Shift = Field(
        default="none", description="where each client starts in the pattern: none or random"
    )

    @property
    def starts_anywhere(self) -> bool:
        """As was written."""
        return self.shift == "random"

    def source(self, read: Reading) -> Signal:
        """Return the power while that user charges."""
        return read(self.path, read_charging, user=self.user, power=self.power)


CHARGING: Registry[Charging] = Registry(
    "charging",
    (NoCharging, ConstantCharging, DailyCharging, HarvestCharging, FlashCharging),
    Charging,
    plural="charging",
)
"""The kinds of charging."""

AnyCharging = Given[Annotated[Charging, OneOf(CHARGING)], Charging | Block]
"""A field that takes one of them."""
