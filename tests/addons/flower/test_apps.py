"""Two apps that know Flower alone come to the same model under Flower's own simulation and here."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn_digits.client_app
import sklearn_digits.server_app
import torch_digits.client_app
import torch_digits.server_app
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

import fedsim
from fedsim.flower import app, method
from tests.addons.flower.conftest import APPS

CLIENTS = 3

QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, NDArray[Any]]]:
    """Run both apps under Flower's own simulation; return what they have written down."""
    folder = tmp_path_factory.mktemp("simulated")
    for name in SCENARIOS:
        (folder / name).mkdir()
    ended = subprocess.run(
        [sys.executable, str(APPS / "simulate.py"), str(CLIENTS), *SCENARIOS],
        cwd=folder,
        env={**os.environ, **QUIET, "PYTHONPATH": str(APPS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return {name: dict(np.load(folder / name / "final_model.npz")) for name in SCENARIOS}


SCENARIOS: dict[str, dict[str, Any]] = {
    "torch_digits": {
        "problem": {
            "loss": app(
                torch_digits.client_app.app,
                initial=torch_digits.server_app.initial(),
                name="torch-digits",
                clients=CLIENTS,
                samples=479,
                cost={"operations": 5e8},
            )
        },
        "algorithm": method(FedAvg(), train_config={"lr": torch_digits.server_app.LR}),
        "wire": {"values": "float32"},
        "stop": {"rounds": torch_digits.server_app.ROUNDS},
    },
    "sklearn_digits": {
        "problem": {
            "loss": app(
                sklearn_digits.client_app.app,
                name="sklearn-digits",
                clients=CLIENTS,
                samples=479,
                cost={"operations": 5e7},
            )
        },
        "algorithm": method(sklearn_digits.server_app.strategy()),
        "wire": {"values": "float64"},
        "stop": {"rounds": sklearn_digits.server_app.ROUNDS},
    },
}
FLEET = [{"count": CLIENTS, "device": "pi-4", "radio": "wifi"}]
FIGURES = {"torch_digits": "eval_accuracy", "sklearn_digits": "accuracy"}
ROUNDING = {"torch_digits": 1e-5, "sklearn_digits": 1e-12}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_model_is_that_of_flowers_own_simulation(
    name: str, simulated: Mapping[str, Mapping[str, NDArray[Any]]]
) -> None:
    """To rounding: arrivals are added up in another order there."""
    result = fedsim.run({**SCENARIOS[name], "fleet": FLEET})
    arrays = dict(simulated[name])
    accuracy = float(arrays.pop("accuracy"))
    flat = np.concatenate([each.ravel() for each in arrays.values()])
    model = np.array(result.models["model"].iloc[-1])
    assert np.abs(model - flat).max() <= ROUNDING[name] * np.abs(flat).max()
    assert result.rounds[FIGURES[name]].iloc[-1] == pytest.approx(accuracy)
    assert accuracy > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_app_gives_the_same_bytes_twice(name: str, tmp_path: Path) -> None:
    block = {**SCENARIOS[name], "fleet": FLEET, "stop": {"rounds": 1}}
    for turn in ("one", "two"):
        fedsim.run(block, out=tmp_path / turn)
    for file in ("events.parquet", "rounds.parquet", "models.parquet", "summary.json"):
        one, two = (
            (tmp_path / turn / "base/seed-1" / file).read_bytes() for turn in ("one", "two")
        )
        assert one == two, file
