"""LoRaWAN: end devices, the gateway that they share, and adaptive data rate (ADR).

A scenario with `network.lora` has one gateway for all LoRa radios of its fleet. Their frames may
collide; `fedsim.addons.lorawan` simulates this. Sources:

- Windows, bands and duty cycles: LoRa Alliance, LoRaWAN L2 1.0.4 (TS001) and Regional Parameters
  RP002-1.0.3, EU863-870; ETSI EN 300 220-2.
- Capture at 6 dB: Bor, Roedig, Voigt, Alonso, "Do LoRa Low-Power Wide-Area Networks Scale?", MSWiM
  2016, doi 10.1145/2988287.2989163. Isolation of spreading factors: Croce, Gucciardo, Mangione,
  Santaromita, Tinnirello, "Impact of LoRa Imperfect Orthogonality", IEEE Comm. Letters 2018, doi
  10.1109/LCOMM.2018.2797057: measured thresholds of -8 dB to -25 dB, about -16 dB on average.
- Signal-to-noise ratios: Semtech, SX1276 data sheet, table 13; noise of -174 dBm/Hz. Eight
  demodulators: SX1301 data sheet.
- ADR: Semtech, "LoRaWAN: simple rate adaptation recommended algorithm", 2016, as in The Things
  Network.
"""

from collections.abc import Iterator
from math import floor, log10
from typing import Literal, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import (
    Decibels,
    DecibelsOrNone,
    Duration,
    PathLoss,
    Period,
    Power,
    Share,
)
from fedsim.core.blocks.spec import Spec, as_written

REQUIRED_SNR = {7: -7.5, 8: -10.0, 9: -12.5, 10: -15.0, 11: -17.5, 12: -20.0}
"""The lowest signal-to-noise ratio that can be demodulated, dB, by spreading factor."""

LEAST_POWER = 2.0
"""The lowest power that ADR sets, dBm."""

STEP = 3.0
"""The step of ADR's algorithm, dB."""

FASTEST = 7
"""The lowest spreading factor that ADR sets."""


def dbm(watts: float) -> float:
    """Return a power in W as decibels relative to a milliwatt.

    >>> round(dbm(0.025), 2)
    13.98
    """
    return 10 * log10(1e3 * watts)


def noise_dbm(bandwidth: float, figure: float) -> float:
    """Return a receiver's noise in a bandwidth, dBm: -174 dBm/Hz plus its noise figure, dB."""
    return -174.0 + 10 * log10(bandwidth) + figure


def supply_current(power: float) -> float:
    """Return the current of a modem that radiates a power in dBm, mA; only ratios matter.

    It is a line through Semtech's figures for the SX1276 (data sheet, table 10, output RFO): 20 mA
    at 7 dBm, 29 mA at 13 dBm.
    """
    return 9.5 + 1.5 * max(power, LEAST_POWER)


def adapt(
    spreading: int, power: float, snr: float, margin: float, most: float
) -> tuple[int, float]:
    """Return the spreading factor and the power, dBm, that ADR sets for a device.

    >>> adapt(12, 14.0, snr=-4.0, margin=10.0, most=14.0), adapt(7, 14.0, 9.0, 10.0, 14.0)
    ((10, 14.0), (7, 8.0))

    Args:
        spreading: the current spreading factor.
        power: the current power, dBm.
        snr: the highest signal-to-noise ratio of the frames so far, dB.
        margin: the reserve to keep, dB.
        most: the highest power, dBm.
    """
    # Each step first lowers the spreading factor, which saves airtime, and then the power. Negative
    # steps only raise the power.
    steps = floor((snr - REQUIRED_SNR[spreading] - margin) / STEP)
    while steps > 0 and spreading > FASTEST:
        spreading, steps = spreading - 1, steps - 1
    while steps > 0 and power > LEAST_POWER:
        power, steps = max(power - STEP, LEAST_POWER), steps - 1
    while steps < 0 and power < most:
        power, steps = min(power + STEP, most), steps + 1
    return spreading, power


class EndDevice(Spec):
    """The properties of a LoRa radio at the gateway of `network.lora`."""

    device_class: Literal["a", "b", "c"] = Field(
        default="a",
        description=(
            "a: it listens after sending; b: in the share of time that the radio's"
            " `listening` gives; c: always. It sets `listening` and `latency` where the"
            " radio does not"
        ),
    )
    poll: Period = as_written(
        "10 min",
        ("class A: time after the last frame at which it sends an empty frame, to be reachable"),
    )
    adr: bool = Field(
        default=False, description="whether the network sets spreading factor and power"
    )
    power: Power = as_written("25 mW", "highest radiated power: 14 dBm in EU868")
    path_loss: PathLoss = as_written("120 dB", "path loss from the device to the gateway")
    shadowing: Decibels = as_written(
        "0 dB", "standard deviation of the path loss in dB, drawn once per client"
    )

    @property
    def signal(self) -> float:
        """The mean power that the gateway receives from the device, dBm."""
        return dbm(self.power) - self.path_loss


class LoRaGateway(Spec):
    """The gateway of a fleet's LoRa radios, and the air that they share (ALOHA).

    Two frames that overlap in time, with the same channel and spreading factor, are both lost,
    unless one is stronger than the other by `capture`. While the gateway sends, it receives
    nothing.
    """

    channels: int = Field(
        default=3,
        ge=1,
        le=96,
        description="number of uplink channels; each frame draws one of them",
    )
    capture: DecibelsOrNone = as_written(
        "6 dB",
        (
            "a frame is received if it is this much stronger than each overlapping one;"
            " null: it is lost"
        ),
    )
    isolation: DecibelsOrNone = as_written(
        None,
        (
            "a frame of another spreading factor is harmless if at most this much stronger;"
            " null: always"
        ),
    )
    demodulators: int = Field(
        default=8,
        ge=1,
        description="frames received at a time, over all channels and spreading factors",
    )
    noise_figure: Decibels = as_written("6 dB", "noise figure of its receiver")
    delay: Duration = as_written(
        "1 s", "RX1: from the end of an uplink frame to its reply; RX2 is 1 s"
    )
    rx2_spreading: int = Field(
        default=12,
        ge=7,
        le=12,
        description="spreading factor of RX2: 12 in LoRaWAN, 9 in The Things Network",
    )
    rx1_duty: Share = as_written("1 %", "duty cycle of the band of RX1, in which devices send")
    rx2_duty: Share = as_written(
        "10 %", "duty cycle of the band of RX2, also used by classes B and C"
    )
    acknowledge: bool = Field(
        default=False,
        description=(
            "whether acknowledgements of frames that may be sent again occupy receive windows"
        ),
    )
    adr_frames: int = Field(
        default=20, ge=1, description="uplink frames between two decisions of ADR"
    )
    adr_margin: Decibels = as_written("10 dB", "margin that ADR keeps")

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that frames collide and wait for windows."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """The nature of the gateway: frames collide and wait for windows."""
        return Nature(
            shares="frames of LoRa radios collide", waits="frames of LoRa radios wait for windows"
        )

    @property
    def second_delay(self) -> float:
        """The time from the end of a frame up to RX2, s."""
        return self.delay + 1.0

    def window_delay(self, number: int) -> float:
        """Return the time from the end of a frame up to its first or second window, s."""
        return self.delay if number == 1 else self.second_delay

    @model_validator(mode="after")
    def _margins_agree(self) -> Self:
        if self.capture is None and self.isolation is not None:
            text = "got an isolation of spreading factors without capture; give capture, or null"
            raise failure(("isolation", text, self.isolation))
        return self
