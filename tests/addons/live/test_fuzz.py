"""Mutated frames and handshakes, in a reduced form; see `analysis/live/fuzz.py`."""

import pytest

from tests.scripts import script


@pytest.mark.slow
def test_no_mutant_crashes_an_end_or_learns_of_a_run() -> None:
    found = script("live/fuzz").main(600, 3)
    assert found.crashes == []
    assert found.leaks == []
    assert sum(found.ends.values()) == 600
    assert min(found.ends["ended by name"], found.ends["went on"]) > 0
