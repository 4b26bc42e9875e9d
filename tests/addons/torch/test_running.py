"""A module trained in one call, and given back with the accuracy that its run has seen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import fedsim
import fedsim.torch
from fedsim.core.errors import DataError, ScenarioError

X = np.random.default_rng(5).normal(size=(60, 4))
Y = (X @ np.array([1.0, -2.0, 0.5, 0.0]) > 0).astype(np.int64)
ROWS, TEST = (X[:40], Y[:40]), (X[40:], Y[40:])
METHOD = {"kind": "fedavg", "step_size": 0.5, "local_steps": 2}
FLEET = [{"count": 4}]


class Network(nn.Module):
    """A network with a layer that is drawn and never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = nn.Linear(4, 6).requires_grad_(False)
        self.drop = nn.Dropout(0.2)
        self.last = nn.Linear(6, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.drop(torch.tanh(self.drawn(rows))))
        return out


def trained_in(folder: Path, **keys: Any) -> fedsim.torch.TorchResult:
    given: dict[str, Any] = {"algorithm": METHOD, "test": TEST, "rounds": 6, "fleet": FLEET}
    return fedsim.torch.run(Network, ROWS, out=folder, **(given | keys))


def accuracy(module: nn.Module) -> float:
    with torch.no_grad():
        outputs = module(torch.tensor(TEST[0], dtype=torch.float32))
    return float((outputs.argmax(dim=1).numpy() == TEST[1]).mean())


def test_it_is_the_run_of_the_scenario_that_it_stands_for(tmp_path: Path) -> None:
    short = trained_in(tmp_path / "short", seeds=2)
    problem = fedsim.torch.problem(Network, data=ROWS, test=TEST)
    keys = {"measures": ["test_accuracy"], "stop": {"rounds": 6}, "seeds": 2, "fleet": FLEET}
    whole = fedsim.run({"problem": problem, "algorithm": METHOD, **keys}, out=tmp_path / "whole")
    assert short.rounds.equals(whole.rounds)
    assert short.events.equals(whole.events)


def test_a_class_of_torch_optim_is_taken_as_the_optimizer(tmp_path: Path) -> None:
    method = METHOD | {"step_size": 0.01}
    named = METHOD | {"step_size": 0.01, "optimizer": {"kind": "adam"}}
    found = trained_in(tmp_path / "class", algorithm=method | {"optimizer": torch.optim.Adam})
    expected = trained_in(tmp_path / "kind", algorithm=named)
    assert found.model() == pytest.approx(expected.model(), rel=1e-5, abs=1e-6)
    own = torch.optim.Adam(nn.Linear(4, 2).parameters())
    with pytest.raises(DataError, match=r"give the class, torch\.optim\.Adam"):
        trained_in(tmp_path, algorithm=method | {"optimizer": own})


def test_a_result_gives_the_best_module_of_a_variant_and_that_of_a_client(tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "variants": {"all": {}, "head": {"algorithm": {"local": ["last.bias"]}}},
        "models": {"best": "test_accuracy"},
        "stop": {"patience": {"measure": "test_accuracy", "rounds": 3, "least": 0.001}},
    }
    result = trained_in(tmp_path, **keys)
    for variant in ("all", "head"):
        own = result.rounds[result.rounds["variant"] == variant]
        best = result.module(variant, "best")
        assert isinstance(best, Network)
        if variant == "all":  # the model itself is measured, not its clients'
            assert accuracy(best) == own["test_accuracy"].max()
            assert accuracy(result.module("all")) == own["test_accuracy"].iloc[-1]
    kept = {"models": {"clients": True}, "rounds": 2}
    head = trained_in(tmp_path / "own", algorithm=METHOD | {"local": ["last.bias"]}, **kept)
    biases = [head.module(client=m).last.bias.detach().numpy() for m in range(4)]
    assert len({each.tobytes() for each in biases}) == 4


