"""Channels: what distance, noise and fading leave of a radio signal."""

from dataclasses import dataclass, field
from math import log, log1p, log2

import numpy as np

_FAINT = 1e-6
"""A signal-to-noise ratio below which its logarithm is computed as that of little more than 1."""


@dataclass(frozen=True, slots=True)
class Shannon:
    """A link at the Shannon limit: rate = alpha B log2(1 + p g h / (N0 B)), capped.

    The path loss of 128.1 + 37.6 log10(d/km) dB and a shadowing of 8 dB are the macro cell
    of 3GPP TR 36.814, annex A, as in Yang et al., "Energy Efficient Federated Learning Over
    Wireless Communication Networks", IEEE Trans. Wireless Comm. 2021. The cap is that of the
    attenuated and truncated form of 3GPP TR 36.942, annex A, for LTE: 4.4 bit/s/Hz with
    alpha = 0.6 down, 2.0 bit/s/Hz with alpha = 0.4 up.

    Attributes:
        bandwidth: B, Hz.
        power: p, transmitted, W.
        distance: d, m.
        shadowing_db: standard deviation of the lognormal shadowing, dB.
        noise_dbm_hz: N0, dBm/Hz.
        efficiency_cap: the rate is at most so many bit/s per Hz.
        attenuation: alpha, what a real modem has of the Shannon limit.
    """

    bandwidth: float
    power: float
    distance: float
    shadowing_db: float = 8.0
    noise_dbm_hz: float = -174.0
    efficiency_cap: float = 4.4
    attenuation: float = 1.0

    def __post_init__(self) -> None:
        for name in ("bandwidth", "power", "distance", "efficiency_cap", "attenuation"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is above 0; seen {getattr(self, name)}")
        if not self.shadowing_db >= 0:
            raise ValueError(f"shadowing_db is at least 0; seen {self.shadowing_db}")

    @property
    def path_loss_db(self) -> float:
        """The mean loss over the distance, dB."""
        return 128.1 + 37.6 * float(np.log10(self.distance / 1000))

    @property
    def peak(self) -> float:
        """The fastest that the link can be, bit/s."""
        return self.efficiency_cap * self.bandwidth

    def gain(self, shadow_db: float = 0.0) -> float:
        """Return g, received over transmitted power, behind a shadow of so many dB."""
        return float(10 ** (-(self.path_loss_db + shadow_db) / 10))

    def mean_snr(self, shadow_db: float = 0.0) -> float:
        """Return p g / (N0 B), the signal-to-noise ratio without fading."""
        noise = 10 ** (self.noise_dbm_hz / 10) * 1e-3 * self.bandwidth
        return float(self.power * self.gain(shadow_db) / noise)

    def rate(self, h: float, shadow_db: float = 0.0) -> float:
        """Return the rate under a fading power gain of h, bit/s."""
        snr = self.mean_snr(shadow_db) * h
        # Where 1 + snr has few digits of the latter, or none, there is a rate all the same.
        efficiency = self.attenuation * (log2(1 + snr) if snr > _FAINT else log1p(snr) / log(2))
        return min(efficiency, self.efficiency_cap) * self.bandwidth

    def drawn(self, rng: np.random.Generator) -> "Fading":
        """Return the channel of one client: its shadow is drawn now, once."""
        return Fading(self, float(rng.normal(0.0, self.shadowing_db)), rng)


@dataclass(slots=True)
class Fading:
    """The channel of one client under Rayleigh block fading: a power gain h ~ Exp(1) a round.

    The gain of a round is the same whichever rounds before it were asked for.

    Attributes:
        link: the law.
        shadow_db: the loss that this client has beyond its path loss, dB.
    """

    link: Shannon
    shadow_db: float
    _rng: np.random.Generator
    _round: int = field(init=False, default=-1)
    _rate: float = field(init=False, default=0.0)

    def rate(self, round_number: int) -> float:
        """Return the rate in a round, bit/s.

        Raises:
            ValueError: the round is before one that was asked for, or below 0: its gain is
                not kept.
        """
        ahead = round_number - self._round
        if ahead < 0 or round_number < 0:
            raise ValueError(f"round {round_number} after round {self._round}: rounds never fall")
        if ahead:
            gain = float(self._rng.standard_exponential(ahead)[-1])
            self._round, self._rate = round_number, self.link.rate(gain, self.shadow_db)
        return self._rate


def first_order(
    distance: float, electronics: float = 50e-9, amplifier: float = 100e-12
) -> tuple[float, float]:
    """Return the energy of a bit, sent and received, J: the first-order radio model.

    E_tx(k, d) = k E_elec + k eps d^2 and E_rx(k) = k E_elec: Heinzelman, Chandrakasan,
    Balakrishnan, "Energy-Efficient Communication Protocol for Wireless Microsensor
    Networks", HICSS 2000, equations 1 and 2.

    Args:
        distance: d, m.
        electronics: E_elec, J/bit.
        amplifier: eps, J/bit/m^2.
    """
    return electronics + amplifier * distance**2, electronics
