"""Shards: all of them together have each run once, and a text names one or is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.running.folder import WHOLE, Shard
from tests.tiers import every


@given(st.integers(0, 60), st.integers(1, 12))
def test_all_shards_together_have_each_run_once_and_are_about_as_large(
    runs: int, shares: int
) -> None:
    parts = [Shard(number, shares).of(range(runs)) for number in range(1, shares + 1)]
    assert sorted(run for part in parts for run in part) == list(range(runs))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert WHOLE.of(range(runs)) == list(range(runs))


@given(st.integers(1, 999), st.integers(1, 999))
def test_a_text_names_a_shard_that_there_is(number: int, shares: int) -> None:
    text = f" {number} / {shares} "
    if number <= shares:
        assert Shard.parse(text) == (number, shares)
    else:
        with pytest.raises(DataError, match="such as 3/16"):
            Shard.parse(text)


@every("text", ["", "3", "0/4", "5/4", "1/0", "-1/4", "1/4x", "x1/4", "1.0/4"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="expected K/N"):
        Shard.parse(text)
