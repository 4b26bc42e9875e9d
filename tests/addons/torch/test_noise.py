"""What training draws beside samples: masks of dropout, and how images vary, step by step."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedsim.torch
from fedsim.core.ports import Array
from fedsim.problems import LocalLoss, TorchLoss
from fedsim.problems.architectures import Convolutional
from fedsim.problems.kernels import minibatch_change, minibatch_gradient
from fedsim.problems.oracle import LossOracle
from fedsim.problems.samples import seed_of

MASKS: list[bytes] = []
CLIENTS, ROUNDS, ROWS = 3, 6, 5


class Masked(nn.Module):
    """A network that notes its masks while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop, self.outer = nn.Linear(6, 32), nn.Dropout(0.3), nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = self.drop(torch.ones(len(x), 32, dtype=x.dtype))
        if self.training:
            MASKS.append(mask.detach().numpy().tobytes())
        found: torch.Tensor = self.outer(torch.tanh(self.inner(x)) * mask)
        return found


def train(seeds: int = 2, **algorithm: Any) -> Any:
    rng = np.random.default_rng(0)
    data = [
        torch.utils.data.TensorDataset(
            torch.tensor(rng.normal(size=(ROWS, 6)), dtype=torch.float32),
            torch.tensor(rng.integers(0, 3, ROWS)),
        )
        for _ in range(CLIENTS)
    ]
    torch.manual_seed(3)
    method = {"kind": "fedavg", "step_size": 0.1, **algorithm}
    fleet = [{"count": CLIENTS, "device": "pi-4", "radio": "wifi"}]
    return fedsim.torch.run(
        Masked(), data, rounds=ROUNDS, seeds=seeds, algorithm=method, fleet=fleet
    )


@pytest.mark.parametrize(
    "method",
    [
        {"local_steps": 1},
        {"local_steps": 1, "batch": 3},
        {"local_epochs": 1, "batch": 64},
    ],
    ids=["all rows", "minibatches", "passes"],
)
def test_every_step_has_a_mask_of_its_own(method: dict[str, Any]) -> None:
    steps = 2 * CLIENTS * ROUNDS
    MASKS.clear()
    run = train(**method)
    assert len(set(MASKS[-steps:])) == steps
    assert not np.array_equal(run.model(seed=1), run.model(seed=2))


def test_the_same_seed_has_the_same_masks() -> None:
    one, other = (train(seeds=1, local_steps=2, batch=3) for _ in range(2))
    assert np.array_equal(one.model(), other.model())


def oracle() -> tuple[LossOracle, LocalLoss, Array]:
    rng = np.random.default_rng(4)
    loss = TorchLoss(model=Convolutional(channels=(2,), hidden=4), augment=("flip",))
    X, y = rng.standard_normal((12, 64)), (np.arange(12) % 3).astype(np.float64)
    f = LocalLoss(loss, X, loss.encode(y))
    return LossOracle(f), f, f.initial(rng)


@pytest.mark.parametrize("batch", [None, 4, 12])
def test_both_gradients_of_a_change_have_one_noise(batch: int | None) -> None:
    own, f, w = oracle()
    rng = np.random.default_rng(7)
    for _ in range(3):
        work = own.minibatch_change(w, w.copy(), batch, rng)
        assert not minibatch_change(f, *work.arguments).any()
    first, second = (own.minibatch(w, batch, rng).arguments for _ in range(2))
    assert not np.array_equal(minibatch_gradient(f, *first), minibatch_gradient(f, *second))


def test_work_with_another_seed_is_other_work() -> None:
    own, _, w = oracle()
    rng = np.random.default_rng(7)
    drawn = [own.draws(2, None, rng) for _ in range(2)]
    assert len({seed_of(each) for some in drawn for each in some}) == 4
    one, other = (own.sgd_steps(w, 0.1, some) for some in drawn)
    assert one == own.sgd_steps(w, 0.1, drawn[0])
    assert one != other