def test_the_module_of_a_run_has_the_accuracy_that_the_run_has_seen(tmp_path: Path) -> None:
    result = trained_in(tmp_path, models={"every": 1}, seeds=2)
    state = torch.random.get_rng_state()
    for seed in (1, 2):
        seen = result.rounds.loc[result.rounds["seed"] == seed, "test_accuracy"]
        for number, share in enumerate(seen.iloc[1:], 1):
            made = fedsim.torch.load_module(Network, result, seed=seed, round=number)
            assert not made.training
            assert accuracy(made) == pytest.approx(share)
        best = fedsim.torch.load_module(Network, result, seed=seed, round="best")
        assert accuracy(best) == pytest.approx(seen.max())
        assert accuracy(fedsim.torch.load_module(Network, result, seed=seed)) == seen.iloc[-1]
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(ValueError, match="was run under the seeds"):
        fedsim.torch.load_module(Network, result, round="best")


def test_a_run_leaves_the_random_stream_of_pytorch(tmp_path: Path) -> None:
    """The network has dropout, which draws in trials, too."""
    state = torch.random.get_rng_state()
    trained_in(tmp_path / "run")
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(ScenarioError):
        trained_in(tmp_path / "refused", algorithm=METHOD | {"step_size": -1})
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("figure", ["test_accuracy", "objective", "test_loss"])
def test_the_best_model_is_kept_beside_the_last(figure: str, tmp_path: Path) -> None:
    method = METHOD | {"step_size": 6.0}  # so that it goes up and down
    keys = {"algorithm": method, "measures": ["test_accuracy", "test_loss"], "rounds": 12}
    every = trained_in(tmp_path / "every", models={"every": 1}, **keys)
    few = trained_in(tmp_path / "few", models={"best": figure}, **keys)
    values = every.rounds[figure].to_numpy(np.float64)
    kept = values[1:]  # the start is not
    best = 1 + int(kept.argmax() if figure == "test_accuracy" else kept.argmin())
    assert few.models["round"].tolist() == sorted({best, 12})
    assert np.array_equal(few.model(round=best), every.model(round=best))
    made = fedsim.torch.load_module(Network, few, round="best", measure=figure)
    other = fedsim.torch.load_module(Network, every, round=best)
    assert torch.equal(made.last.weight, other.last.weight)


def test_a_module_handed_over_is_not_changed(tmp_path: Path) -> None:
    module = nn.Linear(4, 2)
    before = module.weight.clone()
    clients = [
        TensorDataset(torch.tensor(X[i::4]).float(), torch.tensor(Y[i::4])) for i in range(4)
    ]
    result = fedsim.torch.run(module, clients, algorithm=METHOD, rounds=2, out=tmp_path)
    made = fedsim.torch.load_module(module, result)
    assert torch.equal(module.weight, before)
    assert not torch.equal(made.weight, before)
    assert result.clients["client"].nunique() == 4
    assert "test_accuracy" not in result.rounds


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    result = trained_in(tmp_path / "one")
    with pytest.raises(DataError, match="a module of 10 trained numbers, and a model of 14"):
        fedsim.torch.load_module(nn.Linear(4, 2), result)
    with pytest.raises(DataError, match="got 'f1'; expected one of variant, seed, round"):
        fedsim.torch.load_module(Network, result, round="best", measure="f1")
    with pytest.raises(DataError, match="got 3, and 6 as the argument; give one of them"):
        trained_in(tmp_path / "two", stop={"rounds": 3})
    with pytest.raises(ScenarioError, match=r"give measures: \[test_loss\]"):
        trained_in(tmp_path / "two", models={"best": "test_loss"})
    with pytest.raises(ScenarioError, match="no run evaluates it"):
        trained_in(tmp_path / "two", models={"best": "test_acuracy"})
    with pytest.raises(ScenarioError, match=r"got every: 2 and best: gap; give one of them"):
        trained_in(tmp_path / "two", models={"best": "gap", "every": 2})
    assert not (tmp_path / "two").exists()
