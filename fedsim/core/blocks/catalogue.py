"""The catalogue of a scenario: built-in blocks, blocks that the caller passes, installed blocks.

A package adds a compressor by an entry point of the group `fedsim.compressors`, and blocks of other
kinds by corresponding groups. The entry point is imported only when a scenario names its kind, or
when all blocks are listed. A broken package therefore affects only the scenarios that use it.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from contextvars import ContextVar
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

from fedsim.core.blocks.registry import Registry, lacks
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import BlockError

EXTRAS = {EntryPoint("flower", "fedsim.flower:Flower", "fedsim.algorithms"): "flwr"}
"""Blocks of fedsim that need an optional dependency, with the module that they import."""


INSTALLED: WeakKeyDictionary[type, EntryPoint] = WeakKeyDictionary()
"""The entry point of each installed class that this process has loaded."""


def load_installed(point: EntryPoint) -> type:
    """Load the class of an entry point, and record it; called when a class is unpickled."""
    model: type = point.load()
    INSTALLED[model] = point
    return model


def find_installed(
    registry: Registry[Spec], installed: EntryPoints | None = None
) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points for a kind of block by name.

    A name has several entry points if several packages use it. Importing such a name is an error.

    Args:
        registry: the registry of the kind.
        installed: the entry points of all packages. If None, they are looked up.
    """
    if registry.base is None:
        return {}
    found: dict[str, tuple[EntryPoint, ...]] = {}
    points = (_every_entry_point() if installed is None else installed).select(group=registry.group)
    for point in sorted(points, key=lambda each: (each.name, each.value)):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def _every_entry_point() -> EntryPoints:
    return cast("EntryPoints", entry_points())  # before Python 3.12 its type has another form


