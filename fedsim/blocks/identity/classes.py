"""Identity of classes and their instances: bases, bodies, layout in memory, attributes."""

from _abc import _get_dump  # type: ignore[import-not-found]  # no other way shows what is registered
from abc import ABCMeta
from dataclasses import Field, fields
from enum import Enum
from functools import cached_property
from logging import Logger
from types import MemberDescriptorType
from typing import Any

from fedsim.blocks.identity.code import is_foreign
from fedsim.blocks.identity.packages import is_known
from fedsim.blocks.identity.walker import (
    InstanceLayout,
    Parts,
    Unknown,
    Walk,
    WalkedNode,
    describe,
    name_parts,
)

HEAP = 1 << 9
"""The flag of types that are created at run time."""

_WRITTEN = """
    __abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__
    __class_vars__ __dict__ __doc__ __firstlineno__ __module__ __orig_bases__ __parameters__
    __private_attributes__ __signature__ __static_attributes__ __weakref__ _abc_impl
    _autograd_function_id _backward_cls
"""
_SKIPPED = frozenset(_WRITTEN.split())
"""Class attributes that are not part of the body: written by Python for tools, or caches. Leaving
out annotations is safe since code that reads them at run time is `Unknown`."""

_FIELDS = "__pydantic_fields__"
_DECORATORS = "__pydantic_decorators__"
_PRIVATE = "__private_attributes__"


def open_class(value: object, walk: Walk) -> WalkedNode | None:  # noqa: PLR0911 - one a kind
    """Return the node of a class, or of a descriptor in a class body; None for other objects."""
    match value:
        case type():
            return WalkedNode("class", _class(value, walk))
        case property():
            return WalkedNode(
                "property", name_parts(get=value.fget, set=value.fset, delete=value.fdel)
            )
        case staticmethod() | classmethod():
            return WalkedNode(type(value).__name__, iter([("", value.__func__)]))
        case cached_property():
            return WalkedNode("cached property", name_parts(func=value.func, name=value.attrname))
    kind = type(value)
    if kind.__name__ == "_lru_cache_wrapper" and kind.__module__ == "functools":
        cached: Any = value
        parts = name_parts(func=cached.__wrapped__, parameters=cached.cache_parameters())
        return WalkedNode("cached function", parts)
    if kind.__name__ == "_tuplegetter":
        reduced: Any = value.__reduce__()
        return WalkedNode("field of a named tuple", iter([("", reduced[1][0])]))
    return None


def _class(cls: type, walk: Walk) -> Parts:
    """Yield the parts of a class.

    Raises:
        Unknown: it comes from an extension module that is not of an installed package.
    """
    if not cls.__flags__ & HEAP and is_known(cls.__module__):
        yield "name", f"{cls.__module__}.{cls.__qualname__}"
        return
    if not is_made_in_python(cls):
        raise Unknown(f"the extension type {cls.__qualname__}, whose code cannot be read")
    if is_known(cls.__module__):  # created at run time by a package, as a parametrised module is
        walk.plain.packages.add(cls.__module__.partition(".")[0])
    yield "name", cls.__qualname__
    yield "metaclass", type(cls)
    yield "bases", list(cls.__bases__)
    for name, value in vars(cls).items():
        if name not in _SKIPPED and not name.startswith("__pydantic_"):
            yield name, value
    yield from _of_pydantic(cls)
    yield from _registered_classes(cls)
    yield from patches(cls)


def _registered_classes(cls: type) -> Parts:
    """Yield the classes that were registered as subclasses of an abstract one, by their names."""
    if isinstance(cls, ABCMeta) and not is_known(cls.__module__):
        every = [each for reference in _get_dump(cls)[0] if (each := reference()) is not None]
        for each in sorted(every, key=lambda each: (each.__module__, each.__qualname__)):
            yield "registered", each


def _of_pydantic(cls: type) -> Parts:
    """Yield the fields, private attributes and validators of a pydantic model.

    The compiled validators are left out, since they follow from these. Annotations are left out,
    too: the values that they accepted are in the scenario.
    """
    inside = vars(cls)
    for name, field in (inside.get(_FIELDS) or {}).items():
        yield "field", name
        yield "default", _plain_missing(field.default)
        yield "factory", field.default_factory
        yield "metadata", list(field.metadata)
    for name, private in (inside.get(_PRIVATE) or {}).items():
        yield "private", name
        yield "default", _plain_missing(private.default)
        yield "factory", private.default_factory
    if (decorators := inside.get(_DECORATORS)) is not None:
        for sort in sorted(each.name for each in fields(decorators)):
            for name, decorator in getattr(decorators, sort).items():
                yield sort, name
                yield "function", decorator.func
                yield "info", decorator.info


def _plain_missing(value: object) -> object:
    """Return a default in a list, or "none" for pydantic's marker of a missing one."""
    return "none" if type(value).__name__ == "PydanticUndefinedType" else [value]


def patches(cls: type) -> Parts:
    """Yield user-defined functions in the known base classes of a class (monkey patches)."""
    for base in cls.__mro__:
        if is_known(base.__module__):
            for name, value in vars(base).items():
                if is_foreign(value):
                    yield name, value


def is_made_in_python(cls: type) -> bool:
    """Return whether a class adds nothing hidden to the instances of its base.

    An extension type may store data in fields that Python does not show. So every byte by which an
    instance is larger than one of the base must be accounted for: by the pointers to its attributes
    and weak references, and by its slots. A class that adds any other byte was not made in Python.
    """
    base = cls.__base__
    if base is None or not cls.__flags__ & HEAP:
        return False
    added = cls.__basicsize__ - base.__basicsize__
    slots = sum(type(each).__name__ == "member_descriptor" for each in vars(cls).values())
    references = cls.__weakrefoffset__ > 0 and not base.__weakrefoffset__
    own, inherited = cls.__dictoffset__, base.__dictoffset__
    attributes = bool(own) and not inherited and (own > 0 or bool(cls.__itemsize__))
    return added == _POINTER * (slots + references + attributes)


_POINTER = object.__basicsize__ // 2


_TYPED = frozenset({"type", "_field_type"})
"""Attributes of a dataclass field that come from its annotation."""


def open_instance(value: object, walk: Walk) -> WalkedNode | None:
    """Return the node of an instance of a class written in Python; None for other objects."""
    kind = type(value)
    if isinstance(value, Enum):
        return WalkedNode(
            "member", iter([("class", kind), ("name", value.name), ("of", value._value_)])
        )
    if isinstance(value, Logger) and is_known(kind.__module__):  # its output affects no result
        return WalkedNode("logger", iter([("name", value.name)]))
    layout = walk.layouts.get(kind) or _layout(kind, walk)
    return None if layout is None else WalkedNode("instance", _instance(value, kind, layout, walk))


def _layout(kind: type, walk: Walk) -> InstanceLayout | None:
    """Return the layout of a class's instances; None if part of it is not known."""
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
    """Yield the class, the content, the slots and the attributes of an instance."""
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
    """Return the attributes in an instance's real `__dict__`, which its class may hide."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return dict(found) if type(found) is dict else {}
