"""Wi-Fi cells: the block, and how long frames are on the air.

The times are those of IEEE Std 802.11-2020, and for ax those of IEEE Std 802.11ax-2021 (clauses
below), in the band of 5 GHz, for the access category of best effort. A radio's own rate is that of
its modulation. Around its packets come the headers of their frames, preambles, gaps,
acknowledgements and contention.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import Bytes, Hertz
from fedsim.core.blocks.spec import Spec, as_written
from fedsim.physics.contention import Backoff, BlockRequest
from fedsim.physics.radios.channel import Framing, framing

Standard = Literal["n", "ac", "ax"]
"""802.11n (HT), 802.11ac (VHT) or 802.11ax (HE, one user at a time)."""

SLOT = 9e-6
"""An empty slot, s (17.4.4, table 17-21)."""

SIFS = 16e-6
"""Between a frame and its response, s (17.4.4, table 17-21)."""

AIFS = SIFS + 3 * SLOT
"""Before a backoff, s: best effort waits 3 slots more than SIFS (9.4.2.28, table 9-155)."""

BACKOFF = Backoff(window=16, stages=6)
"""CWmin 15 and CWmax 1023 (17.4.4, table 17-21)."""

LEGACY = 20e-6
"""The preamble and SIGNAL of OFDM, with which all frames begin, s (17.3.2)."""

SYMBOL = 4e-6
"""A symbol of OFDM, HT and VHT with a guard interval of 800 ns, s (17.3.2.4, 19.3.6, 21.3.6)."""

HE_SYMBOL = 13.6e-6
"""A symbol of HE with a guard interval of 800 ns, s (802.11ax-2021, 27.3.9)."""

BASIC = (6e6, 12e6, 24e6)
"""The rates of responses, bit/s: the mandatory ones of OFDM (17.3.2.2, 10.6.6.5)."""

AROUND_DATA = 22
"""The bits of SERVICE and of the tail around a frame's data (17.3.5.3, 17.3.5.4)."""

HEADERS = 26 + 8 + 4
"""The bytes around a packet: QoS Data's header, LLC with SNAP, and FCS (9.3.2.1)."""

DELIMITER = 4
"""The bytes before each frame of an aggregate, which begins at a multiple of 4 (9.7.1)."""

ACK, BLOCK_ACK, BLOCK_ACK_REQUEST = 14, 32, 24
"""The bytes of control frames: Ack (9.3.1.4), compressed BlockAck (9.3.1.8), request (9.3.1.7)."""

BLOCK = 64
"""The most frames that one block acknowledgement answers (9.3.1.8.2)."""

LONGEST = 5.484e-3
"""The longest frame, s: aPPDUMaxTime (19.4.4, 21.4.4; 802.11ax-2021, 27.4.4)."""

TRAINING = (1, 2, 4, 4, 6, 6, 8, 8)
"""Training fields by the number of streams (19.3.9.4.6, 21.3.8.3.5; 802.11ax-2021, 27.3.11.10)."""

PREAMBLES: dict[Standard, tuple[float, float, float]] = {
    "n": (32e-6, 4e-6, SYMBOL),
    "ac": (36e-6, 4e-6, SYMBOL),
    "ax": (36e-6, 8e-6, HE_SYMBOL),
}
"""Of each standard: the preamble without training fields, one of these, and a symbol, s
(19.3.2, 21.3.2; 802.11ax-2021, 27.3.4, a field of 6.4 us with a guard of 1.6 us)."""

SUBCARRIERS: dict[Standard, dict[float, int]] = {
    "n": {20e6: 52, 40e6: 108},
    "ac": {20e6: 52, 40e6: 108, 80e6: 234, 160e6: 468},
    "ax": {20e6: 234, 40e6: 468, 80e6: 980, 160e6: 1960},
}
"""The subcarriers that carry data, by standard and width in Hz (19.3.6, 21.3.6; ax: 27.3.9)."""

MODULATIONS = (
    *((1, 1 / 2), (2, 1 / 2), (2, 3 / 4), (4, 1 / 2), (4, 3 / 4), (6, 2 / 3), (6, 3 / 4)),
    *((6, 5 / 6), (8, 3 / 4), (8, 5 / 6), (10, 3 / 4), (10, 5 / 6)),
)
"""The bits of a subcarrier and the code's rate, by MCS (19.5, 21.5; 802.11ax-2021, 27.5)."""

HIGHEST: dict[Standard, int] = {"n": 7, "ac": 9, "ax": 11}
"""The highest MCS; with n the further ones are these, with more streams."""


def modulation_rate(standard: Standard, mcs: int, width: float = 20e6, streams: int = 1) -> float:
    """Return the rate of a modulation with a guard interval of 800 ns, bit/s.

    >>> round(modulation_rate("n", 7)), round(modulation_rate("ax", 11, 80e6, 2))
    (65000000, 1200980392)

    Args:
        standard: n, ac or ax.
        mcs: the number of the modulation and coding scheme.
        width: the width of the channel, Hz.
        streams: spatial ones.
    """
    bits, code = MODULATIONS[mcs]
    return SUBCARRIERS[standard][width] * bits * code * streams / PREAMBLES[standard][2]


