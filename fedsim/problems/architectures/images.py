"""Networks for images."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from fedsim.errors import DataError
from fedsim.problems.architectures.base import Architecture, square_image

if TYPE_CHECKING:
    from torch import nn


class Convolutional(Architecture):
    """Convolutions of 5 x 5 with rectified units and pooling of 2 x 2, then two dense layers."""

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, section 3 (MNIST CNN)"

    kind: Literal["cnn"] = "cnn"
    image: tuple[int, int, int] | None = Field(
        default=None,
        description="channels, height and width of a row's image; a grey square if null",
    )
    channels: tuple[int, ...] = Field(
        default=(32, 64), min_length=1, description="of each convolution"
    )
    hidden: int = Field(default=512, ge=1, description="units of the dense layer between")

    def shape(self, features: int) -> tuple[int, int, int]:
        """Return (channels, height, width)."""
        if self.image is None:
            return square_image(features)
        c, h, w = self.image
        if c * h * w != features:
            text = f"{c} x {h} x {w} is {c * h * w} numbers a row; the data has {features}"
            raise DataError("loss.model.image", text)
        return self.image

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layers; see `Architecture.module`."""
        from torch import nn  # noqa: PLC0415 - see `Architecture`

        depth, height, width = self.shape(features)
        layers: list[nn.Module] = []
        for channels in self.channels:
            layers += [nn.Conv2d(depth, channels, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
            depth, height, width = channels, height // 2, width // 2
        if not height * width:
            text = f"{len(self.channels)} poolings leave nothing of an image of {features} numbers"
            raise DataError("loss.model.channels", text)
        layers += [nn.Flatten(), nn.Linear(depth * height * width, self.hidden), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(self.hidden, outputs))
