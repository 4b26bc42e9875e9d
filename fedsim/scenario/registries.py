"""All kinds of blocks, the catalogue of a scenario, and the class that reads each block."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks.catalogue import AnyRegistry, BlockCatalogue
from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.plugins import blocks_of, specs_in
from fedsim.core.blocks.registry import kinds_of
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import format_path
from fedsim.physics.availability import AVAILABILITY
from fedsim.physics.batteries import CHARGING
from fedsim.physics.carbon import CARBON
from fedsim.physics.devices import DEVICE_KINDS
from fedsim.physics.infrastructure import INFRASTRUCTURE
from fedsim.physics.mixing import MIXING
from fedsim.physics.network_models import NETWORK_MODELS
from fedsim.physics.networks import NETWORKS
from fedsim.physics.overlay import OVERLAYS
from fedsim.physics.packet_loss import PACKET_LOSSES
from fedsim.physics.radios import RADIO_KINDS
from fedsim.physics.radios.traces import TRACES
from fedsim.physics.slowdowns import SLOWDOWNS
from fedsim.problems import (
    ARCHITECTURES,
    LOSSES,
    MEASURES,
    OPTIMIZERS,
    PENALTIES,
    SCHEDULES,
    SOURCES,
    SPLITS,
    STARTS,
)
from fedsim.protocol.aggregation import AGGREGATIONS
from fedsim.protocol.attacks import ATTACKS
from fedsim.protocol.participation import PARTICIPATION
from fedsim.protocol.secrecy import SECRECY
from fedsim.protocol.silence import SILENCES
from fedsim.protocol.stop_rules import STOPS
from fedsim.protocol.stopping import Stop
from fedsim.scenario.located import KeyPath, Located, Origin
from fedsim.wire import COMPRESSORS

REGISTRIES: tuple[AnyRegistry, ...] = (
    ALGORITHMS,
    OPTIMIZERS,
    SCHEDULES,
    LOSSES,
    ARCHITECTURES,
    PENALTIES,
    SOURCES,
    SPLITS,
    STARTS,
    COMPRESSORS,
    MEASURES,
    DEVICE_KINDS,
    RADIO_KINDS,
    NETWORKS,
    NETWORK_MODELS,
    OVERLAYS,
    MIXING,
    PARTICIPATION,
    SILENCES,
    AGGREGATIONS,
    ATTACKS,
    SECRECY,
    STOPS,
    AVAILABILITY,
    CHARGING,
    CARBON,
    INFRASTRUCTURE,
    SLOWDOWNS,
    PACKET_LOSSES,
    TRACES,
)
"""All registries, in the order of lists."""


def catalogue(blocks: Iterable[object] = (), source: object = None) -> BlockCatalogue:
    """Return the catalogue of blocks that a scenario can name.

    Args:
        blocks: user-defined classes.
        source: a scenario made in Python; the classes of its blocks are added to `blocks`.

    Raises:
        BlockError: see `BlockCatalogue`.
    """
    return BlockCatalogue(REGISTRIES, (*blocks, *_made_in_python(source)))


def _made_in_python(source: object) -> Iterator[type[Spec]]:
    """Yield the classes of all blocks in a value that belong to some kind of block."""
    for spec in specs_in(source):
        if any(registry.admits(type(spec)) for registry in REGISTRIES):
            yield type(spec)


def blocks_in(plugins: Iterable[Path]) -> list[type[Spec]]:
    """Execute Python files of the user, and return the blocks in them.

    Raises:
        BlockError: a file cannot be used, or contains no block.
    """
    return blocks_of(plugins, REGISTRIES)


_Reader = OneOf | type[BaseModel]
_NOTHING = Located(Origin(), None)


@dataclass(frozen=True)
class BlockReader:
    """Finds the class that reads each block of a tree, for suggestions in errors.

    Attributes:
        model: the class that reads the whole tree.
        tree: the data as written.
        context: the context of the validation.
    """

    model: type[BaseModel]
    tree: Located
    context: object

    def fields(self, path: KeyPath) -> dict[str, FieldInfo]:
        """Return the fields that the block at a path accepts; empty if its class is unknown."""
        readers = self._readers_at(path)
        last = _choose_reader(readers, self.tree.nearest(path)[0], self.context)
        if last:
            return dict(last.model_fields)
        plain = [reader for reader in readers if isinstance(reader, type) and not kinds_of(reader)]
        return {name: field for reader in plain for name, field in reader.model_fields.items()}

    def kinds_with(self, path: KeyPath) -> list[str]:
        """Return the other kinds of a block that would accept the last key of a path."""
        choices = [reader for reader in self._readers_at(path[:-1]) if isinstance(reader, OneOf)]
        return [name for choice in choices for name in choice.having(str(path[-1]), self.context)]

    def suggest(self, path: KeyPath, value: object) -> str:
        """Return a hint that another kind of block accepts a value, or an empty text."""
        choices = [reader for reader in self._readers_at(path[:-1]) if isinstance(reader, OneOf)]
        texts = choices if isinstance(value, str) else []
        hints = (text.suggest(str(value), self.context, str(path[-1])) for text in texts)
        return next(filter(None, hints), "")

    def places(self, key: str) -> list[str]:
        """Return the key paths that end in a key, the shortest first.

        Only blocks of the kinds in this tree are searched. Tiers repeat most blocks of a scenario,
        so paths in them are returned only if this tree has tiers, or there are no others.
        """
        paths = sorted(self._places.get(key, ()), key=len)
        # Most scenarios have no tiers, so their keys are suggested only beside tiers.
        elsewhere = [path for path in paths if path[0] != "tiers"]
        named = elsewhere if elsewhere and self.tree.get("tiers") is None else paths
        return [format_path(path) for path in named]

    @cached_property
    def _places(self) -> dict[str, list[KeyPath]]:
        """The paths of all keys, by the last part of each; collected once for many faults."""
        places: dict[str, list[KeyPath]] = {}
        for path in self._paths([self.model], ()):
            places.setdefault(str(path[-1]), []).append(path)
        return places

    def _paths(self, readers: list[_Reader], path: KeyPath) -> Iterator[KeyPath]:
        """Yield the paths of all keys below a path."""
        block, depth = self.tree.nearest(path)
        written = block if depth == len(path) else _NOTHING
        here = _choose_reader(readers, written, self.context)
        for key, field in here.model_fields.items() if here else ():
            yield (*path, key)
            # In a list of blocks, the first one stands for all.
            inner = (*path, key, 0) if get_origin(field.annotation) is tuple else (*path, key)
            yield from self._paths(_readers_of(field), inner)

    def _readers_at(self, path: KeyPath) -> list[_Reader]:
        """Return the possible readers of the block at a path."""
        readers: list[_Reader] = [self.model]
        for depth, key in enumerate(path):
            if isinstance(key, str):
                block = self.tree.nearest(path[:depth])[0]
                here = _choose_reader(readers, block, self.context)
                field = here.model_fields.get(key) if here else None
                rule = self._stop_rule(key) if here is Stop and not field else []
                readers = _readers_of(field) if field else rule
        return readers

    def _stop_rule(self, kind: str) -> list[_Reader]:
        """Return the class of a user-defined stop rule, whose key is its kind; empty if unknown."""
        model = BlockCatalogue.of(self.context).find(STOPS, kind)
        return [model] if model else []


def _readers_of(field: FieldInfo) -> list[_Reader]:
    return list(_readers((field.annotation, *field.metadata)))


def _readers(parts: tuple[Any, ...]) -> Iterator[_Reader]:
    """Yield the possible readers of a field's block, from parts of the annotation."""
    # `OneOf` is metadata of a base class, which cannot read the block itself.
    choices = [part for part in parts if isinstance(part, OneOf)]
    for part in choices or parts:
        if isinstance(part, OneOf) or (isinstance(part, type) and issubclass(part, BaseModel)):
            yield part
        else:
            yield from _readers(get_args(part))


def _choose_reader(
    readers: list[_Reader], block: Located, context: object
) -> type[BaseModel] | None:
    """Return the class that reads a block: the only candidate, or the one of the block's kind."""
    for reader in readers:
        if isinstance(reader, OneOf):
            kind = _text_at(block, reader.key) or reader.default
            model = reader.model(kind, context) if kind else None
            if model:
                return model
        elif len(readers) == 1 or _text_at(block, "kind") in kinds_of(reader):
            return reader
    return None


def _text_at(block: Located, key: str) -> str:
    """Return the text at a key of a block. If the block is a text, it is short for its kind."""
    if isinstance(block.content, str):
        return block.content
    written = block.get(key)
    return written.content if written and isinstance(written.content, str) else ""
