"""Batteries: what clients run on, and the marks that its level crosses. The block is the law.

`fedsim.physics.state_of_charge` follows the level in time.
"""

from abc import abstractmethod
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.quantities import (
    Fraction,
    FractionOrNone,
    Leak,
    Power,
    Share,
    TimeOfDay,
    WattHoursOrNone,
)
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import AnyPath, Block, Given, Spec, as_written
from fedsim.physics.formats.availability import read_charging
from fedsim.physics.radios.traces import Shift, check_shift
from fedsim.physics.signals import Constant, Signal, Steps
from fedsim.physics.traces import read_power

# Charging: what power a battery is offered. The block is the law.

# ruff: noqa: ARG002 - only what follows a file reads one


_DAY = 86400.0

NO_POWER = Constant(0.0)
"""What is offered where nothing charges a battery."""


class PowerReader(Protocol):
    """Reads the power in a file, W: by `read_power`, or a given function."""

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
    def source(self, read: PowerReader) -> Signal:
        """Return the power that is offered, W; `read` reads a file of that."""


class NoCharging(Charging):
    """The battery is never charged."""

    kind: Literal["none"] = Field(default="none", description="what is drawn is gone")

    def source(self, read: PowerReader) -> Signal:
        """Return nothing."""
        return NO_POWER


class ConstantCharging(Charging):
    """A charger that is always there."""

    kind: Literal["constant"] = Field(default="constant", description="the same power for ever")
    power: Power = Field(description="what the charger offers")

    def source(self, read: PowerReader) -> Signal:
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

    def source(self, read: PowerReader) -> Signal:
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

    def source(self, read: PowerReader) -> Signal:
        """Return what the file says, times the scale."""
        offered = read(self.path, repeat=self.repeat)
        return Steps(offered.times, offered.values * self.scale, offered.period)


class FlashCharging(Charging):
    """A charger available while a phone reported that it was charging, from FLASH's traces.

    The trace of a user is that of all clients of the group, and starts again at its end. Yang et
    al., "Characterizing Impacts of Heterogeneity in Federated Learning upon Large-Scale Smartphone
    Data", WWW 2021.
    """

    kind: Literal["flash"] = Field(default="flash", description="as reported by a phone of FLASH")
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

    def source(self, read: PowerReader) -> Signal:
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


_MONTH = 30 * 86400.0


class Crossing(Enum):
    """What a battery's level has just done.

    LOW and READY are reported of a client that is alive, and that neither dies nor restarts at the
    same instant: see `Store.ready` for all cases.
    """

    DEPLETED = "depleted"  # it fell to the cut-off: the client is dead
    CHARGED = "charged"  # it rose to the restart level: the client is alive again
    LOW = "low"  # it falls below the threshold to take part
    READY = "ready"  # it rose to the threshold to take part


class Battery(Spec):
    """A battery: a store with losses, a mark below which it is dead, and one to work above.

    Shares are of its capacity. A client whose battery falls to the cut-off is dead until it
    is charged up to `restart`, and so is one that starts at the cut-off or below it; below
    `threshold` it takes no part.
    """

    capacity: WattHoursOrNone = as_written(None, "what it holds; that of the device, where null")
    charge: Fraction = as_written("100 %", "what is in it at the start")
    charge_efficiency: Share = as_written("95 %", "what arrives of what is put in")
    discharge_efficiency: Share = as_written("95 %", "what arrives of what is taken out")
    self_discharge: Leak = as_written("0 %/month", "what it loses by itself, of its capacity")
    cutoff: Fraction = as_written("5 %", "where the client shuts down")
    threshold: Fraction = as_written("20 %", "where the client ceases to take part")
    restart: FractionOrNone = as_written(
        None,
        "where a client that shut down starts again; where null the threshold, if that is above the"
        " cut-off, and else 10 % above that",
    )
    charging: AnyCharging = as_written({"kind": "none"}, "what charges it")

    def holds(self, own: float) -> float:
        """Return what it holds when full, J; `own` is what the device's own battery holds."""
        return self.capacity or own

    def leak(self, capacity: float) -> float:
        """Return what it loses by itself until it is empty, W, where it holds so much, J."""
        return self.self_discharge * capacity / _MONTH

    @property
    def starts_empty(self) -> bool:
        """Whether its client is off until the battery has been charged to the restart level."""
        return self.charge <= self.cutoff

    @property
    def restarts_at(self) -> float:
        """The share at which a client that shut down starts again."""
        if self.restart is not None:
            return self.restart
        return self.threshold if self.threshold > self.cutoff else min(self.cutoff + 0.1, 1.0)

    @model_validator(mode="after")
    def _marks_in_order(self) -> Self:
        wrong: list[tuple[str, str, object]] = []
        if self.threshold < self.cutoff:
            text = f"got {percent(self.threshold)}; give a share of the cut-off or more"
            wrong.append(("threshold", f"{text}, {percent(self.cutoff)}", self.threshold))
        elif self.restarts_at < self.threshold or self.restarts_at <= self.cutoff:
            text = (
                f"got {percent(self.restarts_at)}; give the threshold ({percent(self.threshold)})"
                f" or more, and above the cut-off ({percent(self.cutoff)})"
            )
            wrong.append(("restart", text, self.restart))
        if wrong:
            raise failure(*wrong)
        return self


def percent(share: float) -> str:
    """Return a share as a scenario writes it."""
    return f"{100 * share:g} %"
