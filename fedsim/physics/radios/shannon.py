"""Shannon's limit: the rate of a radio with path loss, noise and fading."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import log, log1p, log2
from typing import Literal

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from fedsim.core.blocks.quantities import (
    Decibels,
    Efficiency,
    Hertz,
    Metres,
    NoiseDensity,
    Power,
    Seconds,
    Share,
    Watts,
    WattsOrNone,
)
from fedsim.core.blocks.spec import Given, Keys, as_written
from fedsim.physics.radios.base import LATENCY, NO_DRAW, Draw, Listening, PacketRadio
from fedsim.physics.radios.coverage import PowerControl, open_loop, supply_watts
from fedsim.physics.radios.lorawan import dbm
from fedsim.physics.radios.rates import RateLaw, Rates, Terms, over
from fedsim.physics.signals import Signal

SHADOW = 2
"""The number of standard deviations of shadowing in the link that represents all others."""

_FAINT = 1e-6
"""Signal-to-noise ratios below this use a logarithm that is accurate close to 1."""


RESOURCE_BLOCK = 180e3
"""The bandwidth of a resource block of LTE, Hz."""


def path_loss_db(distance: float) -> float:
    """Return the mean path loss of a macro cell over a distance in metres, dB."""
    return 128.1 + 37.6 * float(np.log10(distance / 1000))


@dataclass(frozen=True, slots=True)
class Shannon(RateLaw):
    """A link at the Shannon limit: rate = alpha B log2(1 + p g h / (N0 B)), capped.

    The path loss of 128.1 + 37.6 log10(d/km) dB and a shadowing of 8 dB are those of the macro cell
    of 3GPP TR 36.814, annex A, as in Yang et al., "Energy Efficient Federated Learning Over
    Wireless Communication Networks", IEEE Trans. Wireless Comm. 2021. The cap is that of the
    attenuated and truncated form of 3GPP TR 36.942, annex A, for LTE: 4.4 bit/s/Hz with alpha = 0.6
    down, 2.0 bit/s/Hz with alpha = 0.4 up.

    Attributes:
        bandwidth: B, Hz.
        power: p, the transmitted power, W.
        distance: d, m.
        shadowing_db: the standard deviation of the lognormal shadowing, dB.
        noise_dbm_hz: N0, dBm/Hz.
        efficiency_cap: the largest spectral efficiency, bit/s/Hz.
        attenuation: alpha, the share of the Shannon limit that a real modem reaches.
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
                raise ValueError(f"{name} is above 0; got {getattr(self, name)}")
        if not self.shadowing_db >= 0:
            raise ValueError(f"shadowing_db is at least 0; got {self.shadowing_db}")

    @property
    def path_loss_db(self) -> float:
        """The mean path loss over the distance, dB."""
        return path_loss_db(self.distance)

    @property
    def peak(self) -> float:
        """The largest rate, bit/s."""
        return self.efficiency_cap * self.bandwidth

    def gain(self, shadow_db: float = 0.0) -> float:
        """Return g, the received over the transmitted power, with a shadowing loss in dB."""
        return float(10 ** (-(self.path_loss_db + shadow_db) / 10))

    def mean_snr(self, shadow_db: float = 0.0) -> float:
        """Return p g / (N0 B), the signal-to-noise ratio without fading."""
        noise = 10 ** (self.noise_dbm_hz / 10) * 1e-3 * self.bandwidth
        return float(self.power * self.gain(shadow_db) / noise)

    def rate(self, h: float, shadow_db: float = 0.0) -> float:
        """Return the rate under a fading power gain of h, bit/s."""
        snr = self.mean_snr(shadow_db) * h
        # For a tiny snr, 1 + snr loses its digits, or even equals 1; `log1p` keeps the rate above
        # 0.
        efficiency = self.attenuation * (log2(1 + snr) if snr > _FAINT else log1p(snr) / log(2))
        return min(efficiency, self.efficiency_cap) * self.bandwidth

    def seconds(self, bits: int, framed: int) -> float:
        """Return the duration of a message in a bad place, under the mean of the fading, s."""
        return over(self.rate(1.0, SHADOW * self.shadowing_db), framed)

    def draw_channel(self, rng: np.random.Generator) -> "Fading":
        """Return the channel of one client; its shadowing is drawn now, once."""
        return Fading(self, float(rng.normal(0.0, self.shadowing_db)), rng)

    def carrier(self, rng: Callable[[], np.random.Generator]) -> "Fading":
        """Return the channel of one client."""
        return self.draw_channel(rng())


