"""A radio for tests, in SI units: any two rate laws, and what else radios have."""

from collections.abc import Mapping
from math import inf
from typing import Any, Literal

from fedsim.core.ports import Oracle
from fedsim.physics.availability import ALWAYS, PresenceLaw
from fedsim.physics.batteries import NO_POWER, Battery
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.packet_loss import NoLoss
from fedsim.physics.radios import (
    Connection,
    ConstantRate,
    Draw,
    RadioLaw,
    RateLaw,
    Rates,
    States,
    Traced,
)
from fedsim.physics.radios.channel import NONE, Framing
from fedsim.physics.signals import Signal
from fedsim.sim.members import ClientConfig
from tests.physics.batteries import source_of

Rate = float | Signal | RateLaw


class RadioModel(Draw, Connection, RadioLaw):
    """A radio of two rates, each a number in bit/s, a signal, or a law of its own.

    Its figures may be smaller than what a file can say.
    """

    kind: Literal["test"] = "test"
    up: Any = inf
    down: Any = inf
    latency: float = 0.0
    idle: float = 0.0
    energy_up: float = 0.0
    energy_down: float = 0.0
    base: float = 0.0
    send: float = 0.0
    receive: float = 0.0
    promotion_power: float = 0.0
    promotion_time: float = 0.0
    tail_power: float = 0.0
    tail_time: float = 0.0
    framing: Any = NONE
    loss: Any = NoLoss()
    tries: Any = None
    stages: Any = None

    def __init__(
        self,
        up: Rate = inf,
        down: Rate = inf,
        latency: float = 0.0,
        energy_up: float = 0.0,
        energy_down: float = 0.0,
        base: float = 0.0,
        **rest: Any,
    ) -> None:
        figures = {"latency": latency, "energy_up": energy_up, "energy_down": energy_down}
        given = {"up": up, "down": down, "base": base, **figures, **rest}
        if given.get("loss", "") is None:
            del given["loss"]
        self.__pydantic_validator__.validate_python(given, self_instance=self)

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        return Rates(law(self.up), law(self.down))

    @property
    def states(self) -> States:
        """Those of its tail and promotion, or the stages that it is given."""
        return self.connection.as_states if self.stages is None else States(self.stages)

    @property
    def packaging(self) -> Framing:
        framing: Framing = self.framing
        return framing

    @property
    def most_tries(self) -> int | None:
        tries: int | None = self.tries
        return tries


def connected(radio: RadioModel) -> float:
    """Return what a radio draws while a message is in progress, and nothing on the air, W."""
    waits = radio.states.stateful and (radio.send > 0 or radio.receive > 0)
    return max(radio.base, radio.states.stages[0].power) if waits else radio.base


def on_air(radio: RadioModel, power: float) -> float:
    """Return what it draws beyond that while it sends, or receives, at a further power, W."""
    return max(radio.base + power - connected(radio), 0.0)


def law(rate: Rate) -> RateLaw:
    """Return the law of a rate, whatever it is given as."""
    if isinstance(rate, RateLaw):
        return rate
    return ConstantRate(float(rate)) if isinstance(rate, int | float) else Traced(rate)


def peak(rate: Rate) -> float:
    return law(rate).peak


def client_of(
    device: DeviceLaw,
    radio: RadioLaw,
    oracle: Oracle,
    battery: Battery | None = None,
    availability: PresenceLaw = ALWAYS,
    group: int = 0,
) -> ClientConfig:
    """Return a member of a fleet whose radio follows no file."""
    source = NO_POWER if battery is None else source_of(battery)
    return ClientConfig(
        device, radio, radio.rates({}), oracle, battery, source, availability, group
    )
