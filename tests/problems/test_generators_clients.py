"""Generators of clients that differ: moments against closed forms, and streams a client."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import (
    SOURCES,
    Groups,
    LowRankData,
    Samples,
    ShiftedMean,
    Source,
    SparseLinear,
)
from tests.tiers import every

SMALL: list[dict[str, Any]] = [
    {"kind": "tong", "rows": 7, "features": 12, "informative": 5},
    {"kind": "tong", "rows": 9, "features": 12, "informative": 12, "task": "classification"},
    {"kind": "tong", "rows": 3, "features": 4, "informative": 2, "reading": ["feature-centres"]},
    {"kind": "tong", "rows": 3, "features": 4, "informative": 2, "reading": ["row-means"]},
    {"kind": "shifted-mean", "rows": 6, "features": 10, "sparsity": 3, "noise": 0.1},
    {"kind": "sparse-linear", "rows": 5, "features": 8, "ones": 4},
    {"kind": "low-rank", "rows": 5, "shape": (3, 4), "rank": 2},
]
each = every("fields", SMALL)


def generate(fields: dict[str, Any], seed: int = 0, **more: Any) -> Samples:
    return (
        SOURCES.own[fields["kind"]]
        .model_validate({**fields, **more})
        .load(Path(), np.random.default_rng(seed))
    )


def load(source: Source, seed: int = 0) -> Samples:
    return source.load(Path(), np.random.default_rng(seed))


def truth_of(samples: Samples) -> Array:
    assert samples.truth is not None
    return samples.truth


def is_mean(values: Array, expected: float, *, errors: float = 4.5) -> bool:
    """Say whether a mean of independent values is within so many standard errors."""
    error = values.std(ddof=1) / np.sqrt(values.size)
    return bool(abs(values.mean() - expected) < errors * error)


@each
def test_rows_lie_client_by_client_and_are_numbered(fields: dict[str, Any]) -> None:
    samples = generate(fields, clients=4)
    assert samples.client is not None
    assert samples.client.tolist() == np.repeat(range(4), fields["rows"]).tolist()
    assert samples.X.shape == (4 * fields["rows"], len(truth_of(samples)))
    parts = Groups().assign(samples, None, np.random.default_rng(0))
    assert all(np.shares_memory(samples.take(rows).X, samples.X) for rows in parts)


@each
def test_generators_that_number_clients_are_among_those_that_groups_names(
    fields: dict[str, Any],
) -> None:
    samples = generate(fields, clients=4)
    plain = Samples(samples.X, samples.y)
    with pytest.raises(DataError, match=rf"numbers the client of each row: .*\b{fields['kind']}\b"):
        Groups().assign(plain, 4, np.random.default_rng(0))


@each
def test_another_client_leaves_the_rows_of_the_others_as_they_were(fields: dict[str, Any]) -> None:
    few, many = generate(fields, clients=3), generate(fields, clients=8)
    assert np.array_equal(few.X, many.X[: len(few.X)])
    assert np.array_equal(few.y, many.y[: len(few.y)])


@each
def test_samples_are_a_function_of_the_stream(fields: dict[str, Any]) -> None:
    first, again, other = (generate(fields, seed, clients=3) for seed in (1, 1, 2))
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.y, again.y)
    assert np.array_equal(truth_of(first), truth_of(again))
    assert not np.array_equal(first.X, other.X)


@each
def test_clients_differ(fields: dict[str, Any]) -> None:
    X = generate(fields, clients=2).X.reshape(2, -1)
    assert not np.isclose(X[0], X[1]).any()


class TestShiftedMean:
    def test_the_model_is_sparse_and_of_norm_1(self) -> None:
        truths = [truth_of(load(ShiftedMean(clients=1, rows=1), seed)) for seed in range(20)]
        assert all(np.count_nonzero(x) == 10 for x in truths)
        assert [np.linalg.norm(x) for x in truths] == pytest.approx([1.0] * 20)
        assert len({tuple(np.flatnonzero(x)) for x in truths}) == 20

    def test_places_and_signs_of_the_model_are_uniform(self) -> None:
        source = ShiftedMean(clients=1, rows=1, features=5, sparsity=2)
        models = np.array([truth_of(load(source, seed)) for seed in range(1500)])
        assert all(is_mean((column != 0).astype(float), 2 / 5) for column in models.T)
        assert all(is_mean(column, 0.0) for column in models.T)
        assert all(is_mean(column**2, 1 / 5) for column in models.T)

    def test_labels_without_noise_are_those_of_the_model(self) -> None:
        samples = load(ShiftedMean(clients=3, rows=20, features=40))
        assert samples.y == pytest.approx(samples.X @ truth_of(samples))

    def test_the_variance_of_the_noise_is_as_given(self) -> None:
        samples = load(ShiftedMean(clients=4, rows=5000, features=10, noise=0.005))
        noise = samples.y - samples.X @ truth_of(samples)
        assert is_mean(noise, 0.0)
        assert is_mean(noise**2, 0.005)

    def test_means_and_spreads_of_clients_are_as_given(self) -> None:
        source = ShiftedMean(clients=400, rows=50, features=50, alpha=2.0, decay=0.2)
        X = load(source).X.reshape(400, -1)
        means, numbers = X.mean(axis=1), np.arange(1, 401)
        assert is_mean(means, 0.0)
        assert is_mean(means**2, 2.0)  # what 2500 entries add to it is far below the error
        assert is_mean(X.var(axis=1, ddof=1) * numbers**0.2, 1.0)
        assert is_mean(X[-1], float(means[-1]))

    def test_the_first_client_has_unit_variance_and_the_next_have_less(self) -> None:
        source = ShiftedMean(clients=3, rows=500, features=100, decay=1.1)
        for number, own in enumerate(load(source).X.reshape(3, -1), start=1):
            assert is_mean((own - own.mean()) ** 2, number**-1.1)

    def test_alike_clients_have_no_mean(self) -> None:
        assert is_mean(load(ShiftedMean(clients=20, alpha=0, decay=0)).X.ravel(), 0.0)


class TestSparseLinear:
    def test_the_model_is_ones_then_zeros(self) -> None:
        truth = truth_of(load(SparseLinear(clients=1, rows=1)))
        assert truth.tolist() == [1.0] * 512 + [0.0] * 512

    @pytest.mark.parametrize("correlation", [0.5, -0.7, 0.0])
    def test_the_covariance_within_a_client_is_a_power_of_the_distance(
        self, correlation: float
    ) -> None:
        rows, d = 40_000, 6
        source = SparseLinear(clients=1, rows=rows, features=d, ones=1, correlation=correlation)
        X = load(source).X
        expected = correlation ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        # An entry of the sample covariance has the variance (S_jk^2 + S_jj S_kk)/n.
        errors = np.sqrt((expected**2 + 1) / rows)
        assert (np.abs(np.cov(X.T) - expected) < 4.5 * errors).all()

    def test_the_means_of_clients_are_standard_normal(self) -> None:
        X = load(SparseLinear(clients=300, rows=30, features=20, ones=1)).X
        means = X.reshape(300, 30, 20).mean(axis=1)
        assert is_mean(means.ravel(), 0.0)
        # Of 30 rows the mean has a variance of 1/30 beside that of mu, entries correlated.
        assert is_mean((means**2).mean(axis=1), 1 + 1 / 30)

    def test_noise_is_of_unit_variance(self) -> None:
        samples = load(SparseLinear(clients=8, rows=3000, features=30, ones=20))
        noise = samples.y - samples.X[:, :20].sum(axis=1)
        assert is_mean(noise, 0.0)
        assert is_mean(noise**2, 1.0)


class TestLowRank:
    def test_the_model_is_a_part_of_the_identity(self) -> None:
        W = truth_of(load(LowRankData(clients=1, rows=1))).reshape(32, 32)
        assert np.array_equal(W, np.diag([1.0] * 16 + [0.0] * 16))

    def test_a_model_need_not_be_square(self) -> None:
        W = truth_of(load(LowRankData(clients=1, rows=1, shape=(3, 5), rank=2))).reshape(3, 5)
        assert np.linalg.matrix_rank(W) == 2
        assert W.sum() == np.trace(W) == 2

    def test_entries_are_a_clients_mean_and_standard_normal(self) -> None:
        X = load(LowRankData(clients=400, rows=60, shape=(4, 5), rank=2)).X.reshape(400, 60, 20)
        means = X.mean(axis=1)
        assert is_mean(means.ravel(), 0.0)
        assert is_mean(means.ravel() ** 2, 1 + 1 / 60)
        assert is_mean(X.var(axis=1, ddof=1).ravel(), 1.0)

    def test_labels_are_traces_and_unit_noise(self) -> None:
        samples = load(LowRankData(clients=5, rows=3000, shape=(4, 4), rank=3))
        traces = samples.X.reshape(-1, 4, 4)[:, range(3), range(3)].sum(axis=1)
        noise = samples.y - traces
        assert is_mean(noise, 0.0)
        assert is_mean(noise**2, 1.0)


@every(
    ("fields", "words"),
    [
        ({"kind": "tong", "informative": 5, "features": 4}, "5 informative features, but only 4"),
        ({"kind": "tong", "task": "classification", "rows": 1}, "2 rows per client or more; got 1"),
        ({"kind": "tong", "positive_share": 1.0}, "less than 1"),
        ({"kind": "tong", "alpha": -1}, "greater than or equal to 0"),
        ({"kind": "tong", "reading": ["free"]}, "row-means"),
        ({"kind": "shifted-mean", "sparsity": 11, "features": 10}, "sparsity of 11, but only 10"),
        ({"kind": "shifted-mean", "clients": 0}, "greater than or equal to 1"),
        ({"kind": "sparse-linear", "ones": 11, "features": 10}, "11 entries that are 1, but onl"),
        ({"kind": "sparse-linear", "correlation": 1}, "less than 1"),
        ({"kind": "low-rank", "shape": [3, 4], "rank": 4}, "no 3 x 4 matrix has rank 4; give 3"),
        ({"kind": "low-rank", "shape": [3, 0]}, "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_generated_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        generate(fields)
