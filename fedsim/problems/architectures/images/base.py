"""What networks for images have in common: rows are images, channel by channel."""

from pydantic import Field

from fedsim.errors import DataError
from fedsim.problems.architectures.base import Architecture

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

    There is at most one: no square number is three times another.

    Raises:
        DataError: so many fill none.
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
