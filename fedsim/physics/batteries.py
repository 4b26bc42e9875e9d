"""Batteries and their charging: capacity, efficiencies, thresholds. Each block is its own law.

`fedsim.physics.state_of_charge` computes the level over time.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import OneOf, failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import (
    Fraction,
    FractionOrNone,
    Leak,
    Power,
    Share,
    TimeOfDay,
    WattHoursOrNone,
)
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import AnyPath, Block, Given, Spec, as_written
from fedsim.physics.formats.availability import read_charging
from fedsim.physics.radios.traces import Pattern, Shift
from fedsim.physics.signals import Constant, Signal, Steps
from fedsim.physics.traces import read_power

# Charging: the power offered to a battery.


_DAY = 86400.0

_SHIFT = "where each client starts in the file: none (at its beginning) or random"

NO_POWER = Constant(0.0)
"""The offered power without charging."""


class PowerReader(Protocol):
    """Reads a power in W from a file, with `read_power` or another reader."""

    def __call__(
        self,
        path: Path,
        read: Callable[..., Steps] = read_power,
        **options: bool | float | str,
    ) -> Steps:
        """Return the result of a reader for a file; `options` are passed on to it."""
        ...


class Charging(Pattern):
    """A law of the power offered to a battery."""

    @abstractmethod
    def source(self, read: PowerReader) -> Signal:
        """Return the offered power over time, W; `read` reads it from a file."""


class NoCharging(Charging):
    """The battery is never charged."""

    kind: Literal["none"] = Field(default="none", description="no charging")

    def source(self, read: PowerReader) -> Signal:
        """Return zero power."""
        return NO_POWER


class ConstantCharging(Charging):
    """A charger that is always connected."""

    kind: Literal["constant"] = Field(default="constant", description="always the same power")
    power: Power = Field(description="power of the charger")

    def source(self, read: PowerReader) -> Signal:
        """Return the constant power."""
        return Constant(self.power)


class DailyCharging(Charging):
    """A charger that is connected for some hours of every day; time 0 is midnight."""

    kind: Literal["daily"] = Field(default="daily", description="during some hours of every day")
    power: Power = Field(description="power of the charger")
    start: TimeOfDay = as_written("22 h", "when charging begins, from midnight")
    end: TimeOfDay = as_written("6 h", "when it ends; on the next day if before start")

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
        # Modulo a day, hours over midnight are one interval, too.
        long = (end - start) % _DAY
        values = [self.power if (time - start) % _DAY < long else 0.0 for time in times]
        return Steps(times, values, _DAY)


class HarvestCharging(Charging):
    """A harvester whose power follows a file: times in seconds, and watts from then on."""

    kind: Literal["harvest"] = Field(default="harvest", description="the power in a file")
    path: AnyPath = Field(description="the CSV file, relative to that of the scenario")
    repeat: bool = Field(
        default=True,
        description="whether the file repeats after its end; otherwise its last power stays",
    )
    scale: float = Field(default=1.0, gt=0, description="a factor on the power")
    shift: Shift = Field(default="none", description=_SHIFT)

    def source(self, read: PowerReader) -> Signal:
        """Return the power in the file, times the scale."""
        offered = read(self.path, repeat=self.repeat)
        return Steps(offered.times, offered.values * self.scale, offered.period)


class FlashCharging(Charging):
    """Charging whenever a phone in FLASH's traces reported that it was charging.

    All clients of the group follow the trace of one user, which starts again after its end. Yang et
    al., "Characterizing Impacts of Heterogeneity in Federated Learning upon Large-Scale Smartphone
    Data", WWW 2021.
    """

    kind: Literal["flash"] = Field(default="flash", description="as reported by a phone of FLASH")
    path: AnyPath = Field(description="the JSON file, relative to that of the scenario")
    power: Power = Field(description="power of the charger")
    user: int = Field(
        default=0, ge=0, description="number of the user among those that ever charge, from 0"
    )
    shift: Shift = Field(default="none", description=_SHIFT)

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
"""A field for a block of charging."""


_MONTH = 30 * 86400.0


class Crossing(Enum):
    """A mark that the level of a battery has crossed.

    LOW and READY are reported only for a client that is on, and not together with a shutdown or a
    restart; `BatteryStore.ready` covers all cases.
    """

    DEPLETED = "depleted"  # it fell to the cut-off: the client shuts down
    CHARGED = "charged"  # it rose to the restart level: the client is on again
    LOW = "low"  # it falls below the threshold of participation
    READY = "ready"  # it rose to the threshold of participation


class Battery(Spec):
    """A battery with losses, a cut-off level, and a threshold of participation.

    Shares refer to the capacity. A client shuts down when its battery falls to the cut-off, and
    stays off until the battery is charged to `restart`. A client that starts at or below the
    cut-off starts shut down. Below `threshold` a client does not participate. The gap between
    cut-off and restart is a hysteresis: without it a weak charger would switch the client on and
    off arbitrarily fast.
    """

    capacity: WattHoursOrNone = as_written(
        None, "energy of the full battery; that of the device by default"
    )
    charge: Fraction = as_written("100 %", "initial state of charge")
    charge_efficiency: Share = as_written("95 %", "share of the energy put in that is stored")
    discharge_efficiency: Share = as_written("95 %", "share of the energy taken out that is usable")
    self_discharge: Leak = as_written("0 %/month", "loss without load, as a share of the capacity")
    cutoff: Fraction = as_written("5 %", "level at which the client shuts down")
    threshold: Fraction = as_written("20 %", "level below which the client does not participate")
    restart: FractionOrNone = as_written(
        None,
        "level at which a client that shut down starts again; by default the threshold if that is"
        " above the cut-off, else 10 % above the cut-off",
    )
    charging: AnyCharging = as_written({"kind": "none"}, "how the battery is charged")

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that live clients have no such battery, and that charging varies over time."""
        yield "", Nature(simulated="batteries are simulated only; a live client has none")
        if self.charging.kind != "none":
            yield "charging", Nature(varies="the battery is charged")

    def holds(self, own: float) -> float:
        """Return the energy of the full battery, J; `own` is that of the device's battery, J."""
        return self.capacity or own

    def leak(self, capacity: float) -> float:
        """Return the self-discharge of a battery of a given capacity in J, W."""
        return self.self_discharge * capacity / _MONTH

    @property
    def starts_empty(self) -> bool:
        """Whether the client starts shut down, until the battery reaches the restart level."""
        return self.charge <= self.cutoff

    @property
    def restarts_at(self) -> float:
        """The level at which a client that shut down starts again, as a share."""
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
    """Return a share in a scenario's notation."""
    return f"{100 * share:g} %"
