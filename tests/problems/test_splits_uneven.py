"""Splits into unlike parts: laws of a partition, labels a client, and the limits of each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.sparse import csr_array

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import SPLITS, Samples
from fedsim.problems.splits import ByLabel, Clusters, Dirichlet, Indices, LogNormal, Split
from tests.tiers import every

UNEVEN: list[Split] = [
    ByLabel(per_client=1),
    ByLabel(per_client=2),
    ByLabel(per_client=4),
    Dirichlet(alpha=1e-9),
    Dirichlet(alpha=0.3),
    Dirichlet(alpha=1e9),
    LogNormal(sigma=0),
    LogNormal(sigma=1),
    LogNormal(sigma=20),
    Dirichlet(alpha=0.05, least=4),
    LogNormal(sigma=5, least=4),
]


def labelled(counts: list[int], seed: int = 0) -> Samples:
    """Return shuffled rows with so many of each label."""
    y = np.random.default_rng(seed).permutation(np.repeat(range(len(counts)), counts))
    return Samples(y[:, None] + 0.0, y.astype(np.float64))


def assign(split: Split, samples: Samples, clients: int, seed: int = 0) -> Sequence[Indices]:
    return split.assign(samples, clients, np.random.default_rng(seed))


def table(samples: Samples, parts: Sequence[Indices]) -> Array:
    """Return how many rows of each label each client has, shape (M, labels)."""
    labels = np.unique(samples.y)
    return np.array([[(samples.y[part] == label).sum() for label in labels] for part in parts])


@pytest.mark.parametrize("split", UNEVEN, ids=str)
@given(
    counts=st.lists(st.integers(8, 30), min_size=4, max_size=6),
    clients=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_parts_are_disjoint_and_every_client_has_some(
    split: Split, counts: list[int], clients: int, seed: int
) -> None:
    samples = labelled(counts, seed)
    parts = assign(split, samples, clients, seed)
    dealt = np.concatenate(parts)
    assert len(parts) == clients
    assert all(len(part) for part in parts)
    assert len(np.unique(dealt)) == len(dealt)
    if not isinstance(split, ByLabel) or clients * split.per_client >= len(counts):
        assert sorted(dealt) == list(range(sum(counts)))


@every("split", [*UNEVEN, Clusters(clusters=4)])
def test_a_split_is_a_function_of_the_stream(split: Split) -> None:
    samples = labelled([40, 40, 40, 40])
    first, again, other = (assign(split, samples, 7, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert [part.tolist() for part in first] != [part.tolist() for part in other]


class TestByLabel:
    @given(
        clients=st.integers(1, 20),
        per_client=st.integers(1, 5),
        counts=st.lists(st.integers(40, 60), min_size=5, max_size=7),
        seed=st.integers(0, 1000),
    )
    def test_each_client_has_equal_parts_of_its_labels(
        self, clients: int, per_client: int, counts: list[int], seed: int
    ) -> None:
        samples = labelled(counts)
        split = ByLabel(clients=clients, per_client=per_client)
        rows = table(samples, assign(split, samples, clients, seed))
        assert ((rows > 0).sum(axis=1) == per_client).all()
        holders = (rows > 0).sum(axis=0)
        assert holders.max() - holders.min() <= 1
        for label, count in enumerate(counts):
            parts = rows[rows[:, label] > 0, label]
            assert parts.sum() == (count if len(parts) else 0)
            assert not len(parts) or parts.max() - parts.min() <= 1

    def test_labels_are_combined_in_many_ways(self) -> None:
        samples = labelled([50] * 10)
        rows = table(samples, assign(ByLabel(), samples, 50)) > 0
        assert len({tuple(own) for own in rows.tolist()}) > 15

    def test_any_client_may_have_the_rows_left_over(self) -> None:
        samples = labelled([4])
        splits = [assign(ByLabel(per_client=1), samples, 3, seed) for seed in range(300)]
        largest = [max(range(3), key=[len(part) for part in parts].__getitem__) for parts in splits]
        assert np.bincount(largest, minlength=3) == pytest.approx([100] * 3, abs=35)

    def test_labels_that_nobody_has_are_dropped(self) -> None:
        samples = labelled([10] * 10)
        rows = table(samples, assign(ByLabel(per_client=2), samples, 3))
        assert sorted(rows.sum(axis=0)) == [0] * 4 + [10] * 6


class TestDirichlet:
    def test_a_large_alpha_deals_every_label_out_evenly(self) -> None:
        samples = labelled([1000, 500, 80])
        rows = table(samples, assign(Dirichlet(alpha=1e9), samples, 8))
        assert np.abs(rows - np.array([1000, 500, 80]) / 8).max() <= 1

    def test_a_small_alpha_gives_a_label_to_one_client(self) -> None:
        samples = labelled([1000, 500, 80])
        rows = table(samples, assign(Dirichlet(alpha=1e-9), samples, 8))
        assert (rows.max(axis=0) >= np.array([1000, 500, 80]) - 8).all()

    def test_shares_have_the_variance_of_the_distribution(self) -> None:
        samples = labelled([10_000])
        draws = [assign(Dirichlet(alpha=0.5), samples, 4, seed) for seed in range(600)]
        shares = np.array([[len(part) for part in parts] for parts in draws]) / 10_000
        # A share is Beta(0.5, 1.5): mean 1/4 and variance (1/4)(3/4)/3.
        errors = (shares - 1 / 4) ** 2
        assert abs(errors.mean() - 1 / 16) < 4.5 * errors[:, 0].std() / np.sqrt(600)

    def test_as_many_rows_as_clients_are_one_each(self) -> None:
        parts = assign(Dirichlet(alpha=0.01), labelled([5, 5]), 10)
        assert [len(part) for part in parts] == [1] * 10


class TestLogNormal:
    def test_without_spread_sizes_are_even(self) -> None:
        sizes = [len(part) for part in assign(LogNormal(sigma=0), labelled([103]), 10)]
        assert max(sizes) - min(sizes) <= 1

    def test_logarithms_of_sizes_have_the_spread_asked_for(self) -> None:
        parts = assign(LogNormal(sigma=0.5), labelled([1_000_000]), 2000)
        logs = np.log([len(part) - 1.0 for part in parts])
        spread = logs.std(ddof=1)
        assert abs(spread - 0.5) < 4.5 * 0.5 / np.sqrt(2 * 2000)
        skewness = ((logs - logs.mean()) ** 3).mean() / spread**3
        assert abs(skewness) < 4.5 * np.sqrt(6 / 2000)

    def test_clients_are_alike_in_labels(self) -> None:
        samples = labelled([30_000, 10_000])
        rows = table(samples, assign(LogNormal(sigma=1), samples, 10))
        sizes = rows.sum(axis=1)
        errors = np.sqrt(sizes * 0.75 * 0.25)
        assert (np.abs(rows[:, 0] - 0.75 * sizes) < 4.5 * errors).all()


class TestClusters:
    def clustered(self) -> Samples:
        rng = np.random.default_rng(3)
        centres = 100 * np.arange(5)
        y = rng.permutation(np.repeat(np.arange(5.0), 40))
        X = centres[y.astype(int), None] + rng.standard_normal((200, 3))
        return Samples(X, y)

    @pytest.mark.parametrize("indices", [None, np.int32, np.int64])
    def test_clients_have_parts_of_well_separated_clusters(self, indices: Any) -> None:
        samples = given_samples = self.clustered()
        if indices is not None:
            X = csr_array(samples.X)
            X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
            given_samples = Samples(X, samples.y)
        rows = table(samples, assign(Clusters(clusters=5), given_samples, 10))
        assert ((rows > 0).sum(axis=1) == 2).all()
        assert (rows.sum(axis=0) == 40).all()
        assert ((rows > 0).sum(axis=0) == 4).all()

    def test_labels_play_no_part(self) -> None:
        samples = self.clustered()
        other = Samples(samples.X, np.zeros(200))
        ours, theirs = (assign(Clusters(clusters=5), one, 10) for one in (samples, other))
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


@every(
    ("split", "samples", "clients", "key", "words"),
    [
        (ByLabel(per_client=3), labelled([5, 5]), 2, "split.per_client", ["3 labels", "has 2"]),
        (ByLabel(per_client=1), labelled([1, 9]), 4, "split", ["no rows", "per_client"]),
        (ByLabel(), labelled([5, 5]), 11, "split.clients", ["11 clients", "10 rows"]),
        (Dirichlet(), labelled([5, 5]), 11, "split.clients", ["11 clients", "10 rows"]),
        (LogNormal(clients=3), labelled([5]), 4, "split.clients", ["3 clients", "fleet has 4"]),
        (Clusters(clusters=6), labelled([5]), 2, "split.clusters", ["6 clusters", "5 rows"]),
        (Clusters(clusters=2, per_client=3), labelled([3, 3]), 2, "split.per_client", ["only 2"]),
    ],
)
def test_what_cannot_be_split_is_refused(
    split: Split, samples: Samples, clients: int, key: str, words: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        assign(split, samples, clients)
    assert caught.value.key == key
    assert all(word in str(caught.value) for word in words)


@every(
    ("fields", "words"),
    [
        ({"kind": "dirichlet", "alpha": 0}, "greater than 0"),
        ({"kind": "lognormal", "sigma": -1}, "greater than or equal to 0"),
        ({"kind": "labels", "per_client": 0}, "greater than or equal to 1"),
        ({"kind": "clusters", "clusters": 0}, "greater than or equal to 1"),
    ],
)
def test_parameters_out_of_bounds_are_refused(fields: dict[str, Any], words: str) -> None:
    (model,) = (one for one in SPLITS if one.model_fields["kind"].default == fields["kind"])
    with pytest.raises(ValidationError, match=words):
        model.model_validate(fields)
