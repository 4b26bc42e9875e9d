"""A relay: one client that forwards messages of others, and the cost of forwarding."""

from collections.abc import Callable

from fedsim.core.ports import ClientId
from fedsim.physics.radios import Carrier, RateLaw
from fedsim.physics.radios.rates import over
from fedsim.sim.power.radio import RadioMeter


class Relay:
    """The relay of one client.

    Args:
        client: the number of the client.
        radio: the radio of the client; it drains the client's battery, if any.
        rates: the rate laws of its two directions, up and down.
        carriers: the carriers of its two directions.
        is_present: returns whether the client is on and online.

    Attributes:
        client, radio, is_present: see above.
    """

    def __init__(
        self,
        client: ClientId,
        radio: RadioMeter,
        rates: tuple[RateLaw, RateLaw],
        carriers: tuple[Carrier, Carrier],
        is_present: Callable[[], bool],
    ) -> None:
        self.client = client
        self.radio = radio
        self.is_present = is_present
        self._rates = rates
        self._carriers = carriers

    def frame_bits(self, bits: int) -> int:
        """Return the bits of a message with the framing of this relay's radio."""
        return bits + self.radio.law.packaging.bits(bits)

    def joules(self, bits: int, again: int, round_number: int) -> float:
        """Return the energy of receiving and forwarding a message, J.

        Args:
            bits: the bits of the message, including its header.
            again: the retransmitted bits of the message.
            round_number: the round of the message.
        """
        draw, framed = self.radio.law.draw, self.frame_bits(bits) + again
        joules = (draw.energy_up + draw.energy_down) * framed
        powers = draw.send, draw.receive
        for law, carrier, watts in zip(self._rates, self._carriers, powers, strict=True):
            # The terms are those of the message in this relay's framing, without retransmitted
            # bits, which go at the same rate.
            cap, share, _ = carrier.terms(bits, self.frame_bits(bits), round_number)
            # The energy is not integrated along a trace: its long-run mean stands for it.
            rate = cap if law.signal is None else law.average
            joules += (draw.base + watts * share) * over(rate, framed)
        return joules
