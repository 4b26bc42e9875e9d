"""Compressors: maps from a vector to a payload, each with its class and its constant."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.wire.compressors.base import Compressor, Contract, Sender, Sized

if TYPE_CHECKING:
    from fedsim.wire.compressors.dense import Identity, PowerSGD
    from fedsim.wire.compressors.layered import Layered
    from fedsim.wire.compressors.quantized import (
        E3M0,
        QSGD,
        Dithered,
        Natural,
        ScaledSign,
        TernGrad,
    )
    from fedsim.wire.compressors.sparse import HardThreshold, RandK, TopK
else:
    __getattr__, __dir__ = exports(__name__)

COMPRESSORS: Registry[Compressor] = Registry(
    "compressor",
    Named(
        __name__,
        {
            "identity": "Identity",
            "rand-k": "RandK",
            "top-k": "TopK",
            "threshold": "HardThreshold",
            "qsgd": "QSGD",
            "natural": "Natural",
            "terngrad": "TernGrad",
            "scaled-sign": "ScaledSign",
            "dithered": "Dithered",
            "e3m0": "E3M0",
            "low-rank": "PowerSGD",
        },
    ),
    Compressor,
)
"""Every compressor that a scenario can name."""

__all__ = [
    "COMPRESSORS",
    "E3M0",
    "QSGD",
    "Compressor",
    "Contract",
    "Dithered",
    "HardThreshold",
    "Identity",
    "Layered",
    "Natural",
    "PowerSGD",
    "RandK",
    "ScaledSign",
    "Sender",
    "Sized",
    "TernGrad",
    "TopK",
]
