"""Augmentation: random variations of images in training, as in the usual recipes for CIFAR."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from pydantic import Field

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.ports import Array


class Crop(Spec):
    """Shift each image at random, by up to this many pixels in both directions."""

    crop: int = Field(
        ge=1,
        description=(
            "pixels of zeros added around an image, from which a random part of the"
            " original size is cut"
        ),
    )


Augmentation = Literal["flip"] | Crop
"""flip: each image is mirrored, left to right, with probability 1/2."""


def check_images(shape: tuple[int, ...], steps: Sequence[Augmentation]) -> None:
    """Check that rows are images to which these augmentations can be applied.

    Args:
        shape: the shape in which a row is passed to the module.
        steps: the augmentations.

    Raises:
        DataError: they cannot be applied.
    """
    if not steps:
        return
    if len(shape) != 3:
        text = f"the network takes rows of shape {shape}; only images are varied"
        raise DataError("loss.augment", f"{text}: (channels, height, width)")
    _, height, width = shape
    for step in steps:
        if isinstance(step, Crop) and step.crop >= min(height, width):
            text = f"got crop: {step.crop}, of images of {height} x {width} pixels"
            raise DataError("loss.augment", f"{text}; take fewer than {min(height, width)}")


def augment(
    X: Array, shape: tuple[int, ...], steps: Sequence[Augmentation], rng: np.random.Generator
) -> Array:
    """Return images (n, d), each varied by independent draws, in the same number type.

    Args:
        X: images, flattened; not modified.
        shape: the shape of an image, (channels, height, width).
        steps: the augmentations, applied in this order.
        rng: the stream to draw from.
    """
    images = X.reshape(len(X), *shape)
    for step in steps:
        images = _crop(images, step.crop, rng) if isinstance(step, Crop) else _flip(images, rng)
    return images.reshape(X.shape)


def _flip(images: Array, rng: np.random.Generator) -> Array:
    mirrored = rng.random(len(images)) < 0.5
    return np.where(mirrored[:, None, None, None], images[..., ::-1], images)


def _crop(images: Array, border: int, rng: np.random.Generator) -> Array:
    count, _, height, width = images.shape
    around = (border, border)
    padded = np.pad(images, ((0, 0), (0, 0), around, around))
    places = rng.integers(0, 2 * border + 1, (count, 2))
    windows = sliding_window_view(padded, (height, width), axis=(2, 3))
    return windows[np.arange(count), :, places[:, 0], places[:, 1]]
