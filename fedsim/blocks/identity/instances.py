"""Instances: their exact class, what they hold as the built-in that it is made from, attributes."""

from dataclasses import Field
from enum import Enum
from logging import Logger
from types import MemberDescriptorType

from fedsim.blocks.identity.classes import is_made_in_python, patches
from fedsim.blocks.identity.packages import is_known
from fedsim.blocks.identity.walker import InstanceLayout, Parts, Unknown, Walk, WalkedNode, describe

_TYPED = frozenset({"type", "_field_type"})
"""What a field of a data class has of its annotation."""


def open_node(value: object, walk: Walk) -> WalkedNode | None:
    """Return how an instance of a class that was written in Python is walked."""
    kind = type(value)
    if isinstance(value, Enum):
        return WalkedNode(
            "member", iter([("class", kind), ("name", value.name), ("of", value._value_)])
        )
    if isinstance(value, Logger) and is_known(kind.__module__):  # what it prints changes no result
        return WalkedNode("logger", iter([("name", value.name)]))
    layout = walk.layouts.get(kind) or _layout(kind, walk)
    return None if layout is None else WalkedNode("instance", _instance(value, kind, layout, walk))


def _layout(kind: type, walk: Walk) -> InstanceLayout | None:
    """Return what instances of a class have in common; None where some of it is not known."""
    bases, made_from = walk.library.bases, kind
    while made_from not in bases:
        if not is_made_in_python(made_from) or made_from.__base__ is None:
            return None
        made_from = made_from.__base__
    slots = (
        (name, slot)
        for base in kind.__mro__
        if is_made_in_python(base)
        for name, slot in vars(base).items()
        if isinstance(slot, MemberDescriptorType) and not _is_typed(kind, name)
    )
    patched = patches(kind) if is_known(kind.__module__) else ()
    found = walk.layouts[kind] = InstanceLayout(bases[made_from], tuple(slots), tuple(patched))
    return found


def _instance(value: object, kind: type, layout: InstanceLayout, walk: Walk) -> Parts:
    """Yield the class of an instance, its content, its slots and its attributes."""
    yield "class", kind
    yield from layout.patches
    yield from layout.content(value, walk)
    for name, slot in layout.slots:
        try:
            yield name, slot.__get__(value, kind)
        except AttributeError:
            yield f"no {name}", None
    attributes = walk.library.attributes(value, _attributes(value))
    for name, each in attributes.items():
        if not isinstance(name, str):
            raise Unknown(f"{describe(value)} with an attribute without a name")
        yield name, each


def _is_typed(kind: type, name: str) -> bool:
    return kind is Field and name in _TYPED


def _attributes(value: object) -> dict[str, object]:
    """Return the attributes of an instance itself, whatever its class says of `__dict__`."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return dict(found) if type(found) is dict else {}
