"""Packets: how a message is cut up, and what that adds to it."""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Framing:
    """So many bytes of every packet are headers: "60 per 1500".

    >>> Framing(60, 1500).packets(8 * 1441), Framing(60, 1500).bits(8 * 1441)
    (2, 960)

    Attributes:
        overhead: bytes of each packet that are not the message's.
        packet: the longest packet, bytes, with the overhead.

    Raises:
        ValueError: the overhead is negative, or leaves no room for a message.
    """

    overhead: int
    packet: int

    def __post_init__(self) -> None:
        if not 0 <= self.overhead < self.packet:
            raise ValueError(
                f"the overhead is at least 0 and below the packet; got {self.overhead} of "
                f"{self.packet} bytes"
            )

    def packets(self, message: int) -> int:
        """Return how many packets a message of so many bits is cut into; none for no bits."""
        return -(-message // (8 * (self.packet - self.overhead)))

    def bits(self, message: int) -> int:
        """Return the bits that framing adds to a message of so many bits."""
        return 8 * self.overhead * self.packets(message)


@lru_cache
def framing(overhead: int, packet: int) -> Framing:
    """Return one framing for all who cut up messages alike; arguments as for `Framing`."""
    return Framing(overhead, packet)


NONE = Framing(0, 1500)
"""Packets of an Ethernet's length that have no headers."""
