"""Devices: blocks for clients' processors, with laws of the time and the power of work."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import OneOf, failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.presets import Citation, Preset, Presettable, names_of
from fedsim.core.blocks.quantities import (
    MAINS,
    HertzOrNone,
    Speed,
    SpeedOrNone,
    Stored,
    Watts,
    WattsOrNone,
)
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, KindFirst, as_written
from fedsim.physics.slowdowns import AnySlowdown
from fedsim.physics.sources import (
    AUTOFL_2021,
    CARROLL_2010,
    CLOUTIER_2016,
    ECODESIGN,
    FLASH_2021,
    JETSON,
    JETSON_FORUM,
    KAISER_2021,
    MLPERF_TINY,
    PI_5_2024,
    PRASHANTHI_2022,
    RASPBERRY_2022,
    SBC_REVIEWS,
    STM32,
    SUSONIC_2024,
    TOP500,
    TRAN_2019,
    YANG_2021,
    Figure,
    est,
    lit,
    meas,
    preset,
)

# Base class of devices: a block of a scenario, and the law of a client's processor.


class DeviceLaw(KindFirst):
    """A client's processor. A user-defined one is a subclass with its `kind` and the two laws.

    It draws `idle` power while it is on, and `working` power instead while it computes.
    """

    kind: str
    idle: Watts = as_written("0 W", "power while it does not compute")
    battery: Stored = as_written(MAINS, 'energy of the full battery; "mains" for none')
    slowdown: AnySlowdown = as_written(
        {"kind": "none"}, "a random factor on the time of every task (stragglers)"
    )

    @abstractmethod
    def seconds(self, operations: float, samples: float) -> float:
        """Return how long a task takes without its slowdown, s.

        Args:
            operations: floating-point operations of the task.
            samples: the number of samples of the task.
        """

    @abstractmethod
    def working(self) -> float:
        """Return the power that it draws while it computes, W, its idle power included."""

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that devices differ between clients, or that times are not proportional to work."""
        if self.varies:
            yield "", Nature(draws=f"each {self.kind} is another one")
        if self.constant is None and not self.in_proportion:
            yield "", Nature(varies=f"{self.kind} has no constant speed or frequency")

    @property
    def in_proportion(self) -> bool:
        """Whether a task's time is a sum of constants times its operations and its samples."""
        return False

    @property
    def constant(self) -> float | None:
        """The speed, flop/s, if a task takes operations / speed; otherwise None."""
        return None

    @property
    def varies(self) -> bool:
        """Whether clients have different devices; see `one`."""
        return False

    @property
    def fastest(self) -> Self:
        """The fastest device that a client may have."""
        return self

    def one(self, rng: np.random.Generator) -> Self:
        """Return the device of one client, drawn if they vary."""
        return self

    @model_validator(mode="after")
    def _sound(self) -> Self:
        wrong = list(self._faults())
        if wrong:
            raise failure(*wrong)
        return self

    def _faults(self) -> Iterator[tuple[str, str, object]]:
        """Yield the faults of the block: key, message, and the value in the block."""
        working = self.working()
        if not working >= self.idle:  # NaN is refused as well
            text = (
                f'got "{working:g} W", which is less than idle, "{self.idle:g} W": it is the'
                " total power while the device computes; give active as much as idle or more"
            )
            yield "active" if "active" in type(self).model_fields else "", text, working


# Phones with random speeds, drawn for each client.

AI_BENCHMARK = (
    (0.0, 0.068),
    (0.05, 0.141),
    (0.1, 0.177),
    (0.25, 0.367),
    (0.5, 1.0),
    (0.75, 1.391),
    (0.9, 2.205),
    (0.95, 2.385),
    (1.0, 2.784),
)
"""The distribution of speeds: shares of phones, and the largest speed among them relative to the
median phone.

Scores of floating-point inference on the processor (CPU-F) of the 333 phones in the ranking of AI
Benchmark of 2019: Ignatov et al., "AI Benchmark: All About Deep Learning on Smartphones in 2019",
arXiv:1910.06663, as kept in github.com/PKU-Chengxu/FLASH, models/utils/device_util. Every model
counts once, whatever its sales. The median phone is as fast as a Redmi Note 8.
"""

