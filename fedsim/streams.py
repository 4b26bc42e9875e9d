"""Random streams, spawned by name from one seed.

A stream depends on the seed and on its own name, never on the order in which streams are
created: adding a client or an event does not change any other stream, and variants of a scenario
share the draws of everything that they have in common (common random numbers).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256

import numpy as np

_drawing: ContextVar[list[tuple[np.random.Generator, object]] | None] = ContextVar(
    "drawing", default=None
)


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random stream of a purpose and an entity.

    >>> first, again = (stream(1, "split").integers(100, size=5).tolist() for _ in range(2))
    >>> first == again, first == stream(1, "channel").integers(100, size=5).tolist()
    (True, False)
    """
    name = "/".join(str(part) for part in names)
    key = np.frombuffer(sha256(name.encode()).digest(), dtype="<u4")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(key.tolist())))
    if (made := _drawing.get()) is not None:
        made.append((rng, rng.bit_generator.state))
    return rng


@contextmanager
def drawing() -> Iterator[Callable[[], bool]]:
    """Watch the streams created in the block; yield a function that says if one was drawn from.

    >>> with drawing() as drawn:
    ...     rng = stream(1, "split")
    ...     before, _, after = drawn(), rng.random(), drawn()
    >>> before, after
    (False, True)
    """
    made: list[tuple[np.random.Generator, object]] = []
    token = _drawing.set(made)
    try:
        yield lambda: any(rng.bit_generator.state != state for rng, state in made)
    finally:
        _drawing.reset(token)
