"""Minibatches drawn by compiled code: those of NumPy, which leave its streams where it does."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.problems.evaluators.compiled import draw_minibatches
from fedsim.problems.evaluators.compiled.drawing import MOST
from fedsim.problems.samples import draw_minibatches as reference
from tests.tiers import examples

GENERATORS = np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64


@examples(600)
@given(
    kind=st.sampled_from(GENERATORS),
    seed=st.integers(0, 2**64),
    rows=st.one_of(st.integers(1, 200), st.integers(1, MOST + 2000)),
    share=st.floats(0, 1),
    count=st.integers(1, 6),
    before=st.integers(0, 3),
)
def test_minibatches_are_those_of_numpy_and_so_is_what_comes_after(
    kind: type[np.random.BitGenerator],
    seed: int,
    rows: int,
    share: float,
    count: int,
    before: int,
) -> None:
    batch = max(1, round(share * rows))
    one, other = (np.random.Generator(kind(seed)) for _ in range(2))
    for rng in (one, other):  # half of 64 bits may be left over
        rng.integers(0, 2**31, size=before, dtype=np.int32)
    for _ in range(2):
        assert (
            draw_minibatches(one, rows, batch, count) == reference(other, rows, batch, count)
        ).all()
        assert one.random() == other.random()
        assert one.integers(9) == other.integers(9)


def test_numbers_that_lemire_refuses_are_refused() -> None:
    # Below k, 2^32 mod k of the 2^32 are refused: about one draw in a million here, of five.
    one, other = (np.random.default_rng(3) for _ in range(2))
    for _ in range(60):
        assert (draw_minibatches(one, 9_999, 9_000, 10) == reference(other, 9_999, 9_000, 10)).all()
    assert one.bit_generator.state == other.bit_generator.state


def test_a_minibatch_has_each_row_at_most_once_and_all_rows_as_often() -> None:
    taken = draw_minibatches(np.random.default_rng(1), 10, 4, 20_000)
    ordered = np.sort(taken, axis=1)
    assert all((a < b).all() for a, b in pairwise(ordered.T))
    counts = np.bincount(taken.ravel(), minlength=10)
    assert np.abs(counts - 8000).max() < 6 * np.sqrt(8000 * 0.6)
