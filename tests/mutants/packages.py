"""Which packages are mutated, and which tests are asked about each."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

COPIED = ("fedsim", "tests", "scenarios", "analysis", "docs", "README.md", "pyproject.toml")
"""What the tests below need of the checkout."""

PACKAGES = ("sim", "protocol", "wire", "record", "repricing")

SHARED = (
    "tests/test_run.py", "tests/test_damaged_runs.py", "tests/test_giving_up.py",
    "tests/test_models.py", "tests/test_lock.py", "tests/results", "tests/test_corruption.py",
    "tests/test_edited_scenarios.py", "tests/test_divergence.py", "tests/test_run_ends.py",
    "tests/test_degenerate.py", "tests/test_status.py",
)  # fmt: skip
"""Tests of whole runs that reach into all packages."""


def tests_of(package: str) -> tuple[str, ...]:
    """Return the tests that are made for a package: its folder's, and its doctests."""
    return (f"tests/{package}", f"fedsim/{package}")


def asked() -> tuple[str, ...]:
    """Return all the tests that may be asked about a mutant."""
    return (*(test for package in PACKAGES for test in tests_of(package)), *SHARED)


def sources(root: Path) -> list[Path]:
    """Return the files that are mutated, in order, relative to a checkout."""
    return sorted(
        file.relative_to(root)
        for package in PACKAGES
        for file in (root / "fedsim" / package).rglob("*.py")
    )


def package_of(file: Path) -> str:
    """Return the package of a file `fedsim/PACKAGE/...`."""
    return file.parts[1]
