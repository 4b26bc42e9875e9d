"""The number of threads of a process, and work on a range that is shared out among them."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

VARIABLE = "FEDSIM_THREADS"
"""The environment variable that limits the number of threads."""


def usable_threads() -> int:
    """Return the number of threads that this process may use; no result depends on it."""
    value = os.environ.get(VARIABLE, "")
    if value.isdecimal() and int(value) > 0:
        return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_out(work: Callable[[int, int], None], length: int) -> None:
    """Call `work(begin, end)` for consecutive parts of a range, one a thread, and wait for all.

    The calling thread takes the first part. The others warn of overflow as this one does.

    Args:
        work: pure but for what it writes, which no other part reads or writes. It releases
            Python's global lock, as operations on long arrays do.
        length: the length of the range, which begins at 0.

    >>> found = np.zeros(5)
    >>> share_out(lambda begin, end: found[begin:end].fill(1.0), 5)
    >>> found
    array([1., 1., 1., 1., 1.])
    """
    count = max(min(usable_threads(), length), 1)
    first, *others = pairwise(length * number // count for number in range(count + 1))
    if not others:
        work(*first)
        return
    warning: dict[str, Any] = {**np.geterr()}
    with ThreadPoolExecutor(len(others), "fedsim-part") as threads:
        futures = [threads.submit(_warning_as, warning, work, *part) for part in others]
        work(*first)
        for future in futures:
            future.result()  # raises what the thread has raised


def _warning_as(
    settings: dict[str, Any], work: Callable[[int, int], None], begin: int, end: int
) -> None:
    with np.errstate(**settings):
        work(begin, end)
