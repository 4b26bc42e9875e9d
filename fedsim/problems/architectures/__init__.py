"""Architectures: networks that the loss `torch` trains, as blocks."""

from fedsim.blocks.registry import Registry
from fedsim.problems.architectures.base import Architecture
from fedsim.problems.architectures.networks import (
    CharacterLSTM,
    Convolutional,
    DenseLayers,
    FemnistNetwork,
    GivenModule,
    LogisticModel,
    PassedModule,
    ResidualNetwork,
    Transformer,
)

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
