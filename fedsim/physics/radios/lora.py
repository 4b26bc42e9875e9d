"""LoRa: time on air, frames, and the silence that a duty cycle requires."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedsim.core.blocks.modes import Moded
from fedsim.core.blocks.presets import Preset, Presettable
from fedsim.core.blocks.quantities import Hertz, Seconds, Share, Watts
from fedsim.core.blocks.spec import Given, Keys, as_written
from fedsim.physics.radios.base import LATENCY, NO_DRAW, Draw, Listening, RadioLaw
from fedsim.physics.radios.channel import Framing
from fedsim.physics.radios.lorawan import EndDevice
from fedsim.physics.radios.presets import LORA
from fedsim.physics.radios.rates import RateLaw, Rates, Terms
from fedsim.physics.signals import Signal

EU868_PAYLOAD = {7: 222, 8: 222, 9: 115, 10: 51, 11: 51, 12: 51}
"""The most bytes of payload in a frame, by spreading factor: LoRaWAN Regional Parameters,
EU863-870, repeater compatible."""

_SYNCHRONISATION = 4.25
"""The number of symbols between the programmed preamble and the header."""

_LONG_SYMBOL = 16e-3
"""Symbols this long or longer use the low data rate optimisation, s."""


@dataclass(frozen=True, slots=True)
class Span:
    """The times that a message takes.

    Attributes:
        elapsed: from its first bit to its last, with the silences between its frames, s.
        on_air: the time on air of its frames, s.
        rest: the silence that the sender has to keep after the last frame, s.
        framing_bits: the bits that the frames add to the message.
    """

    elapsed: float
    on_air: float
    rest: float
    framing_bits: int


@dataclass(frozen=True, slots=True)
class LoRa(RateLaw):
    """A LoRa modem, which divides messages into frames and keeps a duty cycle.

    Time on air follows Semtech's AN1200.13, "LoRa Modem Designer's Guide", 2013. The limit of 1 %
    is that of ETSI EN 300 220 for most of the band of 868 MHz.

    >>> round(LoRa().airtime(222 + 13), 3), round(LoRa(spreading=12).airtime(51 + 13), 2)
    (0.369, 2.79)

    Attributes:
        spreading: SF, the spreading factor, 6 to 12.
        bandwidth: BW, Hz.
        coding: CR, 1 to 4 for code rates of 4/5 to 4/8.
        preamble: n_pre, the number of symbols of the preamble.
        crc: whether frames end with a checksum.
        explicit_header: whether frames begin with a header of the modem.
        mac: the bytes of each frame that do not belong to the message.
        payload: the most bytes of a message in a frame; None for `EU868_PAYLOAD`.
        duty: the duty cycle: the largest share of time on air.

    Raises:
        ValueError: a parameter is outside its range.
    """

    spreading: int = 7
    bandwidth: float = 125e3
    coding: int = 1
    preamble: int = 8
    crc: bool = True
    explicit_header: bool = True
    mac: int = 13
    payload: int | None = None
    duty: float = 0.01

    def __post_init__(self) -> None:
        for name, least, most in (
            ("spreading", 6, 12),
            ("coding", 1, 4),
            ("preamble", 0, 65535),
            ("mac", 0, 254),
        ):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {least} to {most}; got {getattr(self, name)}")
        if not self.bandwidth > 0:
            raise ValueError(f"bandwidth is above 0; got {self.bandwidth}")
        if not 0 < self.duty <= 1:
            raise ValueError(f"duty is above 0 and at most 1; got {self.duty}")
        if self.payload is None and self.spreading not in EU868_PAYLOAD:
            raise ValueError(f"no payload is known for a spreading factor of {self.spreading}")
        if not 1 <= self.frame_payload <= 255 - self.mac:
            raise ValueError(f"payload is 1 to {255 - self.mac}; got {self.payload}")

    @property
    def symbol(self) -> float:
        """The length of a symbol, T_s = 2^SF / BW, s."""
        return float(2**self.spreading) / self.bandwidth

    @property
    def frame_payload(self) -> int:
        """The most bytes of a message in a frame."""
        return EU868_PAYLOAD[self.spreading] if self.payload is None else self.payload

    @property
    def bits_per_symbol(self) -> int:
        """SF - 2 DE: with DE = 1, a long symbol carries two bits less, for robustness."""
        return self.spreading - 2 * (self.symbol >= _LONG_SYMBOL)

    @property
    def peak(self) -> float:
        """The modem's bit rate, bit/s.

        Every frame is slower, because of its preamble and header.
        """
        return self.bits_per_symbol * 4 / (4 + self.coding) / self.symbol

    def airtime(self, size: int) -> float:
        """Return the time on air of a frame, s.

        Args:
            size: PL, the bytes of the frame, with those of the MAC.
        """
        coded = 8 * size - 4 * self.spreading + 28 + 16 * self.crc - 20 * (not self.explicit_header)
        blocks = max(ceil(coded / (4 * self.bits_per_symbol)), 0)
        symbols = self.preamble + _SYNCHRONISATION + 8 + blocks * (self.coding + 4)
        return symbols * self.symbol

    def frames(self, bits: int) -> int:
        """Return the number of frames of a message of `bits` bits; 0 for no bits."""
        return -(-bits // (8 * self.frame_payload))

    def span(self, bits: int) -> Span:
        """Return the times of a message of `bits` bits.

        After a frame of length T the sender is silent for T (1/duty - 1). All frames but the last
        one are full.
        """
        frames = self.frames(bits)
        if not frames:
            return Span(0.0, 0.0, 0.0, 0)
        last_payload = -(-bits // 8) - (frames - 1) * self.frame_payload
        full = (frames - 1) * self.airtime(self.mac + self.frame_payload)
        last = self.airtime(self.mac + last_payload)
        # Each full frame is followed by silence until its airtime is the share `duty` of the time.
        # The silence after the last frame is not part of the message's time.
        return Span(
            elapsed=full / self.duty + last,
            on_air=full + last,
            rest=last * (1 / self.duty - 1),
            framing_bits=8 * self.mac * frames,
        )

    @property
    def continuous(self) -> bool:
        """False: there are silences between frames."""
        return False

    def seconds(self, bits: int, framed: int) -> float:
        """Return the duration of a message, with the silence after it, s."""
        span = self.span(bits)
        return span.elapsed + span.rest

    def carrier(self, rng: Callable[[], np.random.Generator]) -> "Frames":
        """Return a carrier; it draws no random numbers."""
        return Frames(self)


class Frames:
    """The carrier of a modem: frames on the air, with silences for the duty cycle between them."""

    __slots__ = ("_law",)

    def __init__(self, law: LoRa) -> None:
        self._law = law

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:
        """Return the terms of a message."""
        if not bits:
            return Terms(inf)
        span = self._law.span(bits)
        # The rate is the mean over frames and the silences between them.
        return Terms(framed / span.elapsed, span.on_air / span.elapsed, span.rest)


_CLASSES = {
    "a": {"latency": "0 s", "listening": "0 %"},  # its receive windows are simulated one by one
    "b": {"latency": "1 s", "listening": "3 %"},  # as in the presets
    "c": {"latency": "0 s", "listening": "100 %"},
}
"""The keys that each class of LoRaWAN sets, in the notation of a scenario."""


class LoRaRadio(Moded, Listening, Presettable, RadioLaw):
    """A LoRa modem: every frame takes its time on air, and then a silence for the duty cycle.

    Powers follow Semtech, SX1276 data sheet, section 4.1.1.7. A message is divided into frames with
    the largest payload that EU868 allows at the spreading factor, each with 13 bytes of MAC. In the
    silences between its frames, and between messages, the radio rests.

    The server may send at any time, so the presets are LoRaWAN's class B. Its receiver opens for a
    moment about once a second: `listening` is the share of this time, and `latency` the wait for
    it. Class C listens all the time (`listening` 100 %), and no message has to wait (`latency` 0
    s). Under `network.lora` frames collide, and class A sleeps outside its windows.
    """

    presets: ClassVar[Mapping[str, Preset]] = LORA
    customs: ClassVar[tuple[str, ...]] = ()

    kind: str = Field(description="the preset to start from")
    spreading: int = Field(ge=7, le=12, description="the spreading factor, SF7 to SF12")
    bandwidth: Hertz = as_written("125 kHz", "bandwidth of the channel")
    coding: int = Field(default=1, ge=1, le=4, description="CR: the code rate is 4/(4 + CR)")
    duty: Share = as_written("1 %", "duty cycle: share of time in which it may transmit")
    latency: Seconds = as_written("1 s", LATENCY)
    send: Watts = as_written("92 mW", "power while it sends")
    receive: Watts = as_written("37 mW", "power while it receives")
    lorawan: Given[EndDevice | None, EndDevice | Keys | None] = as_written(
        None, "the device's class and path loss for the gateway of network.lora; class B by default"
    )

    @classmethod
    def implied(cls, block: Mapping[str, object]) -> Mapping[str, object]:
        """Return the keys that the class of the device sets."""
        device = block.get("lorawan")
        if isinstance(device, EndDevice):
            return _CLASSES[device.device_class]
        if isinstance(device, Mapping):
            return _CLASSES.get(str(device.get("device_class", "a")), {})
        return {"lorawan": None}  # omitted from files, so that older scenarios keep their bytes

    @property
    def end_device(self) -> EndDevice:
        """Its properties at a gateway; class B by default, which is how it listens."""
        return self.lorawan or EndDevice(device_class="b")

    @property
    def waiting(self) -> float:
        """The mean power between messages above `idle`, W; a device of class A sleeps then."""
        asleep = self.lorawan is not None and self.lorawan.device_class == "a"
        return self.sleep if asleep else super().waiting

    def window_wait(self, bits: int, second_delay: float) -> float:
        """Return the longest wait of a message for the windows of a class A device, s.

        A frame down is sent in answer to a frame of the device, whose duty cycle keeps its frames
        apart.

        Args:
            bits: the bits of the message.
            second_delay: the time from the end of a frame up to the second window, s.
        """
        if self.end_device.device_class != "a":
            return 0.0
        period = self.law.airtime(self.law.mac) / self.duty + second_delay
        return self.end_device.poll + self.law.frames(bits) * period

    @property
    def law(self) -> LoRa:
        """The modem, for either direction."""
        return LoRa(
            spreading=self.spreading, bandwidth=self.bandwidth, coding=self.coding, duty=self.duty
        )

    def law_at(self, spreading: int) -> LoRa:
        """Return the modem at another spreading factor; its frames keep their payload."""
        return replace(self.law, spreading=spreading, payload=self.law.frame_payload)

    @property
    def draw(self) -> Draw:
        """The powers of sending and receiving."""
        return NO_DRAW.model_copy(update={"send": self.send, "receive": self.receive})

    @property
    def packaging(self) -> Framing:
        """The division of messages into frames."""
        return Framing(self.law.mac, self.law.mac + self.law.frame_payload)

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        """Return the modem as the law of both directions."""
        return Rates(self.law, self.law)
