"""Former names of public modules: each can be imported, with a warning that names the new one."""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from warnings import warn

FORMER = {
    "analysis": "results.analysis",
    "blocks": "core.blocks",
    "conformance": "addons.conformance",
    "errors": "core.errors",
    "live": "addons.live",
    "ports": "core.ports",
    "report": "results.report",
    "robustness": "addons.robustness",
}
"""The new name of each, below fedsim."""


class _Finder:
    """Finds a module under its former name; it comes before those that look into folders.

    One of these would load a submodule of a former name from its file a second time.
    """

    def find_spec(self, name: str, *_more: object) -> ModuleSpec | None:
        """Return the spec of a module under its former name; None for any other."""
        package, _, former = name.partition(".")
        first, _, rest = former.partition(".")
        if package != "fedsim" or first not in FORMER:
            return None
        new = ".".join(filter(None, (package, FORMER[first], rest)))
        warn(f"{name} is now {new}", DeprecationWarning, stacklevel=2)
        return ModuleSpec(name, _Loader(new))  # type: ignore[arg-type]  # all that is asked of one


class _Loader:
    """Hands on a module that is imported under its new name."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module."""
        module = import_module(self._new)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which the import under another name has replaced."""
        module.__spec__ = self._own


def keep_former_names() -> None:
    """Let modules be imported under their former names."""
    sys.meta_path.insert(0, _Finder())


def as_attribute(name: str) -> ModuleType:
    """Return the module that was an attribute of fedsim; the warning is about who asks for it."""
    new = f"fedsim.{FORMER[name]}"
    warn(f"fedsim.{name} is now {new}", DeprecationWarning, stacklevel=3)
    return import_module(new)
