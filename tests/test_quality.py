"""Style, types and layers: the project's own rules, checked by the tools that know them."""

import ast
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


SOURCES = {
    path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "fedsim").rglob("*.py"))
}


def test_files_stay_short_enough_to_read() -> None:
    """One idea a file: at most 450 lines."""
    lengths = {str(path): len(text.splitlines()) for path, text in SOURCES.items()}
    assert {path: length for path, length in lengths.items() if length > 450} == {}


def test_functions_stay_short_enough_to_read() -> None:
    """At most 55 lines, the docstring among them."""
    long = [
        f"{path}:{node.lineno} {node.name}"
        for path, text in SOURCES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 55
    ]
    assert long == []
