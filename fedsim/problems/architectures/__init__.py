"""Architectures: networks that the loss `torch` trains, as blocks."""

from fedsim.blocks.registry import Registry
from fedsim.problems.architectures.base import Architecture
from fedsim.problems.architectures.dense import (
    DenseLayers,
    GivenModule,
    LogisticModel,
    PassedModule,
)
from fedsim.problems.architectures.images import (
    Convolutional,
    FemnistNetwork,
    ResidualNetwork,
)
from fedsim.problems.architectures.text import CharacterLSTM, Transformer

ARCHITECTURES: Registry[Architecture] = Registry(
    "architecture",
    (
        LogisticModel,
        DenseLayers,
        Convolutional,
        FemnistNetwork,
        ResidualNetwork,
        CharacterLSTM,
        Transformer,
        GivenModule,
    ),
    Architecture,
)
"""Every network that a scenario can name."""

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "CharacterLSTM",
    "Convolutional",
    "DenseLayers",
    "FemnistNetwork",
    "GivenModule",
    "LogisticModel",
    "PassedModule",
    "ResidualNetwork",
    "Transformer",
]
