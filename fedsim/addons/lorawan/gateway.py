"""The gateway's transmitter: one frame at a time, in bands with a duty cycle per band."""

from bisect import bisect_left
from typing import Literal

from fedsim.addons.lorawan.air import Air
from fedsim.physics.radios.lorawan import LoRaGateway
from fedsim.sim.engine.calendar import Calendar

_FEW = 64
"""Number of past reservations from which they are removed."""

Band = Literal["rx1", "rx2"]


class Transmitter:
    """The gateway's transmissions, during which it cannot receive.

    Args:
        calendar: the simulated time.
        air: the air, which it jams while it sends.
        law: its duty cycles.

    Attributes:
        on_air: its total time on air, reservations included, s.
    """

    def __init__(self, calendar: Calendar, air: Air, law: LoRaGateway) -> None:
        self._calendar = calendar
        self._air = air
        self._duty: dict[Band, float] = {"rx1": law.rx1_duty, "rx2": law.rx2_duty}
        self._silent_until: dict[Band, float] = {"rx1": 0.0, "rx2": 0.0}
        self._reserved: list[tuple[float, float]] = []  # begin and end, in order
        self.on_air = 0.0

    def reserve(self, begin: float, seconds: float, band: Band) -> bool:
        """Reserve the transmitter, if it is free and its duty cycle allows it.

        Args:
            begin: the begin of the frame, s.
            seconds: its time on air.
            band: the band; within one, begins never decrease from call to call.
        """
        if begin < self._silent_until[band]:
            return False
        # Reservations are disjoint: only the neighbours in order of time can overlap.
        reserved, end = self._reserved, begin + seconds
        place = bisect_left(reserved, (begin, end))
        if place and reserved[place - 1][1] > begin:
            return False
        if place < len(reserved) and reserved[place][0] < end:
            return False
        reserved.insert(place, (begin, end))
        if len(reserved) > 2 * _FEW and reserved[_FEW][1] <= self._calendar.now:
            del reserved[:_FEW]
        self._silent_until[band] = begin + seconds / self._duty[band]
        self.on_air += seconds
        self._calendar.call(begin, self._send, end)
        return True

    def earliest(self, band: Band) -> float:
        """Return the earliest begin of a frame outside of windows, s."""
        last = self._reserved[-1][1] if self._reserved else 0.0
        return max(self._calendar.now, last, self._silent_until[band])

    def _send(self, until: float) -> None:
        self._air.jam(self._calendar.now, until)
