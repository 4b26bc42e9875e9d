"""What a run takes of memory beside its data."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.scenario.building import Builder

ROWS, FEATURES, CLIENTS = 40_000, 100, 20
DATA = 8 * ROWS * FEATURES


@pytest.mark.slow
@pytest.mark.parametrize("evaluator", ["one-by-one", "compiled"])
@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_a_run_takes_at_most_half_as_much_again_as_its_data(
    tmp_path: Path, loss: str, evaluator: str
) -> None:
    rng = np.random.default_rng(0)
    client = np.repeat(np.arange(CLIENTS), ROWS // CLIENTS)
    X = rng.standard_normal((ROWS, FEATURES))
    np.savez(tmp_path / "data.npz", X=X, y=np.arange(ROWS) % 2, client=client)
    del X, client
    scenario: dict[str, Any] = {
        "problem": {
            "loss": {"kind": loss},
            "data": {"kind": "npz", "path": str(tmp_path / "data.npz")},
            "split": {"kind": "groups"},
            "optimum": "unknown",
        },
        "algorithm": {"kind": "fedavg", "step_size": 0.001, "batch": 50},
        "evaluator": evaluator,
        "stop": {"rounds": 3},
    }
    fedsim.run({**scenario, "stop": {"rounds": 1}}, out=tmp_path / "warm")  # what is made once
    tracemalloc.start()
    try:
        fedsim.run(scenario, out=tmp_path / "runs")
        assert tracemalloc.get_traced_memory()[1] < 1.5 * DATA
    finally:
        tracemalloc.stop()


def test_a_run_in_single_precision_holds_its_data_once_and_in_half(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, client = (
        rng.standard_normal((ROWS, FEATURES)),
        np.repeat(np.arange(CLIENTS), ROWS // CLIENTS),
    )
    np.savez(tmp_path / "data.npz", X=X, y=np.arange(ROWS) % 2.0, client=client)
    del X, client
    scenario: dict[str, Any] = {
        "problem": {
            "loss": {"kind": "squared", "scale": "mean"},
            "data": {"kind": "npz", "path": str(tmp_path / "data.npz")},
            "split": {"kind": "groups"},
            "optimum": "unknown",
        },
        "algorithm": {"kind": "fedavg", "step_size": 0.001, "batch": 50},
        "precision": "float32",
    }
    plan = fedsim.load(scenario)
    (variant,) = plan.variants
    Builder(plan).build(variant, 1)  # what is made once
    tracemalloc.start()
    try:
        job = Builder(plan).build(variant, 1)
        job.evaluation.value(job.setup.initial)
        assert tracemalloc.get_traced_memory()[0] < 0.55 * DATA
    finally:
        tracemalloc.stop()
