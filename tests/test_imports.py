"""What a command loads: nothing of what takes long that it has no need of."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from typer.main import get_command

import fedsim.cli
from fedsim.cli import app

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


COMMANDS_LOADED = """\
import sys
from fedsim.cli import app

try:
    app(sys.argv[1:])
finally:
    names = [name for name in sys.modules if name.startswith("fedsim.")]
    own = [name for name in names if ".cli." in name or name.endswith(".command")]
    sys.stderr.write(" ".join(own))
"""


def test_a_command_loads_no_other_one() -> None:
    command = [sys.executable, "-c", COMMANDS_LOADED, "robust", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) == {"fedsim.cli.app", "fedsim.addons.robustness.command"}


def test_every_command_that_a_module_adds_can_be_given() -> None:
    for module in iter_modules(fedsim.cli.__path__, "fedsim.cli."):
        import_module(module.name)
    for file in Path(fedsim.__file__).parent.glob("addons/*/command.py"):
        import_module(f"fedsim.addons.{file.parent.name}.command")
    added = [
        each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands
    ]
    assert sorted(added) == sorted(getattr(get_command(app), "commands"))  # noqa: B009 - untyped


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


@pytest.mark.slow
def test_what_runs_a_scenario_loads_nothing_that_draws() -> None:
    """Every worker process would load it, too."""
    code = "import sys, fedsim; fedsim.run; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"matplotlib", "networkx", "sklearn", "jinja2", "rich"}


CHOSEN = """\
import sys, fedsim
from fedsim.algorithms import ALGORITHMS
from fedsim.problems import SPLITS
from fedsim.protocol.aggregation import AGGREGATIONS
from fedsim.protocol.attacks import ATTACKS
from fedsim.wire import COMPRESSORS

fedsim.run("censoring", overrides=["stop={rounds: 2}"])
loaded = {*sys.modules}
for registry in (ALGORITHMS, SPLITS, AGGREGATIONS, ATTACKS, COMPRESSORS):
    print(*{model.__module__ for model in registry} & loaded)
"""


@pytest.mark.slow
def test_a_run_loads_the_blocks_that_it_names() -> None:
    command = [sys.executable, "-c", CHOSEN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "fedsim.algorithms.censored",
        "fedsim.problems.splits.by_size",
        "fedsim.protocol.aggregation.base",
        "fedsim.wire.compressors.dense",
    ]
