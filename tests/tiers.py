"""Two tiers of tests: the default one, and what is slow or needs an extra of fedsim.

`python -m pytest` runs the default tier, `python -m pytest -m ""` all of them. A test that takes
long carries the marker `slow`. One that needs a library of an extra is marked `needs`, by file
below or by hand, and is skipped with the command that installs it where the library is missing.
A property test draws few examples in the default tier; in any other it counts as slow and draws
all that it asks for.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib.util import find_spec
from inspect import signature
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

from fedsim.core.extras import install

_Test = Callable[..., None]

DEFAULT = "not slow"
"""The expression of markers that selects the default tier; `pyproject.toml` has it, too."""

FEW = 15
"""Examples of a property test in the default tier."""

LIBRARIES = {
    "torch": ("torch",),
    "flower": ("flwr",),
    "metrics": ("torchmetrics",),
    "jax": ("jax", "optax"),
    "dask": ("distributed",),
    "tables": ("openpyxl", "sqlalchemy"),
    "sql": ("duckdb",),
    "pcap": ("dpkt",),
    "secrecy": ("cryptography",),
    "crate": ("rocrate",),
    "privacy": ("dp_accounting",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "flwr-datasets": ("flwr_datasets",),
    "wandb": ("wandb",),
    "tensorboard": ("tensorboard",),
    "docs": ("mkdocs", "mkdocstrings", "nbclient", "latex2mathml", "docstring_parser"),
    "lint": ("mypy", "ruff", "importlinter"),
    "dev": ("playwright", "cosmic_ray", "coverage", "hatchling", "build"),
}
"""What each extra brings that tests import."""

FILES = {
    "addons/calibration/test_captures.py": "pcap",
    "addons/explorer/test_browser.py": "dev",
    "addons/flower/test_apps.py": "flower",
    "addons/flower/test_every_strategy.py": "flower",
    "addons/flower/test_failures.py": "flower",
    "addons/flower/test_mods.py": "flower",
    "addons/flower/test_runs.py": "flower",
    "addons/flower/test_secrecy.py": "flower",
    "addons/flower/test_server_apps.py": "flower",
    "addons/flower/test_strategies.py": "flower",
    "addons/crate/test_crate.py": "crate",
    "campaigns/mutants/test_mutants.py": "dev",
    "outside/test_installed.py": "dev",
    "problems/test_architectures.py": "torch",
    "problems/test_flwr_datasets.py": "flwr-datasets",
    "problems/test_augment.py": "torch",
    "problems/test_modules.py": "torch",
    "problems/test_numbers.py": "torch",
    "problems/test_optimizers.py": "torch",
    "problems/test_shortened.py": "torch",
    "problems/test_together.py": "torch",
    "problems/test_torch.py": "torch",
    "addons/torch/test_cuda.py": "torch",
    "addons/torch/test_lora.py": "torch",
    "addons/torch/test_losses.py": "torch",
    "addons/torch/test_metrics.py": "metrics",
    "addons/torch/test_noise.py": "torch",
    "addons/torch/test_numpy_losses.py": "torch",
    "addons/torch/test_personal.py": "torch",
    "addons/torch/test_problem.py": "torch",
    "addons/torch/test_refusals.py": "torch",
    "addons/torch/test_running.py": "torch",
    "addons/torch/test_steps.py": "torch",
    "addons/torch/test_training.py": "torch",
    "results/report/test_browser.py": "dev",
    "addons/torch/test_adapters.py": "torch",
    "running/test_cluster.py": "dask",
    "test_docs.py": "docs",
    "addons/jax/test_jax.py": "jax",
    "addons/torch/test_methods_on_networks.py": "torch",
    "addons/torch/test_networks.py": "torch",
    "test_notebooks.py": "docs",
    "test_reference.py": "docs",
}
"""The extra that a whole file of tests needs, below `tests`."""


class Tier:
    """The tier that a run of pytest has been asked for."""

    few = False


def examples(number: int, few: int = FEW, **more: object) -> settings:
    """Return the settings of a property test of so many examples, or few in the default tier."""
    wanted = min(number, few) if Tier.few else number
    return settings(max_examples=wanted, **more)  # type: ignore[arg-type]  # as settings has them


def some(values: Iterable[object], *default: object) -> list[ParameterSet]:
    """Return the parameters of a test, of which the default tier takes those that are named."""
    taken = list(values)
    unknown = [each for each in default if each not in taken]
    if unknown:
        raise ValueError(f"not among the parameters: {unknown}")
    return [pytest.param(each, marks=[] if each in default else pytest.mark.slow) for each in taken]


def every(
    names: str | Sequence[str], cases: Iterable[Any], few: Iterable[Any] | None = None
) -> Callable[[_Test], _Test]:
    """Go through all cases within one test; what fails names the first case that does.

    It is called as `pytest.mark.parametrize` is, for cases that cost little and are alike: a test
    of its own for each would take longer to find and report than to run. Fixtures of a function are
    made once for all cases.

    Args:
        names: of the arguments.
        cases: a value of the argument, or values of the arguments, in each.
        few: those of the default tier, if these are not all; elsewhere the test counts as slow.
    """
    keys = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    taken = list(cases if few is None or not Tier.few else few)
    if not taken:
        raise ValueError(f"there is no case of {names}")
    if any(isinstance(case, ParameterSet) and case.marks for case in taken):
        raise ValueError("cases with marks are parameters: a test for each is needed")

    def looped(test: _Test) -> _Test:
        @wraps(test)
        def through_all(*args: object, **fixtures: object) -> None:
            for case in taken:
                given = _named(keys, case)
                try:
                    test(*args, **given, **fixtures)
                except BaseException as error:
                    error.add_note(f"in the case {given}")
                    raise

        own = signature(test)
        left = [each for name, each in own.parameters.items() if name not in keys]
        through_all.__signature__ = own.replace(parameters=left)  # type: ignore[attr-defined]
        return through_all if few is None or Tier.few else pytest.mark.slow(through_all)

    return looped


def _named(keys: Sequence[str], case: Any) -> dict[str, Any]:
    """Return the arguments of a case, which may be a parameter of pytest's."""
    if isinstance(case, ParameterSet):
        return dict(zip(keys, case.values, strict=True))
    return dict(zip(keys, [case] if len(keys) == 1 else case, strict=True))


def in_turn(
    values: Iterable[object], partners: Sequence[object], each: int = 1
) -> list[tuple[object, object]]:
    """Pair every value with so many partners, one after the other, instead of with all."""
    left = cycle(partners)
    return [(value, next(left)) for value in values for _ in range(each)]


def missing(extra: str) -> str | None:
    """Return why tests that need an extra are skipped; None where it is installed."""
    lacking = [name for name in LIBRARIES[extra] if find_spec(name) is None]
    return f"{', '.join(lacking)} not installed: {install(extra)}" if lacking else None


def extra_of(path: Path) -> str | None:
    """Return the extra that a file of tests needs as a whole."""
    return FILES.get(path.relative_to(Path(__file__).parent).as_posix())


class Skipped(pytest.Module):
    """A file of tests that cannot be imported here."""

    def collect(self) -> list[pytest.Item]:
        """Skip it, and say why."""
        reason = missing(extra_of(self.path) or "")
        raise pytest.skip.Exception(reason or "", allow_module_level=True)