_SHARES, _FACTORS = np.array(AI_BENCHMARK).T


class Phone(DeviceLaw):
    """A phone with a random speed, drawn for each client of the group.

    The speed is the median times a factor from AI Benchmark's ranking of phones (Ignatov et al.,
    arXiv:1910.06663), interpolated linearly between its quantiles. The median, 1.8 Gflop/s, is
    about that of the Redmi Note 8 training in FLASH: Yang et al., WWW 2021. Power and battery are
    the same for all phones. The draws depend on the seed alone, so that variants have the same
    phones.
    """

    kind: Literal["phone"] = Field(default="phone", description="a random phone for each client")
    draw: Literal["ai-benchmark"] = Field(
        default="ai-benchmark", description="distribution of the speeds"
    )
    speed: Speed = as_written("1.8 Gflop/s", "training speed of the median phone")
    active: Watts = as_written("4.5 W", "power while it computes, idle or more")
    idle: Watts = as_written("0.35 W", "power while it does not compute")
    battery: Stored = as_written("15 Wh", 'energy of the full battery; "mains" for none')

    @property
    def varies(self) -> bool:
        """True."""
        return True

    @property
    def constant(self) -> float:
        """The speed; before `one`, that of the median phone."""
        return self.speed

    @property
    def fastest(self) -> Self:
        """The fastest phone of the ranking."""
        return self._times(float(_FACTORS[-1]))

    def one(self, rng: np.random.Generator) -> Self:
        """Return a phone whose speed is drawn by inverse transform sampling."""
        return self._times(float(np.interp(rng.random(), _SHARES, _FACTORS)))

    def seconds(self, operations: float, samples: float) -> float:
        """Return operations / speed."""
        return operations / self.speed

    def working(self) -> float:
        """Return the active power."""
        return self.active

    def _times(self, factor: float) -> Self:
        return self.model_copy(update={"speed": factor * self.speed})


# The table of devices: speeds, powers and batteries, with intervals and sources.

_TINY = "[meas] power: MLPerf Tiny v1.2, rate times energy of STM32L4R5 and STM32H7A3"
_HPL = "[meas] High-Performance Linpack on the board, power at its supply"
_JETSON = "[est] effective training speed of a board of its class, power of its modes"
_PHONE = "[est] effective training speed and power of phones of its class"
_LINPACK = "tuned Linpack: other clocks and training reach less, and hardly more"
_CAP = "the cap of the largest power mode of the module, which it does not exceed"
_YANG = "[lit] Yang et al., Energy Efficient Federated Learning, IEEE Trans. Wireless Comm. 2021"
_TRAN = "[lit] Tran et al., Federated Learning over Wireless Networks, INFOCOM 2019"


def _battery(watt_hours: float) -> Figure:
    """Return the capacity of a battery; its interval reaches down, since batteries age."""
    low, high = round(0.75 * watt_hours, 3), round(1.1 * watt_hours, 3)
    return lit(f"{watt_hours:g} Wh", low, high, ECODESIGN)


def _cycles(basis: str, source: Citation) -> Preset:
    return preset(
        basis,
        kappa=lit(1e-28, 3e-29, 1e-27, source),
        idle="0 W",
        cycles_per_sample=lit(20_000.0, 10_000.0, 30_000.0, source),
        frequency=lit("2 GHz", 1, 2, source, "the largest in the papers"),
    )


