"""Which rooms of fedsim are mutated, and which tests are asked about each.

A room is a package directly below fedsim, or `fedsim` for the modules that stand there.
"""

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

COPIED = ("fedsim", "tests", "scenarios", "analysis", "docs", "README.md", "pyproject.toml")
"""What the tests below need of the checkout."""

TOP = "fedsim"
"""The room of the modules that stand in no package."""

LEFT_OUT = ("report/svg.py", "report/charts.py")
"""What is not mutated: a line drawn elsewhere in a figure is seen by eye."""

COMPILED = "fedsim/computing/compiled/"
"""What is compiled once it is imported: another code of a function would change nothing."""

ROOMS = (
    TOP,
    *sorted(each.parent.name for each in (ROOT / "fedsim").glob("*/__init__.py")),
)

SHARED = (
    "tests/test_run.py", "tests/test_damaged_runs.py", "tests/test_giving_up.py",
    "tests/test_models.py", "tests/test_lock.py", "tests/results", "tests/test_corruption.py",
    "tests/test_edited_scenarios.py", "tests/test_divergence.py", "tests/test_run_ends.py",
    "tests/test_degenerate.py", "tests/test_status.py", "tests/test_carbon.py",
    "tests/test_energy_audit.py", "tests/test_failing_runs.py", "tests/test_memory.py",
    "tests/test_named_folders.py", "tests/test_named_kinds.py", "tests/test_networks.py",
    "tests/test_no_clients.py", "tests/test_run_figures.py", "tests/test_sparse.py",
    "tests/test_stop_figures.py", "tests/test_studies.py", "tests/test_own_blocks.py",
    "tests/test_extremes.py", "tests/test_imports.py", "tests/commands",
)  # fmt: skip
"""Tests of whole runs that reach into all rooms."""

_ELSEWHERE: dict[str, tuple[str, ...]] = {
    TOP: ("tests/test_fitted.py", "tests/test_limits.py", "tests/test_visible.py",
          "tests/test_listing.py", "tests/hostile"),
    "cli": ("tests/test_cli.py", "tests/test_cli_compare.py", "tests/test_cli_trace.py",
            "tests/test_check.py", "tests/test_describe.py", "tests/test_first_errors.py",
            "tests/test_listing.py", "tests/test_starting.py", "tests/test_status.py",
            "tests/test_watching.py"),
    "conformance": ("tests/test_conformance.py", "tests/test_conformance_blocks.py"),
    "ports": ("tests/protocol", "tests/worlds"),
    "running": ("tests/test_campaign.py", "tests/test_cluster.py", "tests/test_executors.py",
                "tests/test_extent.py", "tests/test_interrupts.py", "tests/test_notebook_bar.py",
                "tests/test_pace.py", "tests/test_places.py", "tests/test_probe.py",
                "tests/test_provenance.py", "tests/test_notes.py", "tests/test_run.py",
                "tests/test_shards.py"),
    "torch": ("tests/pytorch",),
    "jax": ("tests/test_jax.py",),
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
