"""Worlds that are played in arrays leave the same bytes as if they were played as events."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .campaign import prepared
from .drawing import world
from .in_arrays import compared, plain

_CHUNK = 60


@pytest.fixture(scope="module")
def files() -> Iterator[Path]:
    with prepared() as folder:
        yield folder


def test_both_ways_write_the_same_files(files: Path) -> None:
    seen = [compared(plain(world(number)), files) for number in range(1, 1 + _CHUNK)]
    others = {each.outcome for each in seen} - {"same", "refused", "events"}
    assert not others
    assert sum(each.outcome == "same" for each in seen) > _CHUNK / 10  # of all it is a third
    assert all(each.why for each in seen if each.outcome == "events")
