"""Containers and small values of Python's own: what they hold, in its order."""

import re
import weakref
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from operator import attrgetter, itemgetter, methodcaller
from pathlib import PurePath
from random import Random
from types import GenericAlias, MappingProxyType, SimpleNamespace, UnionType
from typing import Any

from fedsim.blocks.identity.walker import Content, Parts, Unknown, Walk, WalkedNode

_REDUCED = (date, datetime, time, timedelta, timezone, itemgetter, attrgetter, methodcaller)
"""Types of Python's own whose pickle says all there is."""


_RANDOM: Any = Random.__base__


def open_node(value: object, walk: Walk) -> WalkedNode | None:
    """Return how a container is walked, if it is exactly one of Python's own."""
    kind = type(value)
    if (content := CONTENTS.get(kind)) is not None:
        return WalkedNode(kind.__qualname__, content(value, walk))
    if kind in _REDUCED:
        return WalkedNode(kind.__qualname__, _several(value.__reduce__()[1]))
    if isinstance(value, PurePath) and kind.__module__.partition(".")[0] == "pathlib":
        return WalkedNode(kind.__qualname__, _several([str(value)]))
    if isinstance(value, weakref.ref):
        return WalkedNode("weak reference", iter([("", value())]))
    return None


def _several(values: Iterable[object]) -> Parts:
    return ((str(number), each) for number, each in enumerate(values))


def _pairs(value: Any, _: Walk) -> Parts:  # noqa: ANN401 - any mapping
    """Yield keys and values in their order, which is part of what a mapping is."""
    for key, each in dict.items(value):
        yield "key", key
        yield key if isinstance(key, str) else "", each


def order_parts(value: Any, walk: Walk) -> Parts:  # noqa: ANN401 - any set
    """Yield the parts of a set in an order that follows from them alone.

    Raises:
        Unknown: one of them is no plain value, so that no order is the same in every process.
    """
    parts = [walk.plain.encode(each) for each in value]
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        raise Unknown("a set of objects, which has no order that another process repeats")
    return _several(sorted(known))


def _map(value: Any, walk: Walk) -> Parts:  # noqa: ANN401 - a proxy of any mapping
    yield from _pairs(dict(value), walk)


def _partial(value: Any, _: Walk) -> Parts:  # noqa: ANN401 - as `functools` has it
    parts = value.func, value.args, value.keywords, value.__dict__
    yield from zip(("func", "args", "keywords", "__dict__"), parts, strict=True)


CONTENTS: dict[type, Content] = {
    tuple: lambda value, _: _several(tuple.__iter__(value)),
    list: lambda value, _: _several(list.__iter__(value)),
    dict: _pairs,
    OrderedDict: lambda value, _: (
        (name, each)
        for key, item in OrderedDict.items(value)
        for name, each in (("key", key), (key if isinstance(key, str) else "", item))
    ),
    defaultdict: lambda value, walk: (
        each
        for part in ([("default", value.default_factory)], _pairs(value, walk))
        for each in part
    ),
    set: order_parts,
    frozenset: order_parts,
    deque: lambda value, _: _several([value.maxlen, *deque.__iter__(value)]),
    bytearray: lambda value, _: _several([bytes(value)]),
    array: lambda value, _: _several([value.typecode, value.tobytes()]),
    slice: lambda value, _: _several([value.start, value.stop, value.step]),
    re.Pattern: lambda value, _: _several([value.pattern, value.flags]),
    Decimal: lambda value, _: _several([value.as_tuple().sign, str(value)]),
    Fraction: lambda value, _: _several([value.numerator, value.denominator]),
    Random: lambda value, _: _several(value.getstate()),
    partial: _partial,
    MappingProxyType: _map,
    SimpleNamespace: lambda value, walk: _pairs(vars(value), walk),
    GenericAlias: lambda value, _: _several([value.__origin__, *value.__args__]),
    UnionType: lambda value, _: _several(value.__args__),
    object: lambda _value, _walk: iter(()),
}
"""What objects of exactly these types hold."""

BASES: dict[type, Content] = {
    **{kind: CONTENTS[kind] for kind in (tuple, list, dict, OrderedDict, defaultdict, deque)},
    **{kind: CONTENTS[kind] for kind in (set, frozenset, bytearray, object)},
    int: lambda value, _: _several([int.__int__(value)]),
    float: lambda value, _: _several([float.__float__(value)]),
    complex: lambda value, _: _several([complex.__complex__(value)]),
    str: lambda value, _: _several([str.__str__(value)[:]]),
    bytes: lambda value, _: _several([bytes.__bytes__(value)]),
    _RANDOM: lambda value, _: _several(Random.getstate(value)),
    partial: _partial,
    BaseException: lambda value, _: _several([value.args]),
}
"""What objects of classes that are made from these hold beside their attributes."""
