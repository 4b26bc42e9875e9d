"""LTE and 5G with the states of their connection: inactivity, short and long DRX, inactive, idle.

After its last bit a device listens for a while (`inactivity`). Then it listens only at the start of
every `short_cycle`, for `short_time`, and after that of every `long_cycle` (connected discontinuous
reception, C-DRX). The network releases it `connected` after the last bit. In 5G a network may
suspend the connection instead: the device is in RRC inactive for `inactive`, where it is paged as
in idle, and resumes faster. Finally it is idle, and paged every `paging_cycle`. These are the
states of Huang et al., "A Close Examination of Performance and Power Characteristics of 4G LTE
Networks", MobiSys 2012, section 2, and of 3GPP TS 36.321, section 5.7, and TS 38.331, section 4.2.

A message up wakes the radio at once. A message down waits in the network until the device listens.
Periodic listening is charged as its mean power.
"""

from collections.abc import Mapping
from math import inf
from typing import ClassVar, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.presets import Preset, Presettable
from fedsim.core.blocks.quantities import JoulesPerBit, Rate, Seconds, Watts
from fedsim.core.blocks.spec import as_written
from fedsim.physics.radios.base import (
    NO_DRAW,
    Draw,
    PacketRadio,
    check_listening,
    mean_power,
)
from fedsim.physics.radios.linear import rate_laws, traces_of
from fedsim.physics.radios.presets import CELLULAR
from fedsim.physics.radios.rates import Rates
from fedsim.physics.radios.stages import RadioStage, States
from fedsim.physics.radios.traces import AnyTrace, Trace
from fedsim.physics.signals import Signal


class StagedRadio(Presettable, PacketRadio):
    """An LTE or 5G radio: linear power, and the stages inactivity, C-DRX, RRC inactive and idle.

    While bits flow it draws `base + energy_up * up + energy_down * down`. The power of a state is
    the whole power of the radio in it, and never less than its mean idle power.
    """

    presets: ClassVar[Mapping[str, Preset]] = CELLULAR
    customs: ClassVar[tuple[str, ...]] = ()

    kind: str = Field(description="the preset to start from")
    up: Rate = Field(description="rate from the client to the server")
    down: Rate = Field(description="rate from the server to the client")
    energy_up: JoulesPerBit = Field(description="energy per bit sent")
    energy_down: JoulesPerBit = Field(description="energy per bit received")
    base: Watts = Field(description="power while a message is in progress, or may follow at once")
    monitor: Watts = Field(description="power while it listens at the start of a C-DRX cycle")
    doze: Watts = Field(description="power during the rest of a C-DRX cycle")
    inactivity: Seconds = Field(description="how long it listens after the last bit")
    short_cycle: Seconds = as_written("0 s", "short DRX: how often it listens after `inactivity`")
    short_time: Seconds = as_written("0 s", 'duration of short DRX; "0 s": none')
    long_cycle: Seconds = Field(
        description='long DRX: how often it listens after short DRX; "0 s": always'
    )
    drx_on: Seconds = Field(description="how long it listens in each short or long DRX cycle")
    connected: Seconds = Field(
        description="time from the last bit until the connection is released"
    )
    inactive: Seconds = as_written("0 s", "time in RRC inactive after that, in 5G")
    inactive_cycle: Seconds = as_written("1.28 s", "how often it is paged in RRC inactive")
    resume_time: Seconds = as_written("0 s", "how long resuming from RRC inactive takes")
    resume_power: Watts = as_written("0 W", "power while resuming")
    paging: Watts = Field(description="power while it listens for paging")
    paging_cycle: Seconds = Field(description='how often it is paged while idle; "0 s": always')
    paging_on: Seconds = Field(description="how long it listens for each paging")
    promotion_time: Seconds = Field(description="how long connecting from idle takes")
    promotion_power: Watts = Field(description="power while connecting")
    up_trace: AnyTrace = as_written(None, "rate over time from a file, in place of up")
    down_trace: AnyTrace = as_written(None, "rate over time from a file, in place of down")

    @property
    def cellular(self) -> bool:
        """True."""
        return True

    @property
    def states(self) -> States:
        """Inactivity; short DRX, long DRX and RRC inactive if they last for some time; idle."""
        # The connection may be released before the inactivity timer or short DRX ends.
        listens = min(self.inactivity, self.connected)
        short = min(self.short_time, self.connected - listens)
        long = self.connected - listens - short
        stages = [RadioStage(self._beyond(self.base), listens, name="inactivity")]
        for name, time, cycle in (
            ("short-drx", short, self.short_cycle),
            ("long-drx", long, self.long_cycle),
        ):
            power = mean_power(self.monitor, self.doze, self.drx_on, cycle)
            if time > 0:
                stages.append(RadioStage(self._beyond(power), time, cycle, name=name))
        if self.inactive:
            power = mean_power(self.paging, self.idle, self.paging_on, self.inactive_cycle)
            waking = (self.resume_time, self._beyond(self.resume_power))
            stages.append(
                RadioStage(
                    self._beyond(power), self.inactive, self.inactive_cycle, *waking, "inactive"
                )
            )
        waking = (self.promotion_time, self._beyond(self.promotion_power))
        # Powers are relative to `resting`, the mean power of this last stage.
        return States((*stages, RadioStage(0.0, inf, self.paging_cycle, *waking)))

    @property
    def resting(self) -> float:
        """The mean power of idle, with its paging, W."""
        return mean_power(self.paging, self.idle, self.paging_on, self.paging_cycle)

    @property
    def draw(self) -> Draw:
        """The power while bits flow, in addition to the power at rest."""
        powers = {"base": self._beyond(self.base)}
        bits = {"energy_up": self.energy_up, "energy_down": self.energy_down}
        return NO_DRAW.model_copy(update={**powers, **bits})

    @property
    def traces(self) -> Mapping[str, Trace]:
        """The traces that its rates follow, by their keys in the block."""
        return traces_of(self.up_trace, self.down_trace)

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        """Return the two rates, or the traces that replace them."""
        return rate_laws(self.up, self.down, signals)

    def _beyond(self, power: float) -> float:
        return max(power - self.resting, 0.0)

    @model_validator(mode="after")
    def _listens_no_longer_than_its_cycle(self) -> Self:
        check_listening(self, "drx_on", "long_cycle")
        if self.short_time > 0:
            check_listening(self, "drx_on", "short_cycle")
        check_listening(self, "paging_on", "paging_cycle")
        if self.inactive > 0:
            check_listening(self, "paging_on", "inactive_cycle")
        return self
