"""Remarks: what a reader of a file chose by itself, told to whoever wanted the file.

A reader that takes a column without a unit for seconds says so by `remark`; the one who asked for
the file hears it by `hearing`, and knows the key of the scenario that it concerns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)


def remark(text: str) -> None:
    """Say a sentence to whoever listens; nothing happens where nobody does."""
    if (heard := _heard.get()) is not None and text not in heard:
        heard.append(text)


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Collect what is remarked within, each sentence once.

    >>> with hearing() as heard:
    ...     remark("times are in ms")
    >>> heard
    ['times are in ms']
    """
    heard: list[str] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)
