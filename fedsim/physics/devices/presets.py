"""The table of devices: speeds, powers and batteries, with where they are from."""

from collections.abc import Mapping

from fedsim.blocks.presets import Preset

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
