"""Whole numbers that several threads read and set: atomic instructions for compiled code."""

# ruff: noqa: ARG001 - an intrinsic names what its generator is handed

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _load(_: Any, address: Any) -> Any:  # noqa: ANN401 - what Numba hands over
    """Return the whole number at an address, and see all that was written before it."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(address), generate


@intrinsic  # type: ignore[untyped-decorator]
def _store(_: Any, address: Any, number: Any) -> Any:  # noqa: ANN401
    """Set the whole number at an address, after all that was written before."""

    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store_atomic(arguments[1], place, "release", 8)
        return context.get_dummy_value()

    return types.void(address, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _swap(_: Any, address: Any, old: Any, new: Any) -> Any:  # noqa: ANN401
    """Set the whole number at an address if it is `old`; say whether it was."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        found = builder.cmpxchg(place, arguments[1], arguments[2], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(address, types.int64, types.int64), generate


load = cast("Callable[[int], int]", _load)
store = cast("Callable[[int, int], None]", _store)
swap = cast("Callable[[int, int, int], bool]", _swap)
