"""JSON of others, in which every fault says where in the tree it is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from fedsim.errors import DataError
from fedsim.files import decompressed, read_bytes

_TIMES = 40
"""The bytes of memory that a byte of JSON takes: a short number is an object of 28 bytes."""

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Tree:
    """A value of a JSON file, and where it is.

    Attributes:
        value: as it was read.
        file: it is from.
        place: its way from the top, such as ["res_details"][0].
        key: that faults are at.
    """

    value: Any
    file: Path
    place: str
    key: str

    def __getitem__(self, name: str) -> "Tree":
        """Return a member of an object.

        Raises:
            DataError: it is none, or has no such member.
        """
        if not isinstance(self.value, Mapping) or name not in self.value:
            self.fail(f"an object with {name!r} is accepted")
        return Tree(self.value[name], self.file, f"{self.place}[{name!r}]", self.key)

    def items(self) -> list["Tree"]:
        """Return the items of an array."""
        if not isinstance(self.value, list):
            self.fail("an array is accepted")
        places = (f"{self.place}[{number}]" for number in range(len(self.value)))
        return [
            Tree(value, self.file, place, self.key)
            for value, place in zip(self.value, places, strict=True)
        ]

    def members(self) -> dict[str, "Tree"]:
        """Return the members of an object, by name."""
        if not isinstance(self.value, Mapping):
            self.fail("an object is accepted")
        return {name: self[name] for name in self.value}

    def number(self) -> float:
        """Return a finite number of at least 0."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail("a number is accepted")
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if not (isfinite(number) and number >= 0):
            self.fail("a finite number of 0 or more is accepted")
        return number

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            self.fail("a text is accepted")
        return str(self.value)

    def fail(self, accepted: str) -> NoReturn:
        """Raise a DataError that says where this is, and what is accepted there."""
        seen = repr(self.value)
        seen = seen if len(seen) <= _SHOWN else f"{seen[:_SHOWN]} ..."
        raise DataError(
            self.key, f"{self.file}, at {self.place or 'the top'}: {accepted}; got {seen}"
        )


def read_json(path: Path, key: str) -> Tree:
    """Read a JSON file, which may be packed by gzip, bzip2 or xz.

    Raises:
        DataError: it cannot be read, or is no JSON; the line is named.
    """
    content = decompressed(read_bytes(path, key, _TIMES), path, key, _TIMES)
    try:
        return Tree(json.loads(content), path, "", key)
    except json.JSONDecodeError as error:
        raise DataError(key, f"{path}, line {error.lineno}: no JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:  # no text, or a number of thousands of digits
        raise DataError(key, f"{path}: no JSON ({str(error)[:_SHOWN]})") from error
