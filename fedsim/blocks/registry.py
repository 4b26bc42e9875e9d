"""Registries: one a kind of block, with the classes that fedsim itself brings for it.

A registry is written where its classes are. What packages and callers add to one is known to a
`fedsim.blocks.catalogue.Catalogue`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar, get_args

from pydantic import BaseModel

from fedsim.blocks.spec import Spec

Block_co = TypeVar("Block_co", bound=Spec, covariant=True)


def kinds_of(model: type[BaseModel], key: str = "kind") -> tuple[str, ...]:
    """Return the kinds that a class goes by: the literals of its field `key`."""
    field = model.model_fields.get(key)
    return () if field is None else tuple(map(str, get_args(field.annotation)))


@dataclass(frozen=True, eq=False)
class Registry(Generic[Block_co]):
    """A kind of block. Iterating over it yields fedsim's own classes, in the order of lists.

    Attributes:
        name: what one block is called, such as "packet loss".
        built_in: fedsim's own classes.
        base: what a class has to be a subclass of to be added; None where none can be.
        plural: what several are called, which names the entry points' group; `name` and an s
            where it is empty.
        title: of the table in `fedsim list`, where it is not the plural.
        key: the field that says which class a block is of.
        names: returns what a class goes by; the literals of that field, where it is None.
    """

    name: str
    built_in: tuple[type[Block_co], ...]
    base: type[Spec] | None = None
    plural: str = ""
    title: str = ""
    key: str = "kind"
    names: Callable[[type[Spec]], tuple[str, ...]] | None = None

    def __iter__(self) -> Iterator[type[Block_co]]:
        return iter(self.built_in)

    def __len__(self) -> int:
        return len(self.built_in)

    def __contains__(self, model: object) -> bool:
        return model in self.built_in

    @property
    def several(self) -> str:
        """What several of its blocks are called."""
        return self.plural or f"{self.name}s"

    @property
    def group(self) -> str:
        """The group of the entry points that add to it."""
        return f"fedsim.{self.several.replace(' ', '_')}"

    @property
    def one(self) -> str:
        """What one block is called, with its article."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    def names_of(self, model: type[Spec]) -> tuple[str, ...]:
        """Return what a scenario calls a class by; nothing where the class does not say."""
        return self.names(model) if self.names else kinds_of(model, self.key)

    @cached_property
    def own(self) -> dict[str, type[Block_co]]:
        """Fedsim's own classes by name."""
        return {name: model for model in self.built_in for name in self.names_of(model)}

    def takes(self, value: object) -> bool:
        """Say whether something made in Python is one of its blocks."""
        return isinstance(value, self.built_in) or (
            self.base is not None and isinstance(value, self.base)
        )

    def admits(self, model: type) -> bool:
        """Say whether a class is meant to be one of its blocks."""
        return self.base is not None and issubclass(model, self.base)
