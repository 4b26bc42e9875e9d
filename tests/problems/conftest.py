"""Fixtures: a cache of each test's own, and a seeded stream."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the user's own cache and data out of the tests."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("FEDSIM_CACHE", str(folder))
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)
