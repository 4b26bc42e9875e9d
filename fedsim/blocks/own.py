"""Blocks within a value, and the code of those that are not fedsim's."""

import os
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


def own_code(value: object) -> Iterator[bytes]:
    """Yield the text of each file, fedsim's own left out, whose classes are in a value.

    Where no file keeps a class, as it was typed in, it is new every time: it may have changed.
    """
    classes = dict.fromkeys(model for each in specs_in(value) for model in type(each).__mro__)
    mine = [model for model in classes if issubclass(model, Spec) and _is_own(model)]
    for model in {model.__module__: model for model in mine}.values():
        try:
            yield text_of(model)
        except OSError:
            yield os.urandom(32)


def _is_own(model: type) -> bool:
    return not model.__module__.startswith(_OWN)
