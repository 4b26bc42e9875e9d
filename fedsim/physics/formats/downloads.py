"""Files of others that a licence lets one fetch: each is checked before anybody sees it.

A checksum is the SHA-256 of a file, or the name that git gives its content, which is the SHA-1 of
a header with its length and of what follows.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

from fedsim.errors import DataError
from fedsim.files import download
from fedsim.limits import afford

_KEY = "fetch"
_CHUNK = 2**20
_LONGEST = 200  # characters of a reason that a library gives


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFile:
    """A file that is public.

    Attributes:
        name: of the file.
        address: where it is.
        known: "sha256:..." or "git:...".
        size: bytes; 0 where that is not known.
        unpacked: how the names end that are taken out of an archive; empty for no archive.
    """

    name: str
    address: str
    known: str
    size: int = 0
    unpacked: str = ""


def obtained(file: PublicFile, folder: Path) -> Path:
    """Return where a file is, once it has been downloaded, checked and perhaps unpacked.

    What is there already, and is right, is not downloaded again. Nothing that is wrong is kept.

    Args:
        file: which.
        folder: where it is kept.

    Returns:
        The file, or the folder of what was in it.

    Raises:
        DataError: it cannot be had, or is not what is known of it.
    """
    path = folder / file.name
    if not (path.is_file() and _sum(path, file.known) == file.known):
        _download(file, path)
    return _unpacked(path, file.unpacked) if file.unpacked else path


def _download(file: PublicFile, path: Path) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)  # which could be a link
        download(file.address, part, file.size)
        seen = _sum(part, file.known)
        if seen != file.known:
            size = part.stat().st_size
            text = f"what comes from {file.address} is not {file.name}, and was not kept"
            expected = f"{file.known} of {file.size or 'unknown'} bytes"
            raise DataError(_KEY, f"{text}: got {seen} of {size} bytes; {expected} is accepted")
        part.replace(path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:_LONGEST]
        text = f"cannot fetch {file.name} from {file.address}: {reason}. Without a network: get it"
        raise DataError(_KEY, f"{text} from there by other means, and put it at {path}") from error
    finally:
        part.unlink(missing_ok=True)


def _sum(path: Path, known: str) -> str:
    """Return the checksum of a file, of the kind of the one that is known."""
    kind = known.partition(":")[0]
    if kind == "git":
        total = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    else:
        total = hashlib.new(kind)
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            total.update(chunk)
    return f"{kind}:{total.hexdigest()}"


def _unpacked(path: Path, ending: str) -> Path:
    """Return a folder of what is in an archive, of names that end so and are not hidden."""
    folder = path.with_suffix("")
    try:
        with ZipFile(path) as archive:
            wanted = [each for each in archive.infolist() if _is_wanted(each.filename, ending)]
            afford(_KEY, f"{path}: what is in it", sum(each.file_size for each in wanted))
            for each in wanted:
                archive.extract(each, folder)  # which leaves no way out of the folder
    except (BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(_KEY, f"cannot unpack {path}: {error}") from error
    return folder


def _is_wanted(name: str, ending: str) -> bool:
    parts = PurePosixPath(name).parts
    return name.endswith(ending) and not any(part.startswith((".", "__")) for part in parts)
