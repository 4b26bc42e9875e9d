"""Sparse data from the file to the trained model, in memory of the order of its non-zeros."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import random_array
from sklearn.datasets import dump_svmlight_file

import fedsim

ROWS, FEATURES, DENSITY = 4000, 47236, 0.0016


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many features as rcv1 has, as densely filled, and a fifth of its rows."""
    rng = np.random.default_rng(1)
    X: Any = random_array((ROWS, FEATURES), density=DENSITY, format="csr", rng=rng)
    y = np.where(X[:, :2000].sum(axis=1) > 1.7, 1, -1)
    path = tmp_path_factory.mktemp("sparse") / "rcv1-like.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


def scenario(path: Path, **algorithm: Any) -> dict[str, Any]:
    return {
        "problem": {
            "loss": {"kind": "logistic", "scale": "mean", "l2": 1e-4},
            "data": {"kind": "libsvm", "path": str(path), "features": FEATURES},
            "split": {"kind": "iid"},
            "optimum": "unknown",
        },
        "algorithm": {"step_size": 5.0, **algorithm},
        "fleet": [{"count": 10, "device": "pi-4", "radio": "wifi"}],
        "measures": ["train_accuracy", "gradient_norm"],
        "stop": {"rounds": 5},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        {"kind": "fedavg", "local_steps": 5, "batch": 40},
        {"kind": "fediter-ht", "local_steps": 5, "batch": 40, "sparsity": 500},
        {"kind": "gd"},
    ],
    ids=lambda block: block["kind"],
)
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_a_large_sparse_matrix_trains_in_the_memory_of_its_non_zeros(
    file: Path, algorithm: dict[str, Any]
) -> None:
    # Ten clients, their server and its observer hold a few models each.
    models = 8 * FEATURES * 60
    non_zeros = ROWS * FEATURES * DENSITY
    tracemalloc.start()
    result = fedsim.run(scenario(file, **algorithm))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 * non_zeros + models
    assert peak < 8 * ROWS * FEATURES / 20
    table = result.rounds
    assert table["objective"].iloc[-1] < table["objective"].iloc[0]


def test_what_is_computed_is_priced_by_the_non_zeros(file: Path) -> None:
    result = fedsim.run(scenario(file, kind="gd"))
    events = result.events
    seconds = events[events["event"] == "compute"]["duration"].sum()
    speed = fedsim.load(scenario(file, kind="gd")).variants[0].scenario.fleet[0].device.constant
    assert speed is not None
    operations = 5 * 4 * round(ROWS * FEATURES * DENSITY)
    assert seconds == pytest.approx(operations / speed, rel=1e-3)


def test_a_sparse_model_goes_down_and_up_as_one(file: Path) -> None:
    result = fedsim.run(
        scenario(file, kind="fediter-ht", local_steps=1, sparsity=500)
        | {"wire": {"values": "float32"}}
    )
    sent = result.events[result.events["event"] == "send"]
    later = sent[sent["round"] > 1]["payload_bits"]
    assert later.max() < 500 * (32 + 12)  # a value, and no more than its index
    assert later.max() < 32 * FEATURES / 50
