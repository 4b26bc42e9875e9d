"""Records of a buffer as kernels see them: named fields, records they refer to, and methods.

A law reads `q.waits[0]` of a queue and calls `q.cross(bits)`, whether the queue is an object or a
record. Fields are those of `layout`. What a record has beyond its fields, such as a list of
waiting packets, is registered here by `method`.
"""

import operator
from collections.abc import Callable
from inspect import signature
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    overload,
    overload_method,
    register_model,
)

from fedsim.addons.tcp.compiled import interpreted
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.kinds import Integers, Record
from fedsim.core.laws import LAWS
from fedsim.problems.evaluators.kernel_cache import Function
from fedsim.sim.kernels import OPTIONS, PART

_WORD = ir.IntType(64)
_BUFFERS = {"words": types.CPointer(types.int64), "reals": types.CPointer(types.float64)}


class View(types.Type):  # type: ignore[misc]  # Numba's classes have no types
    """The type of a record in a buffer: pointers to the buffer and to the record.

    Numba's own records are compared field by field whenever types are, and are copied as results:
    kernels with them take minutes to compile.
    """

    def __init__(self, name: str, record: at.Layout) -> None:
        self.record = record
        super().__init__(f"View({name})")


class _Pointers(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, view: View) -> None:
        words = _BUFFERS["words"]
        super().__init__(manager, view, [("base", words), ("place", words)])


def _view(name: str) -> View:
    kind = type(name.title(), (View,), {})
    register_model(kind)(_Pointers)
    return cast("View", kind(name, at.RECORDS[name]))


VIEWS = {name: _view(name) for name in at.RECORDS}
"""The types of records, by name."""


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = View

    def generic_resolve(self, view: Any, name: str) -> Any:  # noqa: PLR0911 - one a kind
        record = view.record
        if name in record.parts:
            return VIEWS[record.parts[name]]
        if name in record.references:
            return VIEWS[record.references[name]]
        if name in record.absent:
            return types.none
        if name in record.constants:
            return types.int64
        if name in record.columns:
            return types.CPointer(from_dtype(np.dtype(record.columns[name])))
        if name in record.fields:
            return from_dtype(record.fields[name][0])
        return types.float64 if name == "now" else _BUFFERS.get(name)


def _pointers(context: Any, builder: Any, view: Any, value: Any = None) -> Any:
    return cgutils.create_struct_proxy(view)(context, builder, value=value)


