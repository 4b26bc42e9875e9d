"""Known modules: those of Python itself, fedsim and installed packages, with their versions."""

import sys
from collections.abc import Iterable
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""The names of folders that packages are installed into."""

_FEDSIM = __name__.partition(".")[0]
_SELF_DESCRIBING = frozenset({*sys.stdlib_module_names, *sys.builtin_module_names, _FEDSIM})


def is_known(module: object) -> bool:
    """Return whether a module, given by its name, is identified by that name and a version.

    This holds for modules of Python, of fedsim, and of installed packages. All others, `__main__`
    among them, are the user's and may have any content.
    """
    top = module.partition(".")[0] if isinstance(module, str) else ""
    return bool(top) and top != "__main__" and (top in _SELF_DESCRIBING or is_installed(top))


def is_installed(top: str) -> bool:
    """Return whether a loaded top-level module belongs to an installed package."""
    return is_of_a_package(getattr(sys.modules.get(top), "__spec__", None))


def is_of_a_package(spec: ModuleSpec | None) -> bool:
    """Return whether a module lies in a folder of installed packages; False for None."""
    places = () if spec is None else (*(spec.submodule_search_locations or ()), spec.origin or "")
    return any(not INSTALLED.isdisjoint(Path(place).parts) for place in places)


def versions(packages: Iterable[str]) -> list[str]:
    """Return the names and versions of installed packages, given by their top-level modules."""
    return [_version(top) for top in sorted(packages)]


def needs_version(top: str) -> bool:
    """Return whether a known top-level module has a version other than Python's or fedsim's."""
    return top not in _SELF_DESCRIBING


@cache
def _version(top: str) -> str:
    try:
        return f"{top} {version(top)}"
    except PackageNotFoundError:  # the package has another name than its module
        names = sorted(set(packages_distributions().get(top, ())))
        return ", ".join(f"{name} {version(name)}" for name in names)
