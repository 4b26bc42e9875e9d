"""Provenance: the code that a run's bytes depend on, found by following imports, as a hash.

Nothing is listed by hand: what a module imports, wherever in it, is read off its source, and so on
from there. So a module counts from the moment somebody imports it, and one that only shows what
runs have come to does not count. Nothing is imported or run for that.
"""

import re
import sys
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

from fedsim.blocks.identity.packages import is_of_a_package

_CHECKED = re.compile(r"^if TYPE_CHECKING:.*\n(?:(?:[ \t]+.*)?\n)*", re.MULTILINE)
"""What is read by type checkers only, and never runs."""

_STATEMENT = re.compile(
    r"import\b(?:[ \t]*\(([^)]*)\)|([^\n;#]*))",  # begins with a literal, so it is fast
)
_FROM = re.compile(r"(?:^|[:;])[ \t]*from[ \t]*([.\w \t]+?)[ \t]*$")
_PLAIN = re.compile(r"(?:^|[:;])[ \t]*$")


def imports(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a module imports: from where, as written, and which names.

    It takes a tenth of the time of a parser. Text that reads like an import, such as an example
    in a docstring, counts as one: too much is followed rather than too little.
    """
    text = _CHECKED.sub("", text.replace("\\\n", " "))
    for found in _STATEMENT.finditer(text):
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        names = re.sub(r"#[^\n]*", "", found[1] or found[2] or "").split(",")
        firsts = tuple(words[0] for name in names if (words := name.split()))
        if source := _FROM.search(before):
            yield "".join(source[1].split()), firsts
        elif _PLAIN.search(before):
            yield from ((name, ()) for name in firsts)


class Sources(NamedTuple):
    """What some modules and all that they import are made of.

    Attributes:
        modules: the content of each file, by the name of the module.
        packages: installed ones, which are imported and not followed; without the standard library.
    """

    modules: dict[str, bytes]
    packages: frozenset[str]

    def hash(self) -> str:
        """Return a hash of the modules; by what name one was loaded does not matter."""
        each = sorted(sha256(content).digest() for content in self.modules.values())
        return sha256(b"".join(each)).hexdigest()


def sources(roots: Mapping[str, bytes], known: Container[str] = ()) -> Sources:
    """Follow the imports of some modules.

    Args:
        roots: their texts by their names; the packages that they are in are followed, too.
        known: names of modules that are not looked at, nor what they import.
    """
    own = frozenset(name.partition(".")[0] for name in roots)
    modules, packages, waiting = dict(roots), set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        for other, names in _imported(name, modules[name]):
            top = other.partition(".")[0]
            if top not in own and _is_installed(top):
                packages.add(top)
                continue
            for each, path in _loaded(other, names):
                if each not in modules and each not in known:
                    modules[each] = path.read_bytes()
                    waiting.append(each)
    return Sources(modules, frozenset(packages))


def _imported(name: str, content: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the modules that a module imports from, by their full names, and the names."""
    spec = _spec(name)
    is_package = spec is not None and spec.submodule_search_locations is not None
    package = name if is_package else name.rpartition(".")[0]
    for written, names in imports(content.decode(errors="replace")):
        with suppress(ImportError):  # it goes above the top
            yield resolve_name(written, package), names


@cache
def _is_installed(top: str) -> bool:
    """Say whether a module is of a package that was installed, and not of somebody's own files."""
    return is_of_a_package(_spec(top))


@cache
def _loaded(name: str, names: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Return what is loaded for an import: the module, the packages it is in, and submodules."""
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names:
        return []
    wanted = [".".join(parts[: count + 1]) for count in range(len(parts))]
    if names and (spec := _spec(name)) and spec.submodule_search_locations:
        wanted += [f"{name}.{each}" for each in names]
    specs = ((each, _spec(each)) for each in wanted)
    return [
        (each, Path(spec.origin))
        for each, spec in specs
        if spec and spec.has_location and spec.origin
    ]


def _spec(name: str) -> ModuleSpec | None:
    """Return where a module is, without importing anything; None where there is none."""
    loaded: ModuleSpec | None = getattr(sys.modules.get(name), "__spec__", None)
    return loaded or _found(name, tuple(sys.path))


@cache
def _found(name: str, path: tuple[str, ...]) -> ModuleSpec | None:
    parent = name.rpartition(".")[0]
    if not parent:
        return PathFinder.find_spec(name, path)
    above = _spec(parent)
    inside = above.submodule_search_locations if above else None
    try:
        return PathFinder.find_spec(name, inside) if inside else None
    except KeyError:  # a folder without __init__ in another such that was not imported
        return None
