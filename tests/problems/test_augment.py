"""Augmentation: its laws, that it follows from the rows drawn, and where it has no place."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import LocalLoss, TorchLoss
from fedsim.problems.architectures import Convolutional, DenseLayers
from fedsim.problems.losses.augmentation import Augmentation, Crop, augment

SHAPE = (2, 4, 5)
IMAGE = np.arange(1, 41, dtype=np.uint8)


def many(count: int, *steps: Augmentation, seed: int = 0) -> Array:
    """Return one image, varied so many times, each in its shape."""
    X: Any = np.tile(IMAGE, (count, 1))
    found = augment(X, SHAPE, steps, np.random.default_rng(seed))
    assert found.dtype == np.uint8
    assert np.array_equal(X, np.tile(IMAGE, (count, 1)))
    return found.reshape(count, *SHAPE)


def test_half_of_the_images_are_mirrored_left_to_right() -> None:
    image, found = IMAGE.reshape(SHAPE), many(2000, "flip")
    mirrored = (found == image[..., ::-1]).all(axis=(1, 2, 3))
    assert (mirrored | (found == image).all(axis=(1, 2, 3))).all()
    assert abs(mirrored.mean() - 0.5) < 4.5 * 0.5 / 2000**0.5


def test_each_shift_is_as_frequent_as_any_other_and_brings_zeros() -> None:
    image, found = np.pad(IMAGE.reshape(SHAPE), ((0, 0), (2, 2), (2, 2))), many(5000, Crop(crop=2))
    counts = np.zeros((5, 5))
    for top in range(5):
        for left in range(5):
            window = image[:, top : top + 4, left : left + 5]
            counts[top, left] = (found == window).all(axis=(1, 2, 3)).sum()
    assert counts.sum() == 5000
    chi_square = ((counts - 200) ** 2 / 200).sum()
    assert chi_square < 60  # 24 degrees of freedom: beyond it lies 6e-5 of the distribution


def test_steps_are_taken_in_their_order() -> None:
    both = many(50, Crop(crop=1), "flip", seed=3)
    rng = np.random.default_rng(3)
    X: Any = np.tile(IMAGE, (50, 1))
    one_by_one = augment(augment(X, SHAPE, (Crop(crop=1),), rng), SHAPE, ("flip",), rng)
    assert np.array_equal(both, one_by_one.reshape(both.shape))


def local(*augment: Any, model: Any = None, **keys: Any) -> LocalLoss:
    rng = np.random.default_rng(4)
    loss = TorchLoss(model=model or Convolutional(channels=(2,), hidden=4), augment=augment, **keys)
    X, y = rng.standard_normal((12, 64)), (np.arange(12) % 3).astype(np.float64)
    return LocalLoss(loss, X, loss.encode(y))


def test_minibatches_are_varied_the_same_way_twice_and_values_never() -> None:
    plain, f = local(), local({"crop": 2}, "flip")
    w = plain.initial(np.random.default_rng(1))
    drawn = np.array([[0, 3, 5], [1, 2, 7]])
    assert f.value(w) == plain.value(w)
    assert np.array_equal(f.gradient(w), plain.gradient(w))
    every, plainly = (each.sgd_steps(w, 0.1, [None], None) for each in (f, plain))
    assert not np.array_equal(every, plainly)  # a step on all rows is a step of training
    assert np.array_equal(every, f.sgd_steps(w, 0.1, [np.arange(12)], None))
    steps = f.sgd_steps(w, 0.1, drawn, None)
    assert np.array_equal(steps, f.sgd_steps(w, 0.1, drawn, None))
    assert not np.array_equal(steps, plain.sgd_steps(w, 0.1, drawn, None))
    assert not np.array_equal(f.minibatch_gradient(w, drawn[0]), f.minibatch_gradient(w, drawn[1]))


def test_a_gradient_of_a_minibatch_is_that_of_its_varied_images_with_their_own_labels() -> None:
    plain, f = local(), local("flip")
    w, rows = plain.initial(np.random.default_rng(1)), np.array([0, 4, 8, 9])
    arranged = f.arranged
    gradient, found = f.minibatch_gradient(w, rows), []
    for mask in range(16):  # which of the four are mirrored
        X = arranged.X[rows].reshape(4, 8, 8).copy()
        for place in range(4):
            if mask >> place & 1:
                X[place] = X[place][:, ::-1]
        mirrored = LocalLoss(plain.loss, X.reshape(4, 64), arranged.t[rows])
        found.append(np.allclose(mirrored.gradient(w), gradient, rtol=1e-4, atol=1e-6))
    assert sum(found) == 1


def test_pytorchs_own_stream_is_left_alone() -> None:
    f = local("flip")
    before = torch.random.get_rng_state()
    f.minibatch_gradient(f.initial(np.random.default_rng(1)), np.array([0, 1]))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("augment", "keys", "words"),
    [
        (["flip"], {"model": DenseLayers(hidden=(3,))}, r"takes rows of shape \(64,\); only image"),
        ([{"crop": 8}], {}, "got crop: 8, of images of 8 x 8 pixels; take fewer than 8"),
    ],
)
def test_what_cannot_be_varied_is_refused(augment: Any, keys: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        local(*augment, **keys).dimension  # noqa: B018 - which tries the network
    assert caught.value.key == "loss.augment"
