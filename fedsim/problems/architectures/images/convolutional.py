"""Convolutions, then dense layers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from fedsim.errors import DataError
from fedsim.problems.architectures.images.base import ImageNetwork

if TYPE_CHECKING:
    from torch import nn


class Convolutional(ImageNetwork):
    """Convolutions of 5 x 5 with rectified units and pooling of 2 x 2, then two dense layers."""

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, section 3 (MNIST CNN)"

    kind: Literal["cnn"] = "cnn"
    channels: tuple[int, ...] = Field(
        default=(32, 64), min_length=1, description="of each convolution"
    )
    hidden: int = Field(default=512, ge=1, description="units of the dense layer between")

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layers; see `Architecture.module`."""
        return _layers(self.shape(features), self.channels, self.hidden, outputs)


class FemnistNetwork(ImageNetwork):
    """The network of LEAF for FEMNIST: as `cnn`, with 2048 units in the dense layer."""

    source: ClassVar[str] = "Caldas et al., LEAF, arXiv:1812.01097, 2018 (FEMNIST)"

    kind: Literal["cnn-femnist"] = "cnn-femnist"

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layers; see `Architecture.module`."""
        return _layers(self.shape(features), (32, 64), 2048, outputs)


def _layers(
    image: tuple[int, int, int], channels: Sequence[int], hidden: int, outputs: int
) -> "nn.Module":
    from torch import nn  # noqa: PLC0415 - see `Architecture`

    depth, height, width = image
    layers: list[nn.Module] = []
    for wide in channels:
        layers += [nn.Conv2d(depth, wide, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        depth, height, width = wide, height // 2, width // 2
    if not height * width:
        text = f"{len(channels)} poolings leave nothing of an image {image[1]} x {image[2]}"
        raise DataError("loss.model", text)
    layers += [nn.Flatten(), nn.Linear(depth * height * width, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))
