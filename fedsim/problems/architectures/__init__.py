"""Architectures: networks that the loss `torch` trains, as blocks."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.problems.architectures.base import Architecture

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = exports(__name__)

ARCHITECTURES: Registry[Architecture] = Registry(
    "architecture",
    Named(
        __name__,
        {
            "logistic": "LogisticModel",
            "mlp": "DenseLayers",
            "cnn": "Convolutional",
            "cnn-femnist": "FemnistNetwork",
            "resnet": "ResidualNetwork",
            "char-lstm": "CharacterLSTM",
            "transformer": "Transformer",
            "given": "GivenModule",
        },
    ),
    Architecture,
)
"""The architectures that a scenario can name."""

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
