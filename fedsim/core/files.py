"""Files: opened in one way; those of users are read within a memory budget, and decompressed.

Only regular files are opened: reading a pipe might block for ever, and a device may have no end.
What is read or decompressed is checked against the memory budget, multiplied by the memory that its
reader will need for each byte.
"""

import bz2
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Callable
from errno import EINVAL
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from fedsim.core.blocks.wording import nearest_file
from fedsim.core.errors import DataError
from fedsim.core.memory import check_budget, format_size, limit

_Stream = IO[bytes] | gzip.GzipFile

_MAGIC: dict[bytes, Callable[[BytesIO], _Stream]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

WITHOUT_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
"""The flag of `os.open` that refuses a symbolic link; none on Windows."""

_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
"""A pipe is not waited for, a terminal not taken, and Windows leaves the ends of lines alone."""

_CHUNK = 2**20


def read_bytes(path: Path, key: str = "data.path", times: int = 1) -> bytes:
    """Return the content of a user's file.

    Args:
        path: where it is.
        key: the key of the scenario that names it, for errors.
        times: the bytes of memory that each byte of the file will take.

    Raises:
        DataError: it cannot be read, or is too large.
    """
    try:
        with open_file(path) as file:
            return _within(file, path, key, times)
    except OSError as error:
        hint = _similar(path) if isinstance(error, FileNotFoundError) else ""
        raise DataError(key, f"cannot read {path}: {error.strerror or error}{hint}") from error
    except ValueError as error:  # a null character in the name
        raise DataError(key, f"cannot read {str(path)!r}: {error}") from error


def _similar(path: Path) -> str:
    """Return "; did you mean 'mine.csv'?" for a missing file, or an empty text."""
    try:
        return nearest_file(path.name, (beside.name for beside in path.parent.iterdir()))
    except OSError:  # there is no such folder either, or it may not be listed
        return ""


def open_file(path: Path) -> BufferedReader:
    """Open a regular file to be read; a pipe in its place is refused, not waited for.

    Raises:
        OSError: it is no file, or cannot be read.
        ValueError: its name has a null character.
    """
    return os.fdopen(open_descriptor(path, os.O_RDONLY), "rb")


def read_file(path: Path) -> bytes:
    """Return the content of a file that fedsim has written; see `open_file`."""
    with open_file(path) as file:
        return file.read()


def open_descriptor(path: Path, flags: int) -> int:
    """Open a regular file, and return its descriptor; see `open_file`.

    Args:
        path: where it is.
        flags: the flags of `os.open`.
    """
    descriptor = os.open(path, flags | _FLAGS, 0o644)
    try:
        _check_kind(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check_is_file(path: Path) -> None:
    """Raise an OSError or a ValueError unless the path is a regular file."""
    _check_kind(path.stat().st_mode, path)


def _check_kind(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_one, name in _KINDS if is_one(mode)), "no file")
        raise OSError(EINVAL, f"it is {kind}; expected a file", str(path))


def decompress(content: bytes, path: Path, key: str = "data.path", times: int = 1) -> bytes:
    """Decompress gzip, bzip2 or xz; return any other content as it is.

    Raises:
        DataError: the compressed file is damaged, or too large once it is unpacked.
    """
    for magic, opened in _MAGIC.items():
        if content.startswith(magic):
            try:
                with opened(BytesIO(content)) as file:
                    return _within(file, path, key, times)
            except _DAMAGES as error:
                raise DataError(
                    key, f"{path}: the compressed file is damaged or cut off ({error})"
                ) from error
    return content


_DAMAGES = (OSError, EOFError, ValueError, MemoryError, zlib.error, lzma.LZMAError)
"""Raised for damaged files; MemoryError if xz announces a window larger than all memory."""


def _within(file: _Stream, path: Path, key: str, times: int) -> bytes:
    """Read a file to its end, within the memory budget."""
    most, chunks, size = limit(key) // times, list[bytes](), 0
    while chunk := file.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            check_budget(
                key, f"{path}: the first {format_size(size)} of what is in it", times * size
            )
    return b"".join(chunks)


def read_arrays(path: Path, key: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a NumPy archive; it is never unpickled.

    Raises:
        DataError: the file cannot be read, is too large, or is no archive of plain arrays.
    """
    try:
        with open_file(path) as file:
            return arrays(file, path, key)
    except OSError as error:
        raise DataError(key, f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:  # a null character in the name
        raise DataError(key, f"cannot read {str(path)!r}: {error}") from error


def arrays(file: IO[bytes], path: Path, key: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a NumPy archive that is open, each read once; see `read_arrays`."""
    try:
        _check_archive(file, path, key)
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            key,
            f"{path} is not a NumPy archive of plain arrays ({error}); accepted is what "
            "numpy.savez(path, name=array, ...) writes",
        ) from error


def _check_archive(file: IO[bytes], path: Path, key: str) -> None:
    """Check the sizes that the members of an archive announce, before memory is allocated.

    Raises:
        BadZipFile, ValueError: it is no archive, or a member is not an array of its size.
        DataError: it is too large.
    """
    with ZipFile(file) as archive:
        members = archive.infolist()
        check_budget(key, f"{path}: what is in it", 3 * sum(member.file_size for member in members))
        for member in members:
            with archive.open(member) as opened:
                _check_array(opened, member.filename, member.file_size)


def _check_array(file: IO[bytes], name: str, size: int) -> None:
    version = np.lib.format.read_magic(file)
    read_header: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise BadZipFile(f"{name} is an array of version {version}")
    shape, _, kind = read_header(file)
    numbers = 1
    for extent in shape:
        numbers *= extent
    if not kind.hasobject and numbers * kind.itemsize != size - file.tell():
        raise BadZipFile(f"{name} announces the shape {shape}, which is not what follows")
