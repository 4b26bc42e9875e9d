"""The catalogue that a scenario is read with: blocks built in, passed by the caller, or installed.

A package adds a compressor by an entry point of the group `fedsim.compressors`, and so on. It is
imported only when a scenario names that kind, or when all blocks are listed. So a broken package
does not prevent a scenario that does not use it from running.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from contextvars import ContextVar
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from fedsim.blocks.registry import Registry, lacks
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


AnyRegistry = Registry[Spec]
Points = dict[str, tuple[EntryPoint, ...]]
Failed = Callable[[BlockError], None]


class BlockCatalogue:
    """Every class that a scenario can name.

    Fedsim's own classes come before all others, and those handed over before those of installed
    packages. It is the context that pydantic hands to whatever validates a block.
    """

    def __init__(
        self, registries: Sequence[AnyRegistry] = (), blocks: Iterable[object] = ()
    ) -> None:
        """Take the classes that a caller hands over.

        Args:
            registries: of all kinds of block that a class may be of.
            blocks: the classes; fedsim's own may be among them.

        Raises:
            BlockError: one is no block, or leaves something out, or two are of one name.
        """
        self._given: dict[str, dict[str, type[Spec]]] = {}
        self._found: dict[str, Points] | None = {} if registries else None
        wrong = [text for each in dict.fromkeys(blocks) if (text := self._add(each, registries))]
        if wrong:
            raise BlockError("\n".join(wrong))

    @classmethod
    def of(cls, context: object) -> "BlockCatalogue":
        """Return the catalogue in pydantic's context; one without extras where there is none."""
        return context if isinstance(context, cls) else NOTHING_GIVEN

    @property
    def blocks(self) -> tuple[type[Spec], ...]:
        """The classes that were handed over and are not fedsim's own."""
        every = (model for models in self._given.values() for model in models.values())
        return tuple(dict.fromkeys(every))

    def of_kind(self, registry: AnyRegistry) -> tuple[type[Spec], ...]:
        """Return those of one kind of block."""
        return tuple(dict.fromkeys(self._given.get(registry.group, {}).values()))

    def names(self, registry: AnyRegistry) -> tuple[str, ...]:
        """Return every name that there is for a kind of block; none is imported for that."""
        given = self._given.get(registry.group, {})
        more = *extras(registry), *given, *self._load_installed(registry)
        return tuple(dict.fromkeys((*registry.own, *more)))

    def _load_installed(self, registry: AnyRegistry) -> Points:
        """Return the blocks of installed packages; all are looked through once a scenario."""
        if self._found is None:
            return find_installed(registry)
        if registry.group not in self._found:
            self._found[registry.group] = find_installed(registry)
        return self._found[registry.group]

    def find(self, registry: AnyRegistry, name: str) -> type[Spec] | None:
        """Return the class of a name; None where there is none.

        Raises:
            BlockError: an installed package has it, and it cannot be used.
        """
        known = registry.own.get(name) or self._given.get(registry.group, {}).get(name)
        if known:
            return known
        points = extras(registry).get(name) or self._load_installed(registry).get(name)
        return import_class(points, registry) if points else None

    def every(self, registry: AnyRegistry, failed: Failed | None = None) -> tuple[type[Spec], ...]:
        """Return every class for a kind of block; of fedsim's extras, those that are in use.

        Args:
            registry: of the kind.
            failed: called for each unusable installed block, which is then left out.

        Raises:
            BlockError: an installed one cannot be used, and `failed` is not given.
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
        """Return the file or the package that a class is from; empty for fedsim's own."""
        if model in registry.built_in:
            return ""
        points = () if model in self.of_kind(registry) else _points(registry, model)
        return next((point.dist.name for point in points if point.dist), _file(model))

    def _add(self, model: object, registries: Sequence[AnyRegistry]) -> str:
        """Take a class; or say why it cannot be taken."""
        if not isinstance(model, type):
            return f"{model!r} is no class, so it is no block"
        registry = next((each for each in registries if each.admits(model)), None)
        if registry is None:
            bases = ", ".join(each.base.__name__ for each in registries if each.base)
            return f"{model.__name__} is no block: it is no subclass of any of {bases}"
        if model in registry.built_in:
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
    """Say that two classes are of one name."""
    whose = (
        f"fedsim's own {other.__name__}" if other in registry.built_in else _describe_class(other)
    )
    return (
        f"{_describe_class(model)} cannot be used as {registry.one}: its {registry.key} "
        f"'{name}' is that of"
        f" {whose}; give it another"
    )


def _describe_class(model: type[Spec]) -> str:
    """Name a class and the file that it is from."""
    file = _file(model)
    return f"{model.__name__} ({file})" if file else model.__name__


def _file(model: type) -> str:
    """Return the name of the file that a class is from; empty where it was typed in."""
    return Path(getattr(sys.modules.get(model.__module__), "__file__", None) or "").name


def _points(registry: AnyRegistry, model: type[Spec]) -> tuple[EntryPoint, ...]:
    """Return the entry points that lead to a class."""
    names = registry.names_of(model)
    points = {**find_installed(registry), **extras(registry)}
    return tuple(each for name in names for each in points.get(name, ()))


NOTHING_GIVEN = BlockCatalogue()

described: ContextVar[Any] = ContextVar("described", default=NOTHING_GIVEN)
"""The catalogue of which a JSON Schema is being made; pydantic has no context for that."""
