"""Packages whose names are imported on first use, and tables of classes imported when looked up.

A run needs one method and one radio. Importing all of them would take longer than the run.

A package lists its names in imports under `if TYPE_CHECKING`, which type checkers need anyway, and
gets `__getattr__` and `__dir__` from `exports` (PEP 562). `fedsim.running.imports` follows these
imports too, since a run may depend on any of the modules.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from inspect import getsource
from typing import TypeVar

Class = TypeVar("Class", bound=type)


def exports(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that is being imported."""
    module = sys.modules[package]

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        """Return, for each exported name, its module and its name in that module."""
        # The imports under `if TYPE_CHECKING` never run, so they are read from the source text.
        statements = ast.walk(ast.parse(getsource(module)))
        return {
            alias.asname or alias.name: (node.module, alias.name)
            for node in statements
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }

    def find(name: str) -> object:
        """Import the module of a name, and set the name in the package, so it is looked up once."""
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, there = homes()[name]
        found: object = getattr(import_module(home), there)
        setattr(module, name, found)
        return found

    def names() -> list[str]:
        return sorted({*module.__all__, *(name for name in vars(module) if name.startswith("__"))})

    return find, names


class Named(Mapping[str, Class]):
    """Classes by kind, each imported when it is looked up."""

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        """Initialise a table.

        Args:
            package: the module that has all classes as attributes, such as one with `exports`.
                It is imported for the first class.
            names: the name of the class of each kind, in the order of lists.
        """
        self._package = package
        self._names = names

    def __getitem__(self, kind: str) -> Class:
        found: Class = getattr(import_module(self._package), self._names[kind])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, kind: object) -> bool:
        return kind in self._names

    def has(self, model: object) -> bool:
        """Return whether a class is in this table, without importing any other class."""
        name = getattr(model, "__name__", "")
        if name not in self._names.values():
            return False
        return getattr(import_module(self._package), name) is model