def extras(registry: Registry[Spec]) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the blocks of one kind that need an optional dependency, by name."""
    return {extra.name: (extra,) for extra in EXTRAS if extra.group == registry.group}


def idle(points: Iterable[EntryPoint]) -> bool:
    """Return whether a block belongs to an extra of fedsim that has not been imported yet.

    Importing an extra takes a second or more, and the extra may not be installed. Lists therefore
    leave such blocks out.
    """
    return any(point in EXTRAS and point.module not in sys.modules for point in points)


def import_class(points: Iterable[EntryPoint], registry: Registry[Spec]) -> type[Spec]:
    """Import the class of an entry point.

    Args:
        points: the entry points of one name; more than one is an error.
        registry: the registry of the kind of block.

    Raises:
        BlockError: the import fails; the object is not a block of this kind or has another name; or
            several packages have an entry point of this name.
    """
    point, *others = dict.fromkeys(points)
    if others:
        raise BlockError(f"'{point.name}' is {' and '.join(map(_describe, (point, *others)))}")
    try:
        with redirect_stdout(sys.stderr):  # standard output is the command's
            model = point.load()
    except ModuleNotFoundError as error:
        if point in EXTRAS and error.name == EXTRAS[point]:  # its text says which extra to install
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
    INSTALLED[model] = point
    block: type[Spec] = model
    return block


def _describe(point: EntryPoint) -> str:
    package = f" (of the package {point.dist.name})" if point.dist else ""
    return f"the entry point {point.value}{package}"


AnyRegistry = Registry[Spec]
Points = dict[str, tuple[EntryPoint, ...]]
Failed = Callable[[BlockError], None]


class BlockCatalogue:
    """Every class that a scenario can name.

    Fedsim's own classes come first, then those that the caller passes, then those of installed
    packages. Pydantic receives the catalogue as the context of its validation.
    """

    def __init__(
        self, registries: Sequence[AnyRegistry] = (), blocks: Iterable[object] = ()
    ) -> None:
        """Register the classes that the caller passes.

        Args:
            registries: the registries of all kinds of block.
            blocks: the classes; fedsim's own may be among them.

        Raises:
            BlockError: a class is no block, or lacks an attribute, or two have the same name.
        """
        self._given: dict[str, dict[str, type[Spec]]] = {}
        self._found: dict[str, Points] | None = {} if registries else None
        self._installed: EntryPoints | None = None  # looked up once, as it is slow
        self.descriptions: dict[str, list[dict[str, Any]]] = {}  # of kinds of block, for a schema
        wrong = [text for block in dict.fromkeys(blocks) if (text := self._add(block, registries))]
        if wrong:
            raise BlockError("\n".join(wrong))

    @classmethod
    def of(cls, context: object) -> "BlockCatalogue":
        """Return the catalogue in pydantic's context; if there is none, the empty one."""
        return context if isinstance(context, cls) else NOTHING_GIVEN

    @property
    def blocks(self) -> tuple[type[Spec], ...]:
        """The user-defined classes that the caller passed."""
        every = (model for models in self._given.values() for model in models.values())
        return tuple(dict.fromkeys(every))

    def of_kind(self, registry: AnyRegistry) -> tuple[type[Spec], ...]:
        """Return the caller's classes of one kind of block."""
        return tuple(dict.fromkeys(self._given.get(registry.group, {}).values()))

    def names(self, registry: AnyRegistry) -> tuple[str, ...]:
        """Return every name of a kind of block, without importing any class."""
        own_classes = self._given.get(registry.group, {})
        more = *extras(registry), *own_classes, *self._load_installed(registry)
        return tuple(dict.fromkeys((*registry.own, *more)))

    def _load_installed(self, registry: AnyRegistry) -> Points:
        """Return the entry points of installed packages, looked up once per catalogue."""
        if self._found is None:
            return find_installed(registry)
        if registry.group not in self._found:
            if self._installed is None:
                self._installed = _every_entry_point()
            self._found[registry.group] = find_installed(registry, self._installed)
        return self._found[registry.group]

    def find(self, registry: AnyRegistry, name: str) -> type[Spec] | None:
        """Return the class of a name; None for an unknown name.

        Args:
            registry: the registry of the kind.
            name: the name, as the scenario gives it.

        Raises:
            BlockError: the class belongs to an installed package and cannot be used.
        """
        known = registry.own.get(name) or self._given.get(registry.group, {}).get(name)
        if known:
            return known
        points = extras(registry).get(name) or self._load_installed(registry).get(name)
        return import_class(points, registry) if points else None

    def every(self, registry: AnyRegistry, failed: Failed | None = None) -> tuple[type[Spec], ...]:
        """Return every class of a kind of block, except those of extras that are not imported yet.

        Args:
            registry: the registry of the kind.
            failed: called with the error of each unusable class of an installed package, which is
                then left out.

        Raises:
            BlockError: a class of an installed package cannot be used, and `failed` is None.
        """
        models = [*registry, *self.of_kind(registry)]
        taken = {name for model in models for name in registry.names_of(model)}
        for name, points in {**self._load_installed(registry), **extras(registry)}.items():
            if name in taken or idle(points):
                continue
            try:
                models.append(import_class(points, registry))
            except BlockError as error:
                if failed is None:
                    raise
                failed(error)
        return tuple(dict.fromkeys(models))

    def origin(self, registry: AnyRegistry, model: type[Spec]) -> str:
        """Return the file or the package that defines a class; empty for fedsim's own classes."""
        if model in registry:
            return ""
        points = () if model in self.of_kind(registry) else _points(registry, model)
        return next((point.dist.name for point in points if point.dist), _file(model))

    def _add(self, model: object, registries: Sequence[AnyRegistry]) -> str:
        """Register a class. Return why this is impossible, or an empty text."""
        if not isinstance(model, type):
            return f"{model!r} is no class, so it is no block"
        registry = next((candidate for candidate in registries if candidate.admits(model)), None)
        if registry is None:
            bases = ", ".join(candidate.base.__name__ for candidate in registries if candidate.base)
            return f"{model.__name__} is no block: it is no subclass of any of {bases}"
        # Fedsim's own classes are accepted, so that a caller may pass a list that contains them.
        if model in registry:
            return ""
        if reason := lacks(model, registry):
            return reason
        taken = self._given.setdefault(registry.group, {})
        for name in registry.names_of(model):
            other = registry.own.get(name) or taken.setdefault(name, model)
            if other is not model:
                return _both(model, other, name, registry)
        return ""


def _both(model: type[Spec], other: type[Spec], name: str, registry: AnyRegistry) -> str:
    """Return a message that two classes have the same name."""
    whose = f"fedsim's own {other.__name__}" if other in registry else _describe_class(other)
    return (
        f"{_describe_class(model)} cannot be used as {registry.one}: its {registry.key} "
        f"'{name}' is that of"
        f" {whose}; give it another"
    )


def _describe_class(model: type[Spec]) -> str:
    file = _file(model)
    return f"{model.__name__} ({file})" if file else model.__name__


def _file(model: type) -> str:
    """Return the name of the file that defines a class; empty for a class typed into a shell."""
    return Path(getattr(sys.modules.get(model.__module__), "__file__", None) or "").name


def _points(registry: AnyRegistry, model: type[Spec]) -> tuple[EntryPoint, ...]:
    names = registry.names_of(model)
    points = {**find_installed(registry), **extras(registry)}
    return tuple(point for name in names for point in points.get(name, ()))


NOTHING_GIVEN = BlockCatalogue()

described: ContextVar[Any] = ContextVar("described", default=NOTHING_GIVEN)
"""The catalogue whose JSON Schema is being generated; pydantic has no context for schemas."""
