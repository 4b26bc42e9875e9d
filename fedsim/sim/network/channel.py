"""Channels: what the messages of one direction of one client's radio meet on their way.

A channel is one law for both forms of a round: a lane, which is one, asks it as the bits of a
message begin to flow; in arrays it is asked for one message of each client in turn.
"""

from typing import NamedTuple

from fedsim.physics.packet_loss import LossProcess, repeat
from fedsim.physics.radios import Carrier, RateLaw, Terms
from fedsim.physics.radios.base import Framing
from fedsim.physics.signals import Signal


class Transmission(NamedTuple):
    """How a message is sent.

    Attributes:
        terms: its terms.
        again: the bits that are sent again, since packets were lost.
        lost: whether a packet is lost for good, so that the message does not arrive.
    """

    terms: Terms
    again: int = 0
    lost: bool = False


def steady_end(begin: float, bits: float, rate: float) -> float:
    """Return when bits have passed at a constant rate, s.

    >>> steady_end(2.0, 10.0, 5.0), steady_end(2.0, 0.0, 0.0)
    (4.0, 2.0)
    """
    return begin + bits / rate if bits else begin


class Channel:
    """The rate and the losses of one direction of one client's radio.

    Args:
        rate: its law.
        carrier: the client's own, of that law.
        process: its losses; None for none.
        packets: how messages are cut up.
        tries: the largest number of transmissions of a packet; None for no limit.
        factor: what the model of the network leaves of the radio's rate.

    Attributes:
        cap: the rate of every message where it is always the same, else None.
        signal: what the rate follows while bits flow; None where it stays.
        carrier, process, packets, tries, factor: see the arguments.
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
        # By its contract, a law that is constant and continuous has these terms for every message.
        constant = self.cap is not None and rate.continuous
        self._terms = Terms(self.cap or 0.0) if constant else None

    def send(self, bits: int, framing: int, number: int) -> Transmission:
        """Return how a message is sent whose bits begin to flow; the channel's next one.

        Args:
            bits: of the message, its header included.
            framing: the bits of its packets' headers.
            number: of its round.
        """
        again, lost = 0, False
        # A message without a bit cannot be lost.
        if self.process is not None and (packets := self.packets.packets(bits)):
            outcome = repeat(self.process, packets, self.tries)
            # Which of its packets were repeated is not drawn: they count with the mean size.
            again = -(-(bits + framing) * outcome.repeated // packets)
            lost = outcome.lost > 0
        return Transmission(
            self._terms or self.carrier.terms(bits, bits + framing, number), again, lost
        )

    def airtime(self, terms: Terms) -> float:
        """Return how long a bit is on the air on these terms, s."""
        own = terms.cap * self.factor
        return terms.share / own if own else 0.0

    def end(self, begin: float, bits: float, cap: float) -> float:
        """Return when the last bit has passed where nothing but the radio limits it, s.

        Args:
            begin: when the first one begins to flow, s.
            bits: how many.
            cap: of the message's terms, bit/s.
        """
        if self.signal is not None:
            return self.signal.when(begin, bits)
        return steady_end(begin, bits, cap)