DEVICES: Mapping[str, Preset] = {
    "ideal": preset(
        "computes without time and energy",
        speed="unlimited",
        active="0 W",
        idle="0 W",
        battery="mains",
    ),
    "cortex-m4": preset(
        _TINY,
        speed=lit("0.02 Gflop/s", 0.008, 0.05, MLPERF_TINY),
        active=meas("0.042 W", 0.036, 0.048, MLPERF_TINY),
        idle=est("2e-5 W", 5e-6, 1e-3, STM32),
        battery=_battery(1.1),
    ),
    "cortex-m7": preset(
        _TINY,
        speed=lit("0.08 Gflop/s", 0.04, 0.2, MLPERF_TINY),
        active=meas("0.125 W", 0.11, 0.15, MLPERF_TINY),
        idle=est("5e-4 W", 1e-4, 5e-3, STM32),
        battery=_battery(3.7),
    ),
    "pi-zero-2w": preset(
        _HPL,
        speed=est("5.1 Gflop/s", 2.5, 6.4, CLOUTIER_2016),
        active=meas("2.1 W", 1.7, 2.5, KAISER_2021),
        idle=meas("0.6 W", 0.55, 0.95, KAISER_2021),
        battery=_battery(10),
    ),
    "pi-4": preset(
        _HPL,
        speed=meas("11.9 Gflop/s", 4.5, 13, TOP500, _LINPACK),
        active=meas("7.2 W", 3.1, 8, SUSONIC_2024),
        idle=est("2.3 W", 1.6, 3.1, RASPBERRY_2022),
        battery=_battery(18.5),
    ),
    "pi-5": preset(
        _HPL,
        speed=meas("30 Gflop/s", 23, 38, TOP500),
        active=meas("11 W", 8.7, 14, PI_5_2024),
        idle=meas("3 W", 1.8, 4, SBC_REVIEWS),
        battery=_battery(18.5),
    ),
    "jetson-nano": preset(
        _JETSON,
        speed=lit("80 Gflop/s", 30, 165, JETSON),
        active=lit("10 W", 5, 10, JETSON, _CAP),
        idle=est("1.5 W", 0.8, 3, PRASHANTHI_2022),
        battery="mains",
    ),
    "jetson-tx2": preset(
        _JETSON,
        speed=lit("220 Gflop/s", 83, 465, JETSON),
        active=lit("15 W", 7.5, 15, JETSON, _CAP),
        idle=est("3 W", 1.5, 5, PRASHANTHI_2022),
        battery="mains",
    ),
    "xavier-nx": preset(
        _JETSON,
        speed=lit("280 Gflop/s", 105, 590, JETSON),
        active=lit("15 W", 10, 20, JETSON),
        idle=est("4 W", 2, 6, PRASHANTHI_2022),
        battery="mains",
    ),
    "orin-nano": preset(
        _JETSON,
        speed=lit("400 Gflop/s", 160, 900, JETSON),
        active=lit("15 W", 7, 15, JETSON, _CAP),
        idle=lit("4.5 W", 2.6, 6, JETSON_FORUM),
        battery="mains",
    ),
    "phone-low": preset(
        _PHONE,
        speed=lit("4 Gflop/s", 0.6, 6, FLASH_2021),
        active=lit("3.6 W", 1.5, 4.5, AUTOFL_2021),
        idle=lit("0.3 W", 0.07, 0.6, CARROLL_2010),
        battery=_battery(11),
    ),
    "phone-mid": preset(
        _PHONE,
        speed=lit("10 Gflop/s", 1.8, 15, FLASH_2021),
        active=lit("4.5 W", 2, 5.6, AUTOFL_2021),
        idle=lit("0.35 W", 0.07, 0.7, CARROLL_2010),
        battery=_battery(15),
    ),
    "phone-high": preset(
        _PHONE,
        speed=lit("20 Gflop/s", 5.8, 40, FLASH_2021),
        active=lit("5.5 W", 2.8, 7, AUTOFL_2021),
        idle=lit("0.4 W", 0.07, 0.8, CARROLL_2010),
        battery=_battery(18),
    ),
    "laptop-n100": preset(
        _HPL,
        speed=meas("60 Gflop/s", 37, 63, TOP500, _LINPACK),
        active=meas("25 W", 16, 28.5, TOP500),
        idle=est("6 W", 3.5, 10, TOP500),
        battery=_battery(50),
    ),
    "yang-2021": _cycles(_YANG, YANG_2021),
    "tran-2019": _cycles(f"{_TRAN}: kappa is 2e-28/2", TRAN_2019),
}
"""The presets. The speed is that of training, not the peak of the data sheet.

The tag of a preset is that of the weakest of its main figures; every figure also has its own.
Speeds are bounded by measurements of other work. For phones, the training times of FLASH bound them
from below. For microcontrollers, inference with floats in MLPerf Tiny bounds them from above. For
Jetsons, the peak of the data sheet (cores x 2 x clock) bounds them from above; the figures are a
third of it. Capacities of batteries are choices, whose intervals cover ageing and manufacture. The
parameters of the kappa model are within the ranges of its papers: 1e4 to 3e4 cycles per sample, and
up to 2 GHz.
"""


