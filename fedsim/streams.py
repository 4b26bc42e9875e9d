"""Random streams, spawned by name from one seed.

A stream depends on the seed and on its own name, never on the order in which streams are
created: adding a client or an event does not change any other stream, and variants of a scenario
share the draws of everything that they have in common (common random numbers).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class EntityStreams:
    """The streams of one purpose of many entities, each made when it is first asked for.

    Args:
        make: returns the stream of an entity, by number.
        count: of entities.

    Attributes:
        drawn: whether `StreamGroup.addresses` has been asked for.
    """

    def __init__(self, make: Callable[[int], np.random.Generator], count: int) -> None:
        self._make = make
        self._made: dict[int, np.random.Generator] = {}
        self._addresses = np.zeros(count, np.int64)
        self.drawn = False

    def of(self, number: int) -> np.random.Generator:
        """Return the stream of an entity."""
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = self._make(number)
        return made

    def addresses(
        self, numbers: NDArray[np.int64], address: Callable[[np.random.Generator], int]
    ) -> NDArray[np.int64]:
        """Return the addresses of some streams, each looked up once; see `StreamGroup`."""
        self.drawn = True
        for number in numbers[self._addresses[numbers] == 0].tolist():
            self._addresses[number] = address(self.of(number))
        return self._addresses[numbers]


class StreamGroup(NamedTuple):
    """The streams of some entities, for what draws from all of them at once.

    Attributes:
        streams: of all entities.
        numbers: of these, shape (n,).
    """

    streams: EntityStreams
    numbers: NDArray[np.int64]

    def addresses(self, address: Callable[[np.random.Generator], int]) -> NDArray[np.int64]:
        """Return the address of each stream's bit generator, shape (n,), to draw from it.

        Args:
            address: returns that of a stream.
        """
        return self.streams.addresses(self.numbers, address)
