"""Parts of a module that stay local: FedBN, FedPer, FedRep and LG-FedAvg are plain loops."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fedsim
import fedsim.torch
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.results.record.parts import read_table
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.sim.world import World
from fedsim.wire import HEADER_BITS, Dense, ValueFormat
from tests.tiers import every

SIZES, FEATURES, CLASSES = (7, 12, 6), 6, 3
ROUNDS, STEPS, BATCH, ETA = 4, 3, 4, 0.3
BODY, NORM, HEAD, STATISTICS = "0.*", "1.[wb]*", "3.*", "1.running_*"


def network(norm: type[nn.Module] = nn.LayerNorm) -> nn.Module:
    torch.manual_seed(3)
    hidden = nn.Linear(FEATURES, 5), norm(5), nn.Tanh()
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


def scenario(module: nn.Module, statistics: str = "refused", **keys: Any) -> dict[str, Any]:
    parts = rows()
    X, y = (np.concatenate([each[i].numpy() for each in parts]) for i in (0, 1))
    data = X, y, np.repeat(np.arange(len(SIZES)), SIZES)
    made = fedsim.torch.problem(module, data=data, numbers="float64", statistics=statistics)
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_steps": STEPS, "batch": BATCH}
    return {
        "problem": made,
        "algorithm": algorithm | keys,
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
    }


def built(whole: dict[str, Any]) -> Job:
    plan = load(whole)
    return Builder(plan).build(plan.variants[0], 1)


def own_models(job: Job, folder: Path) -> list[list[Array]]:
    """Run a job, and return the clients' own models by round, from 0."""
    setup, found = job.setup, list[list[Array]]()
    method: Any = setup.algorithm

    def evaluate(w: Array) -> float:
        found.append(list(method.models(w)))
        return setup.evaluate(w)

    with RunRecorder(folder / "run", len(SIZES)) as book:
        world = World(replace(setup, evaluate=evaluate), book)
        world.close(world.run())
    return found


