"""Networks computed on a GPU: the same runs as on the CPU, up to the order of sums."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import fedsim
import fedsim.torch
from fedsim.core.threads import VARIABLE
from fedsim.results.result import Result
from tests.addons.torch.devices import on_both, state_of_streams

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here"),
]

IMAGES = {"kind": "sklearn", "name": "digits", "preprocess": [{"divide": 16}]}
METHOD = {"kind": "fedavg", "step_size": 0.1, "local_steps": 3, "batch": 8}

MODELS: dict[str, dict[str, Any]] = {
    "logistic": {},
    "mlp": {"hidden": [16]},
    "cnn": {"channels": [4, 6], "hidden": 16},
    "resnet": {"depth": 8, "width": 4, "groups": 2},
    "transformer": {},
    "char-lstm": {},
}

OPTIMIZERS = ["sgd", "adam", "adamw", "yogi", "adagrad", "muon"]

PHYSICS = ["t", "bits_up", "bits_down", "joules"]


@pytest.fixture(autouse=True)
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("a quick brown fox jumps over a lazy dog. " * 8)


def scenario(model: str = "mlp", **keys: Any) -> dict[str, Any]:
    reads = {"kind": "text", "path": "text.txt", "context": 8}
    tokens = model in {"transformer", "char-lstm"}
    data = reads if tokens else IMAGES
    loss: dict[str, Any] = {"outputs": 128} if tokens else {}
    loss |= {"kind": "torch", "model": {"kind": model, **MODELS[model]}, "numbers": "float64"}
    return {
        "problem": {"loss": loss | keys.pop("loss", {}), "data": data, "test": {"fraction": 0.2}},
        "algorithm": METHOD | keys.pop("algorithm", {}),
        "fleet": [{"count": 4, "device": "pi-4", "radio": "wifi"}],
        "wire": {"values": "float64"},
        "measures": ["test_accuracy", "test_loss"],
        "stop": {"rounds": 3},
        **keys,
    }


def assert_alike(one: Result, other: Result, tolerance: float = 1e-9) -> None:
    """Costs are equal, and models up to rounding."""
    assert one.rounds[PHYSICS].equals(other.rounds[PHYSICS])
    assert one.model() == pytest.approx(other.model(), rel=tolerance, abs=tolerance)
    for name in {"objective", "test_loss"} & set(one.rounds):
        first, second = (each.rounds[name].to_numpy(np.float64) for each in (one, other))
        np.testing.assert_allclose(first, second, rtol=tolerance)


@pytest.mark.parametrize("evaluator", ["one-by-one", "vmap"])
@pytest.mark.parametrize("model", MODELS)
def test_each_architecture(model: str, evaluator: str, tmp_path: Path) -> None:
    if (model, evaluator) == ("char-lstm", "vmap"):
        pytest.skip("PyTorch has no vmap of LSTMs")
    assert_alike(*on_both(scenario(model, evaluator=evaluator), tmp_path))


@pytest.mark.parametrize("state", ["reset", "kept"])
@pytest.mark.parametrize("evaluator", ["one-by-one", "vmap"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_each_optimizer(optimizer: str, evaluator: str, state: str, tmp_path: Path) -> None:
    block = {"kind": optimizer} | ({"momentum": 0.9} if optimizer == "sgd" else {})
    method = {"optimizer": block, "optimizer_state": state, "step_size": 0.01}
    assert_alike(*on_both(scenario(algorithm=method, evaluator=evaluator), tmp_path), 1e-7)


@pytest.mark.parametrize(
    "algorithm",
    [
        {"clip_norm": 0.1},
        {"kind": "fedprox", "mu": 0.1},
        {"kind": "scaffold"},
        {"kind": "gd", "local_steps": None, "batch": None},
        {"kind": "ditto", "mu": 0.1},
        {"local": ["*.bias"]},
        {"optimizer": {"kind": "muon"}, "local_epochs": 2, "local_steps": None},
    ],
)
def test_other_steps(algorithm: dict[str, Any], tmp_path: Path) -> None:
    made = scenario()
    method = made["algorithm"] | algorithm
    made["algorithm"] = {name: each for name, each in method.items() if each is not None}
    assert_alike(*on_both(made, tmp_path), 1e-7)


@pytest.mark.parametrize(("numbers", "tolerance"), [("float32", 1e-2), ("bfloat16", 5e-2)])
@pytest.mark.parametrize("evaluator", ["one-by-one", "vmap"])
def test_other_numbers(numbers: str, tolerance: float, evaluator: str, tmp_path: Path) -> None:
    made = scenario("cnn", loss={"numbers": numbers}, evaluator=evaluator)
    assert_alike(*on_both(made, tmp_path), tolerance)


class Noisy(nn.Module):
    """A network with batch normalisation, dropout, and a layer that is drawn and not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = nn.Linear(64, 8).requires_grad_(False)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.last = nn.Linear(8, 10)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.last(self.drop(self.norm(torch.relu(self.drawn(rows)))))
        return found


