"""The generator of Tong et al.: its hierarchy of random numbers, and what each reading means.

One client alone has the reported truth as its own model, so its noise can be told apart.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Array
from fedsim.problems import Samples, Tong
from tests.problems.test_generators_clients import is_mean, truth_of
from tests.tiers import every

READINGS: list[tuple[str, ...]] = [
    (),
    ("deviations",),
    ("client-noise",),
    ("feature-centres",),
    ("row-means",),
    ("deviations", "client-noise", "feature-centres", "row-means"),
]
reading = every("reading", READINGS)


def draw(seed: int = 0, **fields: Any) -> Samples:
    return Tong.model_validate(fields).load(Path(), np.random.default_rng(seed))


def by_client(samples: Samples, clients: int) -> Array:
    return samples.X.reshape(clients, -1, samples.features)


def test_sizes_are_those_of_the_simulations() -> None:
    regression, classification = Tong(), Tong(task="classification")
    assert (regression.clients, regression.samples, regression.features) == (100, 100, 1000)
    assert classification.samples == 1000


def test_the_truth_is_the_mean_of_models_on_a_shared_support() -> None:
    source: dict[str, Any] = {"rows": 1, "features": 40, "informative": 30, "alpha": 0.0}
    truth = truth_of(draw(clients=900, **source))
    assert not truth[30:].any()
    assert is_mean(truth[:30], 0.1)
    assert is_mean(900 * (truth[:30] - 0.1) ** 2, 1.0)


@pytest.mark.parametrize(("given", "spread"), [((), 2.0), (("deviations",), 4.0)])
def test_alpha_says_how_much_the_levels_of_clients_differ(
    given: tuple[str, ...], spread: float
) -> None:
    source: dict[str, Any] = {
        "clients": 1,
        "rows": 1,
        "features": 100,
        "alpha": 4.0,
        "reading": given,
    }
    levels = np.array([truth_of(draw(seed, **source)).mean() for seed in range(1000)])
    assert is_mean(levels, 0.1)
    assert is_mean((levels - 0.1) ** 2, spread**2 + 1 / 100)  # a level, and 100 entries


@reading
def test_features_vary_around_a_clients_mean_as_the_reading_says(reading: tuple[str, ...]) -> None:
    X = by_client(draw(clients=400, rows=30, features=6, informative=6, reading=reading), 400)
    own = np.arange(1, 7) ** -1.2 + ("row-means" in reading)
    within = X.var(axis=1, ddof=1)
    assert all(is_mean(within[:, j], own[j]) for j in range(6))


@pytest.mark.parametrize(("given", "variance"), [((), 4.0), (("deviations",), 16.0)])
def test_the_features_of_a_client_share_a_centre(given: tuple[str, ...], variance: float) -> None:
    source: dict[str, Any] = {"rows": 1, "features": 6, "informative": 1, "beta": 4.0}
    X = draw(clients=2000, **source, reading=given).X
    first, second = X[:, 4], X[:, 5]
    assert is_mean(X.mean(axis=1), 0.0)
    assert is_mean(first * second, variance)
    assert is_mean(second**2, variance + 1 + 6**-1.2)


def test_centres_of_features_are_shared_by_clients() -> None:
    source: dict[str, Any] = {"rows": 1, "features": 300, "informative": 1, "beta": 9.0}
    X = draw(clients=400, **source, reading=("feature-centres",)).X
    centres = X.mean(axis=0)
    assert is_mean(centres, 0.0)
    assert is_mean(centres**2, 9.0)  # what 400 clients add to it is far below the error
    assert is_mean(X[:, 0] * X[:, 1] - centres[0] * centres[1], 0.0)


def noise(seed: int = 0, **fields: Any) -> tuple[Array, Array]:
    """Return the noise of a client and its model, of features that do matter."""
    samples = draw(seed, clients=1, features=400, informative=400, **fields)
    return samples.y - samples.X @ truth_of(samples), truth_of(samples)


def test_every_row_has_noise_around_the_level_of_the_client() -> None:
    for seed in range(5):
        e, model = noise(seed, rows=1000, alpha=25.0)
        error = np.sqrt(1 / 400 + 1 / 1000)
        assert abs(e.mean() - model.mean()) < 4.5 * error
        assert is_mean((e - e.mean()) ** 2, 999 / 1000)


def test_the_noise_of_a_client_may_be_one_offset() -> None:
    offsets = []
    for seed in range(400):
        e, model = noise(seed, rows=3, alpha=25.0, reading=("client-noise",))
        assert np.ptp(e) < 1e-9
        offsets.append(e[0] - model.mean())
    assert is_mean(np.array(offsets), 0.0)
    assert is_mean(np.array(offsets) ** 2, 1 + 1 / 400)


@reading
def test_the_highest_scores_of_each_client_are_labelled_1(reading: tuple[str, ...]) -> None:
    fields: dict[str, Any] = {
        "clients": 3,
        "rows": 50,
        "features": 20,
        "informative": 5,
        "reading": reading,
    }
    labels = draw(task="classification", **fields)
    scores = draw(task="regression", **fields)
    assert np.array_equal(labels.X, scores.X)
    for own, score in zip(labels.y.reshape(3, -1), scores.y.reshape(3, -1), strict=True):
        assert sorted(own) == [0.0] * 45 + [1.0] * 5
        assert score[own == 1].min() >= score[own == 0].max()


@pytest.mark.parametrize(("rows", "share", "positive"), [(2, 0.01, 1), (2, 0.99, 1), (10, 0.3, 3)])
def test_no_client_has_one_label_only(rows: int, share: float, positive: int) -> None:
    fields: dict[str, Any] = {"clients": 5, "rows": rows, "features": 3, "informative": 2}
    labels = draw(task="classification", positive_share=share, **fields).y.reshape(5, rows)
    assert labels.sum(axis=1).tolist() == [positive] * 5
