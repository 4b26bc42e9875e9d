"""The code that a run's bytes depend on, found by following imports.

No list of modules is kept by hand: the imports of each module, at any depth of its code, are read
from its source, and followed. So a new module counts as soon as another one imports it, and
modules that only display results never do. No module is imported or executed for this.

The hash is of whole files. An edit of a comment changes it, and all runs are made again: that
costs time, whereas a hash that ignores too much would reuse a run with other bytes.
"""

import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import resolve_name
from pathlib import Path

_CHECKED = re.compile(r"^if TYPE_CHECKING:.*\n(?:(?:[ \t]+.*)?\n)*", re.MULTILINE)
"""Blocks that only type checkers read, except in packages whose names are imported on first use."""

_ON_DEMAND = "= exports(__name__)"

_STATEMENT = re.compile(
    r"import\b(?:[ \t]*\(([^)]*)\)|([^\n;#]*))",  # begins with a literal, so it is fast
)
_FROM = re.compile(r"(?:^|[:;])[ \t]*from[ \t]*([.\w \t]+?)[ \t]*$")
_PLAIN = re.compile(r"(?:^|[:;])[ \t]*$")


def imports(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the imports of a module: the source, as written, and the names.

    Regular expressions take a tenth of the time of a parser. Text that looks like an import, such
    as an example in a docstring, counts as one: an extra module is harmless, a missing one is not.
    """
    text = text.replace("\\\n", " ")
    if _ON_DEMAND not in text:
        text = _CHECKED.sub("", text)
    for match in _STATEMENT.finditer(text):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        names = re.sub(r"#[^\n]*", "", match[1] or match[2] or "").split(",")
        firsts = tuple(words[0] for name in names if (words := name.split()))
        if source := _FROM.search(before):
            yield "".join(source[1].split()), firsts
        elif _PLAIN.search(before):
            yield from ((name, ()) for name in firsts)


@dataclass(frozen=True)
class Sources:
    """The files of some modules and of all that they import.

    Attributes:
        modules: the content of each file, by the name of the module.
        packages: imported packages that are installed, whose imports are not followed; without the
            standard library.
    """

    modules: dict[str, bytes]
    packages: frozenset[str]

    @cached_property
    def hash(self) -> str:
        """A hash of the modules, independent of the names under which they were loaded."""
        digests = sorted(sha256(content).digest() for content in self.modules.values())
        return sha256(b"".join(digests)).hexdigest()


INSTALLED = frozenset({"site-packages", "dist-packages"})
"""The names of folders that packages are installed into."""


def is_of_a_package(spec: ModuleSpec | None) -> bool:
    """Return whether a module lies in a folder of installed packages; False for None."""
    places = () if spec is None else (*(spec.submodule_search_locations or ()), spec.origin or "")
    return any(not INSTALLED.isdisjoint(Path(place).parts) for place in places)


def versions(packages: Iterable[str]) -> list[str]:
    """Return the names and versions of installed packages, given by their top-level modules."""
    return [_version(top) for top in sorted(packages)]


@cache
def _version(top: str) -> str:
    try:
        return f"{top} {version(top)}"
    except PackageNotFoundError:  # the package has another name than its module
        names = sorted(set(packages_distributions().get(top, ())))
        return ", ".join(f"{name} {version(name)}" for name in names)


def sources(
    roots: Mapping[str, bytes], known: Container[str] = (), named: Iterable[str] = ()
) -> Sources:
    """Follow the imports of some modules.

    Args:
        roots: their texts by their names; imports of the packages that contain them are followed.
        known: names of modules that are skipped, with their imports.
        named: names of further modules, which a table names and no import does.
    """
    own_packages = frozenset(name.partition(".")[0] for name in roots)
    modules, packages = dict(roots), set[str]()
    for name in named:
        modules |= {module: path.read_bytes() for module, path in _load(name, ())}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        for other, names in _imports(name, modules[name]):
            top = other.partition(".")[0]
            if top not in own_packages and _is_installed(top):
                packages.add(top)
                continue
            for module, path in _load(other, names):
                if module not in modules and module not in known:
                    modules[module] = path.read_bytes()
                    waiting.append(module)
    return Sources(modules, frozenset(packages))


def _imports(name: str, content: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the modules that a module imports from, by their full names, and the names."""
    spec = _spec(name)
    is_package = spec is not None and spec.submodule_search_locations is not None
    package = name if is_package else name.rpartition(".")[0]
    for written, names in imports(content.decode(errors="replace")):
        with suppress(ImportError):  # a relative import beyond the top package
            yield resolve_name(written, package), names


@cache
def _is_installed(top: str) -> bool:
    """Return whether a module is of an installed package, not a user's own file."""
    return is_of_a_package(_spec(top))


@cache
def _load(name: str, names: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Return the files that an import loads: the module, its packages, and named submodules."""
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names:
        return []
    modules = [".".join(parts[: count + 1]) for count in range(len(parts))]
    if names and (spec := _spec(name)) and spec.submodule_search_locations:
        modules += [f"{name}.{submodule}" for submodule in names]
    specs = ((submodule, _spec(submodule)) for submodule in modules)
    return [
        (submodule, Path(spec.origin))
        for submodule, spec in specs
        if spec and spec.has_location and spec.origin
    ]


def _spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module without importing it; None if there is none."""
    loaded: ModuleSpec | None = getattr(sys.modules.get(name), "__spec__", None)
    return loaded or _find_spec(name, tuple(sys.path))


@cache
def _find_spec(name: str, path: tuple[str, ...]) -> ModuleSpec | None:
    parent = name.rpartition(".")[0]
    if not parent:
        return PathFinder.find_spec(name, path)
    above = _spec(parent)
    inside = above.submodule_search_locations if above else None
    try:
        return PathFinder.find_spec(name, inside) if inside else None
    except KeyError:  # a namespace package within another one that was not imported
        return None
