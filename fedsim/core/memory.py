"""Memory budget of a run's data: checked against its size before it is allocated.

A scenario can name a billion clients in a line, and a file of a kilobyte can unpack to a
terabyte. Both are refused unless the environment variable FEDSIM_MEMORY raises the limit. Sizes are
lower bounds: of what is certainly allocated, not of all that a run needs.
"""

import ctypes
import os
import re
import sys
from contextlib import suppress

from fedsim.core.errors import DataError

VARIABLE = "FEDSIM_MEMORY"
"""The environment variable of the limit, such as "16 GB"."""

DEFAULT = 8 * 10**9
"""The default limit in bytes."""

MODELS = 10
"""Number of vectors of the model's size that every run holds at least."""

_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(kB|MB|GB|TB)")


def limit(key: str = "data") -> int:
    """Return the bytes that the data of a run may take.

    Args:
        key: the key of the scenario, for errors.

    Raises:
        DataError: the environment variable is not a size.
    """
    written = os.environ.get(VARIABLE, "").strip()
    if not written:
        return DEFAULT
    match = _SIZE.fullmatch(written)
    if match is None:
        raise DataError(key, f'{VARIABLE}: got {written[:40]!r}; expected a size such as "16 GB"')
    return int(float(match[1]) * _UNITS[match[2]])


def check_budget(key: str, what: str, size: int, error: type[DataError] = DataError) -> None:
    """Check that an allocation fits into the limit.

    Args:
        key: the key of the scenario that causes it, for the error.
        what: its description, with its numbers, as the start of a sentence.
        size: the bytes that it needs at least.
        error: the class of the error.

    Raises:
        DataError: it does not fit.
    """
    most = limit(key)
    if size > most:
        raise error(
            key,
            f"{what} would take {format_size(size)} of memory; up to {format_size(most)} is "
            "accepted, or more "
            f'where the environment variable {VARIABLE} says so ("16 GB")',
        )


def format_size(size: int) -> str:
    """Format a size in bytes.

    >>> format_size(8 * 10**9), format_size(1500)
    ('8 GB', '1.5 kB')
    >>> format_size(10**30), format_size(10**400)
    ('more than 1000 TB', 'more than 1000 TB')
    """
    if size > 10**15:
        return "more than 1000 TB"
    unit = next((unit for unit in reversed(_UNITS) if size >= _UNITS[unit]), "kB")
    return f"{size / _UNITS[unit]:.4g} {unit}"


def trim() -> None:
    """Let the system have memory that was freed.

    The C library of Linux keeps what lies between arrays still in use; of a million clients, that
    is a tenth of a run's memory. Elsewhere it is left alone. Arrow keeps what it wrote a table in:
    of a long model, five times its size.
    """
    if (arrow := sys.modules.get("pyarrow")) is not None:  # else it has no memory
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)
