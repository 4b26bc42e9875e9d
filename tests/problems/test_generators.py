"""The generator of planted smoothness: the constants that were asked for are those measured."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedsim.problems import (
    Groups,
    Logistic,
    Loss,
    PlantedDirections,
    PlantedSmoothness,
    Problem,
    Squared,
)
from tests.tiers import every


def problem(source: PlantedSmoothness | PlantedDirections, loss: Loss, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    samples = source.load(Path(), rng)
    rows = Groups().assign(samples, None, rng)
    return Problem.of(loss, [samples.take(own) for own in rows])


@every("shape", [(50, 50), (7, 30), (30, 7), (1, 1)])
def test_the_squared_loss_has_the_constants_asked_for(shape: tuple[int, int]) -> None:
    rows, features = shape
    source = PlantedSmoothness(clients=4, rows=rows, features=features, growth=1.3)
    found = problem(source, Squared(scale="sum")).client_smoothness
    assert found == pytest.approx([1.3 ** (2 * m) for m in range(4)])


@given(constants=st.lists(st.floats(0.5, 1e6), min_size=1, max_size=5), l2=st.floats(0, 0.4))
def test_the_logistic_loss_has_the_constants_asked_for(constants: list[float], l2: float) -> None:
    source = PlantedSmoothness(
        clients=len(constants),
        rows=6,
        features=5,
        constants=tuple(constants),
        form="logistic",
        l2=l2,
    )
    found = problem(source, Logistic(scale="sum", l2=l2)).client_smoothness
    assert found == pytest.approx(constants, rel=1e-9)


def test_one_constant_serves_all_clients() -> None:
    source = PlantedSmoothness(clients=3, constants=4.0)
    assert problem(source, Squared(scale="sum")).client_smoothness == pytest.approx([4, 4, 4])


def test_entries_are_normal_and_labels_are_signs(rng: np.random.Generator) -> None:
    samples = PlantedSmoothness(clients=2, rows=200, features=100, constants=1.0).load(Path(), rng)
    assert samples.client is not None
    assert np.bincount(samples.client).tolist() == [200, 200]
    assert set(samples.y) == {-1.0, 1.0}
    assert abs(samples.y.mean()) < 0.2
    first = samples.X[samples.client == 0]
    scaled = first / first.std()
    assert abs(scaled.mean()) < 0.02
    assert (scaled**4).mean() == pytest.approx(3.0, rel=0.1)  # the normal distribution's kurtosis


def test_samples_are_a_function_of_the_stream() -> None:
    source = PlantedSmoothness(growth=1.1)
    first, again, other = (source.load(Path(), np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


@every(
    ("fields", "words"),
    [
        ({}, "either constants"),
        ({"constants": 1.0, "growth": 1.3}, "either constants"),
        ({"clients": 3, "constants": [1, 2]}, "2 constants for 3 clients"),
        ({"constants": 0.5, "l2": 0.5}, "above l2 = 0.5; got 0.5"),
        ({"growth": 1.08, "clients": 50_000_000}, "50,000,000 clients are infinite"),
        ({"constants": [0]}, "greater than 0"),
        ({"constants": -1}, "greater than 0"),
        ({"growth": 0}, "greater than 0"),
        ({"growth": 1.3, "rows": 0}, "greater than or equal to 1"),
    ],
)
def test_constants_that_cannot_be_are_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        PlantedSmoothness.model_validate(fields)


# Directions over an identity.


@pytest.mark.parametrize("constant", [0.5, 4.0, 100.0])
def test_a_direction_each_over_an_identity_has_one_constant_for_all(constant: float) -> None:
    source = PlantedDirections(clients=5, features=8, constant=constant)
    assert problem(source, Squared(scale="sum")).client_smoothness == pytest.approx([constant] * 5)


def test_the_directions_of_clients_are_orthogonal(rng: np.random.Generator) -> None:
    samples = PlantedDirections(clients=3, features=7).load(Path(), rng)
    parts = [samples.X[samples.client == m] - np.eye(7) for m in range(3)]
    for m, part in enumerate(parts):
        assert np.linalg.matrix_rank(part) == 1
        assert part @ part == pytest.approx(part)  # q q^T of a unit vector
        assert all(abs(part @ other).max() < 1e-12 for other in parts[m + 1 :])


def test_labels_are_those_of_all_clients_or_of_each(rng: np.random.Generator) -> None:
    shared = PlantedDirections(clients=3, features=40).load(Path(), rng).y.reshape(3, 40)
    assert (shared == shared[0]).all()
    assert set(shared[0]) == {-1.0, 1.0}
    own = PlantedDirections(clients=3, features=40, labels="own").load(Path(), rng).y.reshape(3, 40)
    assert not (own == own[0]).all()


def test_more_clients_than_directions_are_refused() -> None:
    with pytest.raises(ValidationError, match="got 6 clients and 5 features; expected at least"):
        PlantedDirections(clients=6, features=5)
