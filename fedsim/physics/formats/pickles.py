"""Third-party pickles and JSON, read safely: plain values only, with limits on memory.

A pickle is a program for a stack machine that can import and call any function. Here it may only
compose dictionaries, lists, numbers and texts. Any other instruction is refused before the machine
starts, and imports are refused again while it runs. The memory of the result is bounded beforehand,
from the instructions.
"""

import io
import json
import pickle
import pickletools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_bytes
from fedsim.core.memory import check_budget

_PLAIN = frozenset(
    {"PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "DUP"}
    | {"MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"}
    | {"NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2"}
    | {"LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING"}
    | {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
    | {"EMPTY_LIST", "APPEND", "APPENDS", "LIST", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"}
)
"""The instructions that create plain values. None of them imports, calls, or refers outside the
file.

Tuples are not included either: a million nested ones, used as a key, would exhaust the stack when
they are hashed.
"""

_CALLS = {
    "GLOBAL": "would import {}",
    "STACK_GLOBAL": "would import something",
    "INST": "would import and call {}",
}
"""The effects of refused instructions, for messages."""

_BYTES_EACH = 200
"""An upper bound of the memory per instruction, bytes, without its text or number."""

_MOST_ALIKE = 100
"""The largest number of distinct integers with the same hash in a file."""

_LONGEST = 512  # bits of an integer, at most
_DEEPEST = 50  # open marks, and levels of nesting, at most
_TOO_DEEP = f"values within values; up to {_DEEPEST} are accepted"
_CLOSING = frozenset({"APPENDS", "SETITEMS", "DICT", "LIST", "POP_MARK"})


def read_plain(path: Path, key: str) -> Any:
    """Return the plain value in a pickle.

    Args:
        path: the file.
        key: the key of the scenario, for errors.

    Returns:
        A value composed of dict, list, str, int, float, bool and None.

    Raises:
        DataError: the file cannot be read, is too large or damaged, or has more than a plain value;
            the text names the instruction and its position.
    """
    content = read_bytes(path, key)
    return loads_plain(content, path, key)


def loads_plain(content: bytes, path: Path, key: str) -> Any:
    """Return the plain value of a pickle in memory; see `read_plain`."""
    count = _walk(content, path, key)
    try:
        value = _SafeUnpickler(io.BytesIO(content), encoding="latin-1").load()
    except Exception as error:  # any exception that a malformed pickle may raise
        raise DataError(key, f"{path} is no whole pickle: {_short(error)}") from error
    _check_depth(value, count, path, key)
    return value


class _SafeUnpickler(pickle.Unpickler):
    """An unpickler without imports."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse an import, although `_walk` has already refused such instructions."""
        raise pickle.UnpicklingError(f"it would import {module[:40]}.{name[:40]}")

    def persistent_load(self, pid: object) -> NoReturn:
        """Refuse a reference to an object outside the file."""
        raise pickle.UnpicklingError(f"it refers to {str(pid)[:40]!r}, outside of the file")


def _walk(content: bytes, path: Path, key: str) -> int:
    """Check the instructions without executing them; return their number.

    Raises:
        DataError: an instruction does not create a plain value, or the result would be too large.
    """
    count, open_marks, place = 0, 0, 0
    alike: dict[int, set[int]] = {}
    try:
        for opcode, argument, position in pickletools.genops(content):
            name, place, count = opcode.name, position or 0, count + 1
            if name not in _PLAIN:
                _refuse(name, argument, path, key, place)
            open_marks += (name == "MARK") - (name in _CLOSING)
            if open_marks > _DEEPEST:
                _fail(key, f"{path}, byte {place}: {_TOO_DEEP}")
            if isinstance(argument, int):
                _check_number(name, argument, count, f"{path}, byte {place}", key)
                _check_hash(argument, alike, f"{path}, byte {place}", key)
    except DataError:
        raise
    except Exception as error:  # a truncated or damaged file may raise any exception
        text = f"{path} is no whole pickle: after byte {place}: {_short(error)}"
        raise DataError(key, text) from error
    check_budget(key, f"{path}: what is in it", _BYTES_EACH * count + 4 * len(content))
    return count


def _fail(key: str, text: str) -> NoReturn:
    raise DataError(key, text)


def _refuse(name: str, argument: object, path: Path, key: str, place: int) -> NoReturn:
    does = _CALLS.get(name, "is more than a plain value").format(_short(argument))
    wanted = "a pickle of dictionaries, lists, numbers and texts alone is accepted"
    text = f"{path}, byte {place}: the instruction {name} {does}, and was not run; {wanted}"
    raise DataError(key, text)


def _check_number(name: str, number: int, count: int, where: str, key: str) -> None:
    """Raise a DataError for a very long integer, or a memo index that would allocate too much."""
    if name in {"PUT", "BINPUT", "LONG_BINPUT"}:
        if number > count:
            raise DataError(key, f"{where}: the memo's place {number}, of {count} instructions")
    elif number.bit_length() > _LONGEST:
        text = f"a whole number of {number.bit_length()} bits; up to {_LONGEST} are accepted"
        raise DataError(key, f"{where}: {text}")


def _check_hash(number: int, alike: dict[int, set[int]], where: str, key: str) -> None:
    """Raise a DataError for too many distinct integers with one hash, which may be colliding keys.

    A dictionary compares each colliding key with all others, in quadratic time. Small integers are
    their own hash, and the hashes of texts are randomised in each process. So only long integers
    can be made to collide.

    Args:
        number: an integer in the file.
        alike: the earlier integers by hash; the number is added to them.
        where: its position, for the error.
        key: the key of the scenario, for errors.
    """
    if abs(number) < sys.hash_info.modulus:
        return
    same = alike.setdefault(hash(number), set())
    same.add(number)
    if len(same) > _MOST_ALIKE:
        text = f"more than {_MOST_ALIKE} whole numbers of one hash, as no data has by chance"
        raise DataError(key, f"{where}: {text}")


def _check_depth(value: object, count: int, path: Path, key: str) -> None:
    """Raise a DataError for too deep nesting, or for shared values that expand to too many.

    If each list contains the previous one twice, a few instructions give an exponential number of
    values ("billion laughs"). So a value is counted as often as it is reached.
    """
    level, seen = [value], 0
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for container in level:
            if isinstance(container, dict):
                inner += [*container.keys(), *container.values()]
            elif isinstance(container, list):
                inner += container
            if seen + len(inner) > 2 * count + 1000:
                text = f"{path} has {count} instructions, and expands to far more values"
                raise DataError(key, f"{text}; a value is accepted in one place")
        if not inner:
            return
        level, seen = inner, seen + len(inner)
    raise DataError(key, f"{path}: {_TOO_DEEP}")


def _short(what: object) -> str:
    text = " ".join(str(what).split())
    return text if len(text) <= 80 else f"{text[:80]} ..."


# Third-party JSON; errors name the position in the tree.

_TIMES = 40
"""Bytes of memory per byte of JSON: a short number becomes an object of 28 bytes."""

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Tree:
    """A value of a JSON file with its position.

    Attributes:
        value: the parsed value.
        file: the file.
        place: the path from the top, such as ["res_details"][0].
        key: the key of the scenario, for errors.
    """

    value: Any
    file: Path
    place: str
    key: str

    def __getitem__(self, name: str) -> "Tree":
        """Return a member of an object.

        Raises:
            DataError: the value is no object, or has no such member.
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
        """Return a finite number of at least 0.

        Raises:
            DataError: the value is something else.
        """
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
        """Return a text.

        Raises:
            DataError: the value is something else.
        """
        if not isinstance(self.value, str):
            self.fail("a text is accepted")
        return str(self.value)

    def fail(self, accepted: str) -> NoReturn:
        """Raise a DataError with the position and what would be accepted there."""
        seen = repr(self.value)
        seen = seen if len(seen) <= _SHOWN else f"{seen[:_SHOWN]} ..."
        raise DataError(
            self.key, f"{self.file}, at {self.place or 'the top'}: {accepted}; got {seen}"
        )


def read_json(path: Path, key: str) -> Tree:
    """Read a JSON file, which may be compressed by gzip, bzip2 or xz.

    Raises:
        DataError: the file cannot be read, or is not JSON; the text names the line.
    """
    content = decompress(read_bytes(path, key, _TIMES), path, key, _TIMES)
    try:
        return Tree(json.loads(content), path, "", key)
    except json.JSONDecodeError as error:
        raise DataError(key, f"{path}, line {error.lineno}: no JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, or a number with thousands of digits
        raise DataError(key, f"{path}: no JSON ({str(error)[:_SHOWN]})") from error