def state(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters, and statistics behind them, by name."""
    floats = {n: b for n, b in module.named_buffers() if b.is_floating_point()}
    return dict(module.named_parameters()) | floats


def flat(module: nn.Module) -> Array:
    parts = [each.detach().reshape(-1) for each in state(module).values()]
    return np.asarray(torch.cat(parts).numpy().copy())


def loop(module: nn.Module, stays: Callable[[str], bool], first: int = 0) -> list[list[Array]]:
    """Return the clients' models by round, from 0: each trains its own, and averages some names.

    Args:
        module: that all begin with.
        stays: whether a parameter stays local, by its name.
        first: the steps on what stays local, before those on what is averaged; 0 for joint ones.
    """
    own = [deepcopy(module) for _ in SIZES]
    draws = [stream(1, "client", m) for m in range(len(SIZES))]
    models = [[flat(each) for each in own]]
    for _ in range(ROUNDS):
        for m, (each, (X, y)) in enumerate(zip(own, rows(), strict=True)):
            for number in range(first + STEPS):
                some = draws[m].choice(len(y), BATCH, replace=False, shuffle=False)
                each.zero_grad()
                torch.autograd.backward(functional.cross_entropy(each(X[some]), y[some]))
                for name, parameter in each.named_parameters():
                    if not first or stays(name) is (number < first):
                        parameter.data -= ETA * cast("Tensor", parameter.grad)
        with torch.no_grad():
            for name in state(module):
                if not stays(name):
                    parts = zip(SIZES, [state(each)[name] for each in own], strict=True)
                    mean = torch.stack([n / sum(SIZES) * part for n, part in parts]).sum(dim=0)
                    for each in own:
                        state(each)[name].copy_(mean)
        models.append([flat(each) for each in own])
    return models


def check_near(seen: list[list[Array]], expected: list[list[Array]]) -> None:
    assert np.abs(np.array(seen) - np.array(expected)).max() <= 1e-10


SETTINGS: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "fedbn": ({"local": [NORM]}, lambda name: name.startswith("1.")),
    "fedper": ({"local": [HEAD]}, lambda name: name.startswith("3.")),
    "fedrep": ({"local": [HEAD], "local_first": 2}, lambda name: name.startswith("3.")),
    "lg-fedavg": ({"local": [BODY, NORM]}, lambda name: not name.startswith("3.")),
}


@pytest.mark.parametrize("method", SETTINGS)
def test_a_setting_is_its_paper_s_loop(method: str, tmp_path: Path) -> None:
    keys, stays = SETTINGS[method]
    job = built(scenario(network(), **keys))
    seen = own_models(job, tmp_path)
    check_near(seen, loop(network(), stays, keys.get("local_first", 0)))
    sent = sum(each.numel() for name, each in network().named_parameters() if not stays(name))
    bits = Dense.of(np.zeros(sent), ValueFormat.FLOAT64).bits + HEADER_BITS
    for row in read_table(tmp_path / "run", "rounds").to_pylist()[1:]:
        assert row["bits_up"] == row["bits_down"] == len(SIZES) * bits


@pytest.mark.parametrize("statistics", ["local", "averaged"])
@pytest.mark.parametrize("norm", ["local", "sent"])
def test_statistics_of_batch_normalisation_stay_or_are_averaged(
    statistics: str, norm: str, tmp_path: Path
) -> None:
    keys: dict[str, Any] = {"local": [NORM]} if norm == "local" else {}
    staying = (["1.weight", "1.bias"] if keys else []) + (
        ["1.running_mean", "1.running_var"] if statistics == "local" else []
    )
    job = built(scenario(network(nn.BatchNorm1d), statistics, **keys))
    expected = loop(network(nn.BatchNorm1d), staying.__contains__)
    if staying:
        check_near(own_models(job, tmp_path), expected)
        return
    result = fedsim.run(scenario(network(nn.BatchNorm1d), statistics), out=tmp_path)
    assert result.model("base", 1) == pytest.approx(expected[-1][0], abs=1e-10)
    module = fedsim.torch.load_module(network(nn.BatchNorm1d), result)
    assert flat(module) == pytest.approx(expected[-1][0], abs=1e-10)


WHOLE: dict[str, dict[str, Any]] = {
    "fedper": {"local": [HEAD]},
    "ditto": {"kind": "ditto", "personal_rate": 0.1},
    "pfedme": {"kind": "pfedme"},
    "apfl": {"kind": "apfl", "alpha_rate": 0.5},
}


@pytest.mark.parametrize("method", WHOLE)
def test_each_client_s_own_module_is_given_back(method: str, tmp_path: Path) -> None:
    """That of the last round and of the best, as the observer has seen them."""
    whole = scenario(network(), **WHOLE[method])
    seen = own_models(built(whole), tmp_path)
    whole |= {"models": {"best": "objective", "clients": True}}
    result = fedsim.run(whole, out=tmp_path / "runs")
    best = int(result.rounds["objective"].argmin())
    for client in range(len(SIZES)):
        made = fedsim.torch.load_module(network(), result, client=client)
        assert flat(made).tobytes() == seen[-1][client].tobytes()
        assert not made.training
        own = result.model(round="best", client=client)
        assert own.tobytes() == seen[best][client].tobytes()
    assert len({flat_hash(seen[-1][m]) for m in range(len(SIZES))}) == len(SIZES)
    assert result.models.columns.tolist() == ["variant", "seed", "round", "model"]
    with pytest.raises(ValueError, match="got the client 3; expected 0 to 2"):
        result.model(client=3)


def flat_hash(model: Array) -> bytes:
    return model.tobytes()


def test_models_of_clients_are_kept_where_they_are_asked_for(tmp_path: Path) -> None:
    result = fedsim.run(scenario(network(), local=[HEAD]), out=tmp_path)
    with pytest.raises(ValueError, match=r"were not stored; models: {clients: true} stores them"):
        result.model(client=0)
    with pytest.raises(ScenarioError, match="clients of fedavg have no models of their own"):
        fedsim.check(scenario(network()) | {"models": {"clients": True}})


def test_a_client_that_misses_rounds_goes_on_with_its_own_part(tmp_path: Path) -> None:
    whole = scenario(network(), local=[HEAD])
    whole["participation"] = {"kind": "uniform", "count": 1}
    seen = np.array(own_models(built(whole), tmp_path))
    head = slice(FEATURES * 5 + 5 + 10, None)
    events = read_table(tmp_path / "run", "events").to_pylist()
    cohorts = [int(e["node"].removeprefix("client-")) for e in events if e["event"] == "sampled"]
    for before, after, asked in zip(seen, seen[1:], cohorts, strict=False):
        changed = [m for m in range(len(SIZES)) if (before[m, head] != after[m, head]).any()]
        assert changed == [asked]
        assert np.ptp(after[:, : head.start], axis=0).max() == 0


def refusals() -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Yield what of statistics is refused, and what is said."""
    yield "BatchNorm1d", "refused", {}, "loss.statistics: local or averaged"
    yield "BatchNorm1d", "averaged", {"kind": "fedadam"}, "extrapolates from the clients' models"
    yield (
        "BatchNorm1d",
        "local",
        {"kind": "ditto"},
        "have personal models of full size; take averaged",
    )
    yield "BatchNorm1d", "averaged", {"kind": "apfl", "alpha_rate": 1.0}, "leave out alpha_rate"
    yield "LayerNorm", "refused", {"local": [STATISTICS]}, "is the name of no part of the model"
    given = {
        "optimizer": fedsim.torch.optimizer(torch.optim.SGD),
        "local_first": 1,
        "local": [HEAD],
    }
    yield "LayerNorm", "refused", given, "moves all parameters of a module"


@pytest.mark.needs("privacy")
@every("statistics", ["averaged", "local"])
def test_statistics_of_batch_normalisation_under_privacy(statistics: str) -> None:
    """Averaged ones would have noise, and negative variances; local ones never leave a client."""
    private = scenario(network(nn.BatchNorm1d), statistics) | {"privacy": {"clip": 1, "noise": 1}}
    if statistics == "local":
        sent = built(private).sent_values
        assert sent == sum(each.numel() for each in network(nn.BatchNorm1d).parameters())
        return
    with pytest.raises(ScenarioError, match="noise of privacy may make variances negative"):
        fedsim.check(private)


@every(("norm", "statistics", "keys", "said"), list(refusals()))
def test_what_has_no_rule_is_refused(
    norm: str, statistics: str, keys: dict[str, Any], said: str
) -> None:
    with pytest.raises(ScenarioError) as found:
        fedsim.check(scenario(network(getattr(nn, norm)), statistics, **keys))
    assert said in str(found.value)
