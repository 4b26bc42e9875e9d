"""Arrays and generators of random numbers: what NumPy holds outside Python's objects.

What decides a result is the type, the shape, the layout, the bytes, and which memory is shared: two
views of one array are something else than two arrays.
"""

from typing import Any

import numpy as np

from fedsim.blocks.identity.walker import Content, Parts, Unknown, Walk, WalkedNode

_SIMPLE = frozenset("biufcSUVmM")
"""Kinds of NumPy's types whose bytes say all."""


def open_node(value: object, walk: Walk) -> WalkedNode | None:  # noqa: PLR0911 - one a kind
    """Return how an array, a tensor or a generator is walked."""
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
    """Yield what an array is.

    Raises:
        Unknown: of objects within records, or of a type of another package.
    """
    plain: np.ndarray[Any, Any] = np.ndarray.view(value, np.ndarray)
    yield "dtype", plain.dtype
    yield "shape", plain.shape
    yield "strides", plain.strides
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
    """Yield whose memory is used, as its number in this walk, and where in it."""
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


BASES: dict[type, Content] = {np.ndarray: _array}
"""What holds the content of objects of classes that are made from these."""
