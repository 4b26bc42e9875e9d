"""Simulated time for the coroutines among the tests, and SimPy's own two fixtures."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.engine.loop import SimLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Let every coroutine marked `asyncio` in this folder run in simulated time."""
    return {"simulated": SimLoop}


@pytest.fixture
def env() -> Calendar:
    return Calendar()


@pytest.fixture
def log() -> list[Any]:
    return []
