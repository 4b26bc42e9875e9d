"""What a process does to files below a folder, counted, so that a fault meets any of it.

Counted is what changes a folder: making, opening to write, writing, closing, renaming and
removing. Functions of `os` are replaced, and `io.open`, by which `pathlib` opens; a file that is
open for writing has a raw file below its buffer that hands each write to the fault first.
"""

import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fedsim.running import workers

NAMES = ("mkdir", "open", "write", "close", "rename", "unlink", "rmdir", "fsync")
"""What is counted."""


class Operation(NamedTuple):
    """Something that a process is about to do.

    Attributes:
        number: how many there were before.
        name: one of `NAMES`.
        path: of the file or folder; where it goes, if it is renamed.
        content: what is to be written, if anything is.
        file: that it is written to.
    """

    number: int
    name: str
    path: Path
    content: memoryview = memoryview(b"")
    file: io.FileIO | None = None

    def write_half(self) -> int:
        """Write the first half of what is to be written, and return how many bytes that is."""
        if self.file is None:
            return 0
        return io.FileIO.write(self.file, self.content[: (len(self.content) + 1) // 2])


Meet = Callable[[Operation], int | None]
"""Shown each operation before it takes place. It may raise an OSError instead, kill the process,
or return how many bytes it has written by itself."""


class Counter:
    """Counts operations, and keeps what they were.

    Attributes:
        seen: all of them; what they were to write is not kept.
    """

    def __init__(self) -> None:
        self.seen: list[Operation] = []

    def __call__(self, operation: Operation) -> None:
        self.seen.append(operation._replace(content=memoryview(b""), file=None))


class Strike:
    """Meets operations, and sends its own process a signal at one of them.

    Args:
        number: of the operation.
        way: the signal.
        fired: a file that is made by whoever is the first of several workers.
        half: whether it comes amid the operation, where that is a write.
    """

    def __init__(
        self, number: int, way: signal.Signals, fired: Path, *, half: bool = False
    ) -> None:
        self._number, self._way, self._fired, self._half = number, way, fired, half

    def __call__(self, operation: Operation) -> int | None:
        if operation.number != self._number or not self._is_first():
            return None
        written = operation.write_half() if self._half else 0
        os.kill(os.getpid(), self._way)
        return written or None

    def _is_first(self) -> bool:
        try:
            self._fired.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def beginning(root: Path, meet: Meet, *given: Any) -> None:
    """Begin a worker, in its own process, that a fault meets from now on."""
    met(root, meet).__enter__()
    workers._begin(*given)


@contextmanager
def met(root: Path, meet: Meet) -> Iterator[None]:
    """Show within the block all that is done to files below a folder."""
    watch = _Watch(root.resolve(), meet)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("mkdir", "rmdir", "unlink"):
            patch.setattr(os, name, watch.one(name, getattr(os, name)))
        for name in ("rename", "replace"):
            patch.setattr(os, name, watch.two(getattr(os, name)))
        patch.setattr(os, "fsync", watch.synced(os.fsync))
        patch.setattr(os, "open", watch.opened(os.open))
        patch.setattr(io, "open", watch.begun(io.open))
        yield


class _Watch:
    def __init__(self, root: Path, meet: Meet) -> None:
        self._root, self._meet, self._count = str(root), meet, 0

    def meet(self, name: str, path: Path, *written: Any) -> int | None:
        """Show an operation, if it is below the folder."""
        if not str(path).startswith(self._root):
            return None
        operation = Operation(self._count, name, path, *written)
        self._count += 1
        return self._meet(operation)

    def one(self, name: str, done: Callable[..., None]) -> Callable[..., None]:
        def called(path: Any, *rest: Any, dir_fd: int | None = None, **options: Any) -> None:
            self.meet(name, _absolute(path, dir_fd))
            done(path, *rest, dir_fd=dir_fd, **options)

        return called

    def two(self, done: Callable[..., None]) -> Callable[..., None]:
        def called(old: Any, new: Any, **options: Any) -> None:
            self.meet("rename", _absolute(new, options.get("dst_dir_fd")))
            done(old, new, **options)

        return called

    def synced(self, done: Callable[[int], None]) -> Callable[[int], None]:
        def called(file: int) -> None:
            self.meet("fsync", Path(f"/proc/self/fd/{file}").resolve())
            done(file)

        return called

    def opened(self, done: Callable[..., int]) -> Callable[..., int]:
        def called(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.meet("open", _absolute(path, options.get("dir_fd")))
            return done(path, flags, *rest, **options)

        return called

    def begun(self, done: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if (
                not {"w", "x"} & {*mode}
                or "opener" in options
                or not isinstance(path, str | os.PathLike)
            ):
                return done(path, mode, *rest, **options)
            place = _absolute(path, None)
            if not str(place).startswith(self._root):
                return done(path, mode, *rest, **options)
            self.meet("open", place)
            return io.BufferedWriter(_File(self, place))

        return called


class _File(io.FileIO):
    """A file that shows what is written to it."""

    def __init__(self, watch: _Watch, path: Path) -> None:
        self._watch, self._path = watch, path
        super().__init__(path, "w")

    def write(self, content: Any, /) -> int:
        written = self._watch.meet("write", self._path, memoryview(content).cast("B"), self)
        return super().write(content) if written is None else written

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._watch.meet("close", self._path)
        finally:
            super().close()


def _absolute(path: Any, folder: int | None) -> Path:
    """Return where a path leads to, from here or from an open folder."""
    start = Path.cwd() if folder is None else Path(f"/proc/self/fd/{folder}").resolve()
    return start / os.fsdecode(path)
