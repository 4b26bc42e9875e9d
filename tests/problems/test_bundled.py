"""scikit-learn's bundled sets: the figures that their documentation states."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn import datasets

from fedsim.problems import Bundled
from tests.tiers import every


@every(
    ("name", "shape", "labels"),
    [
        ("breast-cancer", (569, 30), {0: 212, 1: 357}),
        ("digits", (1797, 64), {0: 178, 9: 180}),
        ("wine", (178, 13), {0: 59, 1: 71, 2: 48}),
        ("iris", (150, 4), {0: 50, 1: 50, 2: 50}),
        ("diabetes", (442, 10), {}),
    ],
)
def test_a_set_is_as_documented(
    name: str, shape: tuple[int, int], labels: dict[int, int], rng: np.random.Generator
) -> None:
    samples = Bundled.model_validate({"name": name}).load(Path(), rng)
    assert samples.X.shape == shape
    assert samples.X.dtype == samples.y.dtype == np.float64
    assert samples.X.flags.c_contiguous
    assert {label: int((samples.y == label).sum()) for label in labels} == labels


def test_diabetes_is_for_regression(rng: np.random.Generator) -> None:
    samples = Bundled(name="diabetes").load(Path(), rng)
    assert (samples.y.min(), samples.y.max()) == (25, 346)


def test_other_names_are_refused() -> None:
    with pytest.raises(ValidationError, match="breast-cancer"):
        Bundled.model_validate({"name": "boston"})


@every("name", ["breast-cancer", "digits", "wine", "iris", "diabetes"])
def test_a_set_is_what_scikit_learn_gives(name: str, rng: np.random.Generator) -> None:
    load = getattr(datasets, f"load_{name.replace('-', '_')}")
    X, y = load(return_X_y=True)
    samples = Bundled.model_validate({"name": name}).load(Path(), rng)
    np.testing.assert_array_equal(samples.X, X)
    np.testing.assert_array_equal(samples.y, y)


@pytest.mark.parametrize("name", ["breast-cancer", "digits", "wine", "iris"])
def test_a_set_that_is_shipped_as_a_table_is_read_without_an_import_of_scikit_learn(
    name: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    bring = builtins.__import__

    def refuse(module: str, *rest: Any, **more: Any) -> Any:
        assert module.partition(".")[0] != "sklearn"
        return bring(module, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert Bundled.model_validate({"name": name}).load(Path(), rng).rows > 100
