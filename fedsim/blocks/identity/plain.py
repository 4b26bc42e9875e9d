"""Plain values: immutable values without an identity of their own, encoded directly."""

import struct
import sys
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from fedsim.blocks.identity.packages import is_known

_DEEPEST = 100
"""The largest nesting depth of plain tuples; deeper ones are walked as nodes."""


class PlainWriter:
    """The encoder of plain values.

    Attributes:
        packages: the top-level modules of the objects identified by name.
    """

    def __init__(self) -> None:
        self.packages: set[str] = set()
        self._known: dict[int, tuple[object, bytes]] = {}

    def encode(self, value: object, depth: int = 0) -> bytes | None:
        """Return the encoding of a plain value; None for other values."""
        writer = _WRITERS.get(type(value))
        if writer is not None:
            found: bytes = writer(value)
            return found
        if isinstance(value, tuple | frozenset | CodeType):
            return self._compose(value, depth)
        if isinstance(value, type | FunctionType | BuiltinFunctionType | ModuleType):
            return self._name_of(value)
        kind = type(value)
        if kind.__name__ in _NAMED_KINDS and is_known(kind.__module__):
            return self._name_of(value)
        return None

    def _compose(self, value: object, depth: int) -> bytes | None:
        """Return the digest of an immutable value whose parts are plain."""
        # The cache maps an `id` to value and digest; holding the value keeps the `id` from being
        # reused. Without it, tuples with shared parts could take exponential time.
        if id(value) in self._known:
            return self._known[id(value)][1]
        if depth > _DEEPEST:
            return None
        match value:
            case CodeType():
                tag, items = b"code", _code(value)
            case tuple() if type(value) is tuple:
                tag, items = b"tuple", value
            case frozenset() if type(value) is frozenset:
                tag, items = b"frozenset", tuple(value)
            case _:
                return None
        parts = []
        for each in items:
            part = self.encode(each, depth + 1)
            if part is None:
                return None
            parts.append(b"%d:%b" % (len(part), part))
        if tag == b"frozenset":
            parts.sort()
        found = b"%b %b" % (tag, sha256(b"".join(parts)).digest())
        self._known[id(value)] = value, found
        return found

    def _name_of(self, value: Any) -> bytes | None:  # noqa: ANN401 - whatever has a name
        """Return the name by which a known module has this very object; None if there is none."""
        module: Any
        name: Any
        if isinstance(value, ModuleType):
            module, name = value.__name__, ""
            found: object = sys.modules.get(module)
        else:
            module = getattr(value, "__module__", None)
            name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
            if module is None and type(value).__name__ == "ufunc":
                module = "numpy"
            if not isinstance(module, str) or not isinstance(name, str):
                return None
            found = sys.modules.get(module)
            for each in name.split("."):
                found = getattr(found, each, None)
        # The name counts only if it leads back to this object: a function defined within another
        # one, or replaced by a monkey patch, has a name that stands for something else.
        if found is not value or not is_known(module):
            return None
        self.packages.add(module.partition(".")[0])
        return f"name {module}:{name}".encode()


_NAMED_KINDS = frozenset({"ufunc", "_SpecialForm", "_ArrayFunctionDispatcher", "OpOverloadPacket"})
"""Types of installed packages whose objects are identified by their names alone."""


def _code(code: CodeType) -> tuple[object, ...]:
    """Return the parts of compiled code, without file name and line numbers."""
    return (
        code.co_code,
        code.co_consts,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_exceptiontable,
        code.co_name,
    )


_WRITERS: dict[type, Any] = {
    type(None): lambda _: b"None",
    type(Ellipsis): lambda _: b"Ellipsis",
    type(NotImplemented): lambda _: b"NotImplemented",
    bool: lambda value: b"bool %d" % value,
    int: lambda value: b"int %x" % value,
    float: lambda value: b"float " + struct.pack("<d", value),
    complex: lambda value: b"complex " + struct.pack("<dd", value.real, value.imag),
    str: lambda value: b"str " + value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: b"bytes " + value,
    range: lambda value: f"range {value.start} {value.stop} {value.step}".encode(),
}
"""The encoders of types without parts."""
