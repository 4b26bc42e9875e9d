"""A module trained by optimizers in fedsim is the module of a plain loop of PyTorch."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import fedsim.torch
from fedsim.ports import Array
from fedsim.streams import stream
from tests.algorithms.harness import trajectory
from tests.tiers import some

SIZES, FEATURES, CLASSES = (7, 12, 5), 6, 3
ROUNDS, EPOCHS, BATCH, ETA = 4, 2, 4, 0.05

Make = Callable[[Any], torch.optim.Optimizer]

RULES: dict[str, tuple[dict[str, Any], Make]] = {
    "nesterov": (
        {"kind": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        lambda p: torch.optim.SGD(p, ETA, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    "adam": ({"kind": "adam", "beta2": 0.95}, lambda p: torch.optim.Adam(p, ETA, (0.9, 0.95))),
    "adamw": (
        {"kind": "adamw", "weight_decay": 0.1},
        lambda p: torch.optim.AdamW(p, ETA, weight_decay=0.1),
    ),
    "adagrad": ({"kind": "adagrad"}, lambda p: torch.optim.Adagrad(p, ETA)),
}


def network() -> nn.Module:
    torch.manual_seed(3)
    hidden = nn.Linear(FEATURES, 5), nn.LayerNorm(5), nn.Tanh()
    return nn.Sequential(*hidden, nn.Linear(5, CLASSES)).double()


def rows() -> list[tuple[Tensor, Tensor]]:
    rng = np.random.default_rng(5)
    return [
        (
            torch.tensor(rng.standard_normal((n, FEATURES)) + m),
            torch.tensor(rng.integers(0, CLASSES, n)),
        )
        for m, n in enumerate(SIZES)
    ]


def flat(module: nn.Module) -> Array:
    return np.asarray(nn.utils.parameters_to_vector(module.parameters()).detach().numpy().copy())


def plain_loop(make: Make, kept: bool, clip: float | None, mu: float) -> list[Array]:
    """FedAvg with reshuffled passes, as one writes it in PyTorch."""
    shared, parts, models = network(), rows(), []
    own = [deepcopy(shared) for _ in SIZES]
    optimizers = [make(each.parameters()) for each in own]
    draws = [stream(1, "client", m) for m in range(len(SIZES))]
    for _ in range(ROUNDS):
        start = [each.detach().clone() for each in shared.parameters()]
        for m, module in enumerate(own):
            module.load_state_dict(shared.state_dict())
            optimizer = optimizers[m] if kept else make(module.parameters())
            X, y = parts[m]
            for _ in range(EPOCHS):
                order = torch.as_tensor(draws[m].permutation(len(y)))
                for some_rows in torch.split(order, BATCH):
                    optimizer.zero_grad()
                    loss = functional.cross_entropy(module(X[some_rows]), y[some_rows])
                    apart = zip(module.parameters(), start, strict=True)
                    loss = loss + mu / 2 * sum((p - q).square().sum() for p, q in apart)
                    torch.autograd.backward(loss)
                    if clip is not None:
                        nn.utils.clip_grad_norm_(module.parameters(), clip)
                    optimizer.step()
        with torch.no_grad():
            for whole, *each in zip(
                shared.parameters(), *(module.parameters() for module in own), strict=True
            ):
                mean = sum(n / sum(SIZES) * p for n, p in zip(SIZES, each, strict=True))
                whole.copy_(mean)
        models.append(flat(shared))
    return models


@pytest.mark.parametrize("rule", some(RULES, "nesterov", "adam"))
@pytest.mark.parametrize("state", ["reset", "kept"])
@pytest.mark.parametrize("more", some(["plain", "clipped and pulled"], "clipped and pulled"))
def test_a_module_is_that_of_the_plain_loop(
    rule: str, state: str, more: str, tmp_path: Path
) -> None:
    block, make = RULES[rule]
    clip, mu = (None, 0.0) if more == "plain" else (0.5, 0.3)
    data = [TensorDataset(*part) for part in rows()]
    problem = fedsim.torch.problem(network(), data=data, numbers="float64")
    scenario = {
        "problem": problem,
        "algorithm": {
            "kind": "fedprox" if mu else "fedavg",
            "step_size": ETA,
            "local_epochs": EPOCHS,
            "batch": BATCH,
            "optimizer": block,
            "optimizer_state": state,
            "clip_norm": clip,
            **({"mu": mu} if mu else {}),
        },
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
    }
    seen = trajectory(scenario, tmp_path / "run").models
    expected = np.array(plain_loop(make, state == "kept", clip, mu))
    assert np.abs(seen - expected).max() <= 1e-10 * np.abs(expected).max()
