"""What this process is doing, for whoever shows it: said by who works, read at any moment.

Nobody is called while work goes on: who shows it looks, on a thread of its own perhaps. So saying
it costs a microsecond, however long the work takes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

_stages: list[Callable[[], str]] = []


@contextmanager
def doing(what: str | Callable[[], str]) -> Iterator[None]:
    """Say what is done within the block, which may lie within another one's.

    Args:
        what: in a few words, or what returns them: it is called by who looks, on any thread.

    >>> with doing("the whole"):
    ...     with doing(lambda: "a part"):
    ...         inside = now()
    ...     inside, now()
    ('a part', 'the whole')
    """
    stage = what if callable(what) else partial(str, what)
    _stages.append(stage)
    try:
        yield
    finally:
        _stages.remove(stage)


def now() -> str:
    """Return what is done now, in a few words; empty where nobody says."""
    for stage in reversed(tuple(_stages)):
        if words := stage():
            return words
    return ""
