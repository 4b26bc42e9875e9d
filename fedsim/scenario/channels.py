"""Radios whose rate follows from physics: LoRa's time on air, Shannon's limit."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedsim.blocks.fields import as_written
from fedsim.blocks.presets import OneNamed, Preset, Presettable, names_of
from fedsim.blocks.quantities import (
    Bytes,
    Decibels,
    Efficiency,
    Hertz,
    Metres,
    NoiseDensity,
    Power,
    Seconds,
    Share,
    Watts,
)
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.scenario.packet_loss import AnyPacketLoss
from fedsim.scenario.radio_presets import LORA
from fedsim.scenario.radios import (
    FRAMING,
    LATENCY,
    LOSS,
    PACKET,
    TRIES,
    FirstOrderRadio,
    Radio,
    Tries,
    check_packet,
)


class LoRaRadio(Presettable):
    """A LoRa modem: every frame takes its time on air, and then keeps the duty cycle.

    Semtech, SX1276 data sheet, section 4.1.1.7. A message is cut into frames of the largest
    payload that EU868 allows at its spreading factor, each with 13 bytes of MAC.
    """

    presets: ClassVar[Mapping[str, Preset]] = LORA
    customs: ClassVar[tuple[str, ...]] = ()

    kind: str = Field(description="the preset to start from")
    spreading: int = Field(ge=7, le=12, description="the spreading factor, SF7 to SF12")
    bandwidth: Hertz = as_written("125 kHz", "of the channel")
    coding: int = Field(default=1, ge=1, le=4, description="CR: the code rate is 4/(4 + CR)")
    duty: Share = as_written("1 %", "the share of time that it may be on the air")
    latency: Seconds = as_written("1 s", LATENCY)
    send: Watts = as_written("92 mW", "power while it sends")
    receive: Watts = as_written("37 mW", "power while it receives")
    idle: Watts = as_written("0 W", "power whenever the client is on")
    loss: AnyPacketLoss = LOSS
    tries: Tries = TRIES


class ShannonRadio(Spec):
    """A fading channel at Shannon's limit: rate = B log2(1 + p g h/(N0 B)).

    The path loss is 128.1 + 37.6 log10(d in km) dB, the shadowing normal in dB and drawn once,
    the power gain h of Rayleigh fading exponential with mean 1 and drawn once a round.
    """

    kind: Literal["shannon"] = Field(default="shannon", description="the limit of a fading channel")
    bandwidth: Hertz = Field(description="B, of each direction")
    power: Power = Field(description="p, what the client radiates")
    server_power: Power = Field(description="p, what the server radiates")
    distance: Metres = Field(description="d, from the client to the server")
    shadowing: Decibels = as_written("8 dB", "standard deviation of the shadowing")
    noise: NoiseDensity = as_written("-174 dBm/Hz", "N0, the noise density")
    attenuation: Share = as_written("100 %", "what a real modem reaches of the limit")
    most: Efficiency = as_written("4.4 bit/s/Hz", "what modulation and coding reach at best")
    latency: Seconds = as_written("0 s", LATENCY)
    send: Watts | None = as_written(None, "power while it sends; what it radiates, where null")
    receive: Watts = as_written("0 W", "power while it receives")
    idle: Watts = as_written("0 W", "power whenever the client is on")
    framing: Bytes = FRAMING
    packet: Bytes = PACKET
    loss: AnyPacketLoss = LOSS
    tries: Tries = TRIES

    @model_validator(mode="after")
    def _packets_carry_something(self) -> Self:
        check_packet(self.framing, self.packet)
        return self


RadioSpec = Radio | LoRaRadio | ShannonRadio | FirstOrderRadio
RADIO_KINDS: Registry[Spec] = Registry(
    "radio", (Radio, LoRaRadio, ShannonRadio, FirstOrderRadio), title="radio kinds", names=names_of
)
"""The classes that read a radio's block."""

AnyRadio = Annotated[RadioSpec, OneNamed(RADIO_KINDS)]
"""A field that takes one of them, or the name of a preset."""
