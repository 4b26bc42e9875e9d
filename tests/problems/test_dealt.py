"""Clients' rows and losses that are made when they are looked up are those made at once."""

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fedsim.core.columns import sizes_and_counts
from fedsim.core.errors import DataError
from fedsim.problems import Problem
from fedsim.problems.client_losses import KEPT, LazySequence
from fedsim.problems.losses import LeastSquares, Logistic, Loss, Rows, Squared
from fedsim.problems.partition import (
    Cuts,
    Partition,
    Transform,
    partition,
    preprocess_samples,
)
from fedsim.problems.problem import largest_smoothness
from fedsim.problems.samples import Block, Features, Samples
from tests.tiers import every


def data(rows: int, features: int, seed: int = 1) -> Samples:
    rng = np.random.default_rng(seed)
    return Samples(rng.standard_normal((rows, features)), rng.choice([-1.0, 1.0], rows))


def digest(blocks: Iterable[Block]) -> str:
    whole = sha256()
    for block in blocks:
        whole.update(block)
    return whole.hexdigest()


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    features=st.integers(1, 4),
    shuffled=st.booleans(),
)
def test_dealt_rows_are_those_that_each_client_would_take(
    sizes: list[int], features: int, *, shuffled: bool
) -> None:
    samples = data(sum(sizes), features)
    order = np.random.default_rng(2).permutation(sum(sizes)) if shuffled else np.arange(sum(sizes))
    rows = np.split(order, np.cumsum(sizes)[:-1])
    taken, dealt = [samples.take(own) for own in rows], partition(samples, rows)
    assert isinstance(dealt, Partition)
    assert len(dealt) == len(taken)
    for one, other in zip(dealt, taken, strict=True):
        assert np.array_equal(one.X, other.X)
        assert np.array_equal(one.y, other.y)
    assert digest(dealt.blocks()) == digest(block for part in taken for block in part.blocks())
    assert dealt.rows.tolist() == sizes


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6)
    | st.builds(lambda size, clients: [size] * clients, st.integers(1, 5), st.integers(1, 9))
)
def test_cuts_are_where_the_sizes_before_add_up_to(sizes: list[int]) -> None:
    cuts, ends = Cuts(np.array(sizes)), [0, *accumulate(sizes)]
    assert [cuts.of(m) for m in range(len(sizes))] == [slice(*each) for each in pairwise(ends)]
    assert cuts.begins(np.arange(len(sizes))).tolist() == ends[:-1]
    assert cuts.total == ends[-1]
    equal, counts = sizes_and_counts(cuts.sizes)
    assert dict(zip(equal.tolist(), counts.tolist(), strict=True)) == Counter(sizes)
    assert (cuts.sizes.strides == (0,)) == (len(set(sizes)) == 1)  # one number in memory


def test_a_sequence_that_is_made_keeps_the_first_ones_only() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number * 10

    items = LazySequence(4, make, kept=2)
    assert [*items] == [*items] == [0, 10, 20, 30]
    assert made == [0, 1, 2, 3, 2, 3]
    assert items[-1] == 30
    assert items[1:3] == [10, 20]
    with pytest.raises(IndexError):
        items[4]


def test_losses_of_more_clients_than_are_kept_are_made_when_they_are_looked_up() -> None:
    clients = KEPT + 3
    samples = data(2 * clients, 3)
    rows = np.split(np.arange(2 * clients), clients)
    problem = Problem.of(Squared(), partition(samples, rows), weighting="sum")
    w = np.array([1.0, -2.0, 0.5])
    residuals = samples.X @ w - samples.y
    assert problem.value(w) == pytest.approx(0.25 * residuals @ residuals)
    assert problem.value(w) == pytest.approx(sum(f.value(w) for f in problem.losses))
    assert problem.losses[0] is problem.losses[0]
    assert problem.losses[clients - 1] is not problem.losses[clients - 1]


@every("loss", [Squared(l2=0.1), Squared(scale="sum"), Logistic(l2=0.5)])
@every("features", [2, 9])
def test_the_largest_smoothness_is_that_of_all_clients(loss: Loss, features: int) -> None:
    samples, rng = data(300, features), np.random.default_rng(3)
    cuts = np.sort(rng.choice(np.arange(1, 300), 59, replace=False))
    problem = Problem.of(loss, partition(samples, np.split(np.arange(300), cuts)))
    assert largest_smoothness(problem) == problem.client_smoothness.max()


def test_of_clients_that_are_alike_few_smoothness_constants_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples, asked = data(4000, 20), list[int]()
    problem = Problem.of(Squared(), partition(samples, np.split(np.arange(4000), 400)))
    own = LeastSquares.majorant

    def majorant(loss: LeastSquares, rows: Rows) -> tuple[float, Features]:
        asked.append(id(rows))
        return own(loss, rows)

    monkeypatch.setattr(LeastSquares, "majorant", majorant)
    largest_smoothness(problem)
    assert 1 <= len(asked) < 100


@every("treat", [None, lambda X: X * 2.0])
@every("sparse", [False, True])
@every("whole", [False, True])
def test_features_that_float32_has_no_numbers_for_are_refused(
    treat: Transform | None, *, sparse: bool, whole: bool
) -> None:
    """Wherever they come from: they would be infinite, and every gradient after them."""
    dense = np.array([[1.0, 0.0], [0.0, 3e38], [4e38, 1.0]])
    X = csr_array(dense) if sparse else dense
    samples, kind = Samples(X, np.zeros(3)), np.dtype(np.float32)
    parts = [np.arange(2), np.arange(2, 3)]
    with pytest.raises(DataError, match="too large for float32"):
        _ = (
            preprocess_samples(samples, treat, kind)
            if whole
            else partition(samples, parts, treat, kind)
        )
    fine = preprocess_samples(samples, treat, np.dtype(np.float64))
    assert fine.X.max() >= 4e38


@pytest.mark.parametrize("whole", [False, True], ids=["dealt", "preprocessed"])
def test_features_of_which_none_is_stored_have_their_type_all_the_same(*, whole: bool) -> None:
    samples, kind = Samples(csr_array((3, 2)), np.zeros(3)), np.dtype(np.float32)
    made = (
        preprocess_samples(samples, None, kind)
        if whole
        else partition(samples, [np.arange(3)], None, kind)[0]
    )
    assert made.X.dtype == kind
    assert float(np.abs(made.X).sum()) == 0.0
