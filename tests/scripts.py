"""The scripts under analysis/ as modules."""

import importlib.util
from typing import Any

from tests.conftest import ROOT


def script(name: str) -> Any:
    """Return a script as a module; its name is such as "papers/run"."""
    file = ROOT / f"analysis/{name}.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
