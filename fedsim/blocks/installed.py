"""Blocks of installed packages: entry points, each named by the kind of the block it leads to.

A package adds a compressor by an entry point of the group `fedsim.compressors`, and so on. It is
imported only when a scenario names that kind, or when all blocks are listed. So a broken package
does not prevent a scenario from running that does not use it.
"""

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from importlib.metadata import EntryPoint, entry_points

from fedsim.blocks.registry import Registry
from fedsim.blocks.requirements import lacks
from fedsim.blocks.spec import Spec
from fedsim.errors import BlockError

EXTRAS = {EntryPoint("flower", "fedsim.flower:Flower", "fedsim.algorithms"): "flwr"}
"""Blocks of fedsim's own that are there once something else is installed: an extra of fedsim's."""


def find_installed(registry: Registry[Spec]) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points for a kind of block by name, in its order; one a name is right."""
    if registry.base is None:
        return {}
    found: dict[str, tuple[EntryPoint, ...]] = {}
    points = entry_points(group=registry.group)
    for point in sorted(points, key=lambda each: (each.name, each.value)):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def extras(registry: Registry[Spec]) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the blocks of fedsim's extras for a kind of block, by name."""
    return {each.name: (each,) for each in EXTRAS if each.group == registry.group}


def idle(points: Iterable[EntryPoint]) -> bool:
    """Return whether a block is of an extra of fedsim's that is not in use.

    To import it takes a second or more, and it may not be installed: a list does without it.
    """
    return any(point in EXTRAS and point.module not in sys.modules for point in points)


def import_class(points: Iterable[EntryPoint], registry: Registry[Spec]) -> type[Spec]:
    """Import the class that the entry points of one name lead to.

    Raises:
        BlockError: that fails, it leads to no such block, or to one of another name; or several
            packages have one of that name.
    """
    point, *others = dict.fromkeys(points)
    if others:
        raise BlockError(f"'{point.name}' is {' and '.join(map(_describe, (point, *others)))}")
    try:
        with redirect_stdout(sys.stderr):  # standard output is the command's, to be piped
            model = point.load()
    except ModuleNotFoundError as error:
        if point in EXTRAS and error.name == EXTRAS[point]:  # which says how it is installed
            raise BlockError(str(error)) from error
        raise BlockError(f"{_describe(point)} cannot be imported: {error!r}") from error
    except Exception as error:
        raise BlockError(f"{_describe(point)} cannot be imported: {error!r}") from error
    if not (isinstance(model, type) and registry.admits(model)):
        base = getattr(registry.base, "__name__", "")
        raise BlockError(f"{_describe(point)} is no subclass of {base}")
    if reason := lacks(model, registry):
        raise BlockError(f"{_describe(point)}: {reason}")
    if point.name not in registry.names_of(model):
        names = ", ".join(registry.names_of(model))
        raise BlockError(f"{_describe(point)} is named '{point.name}', but its kind is {names}")
    block: type[Spec] = model
    return block


def _describe(point: EntryPoint) -> str:
    """Name an entry point and the package that has it."""
    package = f" (of the package {point.dist.name})" if point.dist else ""
    return f"the entry point {point.value}{package}"
