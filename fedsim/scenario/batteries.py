"""Batteries: what a group's clients run on, and what charges them."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import Fraction, Leak, Power, Share, TimeOfDay, WattHours
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.physics.radios.traces import Shift, check_shift


class NoCharging(Spec):
    """The battery is never charged."""

    kind: Literal["none"] = Field(default="none", description="what is drawn is gone")


class ConstantCharging(Spec):
    """A charger that is always there."""

    kind: Literal["constant"] = Field(default="constant", description="the same power for ever")
    power: Power = Field(description="what the charger offers")


class DailyCharging(Spec):
    """A charger that is there for some hours of every day; time 0 is midnight."""

    kind: Literal["daily"] = Field(default="daily", description="some hours of every day")
    power: Power = Field(description="what the charger offers")
    start: TimeOfDay = as_written("22 h", "when charging begins, from midnight")
    end: TimeOfDay = as_written("6 h", "when it ends; past midnight where it is before start")

    @model_validator(mode="after")
    def _some_hours(self) -> Self:
        if (self.start - self.end) % 86400 == 0:
            text = "the same time as start; for all hours of the day use kind: constant"
            raise failure(("end", text, self.end))
        return self


class HarvestCharging(Spec):
    """A harvester whose power follows a file: seconds, and watts from then on."""

    kind: Literal["harvest"] = Field(default="harvest", description="as a file says")
    path: Path = Field(description="the CSV file, relative to that of the scenario")
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


Charging = NoCharging | ConstantCharging | DailyCharging | HarvestCharging
CHARGING: Registry[Spec] = Registry(
    "charging", (NoCharging, ConstantCharging, DailyCharging, HarvestCharging), plural="charging"
)
"""The kinds of charging."""


class Battery(Spec):
    """A battery: a store with losses, a mark below which it is dead, and one to work above.

    Shares are of its capacity. A client whose battery falls to the cut-off is dead until it
    is charged up to `restart`; below `threshold` it takes no part.
    """

    capacity: WattHours | None = as_written(None, "what it holds; that of the device, where null")
    charge: Fraction = as_written("100 %", "what is in it at the start")
    charge_efficiency: Share = as_written("95 %", "what arrives of what is put in")
    discharge_efficiency: Share = as_written("95 %", "what arrives of what is taken out")
    self_discharge: Leak = as_written("0 %/month", "what it loses by itself, of its capacity")
    cutoff: Fraction = as_written("5 %", "where the client shuts down")
    threshold: Fraction = as_written("20 %", "where the client ceases to take part")
    restart: Fraction | None = as_written(
        None,
        "where a client that shut down starts again; where null the threshold, if that is above the"
        " cut-off, and else 10 % above that",
    )
    charging: Annotated[Charging, OneOf(CHARGING)] = as_written({"kind": "none"}, "what charges it")

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
            text = f"seen {percent(self.threshold)}; give a share of the cut-off or more"
            wrong.append(("threshold", f"{text}, {percent(self.cutoff)}", self.threshold))
        elif self.restarts_at < self.threshold or self.restarts_at <= self.cutoff:
            text = (
                f"seen {percent(self.restarts_at)}; give the threshold ({percent(self.threshold)})"
                f" or more, and above the cut-off ({percent(self.cutoff)})"
            )
            wrong.append(("restart", text, self.restart))
        if wrong:
            raise failure(*wrong)
        return self


def percent(share: float) -> str:
    """Return a share as a scenario writes it."""
    return f"{100 * share:g} %"
