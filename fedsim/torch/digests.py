"""By what a module and a loss are known, so that a run is kept if it was made from the same.

What is told apart: code, as far as it can be had; the parameters and buffers of a module, and the
numbers and texts among its attributes; what a function has closed over, and its defaults. What is
not: what code reads from elsewhere while it runs.
"""

import inspect
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from tokenize import TokenError
from types import FunctionType
from typing import Any

import numpy as np
from torch import Tensor, nn

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def digest_of(*values: object) -> str:
    """Return the SHA-256 of what is told of modules and functions, in hexadecimal."""
    digest = sha256()
    for value in values:
        for said in _told(value, set()):
            digest.update(said)
            digest.update(b"\0")
    return digest.hexdigest()


def _told(value: object, seen: set[int]) -> Iterator[bytes]:
    """Yield what makes a value what it is."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, Tensor | np.ndarray):
        numbers = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        yield f"{numbers.dtype} {numbers.shape}".encode()
        yield np.ascontiguousarray(numbers).tobytes()
    elif id(value) not in seen:
        seen.add(id(value))
        for part in _parts(value):
            yield from _told(part, seen)


def _parts(value: object) -> Iterator[object]:
    """Yield what a value is made of."""
    match value:
        case list() | tuple():
            yield from value
        case dict():
            yield from (each for pair in value.items() for each in pair)
        case partial():
            yield from (value.func, value.args, value.keywords)
        case FunctionType():
            yield code_of(value)
            yield value.__defaults__
            yield value.__kwdefaults__
            yield tuple(_content(cell) for cell in value.__closure__ or ())
        case nn.Module():
            yield from (repr(value), dict(value.state_dict()))
            for each in value.modules():
                yield code_of(type(each))
                own = vars(each).items()
                yield {name: part for name, part in own if isinstance(part, _PLAIN)}
        case type():
            yield code_of(value)
        case _:
            yield code_of(type(value))
            yield dict(getattr(value, "__dict__", {}))


def _content(cell: Any) -> object:  # noqa: ANN401 - a cell has no type of its own
    try:
        return cell.cell_contents
    except ValueError:  # nothing has been put there yet
        return None


def code_of(named: Any) -> str:  # noqa: ANN401 - a class or a function
    """Return the code of a class or a function, as far as it can be had.

    That of one that was typed in, or lies in the middle of another statement, may not be found by
    its lines.
    """
    try:
        return inspect.getsource(named)
    except (OSError, TypeError, SyntaxError, TokenError):
        compiled = getattr(named, "__code__", None)
        plain = [each for each in getattr(compiled, "co_consts", ()) if isinstance(each, _PLAIN)]
        said = "" if compiled is None else f"{compiled.co_code.hex()} {compiled.co_names} {plain}"
        return f"{named.__module__}.{named.__qualname__} {said}"
