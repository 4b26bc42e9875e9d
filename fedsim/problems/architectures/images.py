"""Networks for images."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from fedsim.errors import DataError
from fedsim.problems.architectures.base import Architecture

# Base class of networks for images, whose rows are images, channel by channel.

COLOURS = 3


class ImageNetwork(Architecture):
    """A network for images: a row is one channel after the other, each line by line."""

    image: tuple[int, int, int] | None = Field(
        default=None,
        description="channels, height and width of a row's image; a square if null, grey or of "
        "three colours as its numbers have it",
    )

    def shape(self, features: int) -> tuple[int, int, int]:
        """Return (channels, height, width)."""
        if self.image is None:
            return square_image(features)
        c, h, w = self.image
        if c * h * w != features:
            text = f"{c} x {h} x {w} is {c * h * w} numbers a row; the data has {features}"
            raise DataError("loss.model.image", text)
        return self.image


def square_image(features: int) -> tuple[int, int, int]:
    """Return the shape of a square image of so many numbers, grey or of three colours.

    At most one fits: no square number is three times another.

    Raises:
        DataError: that many features do not fill one.
    """
    for channels in (1, COLOURS):
        side = round((features / channels) ** 0.5)
        if channels * side * side == features:
            return channels, side, side
    raise DataError(
        "loss.model",
        f"{features} features are no square image, neither grey nor of three colours; say the "
        "shape: image: [channels, height, width]",
    )


# Convolutions, then dense layers.

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


# Residual networks.

if TYPE_CHECKING:
    from torch import nn

STAGES = 3


class ResidualNetwork(ImageNetwork):
    """The residual network for CIFAR, with group normalisation in place of batch normalisation.

    3 stages of n residual blocks of two convolutions each; with the convolution before them and
    the dense layer behind, 6 n + 2 layers. Batch normalisation has statistics that clients do not
    share, and that fail where their labels differ; groups have none.
    """

    source: ClassVar[str] = (
        "He et al., CVPR 2016, section 4.2; group norm: Hsieh et al., ICML 2020, section 5"
    )

    kind: Literal["resnet"] = "resnet"
    depth: int = Field(default=20, ge=8, description="6 n + 2 layers: 8, 14, 20, 32, ...")
    width: int = Field(
        default=16, ge=1, description="channels of the first stage; the others have 2 and 4 times"
    )
    groups: int = Field(
        default=2, ge=1, description="groups of channels that are normalised; divides the width"
    )

    @field_validator("depth")
    @classmethod
    def _whole_blocks(cls, depth: int) -> int:
        if depth % (2 * STAGES) != 2:
            raise ValueError(f"a depth is 6 n + 2, such as 8, 14, 20 or 32, not {depth}")
        return depth

    @field_validator("groups")
    @classmethod
    def _whole_groups(cls, groups: int, known: ValidationInfo) -> int:
        width = known.data.get("width", groups)
        if width % groups:
            raise ValueError(f"{width} channels are no whole number of {groups} groups")
        return groups

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the network; see `Architecture.module`."""
        from fedsim.problems.modules.layers import Residual  # noqa: PLC0415 - loads PyTorch

        blocks = (self.depth - 2) // (2 * STAGES)
        channels = self.shape(features)[0]
        return Residual(
            channels,
            [self.width * 2**stage for stage in range(STAGES)],
            blocks,
            self.groups,
            outputs,
        )
