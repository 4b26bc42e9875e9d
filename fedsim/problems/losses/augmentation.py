"""Augmentation: random variations of images during training."""

from typing import Literal

from pydantic import Field

from fedsim.blocks.spec import Spec


class Crop(Spec):
    """Shift each image at random, by up to this many pixels in both directions."""

    crop: int = Field(
        ge=1,
        description="pixels of zeros around an image, of which a part of its own size is cut out",
    )


Augmentation = Literal["flip"] | Crop
"""flip: each image is mirrored, left to right, with probability 1/2."""
