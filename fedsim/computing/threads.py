"""How many threads a process may compute on."""

import os

VARIABLE = "FEDSIM_THREADS"
"""The environment variable that says how many, where not all processors shall be used."""


def usable_threads() -> int:
    """Return how many threads this process may compute on; no result depends on it."""
    given = os.environ.get(VARIABLE, "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
