"""Minibatches of images varied at random, as in the usual recipes for CIFAR."""

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.losses.augmentation import Augmentation, Crop


def check_images(shape: tuple[int, ...], steps: Sequence[Augmentation]) -> None:
    """See to it that rows are images that can be varied so.

    Args:
        shape: that a row is given to the module in.
        steps: what is to be done.

    Raises:
        DataError: they are not.
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


def varied(
    X: Array, shape: tuple[int, ...], steps: Sequence[Augmentation], rng: np.random.Generator
) -> Array:
    """Return images (n, d), each varied by draws of its own, in the type that they are of.

    Args:
        X: images, flattened; they stay as they are.
        shape: of an image, (channels, height, width).
        steps: what is done, in this order.
        rng: what is drawn from.
    """
    images = X.reshape(len(X), *shape)
    for step in steps:
        images = (
            _cropped(images, step.crop, rng) if isinstance(step, Crop) else _flipped(images, rng)
        )
    return images.reshape(X.shape)


def _flipped(images: Array, rng: np.random.Generator) -> Array:
    mirrored = rng.random(len(images)) < 0.5
    return np.where(mirrored[:, None, None, None], images[..., ::-1], images)


def _cropped(images: Array, border: int, rng: np.random.Generator) -> Array:
    count, _, height, width = images.shape
    around = (border, border)
    padded = np.pad(images, ((0, 0), (0, 0), around, around))
    places = rng.integers(0, 2 * border + 1, (count, 2))
    windows = sliding_window_view(padded, (height, width), axis=(2, 3))
    return windows[np.arange(count), :, places[:, 0], places[:, 1]]
