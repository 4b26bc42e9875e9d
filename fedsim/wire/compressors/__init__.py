"""Compressors: maps from a vector to a payload, each with its class and its constant."""

from fedsim.blocks.registry import Registry
from fedsim.wire.compressors.base import Compressor, Contract, Sender, Sized
from fedsim.wire.compressors.dense import Identity, PowerSGD
from fedsim.wire.compressors.layered import Layered
from fedsim.wire.compressors.quantized import E3M0, QSGD, Dithered, Natural, ScaledSign, TernGrad
from fedsim.wire.compressors.sparse import HardThreshold, RandK, TopK

COMPRESSORS: Registry[Compressor] = Registry(
    "compressor",
    (
        Identity,
        RandK,
        TopK,
        HardThreshold,
        QSGD,
        Natural,
        TernGrad,
        ScaledSign,
        Dithered,
        E3M0,
        PowerSGD,
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