# Devices with a speed, and devices with cycles per sample; most are presets.

_LINEAR = ("speed", "active")
_CYCLES = ("kappa", "cycles_per_sample", "frequency")


class Device(Presettable, DeviceLaw):
    """A client's processor: `operations / speed` seconds per task.

    It draws idle power while it is on, plus the difference of active and idle power while it
    computes. In the model of the literature a task instead takes `cycles / frequency` seconds and
    kappa * cycles * frequency^2 joules, with cycles_per_sample cycles for every sample: Yang et
    al., "Energy Efficient Federated Learning Over Wireless Communication Networks", IEEE Trans.
    Wireless Comm. 2021; Tran et al., INFOCOM 2019.
    """

    presets: ClassVar[Mapping[str, Preset]] = DEVICES

    speed: SpeedOrNone = as_written(None, "floating-point operations per second in training")
    active: WattsOrNone = as_written(None, "power while it computes, idle or more")
    idle: Watts = Field(description="power while it does not compute")
    kappa: float | None = Field(
        default=None, gt=0, le=1, description="effective switched capacitance, W/Hz^3"
    )
    cycles_per_sample: float | None = Field(
        default=None, gt=0, le=1e24, description="processor cycles per sample of a task"
    )
    frequency: HertzOrNone = as_written(None, "processor cycles per second")

    @property
    def constant(self) -> float | None:
        """The speed; None in the model with cycles."""
        return self.speed

    @property
    def in_proportion(self) -> bool:
        """Whether a task takes constants times its operations and its samples."""
        # A subclass may override `seconds`, so the property is known only of this class.
        return type(self) is Device

    def seconds(self, operations: float, samples: float) -> float:
        """Return operations / speed, or cycles / frequency."""
        if self.speed is not None:
            return operations / self.speed
        if self.cycles_per_sample is None or self.frequency is None:
            return 0.0  # only in an invalid block, whose faults are being collected
        return self.cycles_per_sample * samples / self.frequency

    def working(self) -> float:
        """Return the power while the device computes, W.

        The papers' energy in the model with cycles is that of the work alone: kappa * frequency^3 W
        while it lasts. Idle power is therefore added.
        """
        if self.active is not None:
            return self.active
        if self.kappa is None or self.frequency is None:
            return self.idle  # only in an invalid block, see `seconds`
        return self.kappa * self.frequency * self.frequency * self.frequency + self.idle

    def _faults(self) -> Iterator[tuple[str, str, object]]:
        """Yield the faults of a block that is not exactly one of the two models."""
        by_cycles = any(getattr(self, name) is not None for name in _CYCLES)
        wrong = list(self._left_over() if by_cycles else ())
        wrong += [
            (name, self._missing(name), None)
            for name in (_CYCLES if by_cycles else _LINEAR)
            if getattr(self, name) is None
        ]
        # The power can be computed only if no number for it is missing.
        yield from wrong or super()._faults()

    def _left_over(self) -> Iterator[tuple[str, str, object]]:
        keys = ", ".join(name for name in _CYCLES if getattr(self, name) is not None)
        text = (
            f"is not used beside {keys}: time and power follow from cycles; leave one of the two"
            " out, and start from custom, yang-2021 or tran-2019 for cycles"
        )
        for name in _LINEAR:
            if getattr(self, name) is not None:
                yield name, text, getattr(self, name)

    @classmethod
    def _missing(cls, name: str) -> str:
        return f"missing, and has no default ({cls.model_fields[name].description})"


DEVICE_KINDS: Registry[DeviceLaw] = Registry(
    "device", (Device, Phone), DeviceLaw, title="device kinds", names=names_of
)
"""The classes of devices."""

AnyDevice = Given[Annotated[DeviceLaw, OneOf(DEVICE_KINDS)], DeviceLaw | Block]
"""A field for a device, or the name of a preset."""
