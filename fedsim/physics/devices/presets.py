"""The table of devices: speeds, powers and batteries, with intervals and where they are from."""

from collections.abc import Mapping

from fedsim.blocks.presets import Preset, Source
from fedsim.physics.figures import Figure, est, lit, meas, preset
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
    PRASHANTHI_2022,
    SBC_REVIEWS,
    STM32,
    TOP500,
    TRAN_2019,
    YANG_2021,
)

_TINY = "[meas] power: MLPerf Tiny v1.2, rate times energy of STM32L4R5 and STM32H7A3"
_HPL = "[meas] High-Performance Linpack on the board, power at its supply"
_JETSON = "[est] effective training speed of a board of its class, power of its modes"
_PHONE = "[est] effective training speed and power of phones of its class"
_LINPACK = "Linpack at its best: other clocks and training reach less, and hardly more"
_CAP = "the cap of the largest power mode of the module: it draws less, and no more"
_YANG = "[lit] Yang et al., Energy Efficient Federated Learning, IEEE Trans. Wireless Comm. 2021"
_TRAN = "[lit] Tran et al., Federated Learning over Wireless Networks, INFOCOM 2019"


def _battery(watt_hours: float) -> Figure:
    """Return what a battery holds: a choice when it is new, of which ageing leaves less."""
    low, high = round(0.75 * watt_hours, 3), round(1.1 * watt_hours, 3)
    return lit(f"{watt_hours:g} Wh", low, high, ECODESIGN)


def _cycles(basis: str, source: Source) -> Preset:
    return preset(
        basis,
        kappa=lit(1e-28, 3e-29, 1e-27, source),
        idle="0 W",
        cycles_per_sample=lit(20_000.0, 10_000.0, 30_000.0, source),
        frequency=lit("2 GHz", 1, 2, source, "the largest that the papers allow"),
    )


DEVICES: Mapping[str, Preset] = {
    "ideal": preset(
        "computes in no time, for nothing",
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
        active=meas("7.2 W", 5.2, 8, TOP500),
        idle=est("2.3 W", 1.6, 3, SBC_REVIEWS),
        battery=_battery(18.5),
    ),
    "pi-5": preset(
        _HPL,
        speed=meas("30 Gflop/s", 23, 38, TOP500),
        active=meas("11 W", 9, 14, TOP500),
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
"""The presets; speed is what training reaches, not what the data sheet promises.

The tags of a whole preset are of the weakest of its main figures; every figure has its own. Speeds
are bounded: those of phones from below by the training times of FLASH; those of microcontrollers
from above by inference with floats in MLPerf Tiny; those of Jetsons from above by the peak of the
data sheet (cores x 2 x clock), of which they are a third. Capacities of batteries are choices, from
which age and manufacture lead away.
The model of kappa is at parameters within the ranges that its papers use: 1e4 to 3e4 cycles a
sample, and up to 2 GHz.
"""