class FrameTiming(NamedTuple):
    """How frames of one rate are timed.

    Attributes:
        preamble: s.
        symbol: s.
        rate: the rate of the data, bit/s.
        basic: of responses, bit/s.
    """

    preamble: float
    symbol: float
    rate: float
    basic: float

    def duration(self, frames: int, packet: int) -> float:
        """Return how long packets of so many bytes each are on the air as one transmission, s."""
        size = frames * subframe(packet) if frames > 1 else packet + HEADERS
        return self.preamble + self.symbol * _symbols(size, self.rate * self.symbol)

    def control(self, size: int) -> float:
        """Return how long a control frame of so many bytes is on the air, s."""
        return LEGACY + SYMBOL * _symbols(size, self.basic * SYMBOL)

    def answer(self, frames: int) -> float:
        """Return how long the acknowledgement of a transmission is on the air, s."""
        return self.control(BLOCK_ACK if frames > 1 else ACK)

    def exchange(self, frames: int, packet: int) -> float:
        """Return how long the channel is taken by a transmission that succeeds, s."""
        return self.duration(frames, packet) + SIFS + self.answer(frames) + AIFS

    @property
    def request(self) -> BlockRequest:
        """What a missing block acknowledgement is asked for with."""
        asked = self.control(BLOCK_ACK_REQUEST)
        return BlockRequest(asked + SIFS + self.control(BLOCK_ACK) + AIFS, asked + AIFS)


def _symbols(size: int, bits: float) -> int:
    """Return the symbols of some bytes at so many bits each."""
    return ceil((AROUND_DATA + 8 * size) / bits - 1e-9)  # a whole number, but for rounding


def subframe(packet: int) -> int:
    """Return the bytes of a packet's frame in an aggregate."""
    return 4 * -(-(DELIMITER + packet + HEADERS) // 4)


class Wifi(Spec):
    """Wi-Fi cells: clients that share the air with their access point, both ways.

    A client's radio has the rate of its modulation. A station with something to send contends for
    the channel (802.11's DCF with EDCA's best effort, 5 GHz), with the same chance of a turn as all
    others, and sends an aggregate of as many packets as one turn may have.
    """

    standard: Standard = Field(
        default="ax", description="802.11n, ac or ax, which decides preambles and symbols"
    )
    width: Hertz = as_written("20 MHz", "width of the channel: 20, 40, 80 or 160 MHz")
    streams: int = Field(default=1, ge=1, le=8, description="spatial streams per transmission")
    transport: Literal["tcp", "udp"] = Field(
        default="tcp",
        description="tcp, whose acknowledgements contend for the channel, too; or udp",
    )
    connections: Literal["new", "kept"] = Field(
        default="new",
        description=(
            "TCP connections: new, one per message, with a handshake; or kept, one for all messages"
        ),
    )
    aggregate: Bytes = as_written("65535 B", "the largest aggregate of frames (A-MPDU)")
    cells: int | None = Field(
        default=None,
        ge=1,
        description=(
            "number of cells, on separate channels, filled with clients in their order;"
            " null: one, or one per gateway"
        ),
    )

    @model_validator(mode="after")
    def _width_of_standard(self) -> Self:
        widths = SUBCARRIERS[self.standard]
        if self.width not in widths:
            known = ", ".join(f"{width / 1e6:g}" for width in widths)
            text = f'got "{self.width / 1e6:g} MHz"; 802.11{self.standard} has {known} MHz'
            raise failure(("width", text, self.width))
        return self

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield what it is."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """The clients of a cell share its air."""
        return Nature(shares="what a message takes of the air depends on what else is sent")

    @property
    def headers(self) -> int:
        """The bytes of IP and transport in a packet, where the radio has no framing."""
        return 52 if self.transport == "tcp" else 28

    @property
    def fastest(self) -> float:
        """The highest rate that a radio can have, bit/s: with a guard interval of 400 ns."""
        rate = modulation_rate(self.standard, HIGHEST[self.standard], self.width, self.streams)
        return rate if self.standard == "ax" else rate * 4.0 / 3.6

    def packaging(self, own: Framing) -> Framing:
        """Return how messages are cut into packets.

        Args:
            own: the radio's, which is taken where it states headers.
        """
        return own if own.overhead else framing(self.headers, own.packet)

    def timing(self, rate: float) -> FrameTiming:
        """Return how frames of a radio of this rate, bit/s, are timed."""
        preamble, training, symbol = PREAMBLES[self.standard]
        widths = SUBCARRIERS[self.standard]
        narrow = rate * widths[20e6] / widths[self.width] / self.streams
        basic = [rate for rate in BASIC if rate <= narrow * (1.0 + 1e-9)]
        whole = preamble + training * TRAINING[self.streams - 1]
        return FrameTiming(whole, symbol, rate, max(basic, default=BASIC[0]))

    def most_frames(self, timing: FrameTiming, packet: int) -> int:
        """Return how many packets of so many bytes one transmission can have."""
        return _most_frames(timing, packet, int(self.aggregate))


@lru_cache
def _most_frames(timing: FrameTiming, packet: int, aggregate: int) -> int:
    most = max(min(BLOCK, aggregate // subframe(packet)), 1)
    while most > 1 and timing.duration(most, packet) > LONGEST:
        most -= 1
    return most
