"""Adapters: FedIT, FFA-LoRA and FedSA-LoRA are plain loops; what is frozen costs nothing."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fedsim
import fedsim.torch
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.conftest import ROOT

CLIENTS, ROWS, STEPS, ROUNDS, ETA = 3, 8, 2, 3, 0.5


class Adapted(nn.Module):
    """A linear layer W x + b that is frozen, and B A x beside it; B begins at zero."""

    def __init__(self, inside: int, outside: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(inside, outside).requires_grad_(requires_grad=False)
        self.lora_A = nn.Parameter(torch.randn(rank, inside) / inside)
        self.lora_B = nn.Parameter(torch.zeros(outside, rank))

    def forward(self, rows: Tensor) -> Tensor:
        """Return outputs of rows (b, inside), shape (b, outside)."""
        found: Tensor = self.base(rows) + rows @ self.lora_A.T @ self.lora_B.T
        return found


def network(inside: int = 6, hidden: int = 5, classes: int = 3, rank: int = 2) -> nn.Module:
    torch.manual_seed(0)
    layers = Adapted(inside, hidden, rank), nn.Tanh(), Adapted(hidden, classes, rank)
    return nn.Sequential(*layers).double()


def freeze(module: nn.Module, part: str) -> nn.Module:
    for name, parameter in module.named_parameters():
        if part in name:
            parameter.requires_grad = False
    return module


def rows() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((CLIENTS * ROWS, 6))
    return X, rng.integers(0, 3, len(X)), np.repeat(np.arange(CLIENTS), ROWS)


def scenario(module: nn.Module, data: Any = None, **keys: Any) -> dict[str, Any]:
    made = fedsim.torch.problem(module, data=data or rows(), numbers="float64")
    return {
        "problem": made,
        "algorithm": {"kind": "fedavg", "step_size": ETA, "local_steps": STEPS, **keys},
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
    }


def loop(module: nn.Module, stays: str) -> tuple[list[nn.Module], list[float]]:
    """Average what is trained and does not stay; return the clients' modules, and mean losses.

    The first loss is that of the start.
    """
    X, y, _ = map(torch.tensor, rows())
    own = [deepcopy(module) for _ in range(CLIENTS)]
    parts = [(X[part], y[part]) for part in np.arange(len(y)).reshape(CLIENTS, ROWS)]

    def mean_loss() -> float:
        with torch.no_grad():
            found = [
                functional.cross_entropy(m(a), b) for m, (a, b) in zip(own, parts, strict=True)
            ]
        return float(torch.stack(found).mean())

    losses = [mean_loss()]
    for _ in range(ROUNDS):
        for each, (inputs, labels) in zip(own, parts, strict=True):
            moved = [p for p in each.parameters() if p.requires_grad]
            for _ in range(STEPS):
                loss = functional.cross_entropy(each(inputs), labels)
                for p, g in zip(moved, torch.autograd.grad(loss, moved), strict=True):
                    p.data -= ETA * g
        for name, _ in module.named_parameters():
            if not (stays and stays in name):
                mean = torch.stack([each.get_parameter(name).data for each in own]).mean(dim=0)
                for each in own:
                    each.get_parameter(name).data.copy_(mean)
        losses.append(mean_loss())
    return own, losses


def operations(module: nn.Module) -> float:
    plan = load(scenario(module))
    return float(Builder(plan).build(plan.variants[0], 1).problem.losses[0].gradient_operations)


METHODS = {
    "FedIT": ("", {}, ""),
    "FFA-LoRA": ("lora_A", {}, ""),
    "FedSA-LoRA": ("", {"local": ["*lora_B*"]}, "lora_B"),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_its_loop(method: str, tmp_path: Path) -> None:
    frozen, keys, stays = METHODS[method]
    module = freeze(network(), frozen) if frozen else network()
    own, losses = loop(module, stays)
    result = fedsim.run(scenario(module, **keys), out=tmp_path)
    assert result.rounds["objective"].to_numpy() == pytest.approx(losses, rel=1e-10)
    trained = fedsim.torch.load_module(module, result)
    for name, parameter in trained.named_parameters():
        if not (stays and stays in name):
            expected = own[0].get_parameter(name).data
            assert torch.allclose(parameter.data, expected, rtol=0, atol=1e-10)


def test_what_is_frozen_is_not_in_the_gradient_s_operations() -> None:
    whole = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    both, alone = operations(network(rank=1)), operations(freeze(network(rank=1), "lora_A"))
    rows_, base, A, B = 8, 6 * 5 + 5 * 3, 6 + 5, 5 + 3
    assert operations(whole) == rows_ * 2 * (2 * base + 5 * 3)
    assert alone < both
    assert both - alone >= rows_ * 2 * A
    assert base > B


@pytest.mark.slow
def test_the_page_says_what_adapters_send(tmp_path: Path) -> None:
    page = (ROOT / "docs/howto/personalisation.md").read_text()
    pattern = r"^\| ([^|]+) \| (\d+) \| [^|]+ \| (\d+) \|$"
    said = {name: (int(n), int(b)) for name, n, b in re.findall(pattern, page, re.MULTILINE)}
    rng = np.random.default_rng(0)
    data = rng.standard_normal((4, 64)), np.arange(4), np.array([0, 0, 1, 1])
    plain = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    made: dict[str, tuple[nn.Module, dict[str, Any]]] = {"FedAvg": (plain, {})}
    normed = nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 10))
    made["FedBN"] = normed, {"local": ["1.*"]}
    for method, (frozen, keys, _) in METHODS.items():
        module = network(64, 32, 10, 4)
        made[method] = (freeze(module, frozen) if frozen else module), cast("Any", keys)
    found = {}
    for method, (module, keys) in made.items():
        whole = scenario(module, data, **keys) | {"wire": {}, "stop": {"rounds": 1}}
        bits = fedsim.run(whole, out=tmp_path / method).rounds["bits_up"].iloc[1]
        trained = sum(each.numel() for each in module.parameters() if each.requires_grad)
        found[method] = trained, int(bits) // 2
    assert found == said


SENT = {"FedIT": ("lora_A", "lora_B"), "FFA-LoRA": ("lora_B",), "FedSA-LoRA": ("lora_A",)}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_peft_s_adapters_are_averaged_as_the_methods_say(method: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    frozen, keys, stays = METHODS[method]
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    made = peft.inject_adapter_in_model(peft.LoraConfig(r=2, target_modules=["0", "2"]), base)
    module = freeze(made, frozen).double() if frozen else made.double()
    own, losses = loop(module, stays)
    result = fedsim.run(scenario(module, **keys), out=tmp_path)
    assert result.rounds["objective"].to_numpy() == pytest.approx(losses, rel=1e-10)
    trained, sent = fedsim.torch.load_module(module, result), 0
    for name, parameter in trained.named_parameters():
        if not (stays and stays in name):
            expected = own[0].get_parameter(name).data
            assert torch.allclose(parameter.data, expected, rtol=0, atol=1e-10)
        moved = not torch.equal(parameter.data, module.get_parameter(name).data)
        assert moved == (parameter.requires_grad and not (stays and stays in name))
        if any(part in name for part in SENT[method]):
            sent += parameter.numel()
    bits = int(result.rounds["bits_up"].iloc[1]) // CLIENTS
    assert 0 <= bits - 64 * sent <= 200  # headers
