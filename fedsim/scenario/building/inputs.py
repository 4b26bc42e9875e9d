"""Input files: hashes of the files that a scenario names, which identify its runs.

Two runs of equal scenarios differ if a file that they name has changed in between: a trace of
rates, times of presence, a graph, or atoms of a dictionary. The files of `problem` are not included
here: the fingerprint of a problem covers the rows that were read from them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedsim.core.errors import DataError, Fault, ScenarioError
from fedsim.core.files import open_file
from fedsim.core.remarks import hearing
from fedsim.scenario import Scenario, Variant

_NOT_HERE = frozenset({"problem", "variants", "sweep"})


class Inputs:
    """Hashes input files, each of them once.

    Args:
        folder: the folder of relative paths.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, str] = {}

    def hashes(self, scenario: Scenario) -> dict[str, str]:
        """Return the SHA-256 of every file that a scenario names, by its path as written.

        A path without a file is left out: its reader raises the error.
        """
        named = sorted(set(_paths(scenario.model_dump(exclude=set(_NOT_HERE)))))
        return {path.as_posix(): self._hash(path) for path in named if self._exists(path)}

    def _exists(self, path: Path) -> bool:
        try:
            return (self._folder / path).is_file() or (self._folder / path).is_dir()
        except ValueError:  # a null character in the name
            return False

    def _hash(self, path: Path) -> str:
        if path not in self._known:
            self._known[path] = _hash(self._folder / path)
        return self._known[path]


def _paths(value: object) -> Iterator[Path]:
    """Yield all paths in a dumped model."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _paths(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item)


def _hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes; of a folder, that of its files' names and hashes."""
    if path.is_dir():
        lines = (f"{file.relative_to(path).as_posix()} {_hash(file)}\n" for file in _files(path))
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# Findings: all faults of a variant, collected while it is built.


class Findings:
    """The faults of a variant that are detected while it is built.

    Attributes:
        faults: the faults so far, at most one per key.
        remarks: choices of file readers: by sentence, the first key that it concerns.
    """

    def __init__(self, variant: Variant) -> None:
        self.faults: list[Fault] = []
        self.remarks: dict[str, str] = {}
        self._variant = variant

    def add(self, key: str, message: str) -> None:
        """Register a fault of a key, unless the key has one already."""
        if all(fault.key != key for fault in self.faults):
            self.faults.append(self._variant.fault(key, message))

    @contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Turn errors of files or data within the block into a fault at a key.

        Remarks of readers within the block are stored.
        """
        with hearing() as heard:
            try:
                yield
            except (DataError, OSError) as error:
                self.add(key, _text(error))
        for text in heard:
            self.remarks.setdefault(text, key)

    def settle(self) -> None:
        """Raise a ScenarioError with all faults, if there are any."""
        if self.faults:
            raise ScenarioError(self.faults)


def _text(error: DataError | OSError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename} cannot be read: {error.strerror}"
    return str(error)
