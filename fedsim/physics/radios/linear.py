"""Radios with a constant or traced rate, linear power, and the states of a cellular radio."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from fedsim.core.blocks.presets import Preset, Presettable
from fedsim.core.blocks.quantities import (
    JoulesPerBit,
    JoulesPerBitArea,
    Metres,
    Rate,
    Seconds,
    Watts,
)
from fedsim.core.blocks.spec import as_written
from fedsim.physics.radios.base import LATENCY, NO_DRAW, Connection, Draw, Listening, PacketRadio
from fedsim.physics.radios.presets import RADIOS
from fedsim.physics.radios.rates import ConstantRate, RateLaw, Rates, Traced
from fedsim.physics.radios.traces import AnyTrace, Trace
from fedsim.physics.signals import Signal


class Radio(Draw, Connection, Listening, Presettable, PacketRadio):
    """A client's radio: linear power, `base + energy_up * up + energy_down * down`.

    Here up and down are the current rates. So a bit costs the same energy at any rate, and time
    costs `base`, the power of being connected at zero throughput. A radio with constant powers of
    states has `send` and `receive` instead, which it draws while bits are on the air. Before the
    first byte after a pause the radio is promoted. After the last byte it has a tail. Then it
    rests: it listens for a share of the time, and sleeps.
    """

    presets: ClassVar[Mapping[str, Preset]] = RADIOS

    up: Rate = Field(description="rate from the client to the server")
    down: Rate = Field(description="rate from the server to the client")
    energy_up: JoulesPerBit = Field(description="energy per bit sent")
    energy_down: JoulesPerBit = Field(description="energy per bit received")
    base: Watts = Field(description="power while a message is in progress, at any rate")
    up_trace: AnyTrace = as_written(None, "rate over time from a file, in place of up")
    down_trace: AnyTrace = as_written(None, "rate over time from a file, in place of down")

    @property
    def cellular(self) -> bool:
        """Whether its preset is an LTE or 5G radio."""
        return self.kind.startswith(("lte", "5g"))

    @property
    def traces(self) -> Mapping[str, Trace]:
        """The traces that its rates follow, by their keys in the block."""
        return traces_of(self.up_trace, self.down_trace)

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        """Return the two rates, or the traces that replace them."""
        return rate_laws(self.up, self.down, signals)


def traces_of(up_trace: Trace | None, down_trace: Trace | None) -> Mapping[str, Trace]:
    """Return the traces of a radio by their keys in its block."""
    both = {"up_trace": up_trace, "down_trace": down_trace}
    return {key: trace for key, trace in both.items() if trace is not None}


def rate_laws(up: float, down: float, signals: Mapping[str, Signal]) -> Rates:
    """Return the laws of both directions: constant rates, or the traces that replace them.

    Args:
        up: the rate up, bit/s.
        down: the rate down, bit/s.
        signals: the signals of the traces, by their keys in the block.
    """
    return Rates(_law(up, signals.get("up_trace")), _law(down, signals.get("down_trace")))


def _law(rate: float, signal: Signal | None) -> RateLaw:
    return ConstantRate(rate) if signal is None else Traced(signal)


# The first-order radio, whose energy per bit depends on the distance.


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
    electronics: JoulesPerBit = as_written(
        "50 nJ/bit", "E_elec, energy of the electronics per bit sent or received"
    )
    amplifier: JoulesPerBitArea = as_written(
        "100 pJ/bit/m^2", "eps_amp, energy of the amplifier per bit sent"
    )
    latency: Seconds = as_written("0 s", LATENCY)

    @property
    def draw(self) -> Draw:
        """The energy per bit sent and per bit received."""
        sent = self.electronics + self.amplifier * self.distance * self.distance
        return NO_DRAW.model_copy(update={"energy_up": sent, "energy_down": self.electronics})

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        """Return the two constant rates."""
        return Rates(ConstantRate(self.up), ConstantRate(self.down))
