"""Radios that are on the air frame by frame: metered at each frame's own power."""

from math import inf

from fedsim.sim.power.radio import RadioMeter
from fedsim.sim.power.radio_kind import RadioKind
from fedsim.sim.power.supply import Part, Supply


class FrameMeter(RadioMeter):
    """Meters a half-duplex radio that is on for frames, not for whole messages.

    A message pays for its own frames. Energy of other frames is paid as it is spent.
    """

    __slots__ = ("_spent", "_watts", "since")

    def __init__(self, kind: RadioKind, supply: Supply | None = None) -> None:
        super().__init__(kind, supply)
        self._watts = 0.0  # power of the frame on the air, if any, W
        self.since = 0.0
        self._spent = [0.0, 0.0]  # joules of messages in progress, down and up

    def watts(self, up: bool) -> float:
        """Return the power of a frame in one direction beyond rest, W."""
        return self._kind.powers.on_air[up]

    def begin_frame(self, now: float, watts: float) -> None:
        """Draw this power from now on, W."""
        self.since, self._watts = now, watts
        self.update_load()

    def end_frame(self, now: float) -> float:
        """End the frame on the air, if any; return its energy, which no message has paid, J."""
        joules = self._watts * (now - self.since)
        self._watts = 0.0
        self.joules += joules
        self.update_load()
        self._book()
        return joules

    def pay(self, up: bool, joules: float) -> None:
        """Charge a frame to the message in progress in one direction."""
        self._spent[up] += joules

    def spend(self, joules: float) -> float:
        """Spend energy at once; return what the battery, if any, supplied of it, J."""
        if self.supply is not None:
            joules = self.supply.spend(Part.RADIO, joules)
        self.joules += joules
        return joules

    def end(self, now: float, bits: float, up: bool) -> float:
        """Return the energy of a completed message, J."""
        joules, self._spent[up] = self._spent[up], 0.0
        self.began[up] = inf
        return joules

    @property
    def power(self) -> float:
        """The present power beyond idle power, W."""
        return self._watts