def _field(context: Any, builder: Any, view: Any, value: Any, name: str) -> Any:
    """Emit a pointer to a field of a record."""
    kind, offset = view.record.fields[name]
    place = _pointers(context, builder, view, value).place
    place = builder.gep(place, [ir.Constant(_WORD, offset // at.WORD)])
    return builder.bitcast(place, context.get_data_type(from_dtype(kind)).as_pointer())


@lower_getattr_generic(View)  # type: ignore[untyped-decorator]
def _load(  # noqa: PLR0911 - one a kind
    context: Any, builder: Any, view: Any, value: Any, name: str
) -> Any:
    record = view.record
    if name in record.parts:
        return value
    if name in record.absent:
        return context.get_dummy_value()
    if name in record.constants:
        return ir.Constant(_WORD, record.constants[name])
    pointers = _pointers(context, builder, view, value)
    if name in record.references:
        number = builder.load(_field(context, builder, view, value, name))
        return _at(context, builder, VIEWS[record.references[name]], pointers.base, number)
    if name in record.fields:
        return builder.load(_field(context, builder, view, value, name))
    if name in record.columns:
        place, kind = _column(context, builder, view, value, name), np.dtype(record.columns[name])
        return builder.bitcast(place, context.get_data_type(from_dtype(kind)).as_pointer())
    if name == "now":
        place = builder.gep(pointers.base, [ir.Constant(_WORD, at.NOW)])
        return builder.load(builder.bitcast(place, ir.DoubleType().as_pointer()))
    return builder.bitcast(pointers.base, context.get_value_type(_BUFFERS[name]))


def _column(context: Any, builder: Any, view: Any, value: Any, name: str) -> Any:
    """Emit a pointer to a column of a message, or to an array among its fields."""
    if name in at.ARRAYS:
        return _field(context, builder, view, value, at.ARRAYS[name])
    # Columns follow the record; each has a power of two of words.
    column = ir.Constant(_WORD, list(view.record.columns).index(name))
    capacity = builder.load(_field(context, builder, view, value, "capacity"))
    place = builder.add(builder.shl(column, capacity), ir.Constant(_WORD, view.record.words))
    return builder.gep(_pointers(context, builder, view, value).place, [place])


@lower_setattr_generic(View)  # type: ignore[untyped-decorator]
def _store(context: Any, builder: Any, kinds: Any, arguments: Any, name: str) -> None:
    record, value = arguments
    view = kinds.args[0]
    if name in view.record.references:
        value = _subtract(context, builder, kinds.args[1], value)
    builder.store(value, _field(context, builder, view, record, name))


def _at(context: Any, builder: Any, view: Any, base: Any, number: Any) -> Any:
    """Emit the record at a word of a buffer."""
    pointers = _pointers(context, builder, view)
    pointers.base, pointers.place = base, builder.gep(base, [number])
    return pointers._getvalue()  # noqa: SLF001 - there is no other way


def _getter(name: str) -> Callable[[Integers, int], Record]:
    """Return a function that returns the record at a word of a buffer."""
    view = VIEWS[name]

    def emit(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return _at(context, builder, view, *arguments)

    def record(_: Any, words: Any, __: Any) -> Any:
        return view(words, types.int64), emit

    return cast("Callable[[Integers, int], Record]", intrinsic(record))


@intrinsic  # type: ignore[untyped-decorator]
def _index(_: Any, record: Any) -> Any:
    def emit(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return _subtract(context, builder, record, arguments[0])

    return types.int64(record), emit


def _subtract(context: Any, builder: Any, view: Any, record: Any) -> Any:
    """Emit the distance of a record from the begin of its buffer in words."""
    pointers = _pointers(context, builder, view, record)
    first, place = [builder.ptrtoint(each, _WORD) for each in (pointers.base, pointers.place)]
    return builder.ashr(builder.sub(place, first), ir.Constant(_WORD, 3), flags=["exact"])


place_of = cast("Callable[[Record], int]", _index)
"""Returns the word of the buffer at which a record begins."""

_KINDS = "message", "path", "stage", "queue", "flow"
message, path, stage, queue, flow = map(_getter, _KINDS)
"""Return the record at a word of a buffer."""


@intrinsic  # type: ignore[untyped-decorator]
def _write(_: Any, words: Any, __: Any, values: Any) -> Any:
    def emit(context: Any, builder: Any, ___: Any, arguments: Any) -> Any:
        first, number = builder.gep(arguments[0], [arguments[1]]), 0
        for k, kind in enumerate(getattr(values, "types", ())):
            if isinstance(kind, View):
                continue
            word = types.float64 if isinstance(kind, types.Float) else types.int64
            value = builder.extract_value(arguments[2], k)
            place = builder.gep(first, [ir.Constant(_WORD, number)])
            place = builder.bitcast(place, context.get_data_type(word).as_pointer())
            builder.store(context.cast(builder, value, kind, word), place)
            number += 1
        return context.get_dummy_value()

    return types.void(words, types.int64, values), emit


write = cast("Callable[[Integers, int, tuple[Any, ...] | None], None]", _write)
"""Writes the numbers of a tuple to words from a place on; records among them are left out."""

if config.DISABLE_JIT:
    message, path, stage, queue, flow = map(interpreted.getter, _KINDS)
    place_of, write = interpreted.place_of, interpreted.write

_INLINE = {**OPTIONS, **PART, "forceinline": True}


def method(kind: str, name: str, *, inlined: bool = True) -> Callable[[Function], Function]:
    """Register a function as a method of records of a kind; a law is inlined as it says."""

    def register(function: Function) -> Function:
        interpreted.METHODS[kind, name] = function

        def choose(*_: Any) -> Function:
            return function

        vars(choose)["__signature__"] = signature(function)  # by which Numba binds arguments
        options = {**_INLINE, "forceinline": LAWS.get(function, inlined)}
        overload_method(type(VIEWS[kind]), name, jit_options=options, strict=False)(choose)
        return function

    return register


def operation(function: Callable[..., Any], kind: str) -> Callable[[Function], Function]:
    """Register what an operation such as `operator.getitem` does on records of a kind."""

    def register(body: Function) -> Function:
        interpreted.METHODS[kind, function] = body
        view = VIEWS[kind]
        choose = overload(function, jit_options=_INLINE, strict=False)
        choose(lambda *arguments: body if arguments[0] == view else None)
        return body

    return register


@operation(len, "stages")
def _count_stages(p: Record) -> int:
    count: int = p.hops
    return count


@operation(operator.getitem, "stages")
def _stage(p: Record, number: int) -> Record:
    return stage(p.words, place_of(p) + at.WAY + number * at.STAGE)


@operation(operator.getitem, "leads")
def _lead(p: Record, number: int) -> float:
    lead: float = stage(p.words, place_of(p) + at.WAY + number * at.STAGE).lead
    return lead
