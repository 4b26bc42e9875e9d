"""What `numbers` of the loss torch promises: float64, float32 and bfloat16."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedsim.core.ports import Array
from fedsim.problems import Architecture, LocalLoss, TorchLoss
from fedsim.problems.architectures import (
    CharacterLSTM,
    Convolutional,
    DenseLayers,
    ResidualNetwork,
    Transformer,
)
from tests.tiers import every

CLASSES, ROWS = 4, 12
NETWORKS: list[tuple[Architecture, int]] = [
    (DenseLayers(hidden=(7, 6)), 9),
    (Convolutional(channels=(3, 4), hidden=8), 64),
    (ResidualNetwork(depth=8, width=4), 3 * 64),
    (CharacterLSTM(hidden=6), 7),
    (Transformer(width=8, heads=2, layers=1), 7),
]
networks = every(("model", "features"), NETWORKS)
DRAWN = np.array([[0, 3, 5, 6], [1, 2, 7, 11], [8, 3, 4, 9]])


def local(model: Architecture, features: int, numbers: Any) -> LocalLoss:
    rng = np.random.default_rng(3)
    loss = TorchLoss(model=model, outputs=CLASSES, numbers=numbers, l2=0.01)
    X = rng.standard_normal((ROWS, features))
    if model.tokens:
        X = rng.integers(0, CLASSES, (ROWS, features)).astype(float)
    return LocalLoss(loss, X, loss.encode((np.arange(ROWS) % CLASSES).astype(np.float64)))


def independent(model: Architecture, f: LocalLoss, w: Array) -> Array:
    """Return where PyTorch's own optimiser goes in float64, on a module of its own."""
    features = f.arranged.X.shape[1]
    module: nn.Module = model.module(features, CLASSES).double()
    nn.utils.vector_to_parameters(torch.tensor(w), module.parameters())
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1, weight_decay=0.01)
    kind = torch.int64 if model.tokens else torch.float64
    X = torch.tensor(f.arranged.X).to(kind).view(ROWS, *model.shape(features))
    t = torch.arange(ROWS) % CLASSES
    for rows in DRAWN:
        optimiser.zero_grad()
        torch.autograd.backward(functional.cross_entropy(module(X[rows]), t[rows]))
        optimiser.step()
    return np.asarray(nn.utils.parameters_to_vector(module.parameters()).detach().numpy())


def off(model: Architecture, features: int, numbers: Any) -> float:
    """Return how far steps are from those of an independent loop in float64, of the way gone."""
    f = local(model, features, numbers)
    w = f.initial(np.random.default_rng(1))
    expected = independent(model, f, w)
    found = f.sgd_steps(w, 0.1, DRAWN, None)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected - w))


@networks
def test_float64_is_an_independent_loop_in_float64(model: Architecture, features: int) -> None:
    assert off(model, features, "float64") < 1e-12


@networks
def test_float32_is_off_by_its_rounding(model: Architecture, features: int) -> None:
    assert 1e-12 < off(model, features, "float32") < 1e-4


@networks
def test_bfloat16_is_off_by_its_rounding(model: Architecture, features: int) -> None:
    """It has eight bits: 0.4 % an operation, of which there are many in a row."""
    assert 1e-4 < off(model, features, "bfloat16") < 0.3


def test_steps_that_bfloat16_could_not_add_are_not_lost() -> None:
    """Parameters are float32: a step of a ten-thousandth of them is made all the same."""
    f = local(DenseLayers(hidden=(7, 6)), 9, "bfloat16")
    w = f.initial(np.random.default_rng(1))
    g = f.minibatch_gradient(w, DRAWN[0])
    moved = f.sgd_steps(w, 1e-4, DRAWN[:1], None) - w
    np.testing.assert_allclose(moved, -1e-4 * g, rtol=0.02, atol=2**-24)
