"""Which rooms of fedsim are mutated, and which tests are asked about each.

A room is a package directly below fedsim, or `fedsim` for the modules that stand there.
"""

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

COPIED = ("fedsim", "tests", "scenarios", "analysis", "docs", "README.md", "pyproject.toml")
"""What the tests below need of the checkout."""

TOP = "fedsim"
"""The room of the modules that stand in no package."""

LEFT_OUT = ("results/report/drawing.py",)
"""What is not mutated: a line drawn elsewhere in a figure is seen by eye."""

COMPILED = "fedsim/problems/evaluators/compiled/"
"""What is compiled once it is imported: another code of a function would change nothing."""

ROOMS = (
    TOP,
    *sorted(each.parent.name for each in (ROOT / "fedsim").glob("*/__init__.py")),
)

SHARED = (
    "tests/running/test_run.py", "tests/running/test_damaged_runs.py", "tests/test_giving_up.py",
    "tests/test_models.py", "tests/results/record/test_lock.py", "tests/results",
    "tests/test_corruption.py",
    "tests/running/test_edited_scenarios.py", "tests/test_divergence.py",
    "tests/running/test_run_ends.py",
    "tests/test_degenerate.py", "tests/cli/test_status.py", "tests/results/test_carbon.py",
    "tests/addons/conformance/test_energy_audit.py", "tests/running/test_failing_runs.py",
    "tests/running/test_memory.py",
    "tests/running/test_named_folders.py", "tests/test_named_kinds.py",
    "tests/addons/torch/test_networks.py",
    "tests/running/test_no_clients.py", "tests/test_run_figures.py", "tests/test_sparse.py",
    "tests/test_stop_figures.py", "tests/test_studies.py", "tests/running/test_own_blocks.py",
    "tests/test_extremes.py", "tests/test_imports.py", "tests/cli",
)  # fmt: skip
"""Tests of whole runs that reach into all rooms."""

_ELSEWHERE: dict[str, tuple[str, ...]] = {
    TOP: ("tests/running/test_interrupts.py", "tests/core/test_limits.py"),
    "core": ("tests/core", "tests/cli/test_listing.py", "tests/campaigns/hostile", "tests/protocol",
             "tests/campaigns/worlds"),
}  # fmt: skip
"""The tests of rooms that have no folder of their name."""


def tests_of(room: str) -> tuple[str, ...]:
    """Return the tests that are made for a room: its folder's, and those of docstrings."""
    return (*_ELSEWHERE.get(room, (f"tests/{room}",)), "tests/test_doctests.py")


def asked(rooms: Sequence[str] = ROOMS) -> tuple[str, ...]:
    """Return all the tests that may be asked about a mutant in these rooms, each once."""
    tests = (test for room in rooms for test in tests_of(room))
    return tuple(dict.fromkeys((*tests, *SHARED)))


def sources(root: Path) -> list[Path]:
    """Return the files that are mutated, in order, relative to a checkout."""
    files = sorted(each.relative_to(root) for each in (root / "fedsim").rglob("*.py"))
    return [each for each in files if each.as_posix().removeprefix("fedsim/") not in LEFT_OUT]


def room_of(file: Path) -> str:
    """Return the room of a file `fedsim/ROOM/...` or `fedsim/FILE`."""
    return file.parts[1] if len(file.parts) > 2 else TOP
