"""Style, types and layers: the project's own rules, checked by the tools that know them."""

import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.locks import cache_of_mypy

COMMANDS = {
    "ruff check": ["ruff", "check"],
    "ruff format": ["ruff", "format", "--check"],
    "mypy": ["mypy"],
    "layers": ["lint-imports"],
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.first(1) if each == "mypy" else ()) for each in COMMANDS],
)
def test_the_tools_have_nothing_to_say(name: str) -> None:
    tool, *arguments = COMMANDS[name]
    program = shutil.which(tool, path=str(Path(sys.executable).parent)) or shutil.which(tool)
    assert program, f"{tool} is not installed: pip install -e '.[dev]'"
    with cache_of_mypy() if tool == "mypy" else nullcontext():
        done = subprocess.run(
            [program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
