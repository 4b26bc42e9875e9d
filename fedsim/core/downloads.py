"""Downloads: bounded in size, verified before they are stored, by Python's own HTTP client."""

import hashlib
import os
from pathlib import Path
from shutil import copyfileobj
from typing import IO

from fedsim.core.errors import DataError
from fedsim.core.extras import VERSION
from fedsim.core.memory import limit

_CHUNK = 2**20
_PATIENCE = 60.0  # seconds without an answer
_CLIENT = {"User-Agent": f"fedsim/{VERSION}"}


def obtain(address: str, path: Path, *, size: int = 0, known: str = "", key: str = "fetch") -> None:
    """Download a file, unless it is there; what is not the expected file is not stored.

    Args:
        address: the address of the file, HTTP or HTTPS.
        path: where to store it.
        size: its length, bytes; 0 if unknown: then the memory budget is the bound.
        known: its checksum, "sha256:...", "md5:...", or "git:..." for git's name of its content;
            empty if unknown.
        key: for errors.

    Raises:
        DataError: the file at the address has another checksum.
        ValueError: the server sends more or fewer bytes.
        OSError: the server cannot be reached or refuses, or the file cannot be written.
    """
    if path.is_file() and (not known or checksum(path, known) == known):
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)  # an existing one could be a link to another file
        _download(address, part, size, key)
        if known and (seen := checksum(part, known)) != known:
            text = f"the file at {address} is not {path.name}, and was not stored"
            seen = f"{seen} of {part.stat().st_size} bytes"
            expected = f"{known} of {size or 'unknown'} bytes"
            raise DataError(key, f"{text}: got {seen}; expected {expected}")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def checksum(path: Path, known: str) -> str:
    """Return the checksum of a file, of the same kind as the known one."""
    kind = known.partition(":")[0]
    if kind == "git":
        total = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    else:
        total = hashlib.new(kind)
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            total.update(chunk)
    return f"{kind}:{total.hexdigest()}"


def _download(address: str, path: Path, size: int, key: str) -> None:
    from http.client import HTTPException  # loading them takes a while, and few commands need them
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    request = Request(address, headers=_CLIENT)  # noqa: S310 - no address is a user's
    try:
        with urlopen(request, timeout=_PATIENCE) as answer, path.open("wb") as file:  # noqa: S310
            copyfileobj(answer, _Bounded(file, size or limit(key)))
            seen = file.tell()
    except HTTPError as error:
        error.close()  # its connection would stay open for as long as the error
        raise
    except HTTPException as error:  # an answer that is not HTTP is no OSError by itself
        raise OSError(f"{type(error).__name__}: {error}") from error
    if size and seen != size:
        raise ValueError(f"got {seen} bytes; expected {size}")


class _Bounded:
    """A file of limited size: a server's response need not end."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most, self._left = file, most, most

    def write(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise ValueError(f"got more bytes than the {self._most} expected")
        self._file.write(chunk)