@dataclass(slots=True)
class Fading:
    """The channel of one client under Rayleigh block fading: a power gain h ~ Exp(1) per round.

    The gain of a round does not depend on which earlier rounds were asked for.

    Attributes:
        link: the law.
        shadow_db: the client's loss in addition to its path loss, dB.
    """

    link: Shannon
    shadow_db: float
    _rng: np.random.Generator
    _round: int = field(init=False, default=-1)
    _rate: float = field(init=False, default=0.0)

    def rate(self, round_number: int) -> float:
        """Return the rate in a round, bit/s.

        Raises:
            ValueError: the round is below 0, or before the last one that was asked for: gains of
                earlier rounds are not stored.
        """
        ahead = round_number - self._round
        if ahead < 0 or round_number < 0:
            raise ValueError(f"round {round_number} after round {self._round}: rounds never fall")
        # One draw per round, also for skipped ones, so that a round's gain depends on its number
        # only.
        if ahead:
            gain = float(self._rng.standard_exponential(ahead)[-1])
            self._round, self._rate = round_number, self.link.rate(gain, self.shadow_db)
        return self._rate

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:
        """Return the terms of a message; the channel is drawn again in every round.

        Among peers, a message of an earlier round may follow one of a later round. It is sent over
        the current channel.
        """
        return Terms(self.rate(max(round_number, self._round)))


class ShannonRadio(Listening, PacketRadio):
    """A fading channel at Shannon's limit: rate = B log2(1 + p g h/(N0 B)).

    The path loss is 128.1 + 37.6 log10(d in km) dB. The shadowing is normal in dB and drawn once
    per client. The power gain h of Rayleigh fading is exponential with mean 1 and drawn once per
    round.
    """

    kind: Literal["shannon"] = Field(default="shannon", description="the limit of a fading channel")
    bandwidth: Hertz = Field(description="B, of each direction")
    power: Power = Field(description="p, radiated power of the client; with control, its highest")
    server_power: Power = Field(description="p, radiated power of the server")
    distance: Metres = Field(description="d, from the client to the server")
    shadowing: Decibels = as_written("8 dB", "standard deviation of the shadowing")
    noise: NoiseDensity = as_written("-174 dBm/Hz", "N0, the noise density")
    attenuation: Share = as_written("100 %", "share of the Shannon limit that a real modem reaches")
    most: Efficiency = as_written(
        "4.4 bit/s/Hz", "highest spectral efficiency of modulation and coding"
    )
    latency: Seconds = as_written("0 s", LATENCY)
    send: WattsOrNone = as_written(None, "power while it sends; null: the radiated power")
    receive: Watts = as_written("0 W", "power while it receives")
    control: Given[PowerControl | None, PowerControl | Keys | None] = as_written(
        None, "uplink power control by the mean path loss; null: p at any distance"
    )

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit a missing power control, so that older scenarios keep their bytes."""
        written: dict[str, object] = write(self)
        if self.control is None:
            written.pop("control", None)
        return written

    @property
    def cellular(self) -> bool:
        """True: it has the path loss of a macro cell."""
        return True

    @property
    def radiated(self) -> float:
        """The power that the client radiates, dBm."""
        most, law = dbm(self.power), self.control
        if law is None:
            return most
        loss, blocks = path_loss_db(self.distance), self.bandwidth / RESOURCE_BLOCK
        return open_loop(law.target, law.compensation, loss, blocks, most)

    @property
    def draw(self) -> Draw:
        """The powers of sending and receiving."""
        send, law = self.send, self.control
        if law is not None:
            # By default, the amplifier draws what it radiates over its efficiency.
            full = self.power / law.efficiency if send is None else send
            send = supply_watts(full, self.radiated, law.efficiency, dbm(self.power))
        elif send is None:
            send = self.power
        return NO_DRAW.model_copy(update={"send": send, "receive": self.receive})

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        """Return the two links, which differ in the transmitted power."""
        up = Shannon(
            bandwidth=self.bandwidth,
            power=self.power if self.control is None else 1e-3 * 10 ** (self.radiated / 10),
            distance=self.distance,
            shadowing_db=self.shadowing,
            noise_dbm_hz=self.noise,
            efficiency_cap=self.most,
            attenuation=self.attenuation,
        )
        return Rates(up, replace(up, power=self.server_power))
