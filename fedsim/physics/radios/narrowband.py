"""NB-IoT: connected, connected DRX, paged in idle, and asleep in PSM.

After its last bit a device listens for a while (`listen`), and then only at the start of every
`drx_cycle` (C-DRX). It is released `connected` after the last bit. In idle it is paged every
`paging_cycle` (DRX, or eDRX if that is long): for ever or, with a `tau`, for `paged` (T3324). Then
it sleeps in PSM, and wakes every `tau` (T3412) to report its location. These are the states of
Andres-Maldonado, Lauridsen, Ameigeiras, Lopez-Soler, "Analytical Modeling and Experimental
Validation of NB-IoT Device Energy Consumption", IEEE IoT Journal 6(3), 2019, doi
10.1109/JIOT.2019.2904802, and of Sorensen et al., "Modelling and Experimental Validation for
Battery Lifetime Estimation in NB-IoT and LTE-M", IEEE IoT Journal, 2022, doi
10.1109/JIOT.2022.3152173; without losses, collisions and the steps of a procedure.

A message up resumes the connection from idle. From PSM the device first has to synchronise with its
cell. A message down waits in the network until the device listens: for at most `drx_cycle` when
connected, `paging_cycle` in idle, and `tau` in PSM.

Periodic listening such as paging is charged as its mean power. If PSM cuts off a paging, the
message waits for the next update. Two effects are not modelled: what an update cuts off, and that
the network may send a waiting message as soon as the device sends one.
"""

from collections.abc import Mapping
from math import inf
from typing import ClassVar, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.presets import Preset, Presettable
from fedsim.core.blocks.quantities import Hours, Rate, Seconds, Watts
from fedsim.core.blocks.spec import Given, Keys, as_written
from fedsim.core.text import quantity
from fedsim.physics.radios.base import (
    NO_DRAW,
    Draw,
    PacketRadio,
    check_listening,
    mean_power,
)
from fedsim.physics.radios.coverage import Coverage, supply_watts
from fedsim.physics.radios.presets import NB_IOT
from fedsim.physics.radios.rates import ConstantRate, Rates
from fedsim.physics.radios.stages import RadioStage, States
from fedsim.physics.signals import Signal

LONG_SLEEP = 60.0
"""From this on, a note says that messages wait for a radio that sleeps, s."""


