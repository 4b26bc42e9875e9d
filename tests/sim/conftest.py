"""Simulated time for the coroutines among the tests, and SimPy's own two fixtures."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from fedsim.sim.arrays.fits import VARIABLE
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.engine.loop import SimLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Let every coroutine marked `asyncio` in this folder run in simulated time."""
    return {"simulated": SimLoop}


@pytest.fixture(autouse=True, scope="module")
def arrays() -> Iterator[None]:
    """Play the rounds of few clients in arrays, too, wherever they can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "arrays")
        yield


@pytest.fixture
def env() -> Calendar:
    return Calendar()


@pytest.fixture
def log() -> list[Any]:
    return []
