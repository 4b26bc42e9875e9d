"""What the blocks of a scenario declare, and the reasons that follow."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.spec import Spec


class Reason(NamedTuple):
    """Why a run cannot be played in some way.

    Attributes:
        key: in the scenario, of what stands in the way.
        why: a clause.
    """

    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.why}"


def declared(value: object, key: str = "") -> Iterator[tuple[str, Nature]]:
    """Yield what each block in a value declares, with its key; outer blocks first.

    Args:
        value: a scenario, a block, or several.
        key: of the value itself.
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
    """Yield why a value cannot be played where some traits are not known.

    Args:
        value: see `declared`.
        traits: such as `fedsim.core.blocks.nature.OF_TIMES`.
    """
    unknown = tuple(traits)
    for key, nature in declared(value):
        if why := nature.first(unknown):
            yield Reason(key, why)


def _join(key: str, name: object) -> str:
    return f"{key}.{name}".strip(".")
