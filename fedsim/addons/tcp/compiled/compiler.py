"""Compilation of the TCP kernels, and unchecked access to their buffer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
)

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.sim.kernels import inline, part, piece, stored_by

__all__ = ["inline", "kernel", "part", "piece"]

_HERE = Path(__file__).parent
kernel = stored_by([*sorted(_HERE.glob("*.py")), *sorted(_HERE.parent.glob("*.py"))])


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _integers_at(_: Any, address: Any) -> Any:
    return types.CPointer(types.int64)(address), _point


@intrinsic  # type: ignore[untyped-decorator]
def _reals_at(_: Any, address: Any) -> Any:
    return types.CPointer(types.float64)(address), _point


@intrinsic  # type: ignore[untyped-decorator]
def _fetch(_: Any, address: Any) -> Any:
    return types.void(address), _prefetch


def _prefetch(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
    """Emit a prefetch of a cache line, which does not wait for the memory."""
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
    call = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    numbers = [
        ir.Constant(number, value) for value in (1, 3, 1)
    ]  # for writing, keep in cache, data
    builder.call(call, [builder.inttoptr(arguments[0], pointer), *numbers])


def _point(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Emit a pointer from an integer address; its elements are accessed without any check.

    An array argument is seven numbers, reference-counted, and allows negative indices. With arrays,
    kernels take a third longer to compile and 1.8 times as long to run.
    """
    pointer: ir.Type = context.get_value_type(signature.return_type)
    return builder.inttoptr(arguments[0], pointer)


_arrays = {**at.COLUMNS, "highest": "i8"}
"""Arrays in and behind a record, by name: the types of their elements."""


class View(types.Type):  # type: ignore[misc]
    """The type of a record in a buffer: a pointer, with fields as attributes.

    Numba's own records are compared field by field whenever types are, and are copied as results:
    kernels with them take minutes to compile.
    """

    def __init__(self, name: str, dtype: Any) -> None:
        self.fields = dtype.fields
        super().__init__(f"View({name})")


register_model(View)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = View

    def generic_resolve(self, view: Any, name: str) -> Any:
        kind = _arrays.get(name)
        if kind is not None:
            return types.CPointer(from_dtype(np.dtype(kind)))
        return from_dtype(view.fields[name][0]) if name in view.fields else None


def _field(context: Any, builder: Any, view: Any, record: Any, name: str) -> Any:
    """Emit a pointer to a field of a record."""
    kind, offset = view.fields[name]
    place = builder.gep(record, [ir.Constant(ir.IntType(64), offset)])
    return builder.bitcast(place, context.get_data_type(from_dtype(kind)).as_pointer())


@lower_getattr_generic(View)  # type: ignore[untyped-decorator]
def _load(context: Any, builder: Any, view: Any, record: Any, name: str) -> Any:
    if name not in _arrays:
        return builder.load(_field(context, builder, view, record, name))
    words = builder.bitcast(record, ir.IntType(64).as_pointer())
    if name == "highest":
        place = ir.Constant(ir.IntType(64), at.word("highest_1"))
    else:
        # Columns follow the record; each has a power of two of words.
        column = ir.Constant(ir.IntType(64), list(at.COLUMNS).index(name))
        capacity = _load(context, builder, view, record, "capacity")
        place = builder.add(builder.shl(column, capacity), ir.Constant(ir.IntType(64), at.WORDS))
    kind = context.get_data_type(from_dtype(np.dtype(_arrays[name])))
    return builder.bitcast(builder.gep(words, [place]), kind.as_pointer())


@lower_setattr_generic(View)  # type: ignore[untyped-decorator]
def _store(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    record, value = arguments
    builder.store(value, _field(context, builder, signature.args[0], record, name))


def _record(name: str, dtype: Any) -> Callable[[Integers, int], Record]:
    """Return a function that returns the record at a word of a buffer."""
    view = View(name, dtype)

    def emit(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        place = builder.gep(arguments[0], [arguments[1]])
        return builder.bitcast(place, context.get_value_type(view))

    def record(_: Any, words: Any, number: Any) -> Any:
        return view(words, number), emit

    return cast("Callable[[Integers, int], Record]", intrinsic(record))


@intrinsic  # type: ignore[untyped-decorator]
def _index(_: Any, words: Any, record: Any) -> Any:
    return types.int64(words, record), _subtract


def _subtract(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
    """Emit the distance of two pointers in words."""
    word = ir.IntType(64)
    first, place = [builder.ptrtoint(argument, word) for argument in arguments]
    return builder.ashr(builder.sub(place, first), ir.Constant(word, 3), flags=["exact"])


place_of = cast("Callable[[Integers, Record], int]", _index)
"""Returns the word of the buffer at which a record begins."""

integers_at = cast("Callable[[int], Integers]", _integers_at)
"""Returns the 64-bit words at an address, as integers."""

prefetch = cast("Callable[[int], None]", _fetch)
"""Prefetches the cache line at an address."""

message = _record("message", at.MESSAGE)

reals_at = cast("Callable[[int], Reals]", _reals_at)
"""Returns the 64-bit words at an address, as doubles."""
