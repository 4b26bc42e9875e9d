"""The networks that a scenario can name: sizes and prices against formulas on paper."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from fedsim.core.errors import DataError
from fedsim.problems import Architecture, LocalLoss, TorchLoss
from fedsim.problems.architectures import (
    CharacterLSTM,
    Convolutional,
    FemnistNetwork,
    ResidualNetwork,
    Transformer,
)
from fedsim.problems.modules.layers import Attention, ResidualBlock
from fedsim.problems.modules.module import operations_of
from tests.tiers import every

WAYS = 3
"""Each product is done forwards, for the gradient of its weights, and for that of its input."""


def recipe(model: Architecture, features: int, outputs: int) -> Any:
    return TorchLoss(model=model, outputs=outputs).recipe(features, outputs)


def test_the_network_of_leaf_for_femnist() -> None:
    """As Caldas et al. have it: 5 x 5 x 32, pool, 5 x 5 x 64, pool, 2048, 62 classes."""
    sizes = [(25 * 1, 32), (25 * 32, 64), (7 * 7 * 64, 2048), (2048, 62)]
    places = [28 * 28, 14 * 14, 1, 1]
    found = recipe(FemnistNetwork(), 784, 62)
    assert found.dimension == sum(inside * out + out for inside, out in sizes) == 6_603_710
    forward = [2 * p * inside * out for p, (inside, out) in zip(places, sizes, strict=True)]
    # The image itself needs no gradient.
    assert found.operations == WAYS * sum(forward) - forward[0]


@pytest.mark.parametrize(("depth", "published"), [(8, None), (20, 0.27e6), (32, 0.46e6)])
def test_residual_networks(depth: int, published: float | None) -> None:
    """He et al., table 6: 0.27 and 0.46 million parameters."""
    n = (depth - 2) // 6
    kernels, places = [(3, 16)], [32]
    for side, inside, out in ((32, 16, 16), (16, 16, 32), (8, 32, 64)):
        kernels += [(inside, out)] + (2 * n - 1) * [(out, out)]
        places += 2 * n * [side]
    found = recipe(ResidualNetwork(depth=depth), 3 * 32 * 32, 10)
    weights = sum(9 * inside * out for inside, out in kernels)
    norms = sum(2 * out for _, out in kernels)
    assert found.dimension == weights + norms + 64 * 10 + 10
    assert published is None or found.dimension == pytest.approx(published, rel=0.02)
    forward = [
        2 * side**2 * 9 * inside * out for side, (inside, out) in zip(places, kernels, strict=True)
    ]
    assert found.operations == WAYS * (sum(forward) + 2 * 64 * 10) - forward[0]


@pytest.mark.parametrize("classes", [80, 90])
def test_the_network_of_leaf_for_shakespeare(classes: int) -> None:
    """80 characters embedded in 8 numbers, two layers of 256 units, the next one of 80 or 90."""
    found = recipe(CharacterLSTM(), 80, classes)
    gates = [4 * 256 * (8 + 256), 4 * 256 * (256 + 256)]
    biases = 2 * 4 * 256
    last = 256 * classes
    assert found.dimension == 8 * classes + sum(gates) + 2 * biases + last + classes
    assert found.operations == WAYS * 2 * (80 * sum(gates) + last)
    assert found.layers[0].name == "embedding.weight"


def test_a_transformer() -> None:
    """24 t w^2 a layer forwards; attention is 2 products of t x t forwards, and 5 backwards."""
    t, w, layers, classes = 20, 32, 3, 50
    found = recipe(Transformer(width=w, layers=layers, heads=4), t, classes)
    dense = w * 3 * w + w * w + 2 * 4 * w * w
    biases = 3 * w + w + 4 * w + w
    norms = 2 * 2 * w
    embedded = classes * w + t * w
    last = 2 * w + w * classes + classes
    assert found.dimension == embedded + layers * (dense + biases + norms) + last
    product = 2 * t * t * w
    attention = (2 + 5) * product
    assert found.operations == layers * (WAYS * 2 * t * dense + attention) + WAYS * 2 * w * classes


def rows_for(model: Architecture, features: int, rng: np.random.Generator) -> LocalLoss:
    """Return twelve rows of two classes that any network can tell apart."""
    t = np.arange(12.0) % 2
    X = rng.standard_normal((12, features)) + 3.0 * t[:, None]
    if model.tokens:
        X = rng.integers(0, 3, (12, features)) + 3.0 * t[:, None]
    loss = TorchLoss(model=model, outputs=6, numbers="float32")
    return LocalLoss(loss, X, loss.encode(t))


SMALL: list[tuple[Architecture, int, float]] = [
    (FemnistNetwork(), 64, 0.05),
    (ResidualNetwork(depth=8, width=4), 3 * 64, 0.1),
    (CharacterLSTM(hidden=16), 10, 1.0),
    (Transformer(width=16, heads=2, layers=1), 10, 0.3),
]


@every(("model", "features", "step"), SMALL)
def test_steps_learn_what_tells_two_classes_apart(
    model: Architecture, features: int, step: float, rng: np.random.Generator
) -> None:
    """Who knows no more than that there are two of six has a loss of log 2 or more."""
    f = rows_for(model, features, rng)
    w = f.sgd_steps(f.initial(rng), step, np.tile(np.arange(12), (40, 1)), None)
    assert f.value(w) < 0.5 * np.log(2)


def test_a_transformer_looks_back_only() -> None:
    """What stands at a token does not depend on those behind it."""
    torch.manual_seed(1)
    attention = Attention(8, 2)
    tokens = torch.randn(1, 5, 8)
    other = tokens.clone()
    other[0, 3:] += 1.0
    with torch.no_grad():
        one, two = attention(tokens), attention(other)
    assert torch.equal(one[0, :3], two[0, :3])
    assert not torch.allclose(one[0, 3:], two[0, 3:])


def test_a_shortcut_keeps_every_other_pixel() -> None:
    """Where the convolutions give nothing, a block passes on what it took, halved and padded."""
    block = ResidualBlock(2, 4, 2, 1)
    torch.nn.init.zeros_(block.second_norm.weight)
    images = torch.rand(1, 2, 6, 6)
    with torch.no_grad():
        found = block(images)
    assert torch.equal(found[:, 1:3], images[:, :, ::2, ::2])
    assert not found[:, [0, 3]].any()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ResidualNetwork(depth=18), r"a depth is 6 n \+ 2, such as 8, 14, 20 or 32"),
        (lambda: ResidualNetwork(width=6, groups=4), "6 channels are no whole number of 4 groups"),
        (lambda: Transformer(width=10, heads=4), "a width of 10 is no whole number of 4 heads"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        make()


def test_images_are_grey_or_of_three_colours() -> None:
    assert Convolutional().shape(784) == (1, 28, 28)
    assert ResidualNetwork().shape(3072) == (3, 32, 32)
    assert ResidualNetwork(image=(3, 4, 8)).shape(96) == (3, 4, 8)
    with pytest.raises(DataError, match="96 features are no square image"):
        ResidualNetwork().shape(96)
    with pytest.raises(DataError, match="3 x 4 x 4 is 48 numbers per row; the data has 96"):
        ResidualNetwork(image=(3, 4, 4)).shape(96)


@pytest.mark.parametrize(("value", "seen"), [(0.5, "0.5"), (-1.0, "-1"), (6.0, "6")])
def test_what_is_no_token_is_refused(value: float, seen: str, rng: np.random.Generator) -> None:
    loss = TorchLoss(model=CharacterLSTM(hidden=4), outputs=6)
    X = np.zeros((4, 5))
    X[2, 3] = value
    with pytest.raises(DataError) as caught:
        LocalLoss(loss, X, loss.encode(np.arange(4.0)))
    assert re.search(f"whole numbers from 0 to 5; the data has {seen}:", str(caught.value))


def test_there_may_be_more_tokens_than_classes(rng: np.random.Generator) -> None:
    loss = TorchLoss(model=CharacterLSTM(hidden=4, vocabulary=7), outputs=6)
    f = LocalLoss(loss, np.full((4, 5), 6.0), loss.encode(np.arange(4.0)))
    assert np.isfinite(f.value(f.initial(rng)))


def test_what_pytorchs_counter_does_not_know_is_counted() -> None:
    """A matrix times a vector, an inner product, and attention in one kernel."""
    matrix = torch.ones(3, 5, requires_grad=True)
    vector = torch.ones(5, requires_grad=True)
    assert (
        operations_of(lambda: torch.sum(matrix @ vector)) == 2 * 15 + 2 * 15
    )  # an outer product is none
    assert operations_of(lambda: vector @ vector.detach()) == 2 * 5
    tokens = torch.ones(2, 4, 6, 8, requires_grad=True)
    attend = torch.nn.functional.scaled_dot_product_attention
    found = operations_of(lambda: attend(tokens, tokens, tokens).sum())
    assert found == (2 + 5) * 2 * 2 * 4 * 6 * 6 * 8
