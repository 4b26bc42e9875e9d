"""Registries: one a kind of block, with the classes that fedsim itself brings for it.

A registry is written where its classes are. What packages and callers add to one is known to a
`fedsim.blocks.catalogue.BlockCatalogue`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel

from fedsim.blocks.spec import Spec

Block = TypeVar("Block", bound=Spec)
Block_co = TypeVar("Block_co", bound=Spec, covariant=True)


_registries: dict[object, "Registry[Any]"] = {}
"""Every registry by the base class of its blocks."""


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

    def __post_init__(self) -> None:
        if self.base is not None:
            _registries[self.base] = self

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

    def where(self, question: Callable[[type[Block_co]], bool | str]) -> tuple[str, ...]:
        """Return the kinds of fedsim's own classes to which the answer is yes.

        Args:
            question: asked of each class; a text is a yes under the condition that it states,
                and follows the kind.
        """
        answers = {kind: question(model) for kind, model in self.own.items()}
        said = {kind: f" {yes}" if isinstance(yes, str) else "" for kind, yes in answers.items()}
        return tuple(kind + said[kind] for kind, yes in answers.items() if yes)

    def takes(self, value: object) -> bool:
        """Return whether something made in Python is one of its blocks."""
        return isinstance(value, self.built_in) or (
            self.base is not None and isinstance(value, self.base)
        )

    def admits(self, model: type) -> bool:
        """Return whether a class is meant to be one of its blocks."""
        return self.base is not None and issubclass(model, self.base)


def kinds_where(
    base: Callable[..., Block], question: Callable[[type[Block]], bool | str]
) -> tuple[str, ...]:
    """Return what `where` does of the registry of a base class, in a module that it imports."""
    return _registries[base].where(question)