def digits() -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 64)), rng.integers(0, 10, 80)
    return torch.tensor(X, dtype=torch.float32), torch.tensor(y)


def trained(module: Any, folder: Path, **keys: Any) -> fedsim.torch.TorchResult:
    X, y = digits()
    clients = [TensorDataset(X[i::4], y[i::4]) for i in range(4)]
    return fedsim.torch.run(
        module, clients, algorithm=METHOD, rounds=3, out=folder, fleet=[{"count": 4}], **keys
    )


def test_draws_follow_from_the_seed_and_leave_the_streams(tmp_path: Path) -> None:
    torch.rand(1, device="cuda")
    before = state_of_streams()
    for name in ("one", "other"):
        problem = fedsim.torch.problem(
            Noisy, data=(*digits(), np.arange(80) % 4), device="cuda", statistics="averaged"
        )
        keys = {"algorithm": METHOD, "stop": {"rounds": 3}, "fleet": [{"count": 4}]}
        fedsim.run({"problem": problem, **keys}, out=tmp_path / name)
        assert all(map(torch.equal, before, state_of_streams()))
        torch.rand(5, device="cuda")
        before = state_of_streams()
    one, other = (fedsim.open(tmp_path / name).model() for name in ("one", "other"))
    assert one == pytest.approx(other, rel=1e-5, abs=1e-6)


def test_a_module_and_rows_on_the_gpu_are_trained_there(tmp_path: Path) -> None:
    module = nn.Linear(64, 10).cuda()
    X, y = digits()
    clients = [TensorDataset(X[i::4].cuda(), y[i::4].cuda()) for i in range(4)]
    result = fedsim.torch.run(module, clients, algorithm=METHOD, rounds=3, out=tmp_path / "gpu")
    plain = trained(module.cpu(), tmp_path / "cuda")
    loss: Any = fedsim.torch.problem(nn.Linear(64, 10).cuda(), data=(X, y)).loss
    assert loss.device == "cuda"
    assert result.model() == pytest.approx(plain.model(), rel=1e-4, abs=1e-5)
    assert next(result.module().parameters()).device.type == "cpu"


def own_step(module: nn.Module, batch: list[Tensor]) -> Tensor:
    rows, labels = batch
    return functional.cross_entropy(module(rows), labels, reduction="none")


def share(module: nn.Module, batch: list[Tensor]) -> Tensor:
    found: Tensor = (module(batch[0]).argmax(1) == batch[1]).float().mean()
    return found


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.RMSprop])
def test_a_step_a_metric_and_an_optimizer_of_the_users(optimizer: Any, tmp_path: Path) -> None:
    X, y = digits()
    clients = [TensorDataset(X[i::4], y[i::4]) for i in range(4)]
    given = {"optimizer": fedsim.torch.optimizer(optimizer), "optimizer_state": "kept"}
    keys = {
        "algorithm": METHOD | {"step_size": 0.01} | given,
        "measures": ["test_loss", fedsim.torch.metric(share, "own_accuracy")],
        "stop": {"rounds": 3},
    }
    torch.manual_seed(1)
    module = nn.Linear(64, 10)
    runs: list[Result] = []
    for device in ("cpu", "cuda"):
        problem = fedsim.torch.problem(
            module, data=clients, test=clients[0], step=own_step, device=device, numbers="float64"
        )
        runs.append(fedsim.run({"problem": problem, **keys}, out=tmp_path / device))
    assert_alike(runs[0], runs[1], 1e-6)
    one, other = (each.rounds["own_accuracy"].to_numpy(np.float64) for each in runs)
    assert one == pytest.approx(other, rel=1e-6)  # a mean in float32


def test_several_processes_use_the_gpu(tmp_path: Path) -> None:
    made = scenario(loss={"device": "cuda"}, seeds=2)
    one = fedsim.run(made, out=tmp_path / "one")
    two = fedsim.run(made, out=tmp_path / "two", jobs=2)
    for seed in (1, 2):
        expected = one.model(seed=seed)
        assert two.model(seed=seed) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_memory_of_the_gpu_does_not_grow_with_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")  # threads reach their peaks together at times
    held = []
    for rounds in (3, 30):
        torch.cuda.reset_peak_memory_stats()
        made = scenario("cnn", loss={"device": "cuda"}, stop={"rounds": rounds})
        fedsim.run(made, out=tmp_path / str(rounds))
        held.append(torch.cuda.max_memory_allocated())
    assert held[1] <= held[0] * 1.05
