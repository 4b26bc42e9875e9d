"""Blocks within a value, and the code of those that are not fedsim's."""

from collections.abc import Iterable, Iterator, Mapping

from fedsim.blocks.plugins import text_of
from fedsim.blocks.spec import Spec

_OWN = f"{__name__.partition('.')[0]}."


def specs_in(value: object) -> Iterator[Spec]:
    """Yield every block in a value, the outer ones first."""
    inner: Iterable[object] = ()
    match value:
        case Spec():
            yield value
            inner = (getattr(value, name) for name in type(value).model_fields)
        case Mapping():
            inner = value.values()
        case list() | tuple():
            inner = value
    for each in inner:
        yield from specs_in(each)


def own_modules(value: object) -> dict[str, bytes]:
    """Return the texts of the modules, fedsim's own left out, whose classes are in a value.

    Raises:
        OSError: no file keeps a class, as it was typed in, or it cannot be read.
    """
    return {model.__module__: text_of(model) for model in own_classes(value)}


def own_classes(value: object) -> list[type[Spec]]:
    """Return the classes of the blocks in a value, fedsim's own left out, in their order."""
    classes = dict.fromkeys(model for each in specs_in(value) for model in type(each).__mro__)
    return [model for model in classes if issubclass(model, Spec) and _is_own(model)]


def _is_own(model: type) -> bool:
    return not model.__module__.startswith(_OWN)
