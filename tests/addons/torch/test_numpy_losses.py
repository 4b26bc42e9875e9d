"""Optimizers of clients whose losses are computed by NumPy: whole runs beside PyTorch's own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import Parameter
from torch.nn.functional import softplus

from fedsim.core.ports import Array
from fedsim.core.streams import stream
from tests.algorithms.harness import trajectory
from tests.algorithms.local_loops import L2, SIZES, Local, local

ROUNDS, STEPS, EPOCHS, BATCH, ETA = 7, 3, 2, 4, 0.05

Make = Callable[[list[Parameter]], torch.optim.Optimizer]

RULES: dict[str, tuple[dict[str, Any], Make]] = {
    "momentum": (
        {"kind": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        lambda own: torch.optim.SGD(own, ETA, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "adam": ({"kind": "adam"}, lambda own: torch.optim.Adam(own, ETA)),
    "adamw": (
        {"kind": "adamw", "weight_decay": 0.2},
        lambda own: torch.optim.AdamW(own, ETA, weight_decay=0.2),
    ),
}


def minibatches(rng: np.random.Generator, size: int, *, passes: bool) -> Iterator[Any]:
    """Yield those of a round, in passes the last ones smaller."""
    if not passes:
        for _ in range(STEPS):
            yield rng.choice(size, BATCH, replace=False, shuffle=False)
        return
    for _ in range(EPOCHS):
        yield from torch.utils.data.BatchSampler(rng.permutation(size), BATCH, drop_last=False)


def plain_loop(problem: Local, make: Make, *, kept: bool, passes: bool) -> Array:
    """Return the server's model after each round, shape (rounds, d)."""
    w, models = torch.zeros(6, dtype=torch.float64), []
    own = [Parameter(w.clone()) for _ in SIZES]
    optimizers = [make([each]) for each in own]
    draws = [stream(1, "client", client) for client in range(len(SIZES))]
    for _ in range(ROUNDS):
        for client, p in enumerate(own):
            p.data = w.clone()
            optimizer = optimizers[client] if kept else make([p])
            X, y = map(torch.tensor, problem.parts[client])
            for rows in minibatches(draws[client], SIZES[client], passes=passes):
                optimizer.zero_grad()
                loss = softplus(-y[rows] * (X[rows] @ p)).mean() + L2 / 2 * p @ p
                torch.autograd.backward(loss)
                optimizer.step()
        shares = np.array(SIZES) / sum(SIZES)
        w = sum((share * p.detach() for share, p in zip(shares, own, strict=True)), 0 * w)
        models.append(w.numpy().copy())
    return np.array(models)


@pytest.mark.parametrize("evaluator", ["one-by-one", "compiled"])
@pytest.mark.parametrize("state", ["reset", "kept"])
@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_a_run_is_the_loop_with_the_optimizers_of_pytorch(
    rule: str, passes: bool, state: str, evaluator: str, tmp_path: Path
) -> None:
    block, make = RULES[rule]
    problem = local(tmp_path, "logistic", BATCH)
    length = {"local_epochs": EPOCHS} if passes else {"local_steps": STEPS}
    steps = {"step_size": ETA, "batch": BATCH, **length}
    scenario = {
        "problem": problem.block,
        "algorithm": {"kind": "fedavg", **steps, "optimizer": block, "optimizer_state": state},
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
        "evaluator": evaluator,
    }
    expected = plain_loop(problem, make, kept=state == "kept", passes=passes)
    seen = trajectory(scenario, tmp_path / "run").models
    assert np.abs(seen - expected).max() < 1e-12 * np.abs(expected).max()
