"""The network of W5 in plain PyTorch, for contestants of other makes."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

CLIENTS, ASKED, ROWS, BATCH, STEPS, RATE, ROUNDS = 100, 10, 100, 20, 5, 0.01, 4


class Rows(NamedTuple):
    """Rows of all clients.

    Attributes:
        X: shape (clients, rows, 1, 28, 28).
        t: classes, shape (clients, rows).
    """

    X: Tensor
    t: Tensor


def network() -> nn.Module:
    """Return the CNN of McMahan et al., AISTATS 2017, section 3."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def rows(folder: str) -> Rows:
    """Return the rows of W5 as tensors."""
    with np.load(Path(folder) / "w5.npz") as archive:
        X, y = archive["X"].astype(np.float32), archive["y"].astype(np.int64)
    return Rows(
        torch.from_numpy(X.reshape(CLIENTS, ROWS, 1, 28, 28)),
        torch.from_numpy(y.reshape(CLIENTS, ROWS)),
    )


def train(module: nn.Module, X: Tensor, t: Tensor) -> None:
    """Take a client's steps, as any tutorial has them."""
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE)
    criterion = nn.CrossEntropyLoss()
    order = torch.randperm(ROWS)
    for at in range(0, BATCH * STEPS, BATCH):
        some = order[at : at + BATCH]
        optimiser.zero_grad()
        criterion(module(X[some]), t[some]).backward()
        optimiser.step()
