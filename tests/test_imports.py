"""What a command loads: nothing of what takes long that it has no need of."""

import subprocess
import sys

import pytest

HEAVY = ("pandas", "pyarrow", "matplotlib", "networkx", "simpy", "sklearn", "jinja2")
NUMERIC = ("numpy", "scipy")

LOADED = """\
import sys
from fedsim.__main__ import main

sys.argv = ["fedsim", *sys.argv[1:]]
try:
    main()
finally:
    sys.stderr.write(" ".join({name.partition(".")[0] for name in sys.modules}))
"""


def loaded(*command: str) -> set[str]:
    """Return the packages that a command loads."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *command], capture_output=True, text=True, check=True
    )
    assert done.stdout
    return set(done.stderr.split())


def imported(module: str) -> set[str]:
    """Return the packages that a module loads."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"]])
def test_help_loads_nothing_that_takes_long(command: list[str]) -> None:
    assert not loaded(*command) & {*HEAVY, *NUMERIC}


@pytest.mark.slow
def test_what_can_be_named_is_listed_without_what_runs_it() -> None:
    found = loaded("list", "compressors")
    assert "numpy" in found
    assert not found & {*HEAVY, "pint"}


@pytest.mark.slow
def test_networks_are_listed_without_what_trains_them() -> None:
    assert "torch" not in loaded("list", "architectures")


@pytest.mark.slow
def test_what_is_checked_needs_nothing_that_draws_or_learns() -> None:
    found = loaded("check", "quickstart")
    assert "numpy" in found
    units = imported("pint")  # which loads Dask where there is one
    assert not (found - units) & {"matplotlib", "networkx", "sklearn", "plotly", "jinja2"}


def test_the_package_loads_what_is_asked_for() -> None:
    code = "import sys, fedsim; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {each.partition(".")[0] for each in done.stdout.split()} & {*HEAVY, *NUMERIC}


def test_what_runs_a_scenario_loads_nothing_that_draws() -> None:
    """Every worker process would load it, too."""
    code = "import sys, fedsim; fedsim.run; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"matplotlib", "networkx", "sklearn", "jinja2"}
