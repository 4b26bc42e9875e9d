"""Orders of large fleets, which are worked out as far as somebody looks."""

from itertools import islice, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.protocol.participation import asynchronous
from fedsim.protocol.participation.asynchronous import WHOLE, ascending, permutation
from tests.tiers import every

FEW = 3


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@every("clients", [1, WHOLE, WHOLE + 1, 30_000])
def test_everybody_is_in_it_once(clients: int) -> None:
    order = list(permutation(clients, rng()))
    assert sorted(order) == list(range(clients))
    assert clients == 1 or order != sorted(order)


def test_the_few_first_of_a_fleet_that_fits_no_memory() -> None:
    order = permutation(10**15, rng())
    assert len({*islice(order, 1000)}) == 1000


def test_whoever_is_looked_at_last_changes_no_later_draw() -> None:
    one, other = rng(), rng()
    list(permutation(WHOLE + 1, one))
    permutation(WHOLE + 1, other)
    later = [list(islice(permutation(WHOLE + 1, each), FEW)) for each in (one, other)]
    assert later[0] == later[1]
    assert later[0] != list(islice(permutation(WHOLE + 1, rng()), FEW))


def test_every_order_is_as_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asynchronous, "WHOLE", 0)
    same, each = rng(), dict.fromkeys(permutations(range(4)), 0)
    for _ in range(2400):
        each[tuple(permutation(4, same))] += 1
    assert stats.chisquare([*each.values()]).pvalue > 1e-3


@given(st.lists(st.integers(0, 50).map(float), max_size=12), st.integers(1, 2500))
def test_keys_are_sorted_as_a_stable_sort_has_them(few: list[float], times: int) -> None:
    keys = np.array(few * times)[:5000]
    assert list(ascending(keys)) == np.argsort(keys, kind="stable").tolist()
