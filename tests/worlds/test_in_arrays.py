"""Worlds that are played in arrays leave the same bytes as if they were played as events."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiers import some

from .campaign import prepared
from .drawing import world
from .in_arrays import compared, plain

_CHUNK = 60


@pytest.fixture(scope="module")
def files() -> Iterator[Path]:
    with prepared() as folder:
        yield folder


@pytest.mark.parametrize("first", some(range(1, 1 + 6 * _CHUNK, _CHUNK), 1))
def test_both_ways_write_the_same_files(first: int, files: Path) -> None:
    seen = [compared(plain(world(number)), files) for number in range(first, first + _CHUNK)]
    others = {each.outcome for each in seen} - {"same", "refused", "events"}
    assert not others
    assert sum(each.outcome == "same" for each in seen) > _CHUNK / 10  # of all it is a third
    assert all(each.why for each in seen if each.outcome == "events")
