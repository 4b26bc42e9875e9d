"""Transmit power of a cellular uplink, and the coverage levels of NB-IoT.

- Open-loop power control: 3GPP TS 36.213, section 5.1.1.1 (LTE) and 16.2.1.1.1 (NB-IoT, where a
  device that repeats more than twice sends at its maximum, 23 dBm).
- Coverage levels: 3GPP TR 45.820 designs NB-IoT for coupling losses of up to 144 dB (that of GPRS),
  154 dB and 164 dB. Uplink repetitions are 1, 2, 4, ... 128: TS 36.213, table 16.5.1.1-3.
- The amplifier's efficiency of 45 %: TR 45.820, section 5.4.
"""

from math import ceil, log2, log10
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.quantities import Level, PathLossOrNone, Share
from fedsim.core.blocks.spec import Spec, as_written

MOST_POWER = 23.0
"""The maximum power of a device of power class 3, dBm."""

LEVELS = {"ce0": 144.0, "ce1": 154.0, "ce2": 164.0}
"""The largest coupling loss of each coverage level, dB."""

MOST_REPETITIONS = 128
_CONTROLLED = 2  # with more repetitions there is no power control


def open_loop(
    target: float, share: float, loss: float, blocks: float = 1.0, most: float = MOST_POWER
) -> float:
    """Return the transmit power of a device, dBm: min(Pmax, P0 + alpha PL + 10 log10 M).

    >>> open_loop(-105.0, 1.0, 100.0), open_loop(-105.0, 1.0, 140.0)
    (-5.0, 23.0)

    Args:
        target: P0, the power per resource block that the cell aims to receive, dBm.
        share: alpha, the share of the path loss that is compensated.
        loss: PL, the path loss, dB.
        blocks: M, the number of resource blocks.
        most: Pmax, the largest power, dBm.
    """
    return min(most, target + share * loss + 10 * log10(blocks))


def supply_watts(
    full: float, radiated: float, efficiency: float, most: float = MOST_POWER
) -> float:
    """Return the power that a radio draws while it sends, W; the amplifier's part varies.

    >>> round(supply_watts(0.792, 23.0, 0.45), 3), round(supply_watts(0.792, 10.0, 0.45), 3)
    (0.792, 0.371)

    Args:
        full: the power that the radio draws at its maximum, W.
        radiated: the radiated power, dBm.
        efficiency: the efficiency of the amplifier; the rest of the radio draws a constant power.
        most: the largest radiated power, dBm.
    """
    saved = (10 ** (most / 10) - 10 ** (radiated / 10)) * 1e-3 / efficiency
    return max(full - saved, 0.0)


class PowerControl(Spec):
    """Open-loop power control of an uplink: P = min(Pmax, P0 + alpha PL + 10 log10 M)."""

    target: Level = as_written(
        "-95 dBm", "P0: received power that the cell aims at, per resource block of 180 kHz"
    )
    compensation: Share = as_written(
        "80 %", "alpha: share of the path loss that a client compensates"
    )
    efficiency: Share = as_written(
        "45 %", ("efficiency of the power amplifier: radiating 1 W less saves 1/efficiency W")
    )


class Coverage(Spec):
    """The coverage of an NB-IoT module, which sets its repetitions and its transmit power.

    Every doubling of the repetitions compensates 10 log10 2 = 3.01 dB beyond the 144 dB of level
    CE0.
    """

    level: Annotated[
        Literal["ce0", "ce1", "ce2"] | None,
        Field(description="coverage level, at its edge: a coupling loss of 144, 154 or 164 dB"),
    ] = None
    coupling_loss: PathLossOrNone = as_written(
        None, "loss from the module to the cell, antennas included; in place of a level"
    )
    target: Level = as_written(
        "-105 dBm", "P0: received power that the cell aims at; TS 36.331 allows -126 to 24 dBm"
    )
    compensation: Share = as_written(
        "100 %", "alpha: share of the path loss that the module compensates"
    )
    efficiency: Share = as_written("45 %", "efficiency of the power amplifier")

    @property
    def loss(self) -> float:
        """The coupling loss, dB."""
        return LEVELS[self.level or "ce0"] if self.coupling_loss is None else self.coupling_loss

    @property
    def repetitions(self) -> int:
        """The number of repetitions: the lowest power of two that compensates the loss."""
        beyond = max(self.loss - LEVELS["ce0"], 0.0)
        # The small term keeps rounding from doubling the repetitions at an exact power of two.
        return min(int(2 ** ceil(log2(10 ** (beyond / 10)) - 1e-9)), MOST_REPETITIONS)

    @property
    def power(self) -> float:
        """The radiated power, dBm."""
        if self.repetitions > _CONTROLLED:
            return MOST_POWER
        return open_loop(self.target, self.compensation, self.loss)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.level is None) == (self.coupling_loss is None):
            seen = self.level or "neither"
            text = f"got {seen}; a place is given by its level or by its coupling_loss"
            raise failure(("level", text, self.level))
        most = LEVELS["ce2"]
        if self.loss > most:
            text = (
                f'got "{self.loss:g} dB", beyond what repetitions reach; give "{most:g} dB" or less'
            )
            raise failure(("coupling_loss", text, self.loss))
        return self
