"""The first-order radio: energy per bit by the distance."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import JoulesPerBit, JoulesPerBitArea, Metres, Rate, Seconds
from fedsim.physics.radios.base import LATENCY, NO_DRAW, Draw, Listening, PacketRadio
from fedsim.physics.radios.rates import Constant, Rates
from fedsim.physics.signals import Signal


class FirstOrderRadio(Listening, PacketRadio):
    """The first-order radio: E_tx(k, d) = k E_elec + k eps d^2 and E_rx(k) = k E_elec.

    Heinzelman, Chandrakasan, Balakrishnan, "Energy-Efficient Communication Protocol for
    Wireless Microsensor Networks", HICSS 2000, equations 1 and 2.
    """

    kind: Literal["first-order"] = Field(
        default="first-order", description="energy per bit by the distance"
    )
    up: Rate = Field(description="rate from the client to the server")
    down: Rate = Field(description="rate from the server to the client")
    distance: Metres = Field(description="d, from the client to the server")
    electronics: JoulesPerBit = as_written("50 nJ/bit", "E_elec, either way")
    amplifier: JoulesPerBitArea = as_written("100 pJ/bit/m^2", "eps, of what is sent")
    latency: Seconds = as_written("0 s", LATENCY)

    @property
    def draw(self) -> Draw:
        """The energy of a bit that is sent and of one that is received."""
        sent = self.electronics + self.amplifier * self.distance * self.distance
        return NO_DRAW.model_copy(update={"energy_up": sent, "energy_down": self.electronics})

    def rates(self, signals: Mapping[str, Signal]) -> Rates:  # noqa: ARG002 - no traces
        """Return the two rates."""
        return Rates(Constant(self.up), Constant(self.down))
