"""Process-wide activity status, set by workers and polled by progress displays.

Displays poll it, possibly from another thread; setting it calls no callback. So it costs a
microsecond, and may be set in code that must not be slowed down.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

_stages: list[Callable[[], str]] = []


@contextmanager
def activity(what: str | Callable[[], str]) -> Iterator[None]:
    """Set the current activity within the block, which may be nested.

    Args:
        what: a few words, or a function that returns them, called by displays from any thread.

    >>> with activity("the whole"):
    ...     with activity(lambda: "a part"):
    ...         inside = current_activity()
    ...     inside, current_activity()
    ('a part', 'the whole')
    """
    stage = what if callable(what) else partial(str, what)
    _stages.append(stage)
    try:
        yield
    finally:
        _stages.remove(stage)


def current_activity() -> str:
    """Return the current activity in a few words; empty if there is none."""
    for stage in reversed(tuple(_stages)):
        if words := stage():
            return words
    return ""
