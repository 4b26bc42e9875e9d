"""Identity of containers, NumPy's arrays and generators, and small values: their parts in order.

A result depends on an array's type, shape, layout, bytes, and the memory that it shares: two views
of one array differ from two arrays.
"""

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

import numpy as np

from fedsim.blocks.identity.walker import Content, Parts, Unknown, Walk, WalkedNode

_REDUCED = (date, datetime, time, timedelta, timezone, itemgetter, attrgetter, methodcaller)
"""Types of Python that their pickle describes completely."""


_RANDOM: Any = Random.__base__


def open_container(value: object, walk: Walk) -> WalkedNode | None:
    """Return the node of a container whose type is exactly one of Python's; None for others."""
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
    """Yield keys and values in their order, which code can observe."""
    for key, each in dict.items(value):
        yield "key", key
        yield key if isinstance(key, str) else "", each


def order_parts(value: Any, walk: Walk) -> Parts:  # noqa: ANN401 - any set
    """Yield the members of a set, sorted by their encodings.

    Raises:
        Unknown: a member is not a plain value; such sets have no order that is the same in every
            process.
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
"""The content of objects of exactly these types."""

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
"""The content of instances of subclasses of these types, beside their attributes."""


_SIMPLE = frozenset("biufcSUVmM")
"""Kinds of NumPy types whose values are determined by their bytes."""


def open_array(value: object, walk: Walk) -> WalkedNode | None:  # noqa: PLR0911 - one a kind
    """Return the node of an array, NumPy type or generator; None for other objects."""
    match value:
        case np.generic() if type(value).__module__ == "numpy":
            return WalkedNode(type(value).__name__, _scalar(value), kept=False)
        case np.ndarray() if type(value) is np.ndarray:
            return WalkedNode("array", _array(value, walk))
        case np.dtype():
            return WalkedNode("dtype", _dtype(value), kept=False)
        case np.random.Generator() if type(value) is np.random.Generator:
            return WalkedNode("generator", iter([("bits", value.bit_generator)]))
        case np.random.BitGenerator():
            state = value.state
            parts = ("class", type(value)), ("state", state), ("seeds", value.seed_seq)
            return WalkedNode("bit generator", iter(parts))
        case np.random.SeedSequence() if type(value) is np.random.SeedSequence:
            return WalkedNode("seeds", iter([("state", value.state)]))
        case np.random.RandomState():
            return WalkedNode("random state", iter([("state", value.get_state(legacy=False))]))
    return None


def _scalar(value: Any) -> Parts:  # noqa: ANN401 - any number of NumPy's
    yield "dtype", value.dtype
    if value.dtype.hasobject:
        raise Unknown("a record of objects")
    yield "bytes", value.tobytes()


def _array(value: Any, walk: Walk) -> Parts:  # noqa: ANN401 - of any type
    """Yield the parts of an array.

    Raises:
        Unknown: it has objects within records, or a type of another package.
    """
    plain: np.ndarray[Any, Any] = np.ndarray.view(value, np.ndarray)
    yield "dtype", plain.dtype
    yield "shape", plain.shape
    yield "strides", plain.strides
    # The owner of the memory, and the offset in it, tell two views of one array from two arrays:
    # writing through one of the views changes the other.
    base: Any = value
    while isinstance(base.base, np.ndarray):
        base = base.base
    start = plain.__array_interface__["data"][0]
    yield from memory(("array", id(base)), base, start - base.__array_interface__["data"][0], walk)
    if plain.dtype.kind == "O":
        yield "objects", plain.ravel().tolist()
    elif plain.dtype.kind not in _SIMPLE or plain.dtype.hasobject:
        raise Unknown(f"an array of {plain.dtype}")
    else:
        yield "bytes", plain.tobytes()


def memory(key: object, owner: object, offset: int, walk: Walk) -> Parts:
    """Yield the number of the memory's owner (-1 on its first visit), and the offset in it."""
    known = walk.number(key, owner)
    yield "memory", -1 if known is None else known
    yield "offset", offset


def _dtype(value: Any) -> Parts:  # noqa: ANN401 - any
    if value.kind not in _SIMPLE | {"O"}:
        raise Unknown(f"the type of numbers {value}")
    yield "dtype", repr(value)
    yield "order", value.str
    yield "aligned", value.isalignedstruct
    yield "metadata", None if value.metadata is None else dict(value.metadata)


ARRAY_BASES: dict[type, Content] = {np.ndarray: _array}
"""The content of instances of subclasses of these types."""
