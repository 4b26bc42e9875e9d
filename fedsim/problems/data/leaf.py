"""LEAF's JSON format: users, each with rows and labels."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedsim.core.blocks.spec import AnyPath
from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_bytes
from fedsim.core.ports import Array
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples, as_read

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's 80 characters of Shakespeare, in the order of their numbers from 0."""

_KEY = "data.path"

_TIMES = 16
"""Bytes of memory per byte of JSON: "1.0, " is an object of 24 bytes and a pointer, and then a
number."""

_SHOWN = 40
"""The largest number of characters shown of a malformed value."""

_ROWS = (
    "a row is as many numbers as any other, and its label a number, or a text, and its label one "
    "character"
)

_FORM = "accepted is LEAF's form: users, num_samples, and user_data with x and y for each user"


class _User(NamedTuple):
    name: str
    X: Array
    y: Array


class Leaf(Source):
    """The JSON files of a LEAF benchmark: those of one folder, or a single one.

    Rows are numbers, such as the 784 of an image of FEMNIST, or texts of one length whose label is
    the next character, as in Shakespeare. Each character of a text is its number in `characters`.
    Clients are numbered in the order of their users' names.
    """

    source: ClassVar[str] = "Caldas et al., LEAF: a benchmark for federated settings, 2018"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["leaf"] = "leaf"
    path: AnyPath = Field(
        description="a file, or a folder of files such as LEAF's `data/train`, relative to the "
        "scenario file's folder"
    )
    characters: str = Field(
        default=CHARACTERS,
        min_length=2,
        description="the characters of texts, in the order of their numbers from 0",
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read all files, in the order of their names."""
        users = [
            user
            for path in _files(folder / self.path)
            for user in _users(path, self.characters)
            if len(user.y)
        ]
        if not users:
            raise DataError(_KEY, f"{folder / self.path}: no user has a row")
        for user in users:
            if user.X.shape[1] != users[0].X.shape[1]:
                seen = f"{user.X.shape[1]} numbers per row, but that of {users[0].name!r}"
                text = f"{folder / self.path}: the data of user {user.name!r} has {seen}"
                raise DataError(_KEY, f"{text} {users[0].X.shape[1]}")
        # Users are numbered in the order of their names. A user in several files is one client.
        numbers = np.unique([user.name for user in users], return_inverse=True)[1]
        client = np.repeat(numbers, [len(user.y) for user in users]).astype(np.int64)
        y = np.concatenate([user.y for user in users])
        return Samples(np.concatenate([user.X for user in users]), y, client)


def _files(path: Path) -> list[Path]:
    """Return the files to read.

    Raises:
        DataError: the folder has no JSON file.
    """
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix == ".json")
    if not files:
        below = ", ".join(sorted(entry.name for entry in path.iterdir() if entry.is_dir())[:8])
        text = f"{path} has no file that ends in .json"
        folders = f"; it has the folders {below}: name one of them" if below else ""
        raise DataError(_KEY, text + folders)
    return files


def _users(path: Path, characters: str) -> Iterator[_User]:
    content = decompress(read_bytes(path, times=_TIMES), path, times=_TIMES)
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(_KEY, f"{path} is no JSON, or it is cut off: {error}") from error
    users, data = (_member(tree, key, kind, path) for key, kind in _MEMBERS)
    counts = tree.get("num_samples")
    for place, name in enumerate(users):
        user = _member(data, str(name), dict, path, f"user_data of user {str(name)!r}")
        rows, labels = (
            _member(user, key, list, path, f"{key} of user {str(name)!r}") for key in ("x", "y")
        )
        # Some files have no num_samples.
        declared = counts[place] if isinstance(counts, list) and place < len(counts) else len(rows)
        if not len(rows) == len(labels) == declared:
            seen = (
                f"{len(rows)} rows in x, {len(labels)} labels in y, and {declared} in num_samples"
            )
            text = f"{path}: user {str(name)!r} has {seen}; all three are one number"
            raise DataError(_KEY, text)
        yield _User(str(name), *_numbers(rows, labels, characters, f"{path}, user {str(name)!r}"))


_MEMBERS: tuple[tuple[str, type[Any]], ...] = (("users", list), ("user_data", dict))


def _member(tree: Any, key: str, kind: type[Any], path: Path, what: str = "") -> Any:
    member = tree.get(key) if isinstance(tree, dict) else None
    if not isinstance(member, kind):
        seen = "is missing" if member is None else f"is {_shorten(member)}"
        raise DataError(_KEY, f"{path}: {what or key} {seen}; {_FORM}")
    return member


def _numbers(
    rows: list[Any], labels: list[Any], characters: str, where: str
) -> tuple[Array, Array]:
    """Return features (n, d) and labels (n,) of one user.

    Raises:
        DataError: rows are neither numbers nor texts with one character each as labels.
    """
    if rows and all(isinstance(row, str) for row in (*rows, *labels)):
        return _tokens(rows, labels, characters, where)
    try:
        return _table(rows), np.array(labels, dtype=np.float64).reshape(len(labels))
    except (ValueError, TypeError) as error:
        place, seen = next(_faults(rows, labels), (0, str(error)))
        raise DataError(_KEY, f"{where}, row {place + 1}: {seen}; {_ROWS}") from error


def _table(rows: list[Any]) -> Array:
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1) if rows else np.empty((0, 0))


def _faults(rows: list[Any], labels: list[Any]) -> Iterator[tuple[int, str]]:
    """Yield position, from 0, and fault of rows that are no numbers, or whose length differs."""
    shape = None
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        try:
            found = np.array(row, dtype=np.float64).shape
            shape = found if shape is None else shape
            if found != shape:
                yield place, f"x has the shape {found}, that of the first row {shape}"
        except (ValueError, TypeError):
            yield place, f"x is {_shorten(row)}"
        if not isinstance(label, int | float):
            yield place, f"y is {_shorten(label)}"


def _tokens(rows: list[str], labels: list[str], characters: str, where: str) -> tuple[Array, Array]:
    """Return the character numbers of texts, shape (n, length), and of their labels, shape (n,).

    Raises:
        DataError: a character is unknown, or a text or label has the wrong length.
    """
    numbers = {character: number for number, character in enumerate(characters)}
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        unknown = next((item for item in row + label if item not in numbers), None)
        if unknown is not None:
            seen = f"{unknown!r} is none of the {len(characters)} characters"
            raise DataError(_KEY, f"{where}, row {place + 1}: {seen}; give characters with it")
        if len(row) != len(rows[0]) or len(label) != 1:
            seen = f"a text of {len(row)} characters with the label {_shorten(label)}"
            wanted = f"as the first has {len(rows[0])}, and one character as a label"
            raise DataError(_KEY, f"{where}, row {place + 1}: {seen}; {wanted}")
    kind = np.min_scalar_type(len(characters))
    X = np.array([[numbers[item] for item in row] for row in rows], kind)
    return as_read(X), np.array([numbers[label] for label in labels], np.float64)


def _shorten(seen: object) -> str:
    text = repr(seen)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
