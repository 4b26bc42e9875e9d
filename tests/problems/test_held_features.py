"""Features stay in the type of their file until somebody computes with them."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Array
from fedsim.problems import Problem
from fedsim.problems.partition import Partition
from fedsim.problems.samples import Precision
from fedsim.scenario import ProblemSpec
from fedsim.scenario.building.evaluation import problem_of

CNN = {"kind": "torch", "model": {"kind": "cnn", "channels": (2,), "hidden": 4}}


def dealt(folder: Path, precision: Precision = "float32", clients: int = 4, **keys: Any) -> Problem:
    block = {"data": {"kind": "npz", "path": "rows.npz"}, "split": {"kind": "iid"}, **keys}
    return problem_of(ProblemSpec.model_validate(block), clients, 1, folder, precision)


def saved(folder: Path, rows: int, pixels: int, kind: str = "u1") -> int:
    """Save images, and return the bytes that they take in float32."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 256, (rows, pixels), dtype=np.uint8).astype(kind)
    np.savez(folder / "rows.npz", X=X, y=np.arange(rows) % 3)
    return 4 * X.size


def held(problem: Problem) -> Array:
    assert isinstance(problem.samples, Partition)
    return problem.samples.X


@pytest.mark.slow
@pytest.mark.parametrize("steps", [[], [{"divide": 255}], [{"divide": 255}, "intercept"]])
def test_reading_images_of_bytes_takes_less_than_two_copies_in_float32(
    steps: list[Any], tmp_path: Path
) -> None:
    one = saved(tmp_path, 20_000, 784)
    data = {"kind": "npz", "path": "rows.npz", "preprocess": steps}
    keys: dict[str, Any] = {"loss": {"kind": "softmax"}, "data": data, "clients": 50}
    dealt(tmp_path, **keys)  # which loads what is loaded but once
    tracemalloc.start()
    problem = dealt(tmp_path, **keys)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held(problem).dtype == np.float32
    assert peak < 2 * one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "numbers", "steps", "expected"),
    [
        ("u1", "float32", [], "u1"),
        ("u1", "float64", [], "u1"),
        ("f4", "float32", [], "f4"),
        ("f8", "float32", [], "f4"),
        ("f8", "float64", [], "f8"),
        ("u1", "float32", [{"divide": 255}], "f4"),
        ("i4", "float32", [], "f4"),
        ("i4", "float64", [], "i4"),
    ],
)
def test_a_network_has_its_features_as_their_file_has_them(
    kind: str, numbers: str, steps: list[Any], expected: str, tmp_path: Path
) -> None:
    saved(tmp_path, 12, 16, kind)
    data = {"kind": "npz", "path": "rows.npz", "preprocess": steps}
    problem = dealt(tmp_path, "float64", loss={**CNN, "numbers": numbers}, data=data)
    assert held(problem).dtype == np.dtype(expected)


@pytest.mark.needs("torch")
def test_a_client_of_a_network_has_no_copy_of_its_rows(tmp_path: Path) -> None:
    saved(tmp_path, 12, 16)
    problem = dealt(tmp_path, loss=CNN)
    assert all(np.shares_memory(each.arranged.X, held(problem)) for each in problem.losses)
    assert all(each.with_precision("float32") is each for each in problem.losses)


@pytest.mark.needs("torch")
def test_what_a_network_computes_does_not_depend_on_the_type_that_rows_are_held_in(
    tmp_path: Path,
) -> None:
    found = []
    for kind in ("u1", "f4", "f8"):
        saved(tmp_path, 12, 16, kind)
        problem = dealt(tmp_path, loss=CNN, test={"fraction": 0.25})
        w = problem.initial(np.random.default_rng(1))
        f = problem.losses[0]
        steps = f.sgd_steps(w, 1e-3, np.array([[0, 1], [1, 0]]), None)
        found.append([f.value(w), *f.gradient(w), *steps])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("steps", [["standardise"], ["unit-range", "unit-rows"], ["max-abs"]])
def test_preprocessing_of_bytes_is_that_of_the_same_numbers_in_float64(
    steps: list[Any], tmp_path: Path
) -> None:
    data = {"kind": "npz", "path": "rows.npz", "preprocess": steps}
    found = []
    for kind in ("u1", "f8"):
        saved(tmp_path, 30, 5, kind)
        problem = dealt(tmp_path, "float64", loss={"kind": "softmax"}, data=data)
        found.append(held(problem))
    assert np.array_equal(found[0], found[1])
    assert found[0].dtype == np.float64
