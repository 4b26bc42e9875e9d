"""A growing batch is ceil(start / ratio^t), in every round that a run can have."""

from decimal import Decimal
from itertools import pairwise

import pytest

from fedsim.algorithms.local_steps import GrowingBatch, batch_size

RATIOS = [percent / 100 for percent in range(1, 100)]
MOST = 2**62


def sizes(start: float, ratio: float, rounds: int = 2000) -> list[int]:
    batch = GrowingBatch(start=start, ratio=ratio)
    found = [batch_size(batch, number) for number in range(1, rounds + 1)]
    return [size for size in found if size is not None]


@pytest.mark.slow
@pytest.mark.parametrize("start", [1e-200, 0.3, 1.0, 17.5, 1e9])
def test_it_grows_geometrically_until_it_is_all_there_can_be(start: float) -> None:
    """Compared in 28 decimal places; a ceiling may be off by one where the ratio is rounded."""
    for ratio in RATIOS:
        seen, exact = sizes(start, ratio), Decimal(start)
        assert len(seen) == 2000
        for size in seen:
            expected = min(exact, Decimal(MOST))
            slack = expected * Decimal("1e-11")
            assert expected - slack <= size <= expected + slack + 1, (ratio, exact)
            exact = min(exact / Decimal(ratio), Decimal("1e300"))
        assert all(sooner <= later for sooner, later in pairwise(seen))


def test_powers_of_two_are_exact() -> None:
    assert sizes(3, 0.5, 61) == [3 * 2**t for t in range(61)]
    assert sizes(1, 0.5)[1500:] == [MOST] * 500


def test_it_still_grows_after_many_rounds() -> None:
    """A ratio near 1 takes thousands of rounds to come to what clients have."""
    late = sizes(10, 0.999, 5000)
    assert late[-1] / late[-1001] == pytest.approx(0.999**-1000, rel=0.01)


@pytest.mark.parametrize("batch", [None, 7])
def test_what_does_not_grow_stays(batch: int | None) -> None:
    assert [batch_size(batch, number) for number in (1, 2, 2000)] == [batch] * 3
