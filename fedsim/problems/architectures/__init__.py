"""Architectures: networks that the loss `torch` trains, as blocks."""

from fedsim.blocks.registry import Registry
from fedsim.problems.architectures.base import Architecture
from fedsim.problems.architectures.dense import DenseLayers, LogisticModel
from fedsim.problems.architectures.images import Convolutional

ARCHITECTURES: Registry[Architecture] = Registry(
    "architecture",
    (
        LogisticModel,
        DenseLayers,
        Convolutional,
    ),
    Architecture,
)
"""Every network that a scenario can name."""

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Convolutional",
    "DenseLayers",
    "LogisticModel",
]
