"""Networks computed by PyTorch. Only this package imports PyTorch when it is imported."""

from fedsim.problems.modules.module import FlatModule, layers_of, platform
from fedsim.problems.modules.recipe import Recipe, recipe, start
from fedsim.problems.modules.trainer import (
    LossTerms,
    Numbers,
    Trainer,
    check_device,
    trainer,
)

__all__ = [
    "FlatModule",
    "LossTerms",
    "Numbers",
    "Recipe",
    "Trainer",
    "check_device",
    "layers_of",
    "platform",
    "recipe",
    "start",
    "trainer",
]
