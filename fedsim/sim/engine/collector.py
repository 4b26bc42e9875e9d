"""Python's cyclic garbage collector, while a world is made and while it runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (50_000, 50, 100)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the garbage collector look at what lives less often, and as before afterwards.

    A message leaves no cycles behind, and reference counts free what it was made of. By default
    the collector would look again and again at all that a large fleet has under way: that takes
    half of the time of 30,000 clients who learn at once.
    """
    before = gc.get_threshold()
    # 0 of the first says that it is off.
    gc.set_threshold(
        *(max(own, few) if own else 0 for own, few in zip(before, _THRESHOLDS, strict=True))
    )
    try:
        yield
    finally:
        gc.set_threshold(*before)
