"""Devices: how fast a client computes, and what that costs."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.presets import Preset, Presettable
from fedsim.blocks.quantities import Hertz, Speed, Stored, Watts
from fedsim.physics.slowdowns import AnySlowdown

_TINY = "[meas] power: MLPerf Tiny; [est] speed"
_HPL = "[meas] High-Performance Linpack on the board, power at its supply"
_JETSON = "[est] effective training speed of a board of its class, power of its modes"
_PHONE = "[est] effective training speed and power of phones of its class"
_YANG = "[lit] Yang et al., Energy Efficient Federated Learning, IEEE Trans. Wireless Comm. 2021"
_TRAN = "[lit] Tran et al., Federated Learning over Wireless Networks, INFOCOM 2019"


def _device(speed: str, active: str, idle: str, battery: str, basis: str) -> Preset:
    values = {"speed": speed, "active": active, "idle": idle, "battery": battery}
    return Preset(basis, values)


def _cycles(basis: str) -> Preset:
    power: dict[str, str | float] = {"kappa": 1e-28, "idle": "0 W"}
    return Preset(basis, power | {"cycles_per_sample": 20_000, "frequency": "2 GHz"})


DEVICES: Mapping[str, Preset] = {
    "ideal": _device("unlimited", "0 W", "0 W", "mains", "computes in no time, for nothing"),
    "cortex-m4": _device("0.02 Gflop/s", "0.047 W", "2e-5 W", "1.1 Wh", _TINY),
    "cortex-m7": _device("0.08 Gflop/s", "0.158 W", "5e-4 W", "3.7 Wh", _TINY),
    "pi-zero-2w": _device("0.37 Gflop/s", "2.1 W", "0.6 W", "10 Wh", _HPL),
    "pi-4": _device("11.9 Gflop/s", "7.2 W", "2.3 W", "18.5 Wh", _HPL),
    "pi-5": _device("30 Gflop/s", "11 W", "3 W", "18.5 Wh", _HPL),
    "jetson-nano": _device("80 Gflop/s", "10 W", "1.5 W", "mains", _JETSON),
    "jetson-tx2": _device("220 Gflop/s", "15 W", "3 W", "mains", _JETSON),
    "xavier-nx": _device("280 Gflop/s", "15 W", "4 W", "mains", _JETSON),
    "orin-nano": _device("400 Gflop/s", "15 W", "4.5 W", "mains", _JETSON),
    "phone-low": _device("4 Gflop/s", "3.6 W", "0.3 W", "11 Wh", _PHONE),
    "phone-mid": _device("10 Gflop/s", "4.5 W", "0.35 W", "15 Wh", _PHONE),
    "phone-high": _device("20 Gflop/s", "5.5 W", "0.4 W", "18 Wh", _PHONE),
    "laptop-n100": _device("60 Gflop/s", "25 W", "6 W", "50 Wh", _HPL),
    "yang-2021": _cycles(_YANG),
    "tran-2019": _cycles(f"{_TRAN}: kappa is 2e-28/2"),
}
"""The presets; speed is what training reaches, not what the data sheet promises.

[meas] is a public measurement; [est] is an estimate good to a factor of about 2, as are all
capacities of batteries; [lit] is the model of a paper, at parameters within the ranges that
it uses: 1e4 to 3e4 cycles a sample, and up to 2 GHz.
"""


_LINEAR = ("speed", "active")
_CYCLES = ("kappa", "cycles_per_sample", "frequency")


class Device(Presettable):
    """A client's processor: `operations / speed` seconds a task.

    Its energy is idle power for all the time that it is on, and the difference of active
    and idle power for the time that it is busy. In the model of the literature a task takes
    `cycles / frequency` seconds and kappa * cycles * frequency^2 joules instead, with
    cycles_per_sample cycles for every sample that it passes over.
    """

    presets: ClassVar[Mapping[str, Preset]] = DEVICES

    speed: Speed | None = Field(
        default=None, description="floating-point operations per second that training reaches"
    )
    active: Watts | None = Field(default=None, description="power while it computes, idle or more")
    idle: Watts = Field(description="power while it does not")
    battery: Stored = as_written("mains", 'what a full battery holds; "mains" for none')
    kappa: float | None = Field(
        default=None, gt=0, le=1, description="effective switched capacitance, W/Hz^3"
    )
    cycles_per_sample: float | None = Field(
        default=None, gt=0, le=1e24, description="processor cycles for every sample of a task"
    )
    frequency: Hertz | None = Field(default=None, description="processor cycles per second")
    slowdown: AnySlowdown = as_written(
        {"kind": "none"}, "a factor on the time of every task, drawn task by task"
    )

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        """Check that the block is of one of the two models, and of that one completely."""
        by_cycles = any(getattr(self, name) is not None for name in _CYCLES)
        wrong = list(self._left_over() if by_cycles else ())
        wrong += [
            (name, self._missing(name), None)
            for name in (_CYCLES if by_cycles else _LINEAR)
            if getattr(self, name) is None
        ]
        if wrong:
            raise failure(*wrong)
        return self

    @model_validator(mode="after")
    def _work_costs_something(self) -> Self:
        """Check that a client draws no less while it computes than while it does not."""
        if self.active is not None and self.active < self.idle:
            text = (
                f'seen "{self.active:g} W", which is less than idle, "{self.idle:g} W": it is all'
                " that the device draws while it computes; give active as much as idle or more"
            )
            raise failure(("active", text, self.active))
        return self

    def _left_over(self) -> Iterator[tuple[str, str, object]]:
        given = ", ".join(name for name in _CYCLES if getattr(self, name) is not None)
        text = (
            f"is not used beside {given}: time and power follow from cycles; leave one of the two"
            " out, and start from custom, yang-2021 or tran-2019 for cycles"
        )
        for name in _LINEAR:
            if getattr(self, name) is not None:
                yield name, text, getattr(self, name)

    @classmethod
    def _missing(cls, name: str) -> str:
        return f"missing, and has no default ({cls.model_fields[name].description})"
