"""Channels: the packets, the rate and the losses of one direction of a client's radio.

A channel is one law for both ways of simulating a round. Event by event, a lane (which is a
channel) calls it when the bits of a message begin to flow. In arrays, it is called for one message
of each client in turn.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.packet_loss import LossProcess, repeat
from fedsim.physics.radios.rates import Carrier, RateLaw, Terms
from fedsim.physics.signals import Signal

# Packets: the division of a message, and the headers that it adds.


Whole = TypeVar("Whole", int, NDArray[np.int64])


def packet_count(message: Whole, overhead: Whole, packet: Whole) -> Whole:
    """Return the number of packets of a message, or of each of several messages.

    Example:
        >>> packet_count(8 * 1441, 60, 1500)
        2

    Args:
        message: the bits of the message.
        overhead: the header bytes of each packet.
        packet: the largest packet, bytes, including the overhead.
    """
    return -(-message // (8 * (packet - overhead)))


def header_bits(message: Whole, overhead: Whole, packet: Whole) -> Whole:
    """Return the bits of the headers of these packets; arguments as for `packet_count`.

    Example:
        >>> header_bits(8 * 1441, 60, 1500)
        960
    """
    return 8 * overhead * packet_count(message, overhead, packet)


@dataclass(frozen=True, slots=True)
class Framing:
    """The headers of packets: `overhead` bytes of every packet of at most `packet` bytes.

    >>> Framing(60, 1500).packets(8 * 1441), Framing(60, 1500).bits(8 * 1441)
    (2, 960)

    Attributes:
        overhead: the header bytes of each packet.
        packet: the largest packet, bytes, including the overhead.

    Raises:
        ValueError: the overhead is negative, or leaves no room for a message.
    """

    overhead: int
    packet: int

    def __post_init__(self) -> None:
        if not 0 <= self.overhead < self.packet:
            raise ValueError(
                f"got an overhead of {self.overhead} of {self.packet} bytes; it must be at least 0"
                " and below the packet"
            )

    def packets(self, message: int) -> int:
        """Return the number of packets of a message, given in bits; 0 for no bits."""
        return packet_count(message, self.overhead, self.packet)

    def bits(self, message: int) -> int:
        """Return the bits of headers of a message, given in bits."""
        # `header_bits` in one expression, since this is called for every message.
        return 8 * self.overhead * -(-message // (8 * (self.packet - self.overhead)))


@lru_cache
def framing(overhead: int, packet: int) -> Framing:
    """Return a cached framing, shared by equal radios; arguments as for `Framing`."""
    return Framing(overhead, packet)


NONE = Framing(0, 1500)
"""Packets of Ethernet's length, without headers."""


# How a message is sent.


class Transmission(NamedTuple):
    """How a message is sent.

    Attributes:
        terms: the terms of the message.
        again: the number of bits that are retransmitted, since packets were lost.
        lost: whether a packet is lost for good, so that the message does not arrive.
    """

    terms: Terms
    again: int = 0
    lost: bool = False


def steady_end(begin: float, bits: float, rate: float) -> float:
    """Return the time at which bits have passed at a constant rate, s.

    >>> steady_end(2.0, 10.0, 5.0), steady_end(2.0, 0.0, 0.0)
    (4.0, 2.0)
    """
    return begin + bits / rate if bits else begin


class Channel:
    """The rate and the losses of one direction of one client's radio.

    Args:
        rate: the rate law.
        carrier: the client's own carrier under this law.
        process: the losses; None for none.
        packets: the division of messages into packets.
        tries: the largest number of transmissions of a packet; None for no limit.
        factor: the share of the radio's rate that the network model leaves.

    Attributes:
        cap: the rate of every message if it is constant, bit/s; otherwise None.
        signal: the signal that the rate follows while bits flow; None for a constant rate.
        carrier: see the arguments.
        process: see the arguments.
        packets: see the arguments.
        tries: see the arguments.
        factor: see the arguments.
    """

    __slots__ = ("_terms", "cap", "carrier", "factor", "packets", "process", "signal", "tries")

    def __init__(
        self,
        rate: RateLaw,
        carrier: Carrier,
        process: LossProcess | None,
        packets: Framing,
        tries: int | None = None,
        factor: float = 1.0,
    ) -> None:
        self.carrier = carrier
        self.process = process
        self.packets = packets
        self.tries = tries
        self.factor = factor
        self.cap = rate.constant
        self.signal: Signal | None = (
            rate.signal if factor == 1.0 else rate.with_factor(factor).signal
        )
        # By its contract, a law that is constant and continuous has the same terms for every
        # message.
        constant = self.cap is not None and rate.continuous
        self._terms = Terms(self.cap or 0.0) if constant else None

    def send(self, bits: int, framing: int, number: int) -> Transmission:
        """Return how the next message of the channel is sent, when its bits begin to flow.

        Args:
            bits: the bits of the message, its header included.
            framing: the bits of its packets' headers.
            number: the number of its round.
        """
        again, lost = 0, False
        # A message without a bit cannot be lost.
        if self.process is not None and (packets := self.packets.packets(bits)):
            outcome = repeat(self.process, packets, self.tries)
            # Which of the packets were repeated is not drawn; each counts with the mean size.
            again = -(-(bits + framing) * outcome.repeated // packets)
            lost = outcome.lost > 0
        return Transmission(
            self._terms or self.carrier.terms(bits, bits + framing, number), again, lost
        )

    def airtime(self, terms: Terms) -> float:
        """Return the time of a bit on the air under these terms, s."""
        cap = terms.cap * self.factor
        return terms.share / cap if cap else 0.0

    def end(self, begin: float, bits: float, cap: float) -> float:
        """Return the time at which the last bit has passed if only the radio limits it, s.

        Args:
            begin: the time at which the first bit begins to flow, s.
            bits: the number of bits.
            cap: the cap in the message's terms, bit/s.
        """
        if self.signal is not None:
            return self.signal.when(begin, bits)
        return steady_end(begin, bits, cap)