class NarrowbandRadio(Presettable, PacketRadio):
    """An NB-IoT module: connected, C-DRX, paged (DRX or eDRX), PSM; with powers of states.

    The power of a state is the whole power of the module in it; `idle` is the power of sleep. No
    state draws less than the mean power of the last state. The module's `coverage` sets its
    repetitions, by which rates are divided, and its transmit power.
    """

    presets: ClassVar[Mapping[str, Preset]] = NB_IOT
    customs: ClassVar[tuple[str, ...]] = ()

    kind: str = Field(description="the preset to start from")
    up: Rate = Field(description="rate from the client to the server, without repetitions")
    down: Rate = Field(description="rate from the server to the client, without repetitions")
    repetitions: int = Field(
        default=1, ge=1, le=2048, description="transmissions of every message, by the coverage"
    )
    idle: Watts = Field(description="power while it sleeps, the lowest of all")
    send: Watts = Field(description="power while it sends")
    receive: Watts = Field(description="power while it receives or listens")
    doze: Watts = Field(description="power between listening periods, while connected")
    between: Watts = Field(description="power between listening periods, while idle")
    listen: Seconds = Field(description="how long it listens after the last bit")
    connected: Seconds = Field(
        description="time from the last bit until the connection is released"
    )
    drx_cycle: Seconds = Field(description='how often it listens while connected; "0 s": always')
    drx_on: Seconds = Field(description="how long it listens in each DRX cycle")
    paging_cycle: Seconds = Field(description='how often it is paged while idle; "0 s": always')
    paging_on: Seconds = Field(description="how long it listens for each paging")
    resume_time: Seconds = Field(description="how long resuming a connection takes")
    resume_power: Watts = Field(description="power while resuming")
    coverage: Given[Coverage | None, Coverage | Keys | None] = as_written(
        None,
        (
            "the module's coverage, which sets repetitions and power; null: repetitions as"
            " given, at full power"
        ),
    )
    paged: Seconds = as_written("0 s", "T3324: time in idle before PSM")
    tau: Hours = as_written("0 s", 'T3412: how often PSM ends by itself; "0 s": no PSM')
    sync_time: Seconds = as_written("0 s", "how long it synchronises with its cell after PSM")

    @property
    def states(self) -> States:
        """Listening, C-DRX, paging and PSM, as far as they last for some time."""
        listen = min(self.listen, self.connected)
        stages = [
            RadioStage(self._beyond(self.receive), listen, name="listening"),
            RadioStage(
                self._beyond(self._connected_power),
                self.connected - listen,
                self.drx_cycle,
                name="c-drx",
            ),
        ]
        resume, power = self._resume
        if self.tau:
            paging = self._beyond(self._paging_power)
            wake = (self.paging_cycle, resume, self._beyond(self.resume_power), "paging")
            stages.append(RadioStage(paging, self.paged, *wake))
        # A message to the module waits for it to listen: until PSM ends by itself, or until paging.
        cycle = self.tau or self.paging_cycle
        return States(
            (*stages, RadioStage(0.0, inf, cycle, resume + self._sync, self._beyond(power)))
        )

    @property
    def unreachable(self) -> tuple[str, str]:
        """The key of its sleep, `tau` or `paging_cycle`, and a sentence on it if it is long."""
        key, cycle = ("tau", self.tau) if self.tau else ("paging_cycle", self.paging_cycle)
        if cycle < LONG_SLEEP:
            return "", ""
        idle = quantity(self.connected + (self.paged if self.tau else 0.0), "s")
        text = f"got {quantity(cycle, 's')}: {idle} after its last message it falls asleep,"
        return key, f"{text} and a message to it then waits until it wakes, for up to this time"

    @property
    def resting(self) -> float:
        """The mean power of its last state, W: of PSM with its updates, or of paging."""
        if not self.tau:
            return self._paging_power
        time, power = self._resume
        busy = time + self._sync
        # The energy of an update and the paging after it is spread over the period of updates.
        joules = (power - self.idle) * busy + (self._paging_power - self.idle) * self.paged
        return self.idle + max(joules, 0.0) / self.tau

    @property
    def draw(self) -> Draw:
        """The powers of sending and receiving, in addition to that at rest."""
        send = self.send
        if (place := self.coverage) is not None:
            send = supply_watts(send, place.power, place.efficiency)
        powers = {"send": self._beyond(send), "receive": self._beyond(self.receive)}
        return NO_DRAW.model_copy(update=powers)

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        """Return the two rates, divided by the repetitions."""
        times = self.transmitted_times
        return Rates(ConstantRate(self.up / times), ConstantRate(self.down / times))

    @property
    def transmitted_times(self) -> int:
        """The number of transmissions of everything, the first one included."""
        return self.repetitions if self.coverage is None else self.coverage.repetitions

    @property
    def _connected_power(self) -> float:
        return mean_power(self.receive, self.doze, self.drx_on, self.drx_cycle)

    @property
    def _paging_power(self) -> float:
        return mean_power(self.receive, self.between, self.paging_on, self.paging_cycle)

    @property
    def _sync(self) -> float:
        return self.sync_time if self.tau else 0.0

    @property
    def _resume(self) -> tuple[float, float]:
        """The time of resuming, s, and the mean power of waking from the last state, W."""
        # Resuming is repeated like all messages; synchronising with the cell is not.
        time = self.resume_time * self.transmitted_times
        whole = time + self._sync
        joules = time * self.resume_power + self._sync * self.receive
        return time, joules / whole if whole else 0.0

    def _beyond(self, power: float) -> float:
        return max(power - self.resting, 0.0)

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit a missing coverage, so that older scenarios keep their bytes."""
        written: dict[str, object] = write(self)
        if self.coverage is None:
            written.pop("coverage", None)
        return written

    @model_validator(mode="after")
    def _repeats_by_one_rule(self) -> Self:
        if self.coverage is not None and self.repetitions > 1:
            text = f"got {self.repetitions} beside a coverage, which sets them; give one of both"
            raise failure(("repetitions", text, self.repetitions))
        return self

    @model_validator(mode="after")
    def _listens_no_longer_than_its_cycle(self) -> Self:
        check_listening(self, "drx_on", "drx_cycle")
        check_listening(self, "paging_on", "paging_cycle")
        least = self.paged + self._resume[0] + self._sync
        if 0 < self.tau < least:
            text = f'got "{self.tau:g} s", less than an update and paged, "{least:g} s"'
            raise failure(("tau", f'{text}; give that or more, or "0 s" for no PSM', self.tau))
        return self
