"""The fleet: groups of clients with one device and one radio."""

from collections.abc import Iterator
from math import isinf
from typing import Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.given import Given, Keys
from fedsim.blocks.spec import Spec
from fedsim.physics.availability import AnyAvailability
from fedsim.physics.batteries import Battery, percent
from fedsim.physics.carbon import AnyCarbon
from fedsim.physics.charging import NoCharging
from fedsim.physics.devices import AnyDevice
from fedsim.physics.radios import AnyRadio


class Group(Spec):
    """Clients that have the same device, radio, battery, availability and electricity."""

    count: int = Field(default=1, ge=1, description="how many clients")
    device: AnyDevice = as_written("ideal", "a preset, or a block that starts from one")
    radio: AnyRadio = as_written("ideal", "a preset, or a block that starts from one")
    battery: Given[Battery | None, Battery | Keys | None] = as_written(
        None, "what they run on; {} for the device's own battery, null for none"
    )
    availability: AnyAvailability = as_written({"kind": "always"}, "when they are there")
    carbon: AnyCarbon = as_written(
        None, "what their electricity emits: a country, or a block; null for what nobody counts"
    )

    @property
    def capacity(self) -> float:
        """What a full battery holds, J; infinite for clients on mains."""
        if self.battery is None:
            return float("inf")
        return self.battery.holds(self.device.battery)

    @property
    def loses(self) -> bool:
        """Whether a message of these clients, or to them, may be lost for good."""
        return self.radio.loss.mean > 0 and self.radio.most_tries is not None

    @property
    def missing(self) -> str:
        """Why something sent to these clients may not arrive, and the key; empty where it does."""
        if self.loses:
            return "may be lost for good (radio.tries)"
        if self.battery is not None:
            return "may be broken off when its battery runs empty (battery)"
        return "" if self.availability.always else "may be broken off when it leaves (availability)"

    @model_validator(mode="after")
    def _battery_fits(self) -> Self:
        wrong = list(self._battery_faults(self.battery)) if self.battery else []
        if wrong:
            raise failure(*wrong)
        return self

    def _battery_faults(self, battery: Battery) -> Iterator[tuple[str, str, object]]:
        kind = self.device.kind
        if isinf(self.capacity):
            text = f'missing: the device {kind} is on mains; say what it holds, such as "15 Wh"'
            yield "battery.capacity", text, battery.capacity
        if battery.starts_empty and isinstance(battery.charging, NoCharging):
            text = (
                f"the battery of {kind} starts at {percent(battery.charge)}, shuts down at"
                f" {percent(battery.cutoff)} and is not charged: it would never start;"
                " give a charge above the cut-off, or charging"
            )
            yield "battery.charge", text, battery.charge
