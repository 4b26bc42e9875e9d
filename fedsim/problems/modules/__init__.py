"""Networks as PyTorch computes them. This package loads PyTorch; nothing outside does at import."""

from fedsim.problems.modules.augment import check_images
from fedsim.problems.modules.flat import FlatModule, Layer, layers_of
from fedsim.problems.modules.platform import platform
from fedsim.problems.modules.recipe import Recipe, recipe, start
from fedsim.problems.modules.trainer import Numbers, Terms, Trainer, check_device, trainer

__all__ = [
    "FlatModule",
    "Layer",
    "Numbers",
    "Recipe",
    "Terms",
    "Trainer",
    "check_device",
    "check_images",
    "layers_of",
    "platform",
    "recipe",
    "start",
    "trainer",
]
