"""Wi-Fi cells: the block, and the time of frames on the air.

Times are those of IEEE Std 802.11-2020, and for ax those of IEEE Std 802.11ax-2021 (clauses below),
in the band of 5 GHz, for the access category best effort. The rate of a radio is that of its
modulation. Headers of frames, preambles, gaps, acknowledgements and contention are added to its
packets.
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
"""The time of an empty slot, s (17.4.4, table 17-21)."""

SIFS = 16e-6
"""The time between a frame and its response, s (17.4.4, table 17-21)."""

AIFS = SIFS + 3 * SLOT
"""The time before a backoff, s: best effort waits 3 slots after SIFS (9.4.2.28, table 9-155)."""

BACKOFF = Backoff(window=16, stages=6)
"""The backoff windows: CWmin 15 and CWmax 1023 (17.4.4, table 17-21)."""

LEGACY = 20e-6
"""The OFDM preamble and SIGNAL field, with which all frames begin, s (17.3.2)."""

SYMBOL = 4e-6
"""A symbol of OFDM, HT and VHT with a guard interval of 800 ns, s (17.3.2.4, 19.3.6, 21.3.6)."""

HE_SYMBOL = 13.6e-6
"""A symbol of HE with a guard interval of 800 ns, s (802.11ax-2021, 27.3.9)."""

BASIC = (6e6, 12e6, 24e6)
"""The rates of responses, bit/s: the mandatory ones of OFDM (17.3.2.2, 10.6.6.5)."""

AROUND_DATA = 22
"""The number of SERVICE and tail bits around a frame's data (17.3.5.3, 17.3.5.4)."""

HEADERS = 26 + 8 + 4
"""The bytes around a packet: the header of QoS Data, LLC with SNAP, and FCS (9.3.2.1)."""

DELIMITER = 4
"""The bytes before each frame of an aggregate, which starts at a multiple of 4 bytes (9.7.1)."""

ACK, BLOCK_ACK, BLOCK_ACK_REQUEST = 14, 32, 24
"""The bytes of control frames: Ack (9.3.1.4), compressed BlockAck (9.3.1.8), request (9.3.1.7)."""

BLOCK = 64
"""The most frames per block acknowledgement (9.3.1.8.2)."""

LONGEST = 5.484e-3
"""The longest transmission, s: aPPDUMaxTime (19.4.4, 21.4.4; 802.11ax-2021, 27.4.4)."""

TRAINING = (1, 2, 4, 4, 6, 6, 8, 8)
"""The number of training fields, by the number of streams (19.3.9.4.6, 21.3.8.3.5; 802.11ax-2021,
27.3.11.10)."""

PREAMBLES: dict[Standard, tuple[float, float, float]] = {
    "n": (32e-6, 4e-6, SYMBOL),
    "ac": (36e-6, 4e-6, SYMBOL),
    "ax": (36e-6, 8e-6, HE_SYMBOL),
}
"""For each standard: the preamble without training fields, one training field, and a symbol, s
(19.3.2, 21.3.2; 802.11ax-2021, 27.3.4, a field of 6.4 us with a guard of 1.6 us)."""

SUBCARRIERS: dict[Standard, dict[float, int]] = {
    "n": {20e6: 52, 40e6: 108},
    "ac": {20e6: 52, 40e6: 108, 80e6: 234, 160e6: 468},
    "ax": {20e6: 234, 40e6: 468, 80e6: 980, 160e6: 1960},
}
"""The number of data subcarriers, by standard and width in Hz (19.3.6, 21.3.6; ax: 27.3.9)."""

MODULATIONS = (
    *((1, 1 / 2), (2, 1 / 2), (2, 3 / 4), (4, 1 / 2), (4, 3 / 4), (6, 2 / 3), (6, 3 / 4)),
    *((6, 5 / 6), (8, 3 / 4), (8, 5 / 6), (10, 3 / 4), (10, 5 / 6)),
)
"""The bits per subcarrier and the code rate, by MCS (19.5, 21.5; 802.11ax-2021, 27.5)."""

HIGHEST: dict[Standard, int] = {"n": 7, "ac": 9, "ax": 11}
"""The highest MCS for one stream; higher numbers of n are the same with more streams."""


def modulation_rate(standard: Standard, mcs: int, width: float = 20e6, streams: int = 1) -> float:
    """Return the rate of a modulation with a guard interval of 800 ns, bit/s.

    >>> round(modulation_rate("n", 7)), round(modulation_rate("ax", 11, 80e6, 2))
    (65000000, 1200980392)

    Args:
        standard: n, ac or ax.
        mcs: the number of the modulation and coding scheme.
        width: the width of the channel, Hz.
        streams: the number of spatial streams.
    """
    bits, code = MODULATIONS[mcs]
    return SUBCARRIERS[standard][width] * bits * code * streams / PREAMBLES[standard][2]


