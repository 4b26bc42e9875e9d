"""Exchanges of peers by the kernel: the log of the events, and what sends a run back to them."""

import pytest

from .exchange_worlds import both


@pytest.mark.parametrize("number", range(60))
def test_the_kernel_writes_what_events_write(number: int) -> None:
    one, other = both(number)
    assert one == other
