"""Plain data in which each piece has its origin: file and line, or option."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import format_path
from fedsim.core.errors import Fault

KeyPath = tuple[str | int, ...]
"""A key path: ("fleet", 0, "radio")."""

DEEPEST = 60
"""The deepest accepted nesting of blocks and lists."""

_WIDEST = 512
_INDEX = re.compile(r"\[(\d+)\](?=\.|\[|$)")


def path_of(key: str) -> list[str]:
    """Split a key path as users write it: "fleet.0.radio", or "fleet[0].radio".

    >>> path_of("fleet[0].radio.up")
    ['fleet', '0', 'radio', 'up']
    """
    return _INDEX.sub(r".\1", key.strip()).split(".")


class Origin(NamedTuple):
    """The place where a piece of data was written.

    Attributes:
        source: a file, or an option of the command; empty for data from Python.
        line: the line in the file, from 1; 0 if the source has no lines.
    """

    source: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class Located:
    """A piece of data and its origin; immutable, so that trees can share it.

    Attributes:
        origin: the line of its key; of the piece itself if it has no key.
        content: a scalar, or inner pieces as a list or by key.
    """

    origin: Origin
    content: "Content"

    def plain(self) -> Any:
        """Return the data without origins."""
        match self.content:
            case dict():
                return {key: piece.plain() for key, piece in self.content.items()}
            case list():
                return [piece.plain() for piece in self.content]
            case _:
                return self.content

    def get(self, key: str | int) -> "Located | None":
        """Return the piece at a key or an index, or None."""
        if isinstance(self.content, dict):
            return self.content.get(str(key))
        if isinstance(self.content, list) and str(key).isdecimal():
            return self.content[int(key)] if int(key) < len(self.content) else None
        return None

    def nearest(self, path: KeyPath) -> "tuple[Located, int]":
        """Return the piece at a path, or the innermost existing one around it; and its depth."""
        piece, depth = self, 0
        for key in path:
            inner = piece.get(key)
            if inner is None:
                break
            piece, depth = inner, depth + 1
        return piece, depth

    def fault(self, path: KeyPath, message: str, *, unknown_key: bool = False) -> Fault:
        """Return a fault at the line of a path, or of the innermost block around it."""
        where = str(self.nearest(path)[0].origin)
        return Fault(where, format_path(path), message, unknown_key=unknown_key)


Content = dict[str, Located] | list[Located] | str | int | float | bool | None


def text(value: str) -> str:
    """Return a text unchanged.

    Raises:
        ValueError: no file can contain it: it has half of a surrogate pair.
    """
    # Escapes in YAML and JSON can write half a pair, which no file in UTF-8 can hold.
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("got half of a surrogate pair, which is no text")
    return value


def number(value: float) -> float:
    """Return a number unchanged.

    Raises:
        ValueError: it is an integer of more than 512 bits.
    """
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        raise ValueError(f"got an integer of more than {_WIDEST} bits")
    return value


def locate(value: object, origin: Origin, path: tuple[str | int, ...] = ()) -> Located:
    """Convert data from Python to located data with a common origin.

    Args:
        value: the data.
        origin: the origin of all of it.
        path: the path to the data, for errors.

    Raises:
        TypeError: it contains an object that a scenario file could not contain.
        ValueError: it is nested too deeply, or contains a text or an integer unfit for a file.
    """
    if len(path) > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    match value:
        case Spec():
            return locate(value.model_dump(mode="json"), origin, path)
        case Mapping():
            pieces = {str(k): locate(v, origin, (*path, str(k))) for k, v in value.items()}
            return Located(origin, pieces)
        case list() | tuple():
            items = [locate(piece, origin, (*path, i)) for i, piece in enumerate(value)]
            return Located(origin, items)
        case np.ndarray() | np.generic():
            return locate(value.tolist(), origin, path)
        case _:
            try:
                return Located(origin, _scalar(value))
            except (TypeError, ValueError) as error:
                key = f"{format_path(path)}: " if path else ""
                raise type(error)(f"{key}{error}") from None


def _scalar(value: object) -> str | float | bool | None:
    """Return a scalar in the form of a file."""
    match value:
        case str() | PurePath():
            return text(str(value))
        case int() | float():
            return number(value)
        case None:
            return None
        case _:
            what = f"the class {value.__name__}" if isinstance(value, type) else ""
            raise TypeError(f"a scenario cannot hold {what or f'a {type(value).__name__}'}")
