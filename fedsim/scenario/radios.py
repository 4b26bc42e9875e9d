"""Radios of constant rate or of a trace, with their power; and what all radios have."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.presets import Preset, Presettable
from fedsim.blocks.quantities import (
    UNLIMITED,
    Bytes,
    JoulesPerBit,
    JoulesPerBitArea,
    Metres,
    Rate,
    Seconds,
    Watts,
)
from fedsim.blocks.spec import Spec
from fedsim.scenario.packet_loss import AnyPacketLoss
from fedsim.scenario.radio_presets import RADIOS
from fedsim.scenario.traces import AnyTrace

Tries = Annotated[int, Field(ge=1)] | Literal["unlimited"]
"""How often a packet is sent at most."""

LATENCY = "one-way delay, half of the round-trip time"
FRAMING = as_written("0 B", "what the transport adds to every packet")
PACKET = as_written("1500 B", "the largest packet, framing included")
LOSS = as_written({"kind": "none"}, "how packets are lost")
TRIES = as_written(UNLIMITED, 'how often a packet is sent at most; "unlimited" loses none for good')


def check_packet(framing: float, packet: float) -> None:
    """Raise a ValidationError where a packet has no room beside its framing."""
    if packet <= framing:
        text = (
            f'seen "{packet:g} B" with {framing:g} B of framing in it, which leaves no room; give'
            f" {framing + 1:g} B or more"
        )
        raise failure(("packet", text, packet))


class Radio(Presettable):
    """A client's radio: linear power, `base + energy_up * up + energy_down * down`.

    Here up and down are the rates of the moment, so that a bit costs the same at any rate
    and time costs `base`. A radio of constant state powers has `send` and `receive` instead.
    Before the first byte after a pause it is promoted; after the last one it has a tail.
    """

    presets: ClassVar[Mapping[str, Preset]] = RADIOS

    up: Rate = Field(description="rate from the client to the server")
    down: Rate = Field(description="rate from the server to the client")
    latency: Seconds = Field(description=LATENCY)
    energy_up: JoulesPerBit = Field(description="energy of a bit that is sent")
    energy_down: JoulesPerBit = Field(description="energy of a bit that is received")
    base: Watts = Field(description="power while it transfers, whatever the rate")
    send: Watts = as_written("0 W", "further power while it sends")
    receive: Watts = as_written("0 W", "further power while it receives")
    idle: Watts = as_written("0 W", "power whenever the client is on")
    promotion_power: Watts = as_written("0 W", "power while an idle radio gets ready")
    promotion_time: Seconds = as_written("0 s", "how long an idle radio takes to get ready")
    tail_power: Watts = as_written("0 W", "power once nothing is transferred, until it is idle")
    tail_time: Seconds = as_written("0 s", "from the last bit until it is idle")
    framing: Bytes = FRAMING
    packet: Bytes = PACKET
    up_trace: AnyTrace | None = as_written(None, "the rate follows a file, in place of up")
    down_trace: AnyTrace | None = as_written(None, "the rate follows a file, in place of down")
    loss: AnyPacketLoss = LOSS
    tries: Tries = TRIES

    @model_validator(mode="after")
    def _packets_carry_something(self) -> Self:
        check_packet(self.framing, self.packet)
        return self


class FirstOrderRadio(Spec):
    """The first-order radio: E_tx(k, d) = k E_elec + k eps d^2 and E_rx(k) = k E_elec.

    Heinzelman, Chandrakasan, Balakrishnan, "Energy-Efficient Communication Protocol for
    Wireless Microsensor Networks", HICSS 2000.
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
    idle: Watts = as_written("0 W", "power whenever the client is on")
    framing: Bytes = FRAMING
    packet: Bytes = PACKET
    loss: AnyPacketLoss = LOSS
    tries: Tries = TRIES

    @model_validator(mode="after")
    def _packets_carry_something(self) -> Self:
        check_packet(self.framing, self.packet)
        return self
