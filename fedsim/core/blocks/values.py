"""Digests of values: numbers, texts, arrays, tensors, and plain containers of them."""

import sys
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np

_SCALARS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"",
    bool: lambda value: b"%d" % value,
    int: lambda value: f"{value:x}".encode(),
    float: lambda value: repr(value).encode(),
    complex: lambda value: repr(value).encode(),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: value,
}

_ARRAYS = frozenset("biufcSUmM")
"""Kinds of NumPy dtypes whose bytes determine the value."""


def digest_of(*values: object) -> str:
    """Return a digest of values, SHA-256 in hexadecimal; empty if none of them is a value.

    Values are numbers, texts, arrays of NumPy, tensors of PyTorch, and lists, tuples and
    dictionaries of them. Subclasses of these types do not count, since they may hold more.
    Different values have different digests. Any other object, such as a function, only contributes
    that it is present.

    >>> digest_of([1, 2]) == digest_of((1, 2)), digest_of(print)
    (False, '')
    """
    parts = [_digest(value) for value in values]
    return (
        sha256(b"".join(digest or bytes(32) for digest in parts)).hexdigest() if any(parts) else ""
    )


def _digest(value: object) -> bytes:
    """Return the digest of a value; empty if it is none."""
    written = sha256()
    try:
        _write(value, written.update)
    except (TypeError, RuntimeError):  # no value, nested in itself, or without numbers in memory
        return b""
    return written.digest()


def _write(value: Any, write: Callable[[bytes], object]) -> None:
    """Write the type of a value, its content and its parts.

    Raises:
        TypeError: it is no value.
        RuntimeError: it is a tensor without numbers in memory, or a container within itself.
    """
    kind, parts = type(value), list[object]()
    name, content = kind.__name__, b""
    if kind in _SCALARS:
        content = _SCALARS[kind](value)
    elif kind in (list, tuple):
        parts = [*value]
    elif kind is dict:
        parts = [part for pair in value.items() for part in pair]
    else:
        name, content = _array(value)
    # With their lengths, so that no two values give the same bytes.
    write(b"%d:%b%d:%d:" % (len(name), name.encode(), len(content), len(parts)))
    write(content)
    for part in parts:
        _write(part, write)


def _array(value: Any) -> tuple[str, bytes]:
    """Return the type and shape of an array or a tensor, and its numbers as bytes.

    Raises:
        TypeError: it is neither, or holds objects.
        RuntimeError: it has no numbers in memory (such as a tensor on the device "meta").
    """
    kind, torch = type(value), sys.modules.get("torch")
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        name = f"tensor {value.dtype} {tuple(value.shape)} {value.requires_grad}"
        return name, plain.view(torch.uint8).numpy().tobytes()
    numbers = kind is np.ndarray or (isinstance(value, np.generic) and kind.__module__ == "numpy")
    if not numbers or value.dtype.kind not in _ARRAYS:
        raise TypeError
    return f"{kind.__name__} {value.dtype.str} {value.shape}", value.tobytes()
