"""Collects what the blocks of a scenario declare, and why they rule out a way to simulate it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.spec import Spec


class Reason(NamedTuple):
    """Why a run cannot be simulated in some way.

    Attributes:
        key: the key in the scenario that rules it out.
        why: the reason, as a clause.
    """

    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.why}"


def declared(value: object, key: str = "") -> Iterator[tuple[str, Nature]]:
    """Yield the key and the nature of each declaration in a value; outer blocks first.

    Args:
        value: a scenario, a block, or a container of blocks.
        key: the key path of the value itself, put before the keys within it.
    """
    inner: Iterable[tuple[object, object]] = ()
    match value:
        case Spec():
            for own, nature in value.natures():
                yield _join(key, own), nature
            inner = ((name, getattr(value, name)) for name in type(value).model_fields)
        case Mapping():
            inner = value.items()
        case list() | tuple():
            inner = enumerate(value)
    for name, each in inner:
        yield from declared(each, _join(key, name))


def reasons(value: object, traits: Iterable[str]) -> Iterator[Reason]:
    """Yield the reasons why an execution path that excludes some traits cannot simulate a value.

    Args:
        value: see `declared`.
        traits: the traits that this path excludes, such as `fedsim.core.blocks.nature.OF_TIMES`.
    """
    unknown = tuple(traits)
    for key, nature in declared(value):
        if why := nature.first(unknown):
            yield Reason(key, why)


def _join(key: str, name: object) -> str:
    return f"{key}.{name}".strip(".")
