"""What the tests of plugins have in common."""

from pathlib import Path
from typing import Any

import pytest


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _write_no_picture(_: Any, path: Path) -> None:
    path.write_bytes(b"a figure")


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: a figure takes longer than the run, and tests/cli/test_cli.py looks at it."""
    monkeypatch.setattr("fedsim.results.analysis.convergence", _nothing)
    monkeypatch.setattr("fedsim.results.analysis.save", _write_no_picture)
