"""Members of a fleet: the configuration of one client or gateway."""

from dataclasses import dataclass
from math import inf

from fedsim.core.ports import Oracle
from fedsim.physics.availability import ALWAYS, PresenceLaw
from fedsim.physics.batteries import NO_POWER, Battery
from fedsim.physics.carbon import Intensity
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.radios import RadioLaw, Rates
from fedsim.physics.signals import Signal
from fedsim.physics.state_of_charge import BatteryStore


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The configuration of one client, and its loss.

    Attributes:
        device, radio: the components of the client.
        rates: the rates of its radio, with this client's start of traces.
        oracle: its loss.
        battery: the battery; None on mains.
        source: the charging power on offer, W, with this client's start.
        availability: when the client can be reached.
        group: the group of the fleet to which it belongs, which is also its radio cell.
        carbon: the intensity of its electricity; None if not tracked.
    """

    device: DeviceLaw
    radio: RadioLaw
    rates: Rates
    oracle: Oracle
    battery: Battery | None = None
    source: Signal = NO_POWER
    availability: PresenceLaw = ALWAYS
    group: int = 0
    carbon: Intensity | None = None

    @property
    def capacity(self) -> float:
        """The capacity of its battery, J; infinite on mains."""
        return inf if self.battery is None else self.battery.holds(self.device.battery)

    def store(self, least_charge: float) -> BatteryStore:
        """Return the client's battery at the start of the run.

        Args:
            least_charge: the state of charge that participation requires beside the battery's
                own threshold.

        Raises:
            ValueError: it is on mains.
        """
        if (battery := self.battery) is None:
            raise ValueError("a client on mains has no battery; expected one that has")
        threshold = max(battery.threshold, least_charge)
        return BatteryStore(battery, self.capacity, self.source, threshold)
