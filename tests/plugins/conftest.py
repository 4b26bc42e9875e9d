"""What the tests of plugins have in common."""

from typing import Any

import pytest


def _nothing(*_: Any, **__: Any) -> None:
    pass


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: a figure takes longer than the run, and tests/test_cli.py looks at it."""
    for name in ("convergence", "save"):
        monkeypatch.setattr(f"fedsim.analysis.{name}", _nothing)