class FrameTiming(NamedTuple):
    """The timing of frames at one rate.

    Attributes:
        preamble: the length of the preamble, s.
        symbol: the length of a symbol, s.
        rate: the rate of data, bit/s.
        basic: the rate of responses, bit/s.
    """

    preamble: float
    symbol: float
    rate: float
    basic: float

    def duration(self, frames: int, packet: int) -> float:
        """Return the time on the air of `frames` packets of `packet` bytes, sent together, s."""
        # A single frame has neither the delimiter nor the padding of an aggregate.
        size = frames * subframe(packet) if frames > 1 else packet + HEADERS
        return self.preamble + self.symbol * _symbols(size, self.rate * self.symbol)

    def control(self, size: int) -> float:
        """Return the time of a control frame of `size` bytes on the air, s."""
        return LEGACY + SYMBOL * _symbols(size, self.basic * SYMBOL)

    def answer(self, frames: int) -> float:
        """Return the time of the acknowledgement of a transmission on the air, s."""
        return self.control(BLOCK_ACK if frames > 1 else ACK)

    def exchange(self, frames: int, packet: int) -> float:
        """Return the channel time of a successful transmission, s."""
        return self.duration(frames, packet) + SIFS + self.answer(frames) + AIFS

    @property
    def request(self) -> BlockRequest:
        """The request for a missing block acknowledgement."""
        asked = self.control(BLOCK_ACK_REQUEST)
        return BlockRequest(asked + SIFS + self.control(BLOCK_ACK) + AIFS, asked + AIFS)


def _symbols(size: int, bits: float) -> int:
    """Return the number of symbols of `bits` bits each for a frame of `size` bytes."""
    return ceil((AROUND_DATA + 8 * size) / bits - 1e-9)  # tolerates rounding of an exact quotient


def subframe(packet: int) -> int:
    """Return the bytes of a packet of `packet` bytes in an aggregate."""
    return 4 * -(-(DELIMITER + packet + HEADERS) // 4)


class Wifi(Spec):
    """Wi-Fi cells: clients that share the air with their access point, in both directions.

    The rate of a client's radio is that of its modulation. A station with something to send
    contends for the channel (802.11's DCF with EDCA's best effort, 5 GHz). It has the same chance
    of a turn as all others. In its turn it sends an aggregate of as many packets as allowed.
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
        """Yield that messages share the air."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """The nature of a cell: its clients slow each other down."""
        return Nature(shares="what a message takes of the air depends on what else is sent")

    @property
    def headers(self) -> int:
        """The bytes of IP and transport headers per packet, if the radio has no framing."""
        return 52 if self.transport == "tcp" else 28

    @property
    def fastest(self) -> float:
        """The highest rate of a radio, bit/s; for n and ac with a guard interval of 400 ns."""
        rate = modulation_rate(self.standard, HIGHEST[self.standard], self.width, self.streams)
        return rate if self.standard == "ax" else rate * 4.0 / 3.6

    def packaging(self, own: Framing) -> Framing:
        """Return how messages are divided into packets.

        Args:
            own: the framing of the radio, which is used if it has headers.
        """
        return own if own.overhead else framing(self.headers, own.packet)

    def timing(self, rate: float) -> FrameTiming:
        """Return the timing of the frames of a radio with a given rate, bit/s."""
        preamble, training, symbol = PREAMBLES[self.standard]
        widths = SUBCARRIERS[self.standard]
        # A response takes one 20 MHz stream, at a basic rate that is not above that of its data.
        narrow = rate * widths[20e6] / widths[self.width] / self.streams
        basic = [rate for rate in BASIC if rate <= narrow * (1.0 + 1e-9)]
        whole = preamble + training * TRAINING[self.streams - 1]
        return FrameTiming(whole, symbol, rate, max(basic, default=BASIC[0]))

    def most_frames(self, timing: FrameTiming, packet: int) -> int:
        """Return the most packets of `packet` bytes that one transmission can have."""
        return _most_frames(timing, packet, int(self.aggregate))


@lru_cache
def _most_frames(timing: FrameTiming, packet: int, aggregate: int) -> int:
    most = max(min(BLOCK, aggregate // subframe(packet)), 1)
    # Airtime grows with the number of frames, so the first number that fits is the largest.
    while most > 1 and timing.duration(most, packet) > LONGEST:
        most -= 1
    return most
