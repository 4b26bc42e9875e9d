"""The user's cache: downloads and reference optima."""

import os
import tempfile
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "FEDSIM_CACHE"
"""The environment variable that names another folder for the cache."""


def cache_folder() -> Path:
    """Return the folder of the cache, which need not exist yet."""
    own = os.environ.get(CACHE_VARIABLE)
    return Path(own) if own else Path(platformdirs.user_cache_dir("fedsim"))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that whoever looks finds all of it or what was there before.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
