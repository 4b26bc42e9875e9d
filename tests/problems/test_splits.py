"""Splits: every law of a partition, over random sizes."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.problems import IID, Contiguous, Groups, Samples, Split
from fedsim.problems.splits import Indices
from tests.tiers import every

sizes = st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))
remainders = st.sampled_from(["drop", "spread"])


def rows_of(n: int, client: list[int] | None = None) -> Samples:
    numbers = None if client is None else np.array(client, dtype=np.int64)
    return Samples(np.zeros((n, 1)), np.arange(float(n)), numbers)


def assign(
    split: Split, samples: Samples, clients: int | None = None, seed: int = 0
) -> Sequence[Indices]:
    return split.assign(samples, clients, np.random.default_rng(seed))


@pytest.mark.parametrize("kind", [Contiguous, IID])
@given(size=sizes, remainder=remainders)
def test_parts_are_equal_disjoint_and_as_many_as_clients(
    kind: type[Contiguous] | type[IID], size: tuple[int, int], remainder: str
) -> None:
    n, M = size
    split = kind.model_validate({"clients": M, "remainder": remainder})
    parts = assign(split, rows_of(n))
    lengths = [len(part) for part in parts]
    dealt = np.concatenate(parts)
    assert len(parts) == M
    assert len(np.unique(dealt)) == len(dealt)
    assert set(dealt.tolist()) <= set(range(n))
    if remainder == "drop":
        assert lengths == [n // M] * M
    else:
        assert sum(lengths) == n
        assert lengths == sorted(lengths, reverse=True)
        assert lengths[0] - lengths[-1] <= 1


@pytest.mark.parametrize("kind", [Contiguous, IID])
@given(size=sizes)
def test_without_a_request_no_row_is_left_out(
    kind: type[Contiguous] | type[IID], size: tuple[int, int]
) -> None:
    n, M = size
    assert sorted(np.concatenate(assign(kind(), rows_of(n), M)).tolist()) == list(range(n))


@given(size=sizes, remainder=remainders)
def test_contiguous_parts_are_the_rows_from_the_first_on(
    size: tuple[int, int], remainder: str
) -> None:
    n, M = size
    parts = assign(Contiguous.model_validate({"remainder": remainder}), rows_of(n), M)
    dealt = np.concatenate(parts)
    assert np.array_equal(dealt, np.arange(len(dealt)))


def test_the_blocks_of_the_real_file_have_5554_rows() -> None:
    parts = assign(Contiguous(clients=9, remainder="drop"), rows_of(49990))
    assert [(part[0], part[-1], len(part)) for part in parts[:2]] == [
        (0, 5553, 5554),
        (5554, 11107, 5554),
    ]
    assert parts[-1][-1] == 9 * 5554 - 1


def test_a_shuffle_is_a_function_of_the_stream() -> None:
    samples = rows_of(50)
    first, again, other = (np.concatenate(assign(IID(), samples, 5, seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, np.arange(50))


def test_a_shuffle_puts_every_row_anywhere() -> None:
    firsts = [assign(IID(), rows_of(4), 4, seed)[0][0] for seed in range(400)]
    assert np.bincount(firsts, minlength=4) == pytest.approx([100] * 4, abs=40)


@given(client=st.lists(st.integers(-3, 6), min_size=1, max_size=40))
def test_groups_have_the_rows_of_their_number_in_order(client: list[int]) -> None:
    parts = assign(Groups(), rows_of(len(client), client))
    expected = [
        [row for row, number in enumerate(client) if number == own] for own in sorted(set(client))
    ]
    assert [part.tolist() for part in parts] == expected


def test_groups_that_lie_together_are_not_copied() -> None:
    samples = rows_of(6, [0, 0, 0, 1, 1, 1])
    parts = [samples.take(rows) for rows in assign(Groups(), samples)]
    assert all(np.shares_memory(part.X, samples.X) for part in parts)


@every(
    ("split", "samples", "fleet", "key", "words"),
    [
        (Contiguous(clients=7), rows_of(6), None, "split.clients", ["7 clients", "6 rows"]),
        (IID(), rows_of(6), 8, "split.clients", ["8 clients", "6 rows"]),
        (Contiguous(clients=3), rows_of(6), 4, "split.clients", ["3 clients", "fleet has 4"]),
        (IID(), rows_of(6), None, "split.clients", ["number of clients", "fleet"]),
        (Groups(), rows_of(6), 2, "split", ["groups", "smoothness", "npz"]),
        (Groups(), rows_of(3, [1, 1, 2]), 3, "split", ["of 2 clients", "fleet has 3"]),
    ],
)
def test_what_cannot_be_split_is_refused(
    split: Split, samples: Samples, fleet: int | None, key: str, words: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        assign(split, samples, fleet)
    assert caught.value.key == key
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@given(size=sizes, labels=st.integers(1, 5), seed=st.integers(0, 99))
def test_stratified_parts_are_equal_and_alike_in_every_label(
    size: tuple[int, int], labels: int, seed: int, remainder: str
) -> None:
    n, M = size
    y = np.random.default_rng(seed).integers(labels, size=n).astype(np.float64)
    split = IID.model_validate({"stratify": True, "remainder": remainder})
    parts = assign(split, Samples(np.zeros((n, 1)), y), M, seed)
    dealt = np.concatenate(parts)
    assert [len(part) for part in parts] == split.sizes(n, M).tolist()
    assert len(np.unique(dealt)) == len(dealt)
    for label in range(labels):
        counts = [int((y[part] == label).sum()) for part in parts]
        assert max(counts) - min(counts) <= 1


def test_a_stratified_split_drops_any_row() -> None:
    samples = Samples(np.zeros((4, 1)), np.array([0.0, 0.0, 1.0, 1.0]))
    split = IID(stratify=True, remainder="drop")
    kept = [np.concatenate(assign(split, samples, 3, seed)) for seed in range(400)]
    dropped = [6 - int(rows.sum()) for rows in kept]
    assert np.bincount(dropped, minlength=4) == pytest.approx([100] * 4, abs=40)


def test_a_fleet_of_the_same_size_is_no_contradiction() -> None:
    assert len(assign(Contiguous(clients=3), rows_of(6), 3)) == 3
    assert len(assign(Groups(), rows_of(3, [1, 1, 2]), 2)) == 2
