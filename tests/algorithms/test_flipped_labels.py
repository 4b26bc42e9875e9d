"""Clients that train on flipped labels: their work is false, and what is observed is true."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import fedsim
from fedsim.core.ports import Array
from fedsim.problems import ProgramLoss
from fedsim.protocol.attacks import LabelFlipAttack
from fedsim.scenario import Group
from fedsim.scenario.aggregating import unfit_attacks
from fedsim.scenario.specs import ScenarioKeys
from tests.algorithms.local_loops import CLASSES, SIZES, Local, check_near, local, told
from tests.runs import small

FALSE = (3, 4)
FLEET = [{"count": 3}, {"count": 2, "attack": {"kind": "label-flip"}}]
GD: dict[str, Any] = {"kind": "gd", "step_size": 0.05}


def flipped(loss: str, y: Array) -> Array:
    """Two signs, classes 0, 1, 2, or numbers."""
    return CLASSES - 1 - y if loss == "softmax" else -y


def loops(problem: Local, loss: str, rounds: int, start: Array) -> list[Array]:
    w, models = start, []
    for _ in range(rounds):
        models.append(w)
        gradients = [
            problem.row_gradient(X, flipped(loss, y) if m in FALSE else y, w)
            for m, (X, y) in enumerate(problem.parts)
        ]
        w = w - GD["step_size"] * problem.weights @ np.array(gradients)
    return models


@pytest.mark.parametrize("evaluator", ["one-by-one", "compiled"])
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_gradient_descent_is_the_loop(loss: str, evaluator: str, tmp_path: Path) -> None:
    problem = local(tmp_path, loss)
    seen = told(problem, GD, tmp_path, fleet=FLEET, evaluator=evaluator)
    start = seen.run.models[0]
    check_near(seen.run.models, loops(problem, loss, len(seen.run.models), start))


@pytest.mark.parametrize("evaluator", ["one-by-one", "compiled"])
def test_objective_and_optimum_are_those_of_the_true_labels(evaluator: str, tmp_path: Path) -> None:
    problem = local(tmp_path, "squared")
    seen = told(problem, GD, tmp_path, fleet=FLEET, evaluator=evaluator)
    for row, w in zip(seen.rounds, seen.run.models, strict=False):
        values = [0.5 * np.mean((X @ w - y) ** 2) for X, y in problem.parts]
        assert row["objective"] == pytest.approx(problem.weights @ np.array(values), rel=1e-12)
    X, y = (np.concatenate(arrays) for arrays in zip(*problem.parts, strict=True))
    optimum = 0.5 * np.mean((X @ np.linalg.lstsq(X, y)[0] - y) ** 2)
    gaps = [row["gap"] for row in seen.rounds]
    values = [row["objective"] - optimum for row in seen.rounds]
    assert gaps == pytest.approx(values, rel=1e-6)


def test_minibatches_are_those_that_are_drawn_without_an_attack(tmp_path: Path) -> None:
    """Of the sign alone: the gradient of a malicious client's rows has another target."""
    problem = local(tmp_path, "squared", batch=4)
    seen = told(problem, {"kind": "fedavg", "step_size": 0.05, "local_steps": 2}, tmp_path,
                fleet=FLEET)  # fmt: skip
    false = [(X, flipped("squared", y) if m in FALSE else y)
             for m, (X, y) in enumerate(problem.parts)]  # fmt: skip
    again = Local(problem.block, false, problem.row_gradient, problem.dimension, 4)
    w, models = np.zeros(problem.dimension), []
    for _ in seen.run.models:
        ends = [again.descend(m, w, 0.05, 2) for m in range(len(SIZES))]
        w = problem.weights @ np.array(ends)
        models.append(w)
    check_near(seen.run.models, models)


MLP: dict[str, Any] = {
    "loss": {"kind": "mlp", "hidden": 4, "scale": "mean"},
    "data": {"kind": "sklearn", "name": "iris", "preprocess": ["standardise"]},
    "split": {"kind": "iid"},
    "test": {"fraction": "20 %"},
    "optimum": "unknown",
}


@pytest.mark.parametrize(
    ("loss", "evaluator"),
    [("mlp", "one-by-one"), ("mlp", "compiled"), ("torch", "one-by-one"), ("torch", "vmap")],
)
def test_a_fleet_of_malicious_clients_learns_the_mirror_image(loss: str, evaluator: str) -> None:
    """If all labels are flipped, a model that fits them takes class 0 for 2, and the reverse."""
    kind: dict[str, Any] = MLP["loss"]
    if loss == "torch":
        pytest.importorskip(loss)
        kind = {"kind": loss, "model": {"kind": "mlp", "hidden": [8]}}
    scenario = small(
        problem={**MLP, "loss": kind},
        algorithm={"kind": "fedavg", "step_size": 0.2, "local_steps": 20, "batch": 10},
        fleet=[{"count": 4, "attack": {"kind": "label-flip"}}],
        evaluator=evaluator,
        measures=["test_accuracy"],
        stop={"rounds": 15},
    )
    false = fedsim.run(scenario).rounds.iloc[-1]
    true = fedsim.run({**scenario, "fleet": [{"count": 4}]}).rounds.iloc[-1]
    assert true["test_accuracy"] >= 0.8
    assert false["test_accuracy"] < 0.5
    assert false["objective"] > 1 > true["objective"]


def test_peers_may_have_false_labels(tmp_path: Path) -> None:
    problem = local(tmp_path, "squared")
    scenario = {
        "problem": problem.block | {"weights": "equal"},
        "algorithm": {"kind": "d-psgd", "step_size": 0.02},
        "network": {"peers": {"kind": "complete"}},
        "stop": {"rounds": 2},
    }
    true = fedsim.run({**scenario, "fleet": [{"count": 5}]}).rounds
    false = fedsim.run({**scenario, "fleet": FLEET}).rounds
    assert false["objective"].iloc[0] == true["objective"].iloc[0]
    assert false["objective"].iloc[-1] != true["objective"].iloc[-1]


def test_labels_that_a_program_holds_are_refused() -> None:
    keys = ScenarioKeys.model_construct(
        problem=SimpleNamespace(loss=Mock(spec=ProgramLoss)),
        algorithm=None,
        fleet=(Group(count=2, attack=LabelFlipAttack()),),
        tiers=(),
    )
    ((key, text, _),) = unfit_attacks(keys)
    assert key == "fleet.0.attack.kind"
    assert "hold labels that fedsim does not see" in text
