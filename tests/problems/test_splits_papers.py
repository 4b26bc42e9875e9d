"""Splits as papers make them: their laws, and a least number of rows for each client."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.conformance import check_split
from fedsim.core.errors import DataError
from fedsim.problems import Samples
from fedsim.problems.splits import (
    ByLabel,
    Dirichlet,
    Groups,
    Indices,
    LabelMix,
    LogNormal,
    Shards,
    Split,
)
from tests.tiers import every


def labelled(counts: list[int], seed: int = 0) -> Samples:
    y = np.random.default_rng(seed).permutation(np.repeat(range(len(counts)), counts))
    return Samples(y[:, None] + 0.0, y.astype(np.float64))


def assign(split: Split, samples: Samples, clients: int, seed: int = 0) -> Sequence[Indices]:
    return split.assign(samples, clients, np.random.default_rng(seed))


@every("split", [Shards(), Shards(per_client=1), LabelMix(), LabelMix(alpha=1e9)])
def test_it_keeps_what_every_split_promises(split: Split) -> None:
    found = check_split(split)
    assert set(found.outcome) == {"kept"}


@given(
    counts=st.lists(st.integers(8, 30), min_size=2, max_size=5),
    clients=st.integers(1, 6),
    per_client=st.integers(1, 2),
    seed=st.integers(0, 1000),
)
def test_shards_are_consecutive_among_the_rows_sorted_by_label(
    counts: list[int], clients: int, per_client: int, seed: int
) -> None:
    samples = labelled(counts, seed)
    parts = assign(Shards(per_client=per_client), samples, clients, seed)
    size = samples.rows // (clients * per_client)
    place = np.argsort(np.argsort(samples.y, kind="stable"))
    begins = [place[shard[0]] for part in parts for shard in part.reshape(per_client, size)]
    assert sorted(begins) == [size * shard for shard in range(clients * per_client)]
    for part in parts:
        for shard in part.reshape(per_client, size):
            assert np.array_equal(place[shard], np.arange(size) + place[shard[0]])


def test_two_shards_are_of_one_label_as_often_as_chance_has_it() -> None:
    """Of S shards, 20 of each label, the second of a client is of the first's with 19/(S - 1)."""
    samples, runs, clients = labelled([60] * 5), 200, 50
    same = [
        len(np.unique(samples.y[part])) == 1
        for seed in range(runs)
        for part in assign(Shards(), samples, clients, seed)
    ]
    expected = 19 / 99
    error = (expected * (1 - expected) / len(same)) ** 0.5
    assert abs(np.mean(same) - expected) < 4.5 * error


def test_clients_with_a_mix_have_as_many_rows_and_no_row_is_left_but_the_remainder() -> None:
    samples = labelled([50, 30, 24])
    for alpha in (1e-9, 0.1, 10.0):
        parts = assign(LabelMix(alpha=alpha), samples, 5)
        assert [len(part) for part in parts] == [20] * 5
        assert len(np.unique(np.concatenate(parts))) == 100


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_the_mix_of_a_client_has_the_mean_and_the_variance_of_its_distribution(
    alpha: float,
) -> None:
    """A share of n rows drawn by q, Dirichlet(alpha p): var = p(1-p) (1/(a+1) + a/(a+1)/n)."""
    samples, draws, size = labelled([600, 300, 300]), 600, 20
    first = [assign(LabelMix(alpha=alpha), samples, 60, seed)[0] for seed in range(draws)]
    shares = np.array([np.mean(samples.y[part] == 0) for part in first])
    variance = 0.25 * (1 / (alpha + 1) + alpha / (alpha + 1) / size)
    assert abs(shares.mean() - 0.5) < 4.5 * (variance / draws) ** 0.5
    assert shares.var() == pytest.approx(variance, rel=0.25)


def test_a_huge_concentration_gives_each_client_the_mix_of_the_data_but_for_chance() -> None:
    samples = labelled([3000, 1000])
    parts = assign(LabelMix(alpha=1e9), samples, 4)
    shares = [np.mean(samples.y[part] == 0) for part in parts]
    assert np.allclose(shares, 0.75, atol=5 * (0.75 * 0.25 / 1000) ** 0.5)


@given(clients=st.integers(1, 12), least=st.integers(1, 8), seed=st.integers(0, 500))
def test_every_client_has_the_least_number_of_rows(clients: int, least: int, seed: int) -> None:
    samples = labelled([40, 30, 26], seed)
    for split in (Dirichlet(alpha=0.05, least=least), LogNormal(sigma=4, least=least)):
        parts = assign(split, samples, clients, seed)
        assert min(map(len, parts)) >= least
        assert sorted(np.concatenate(parts)) == list(range(96))


def test_who_has_enough_is_not_touched_but_where_it_has_most() -> None:
    samples = labelled([40, 30, 26])
    plain, filled = (assign(Dirichlet(alpha=0.2, least=k), samples, 8, 3) for k in (1, 5))
    sizes = np.array([len(part) for part in plain])
    assert sizes.min() < 5
    for before, after in zip(plain, filled, strict=True):
        if len(before) < 5:
            assert len(after) == 5
            assert np.array_equal(after[: len(before)], before)
        else:
            assert np.array_equal(after, before[: len(after)])


def test_clients_of_the_data_with_few_rows_are_left_out() -> None:
    client = np.array([7, 3, 7, 5, 7, 3, 5])
    samples = Samples(np.ones((7, 1)), np.zeros(7), client)
    parts = Groups(least=2).assign(samples, None, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[1, 5], [3, 6], [0, 2, 4]]
    parts = Groups(least=3).assign(samples, 1, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0, 2, 4]]
    with pytest.raises(DataError, match="1 clients with 3 rows or more, but the fleet has 3"):
        Groups(least=3).assign(samples, 3, np.random.default_rng(0))
    with pytest.raises(DataError, match="got 4, but the largest client of the data has 3 rows"):
        Groups(least=4).assign(samples, None, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (Shards(per_client=3), "10 clients with 3 shards each, of 24 rows"),
        (Dirichlet(least=3), "10 clients for 24 rows; each client takes at least 3 rows"),
        (LogNormal(least=3), "10 clients for 24 rows; each client takes at least 3 rows"),
    ],
)
def test_what_cannot_be_dealt_is_refused(split: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        assign(split, labelled([12, 12]), 10)


def test_labels_give_different_labels_where_shards_may_not() -> None:
    samples = labelled([60] * 5)
    for part in assign(ByLabel(per_client=2), samples, 50):
        assert len(np.unique(samples.y[part])) == 2
