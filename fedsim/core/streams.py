"""Random streams, spawned by name from one seed.

A stream depends on the seed and on its own name, never on the order in which streams are
created: adding a client or an event does not change any other stream, and variants of a scenario
share the draws of everything that they have in common (common random numbers).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

_MANY = 16
"""From this number on, streams are seeded together."""

_drawing: ContextVar[list[tuple[np.random.Generator, object]] | None] = ContextVar(
    "drawing", default=None
)


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random stream of a purpose and an entity.

    >>> first, again = (stream(1, "split").integers(100, size=5).tolist() for _ in range(2))
    >>> first == again, first == stream(1, "channel").integers(100, size=5).tolist()
    (True, False)
    """
    rng = np.random.default_rng(_seed_sequence(seed, _key(*names)))
    if (made := _drawing.get()) is not None:
        made.append((rng, rng.bit_generator.state))
    return rng


def _key(*names: str | int) -> bytes:
    """Return the spawn key of a stream, eight little-endian words of 32 bits."""
    return sha256("/".join(str(part) for part in names).encode()).digest()


def _seed_sequence(seed: int, key: bytes) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=tuple(np.frombuffer(key, "<u4").tolist()))


class Streams:
    """The random streams of one seed.

    >>> Streams(1)("split").random() == stream(1, "split").random()
    True

    Args:
        seed: the seed of all of them.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, *names: str | int) -> np.random.Generator:
        """Return the stream of a purpose and an entity, see `stream`."""
        return stream(self.seed, *names)

    def of_entities(self, purpose: str, numbers: Sequence[int]) -> list[np.random.Generator]:
        """Return the streams of many entities for one purpose, in a tenth of the time.

        Args:
            purpose: the first part of their names.
            numbers: the numbers of the entities, the second part.
        """
        if len(numbers) >= _MANY and _drawing.get() is None:
            keys = [_key(purpose, number) for number in numbers]
            states = _mix_seeds(self.seed, np.frombuffer(b"".join(keys), "<u4").reshape(-1, 8).T)
            # NumPy computes the words of one stream. If they agree, NumPy's algorithm is ours.
            if (states[0] == _seed_sequence(self.seed, keys[0]).generate_state(4, np.uint64)).all():
                seeds: Any = map(_KnownSeed, states, keys, [self.seed] * len(keys))
                return [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
        return [self(purpose, number) for number in numbers]


class _KnownSeed(ISpawnableSeedSequence):
    """A seed sequence with known first words; for all others it becomes NumPy's seed sequence."""

    __slots__ = ("_key", "_seed", "_words")

    def __init__(self, words: NDArray[np.uint64], key: bytes, seed: int) -> None:
        self._words: NDArray[np.uint64] | None = words  # until a generator has taken them
        self._key = key
        self._seed: int | np.random.SeedSequence = seed  # a number until NumPy's is needed

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        words, self._words = self._words, None
        if words is not None and n_words == len(words) and dtype == words.dtype:
            return words
        return self._numpys().generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return self._numpys().spawn(n_children)

    def _numpys(self) -> np.random.SeedSequence:
        """Return NumPy's seed sequence, the same one each time, since it counts its children."""
        if not isinstance(self._seed, np.random.SeedSequence):
            self._seed = _seed_sequence(self._seed, self._key)
        return self._seed


_POOL, _SHIFT = 4, np.uint32(16)


class _Hash:
    """The hash of M. E. O'Neill's seed sequence, whose constant changes with every call."""

    def __init__(self, constant: int, factor: int) -> None:
        self._constant, self._factor = constant, factor

    def __call__(self, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        mixed = words ^ np.uint32(self._constant)
        self._constant = self._constant * self._factor & 0xFFFFFFFF
        mixed *= np.uint32(self._constant)
        mixed ^= mixed >> _SHIFT
        return mixed


def _mix(x: NDArray[np.uint32], y: NDArray[np.uint32]) -> NDArray[np.uint32]:
    mixed = np.uint32(0xCA01F9DD) * x - np.uint32(0x4973F715) * y
    mixed ^= mixed >> _SHIFT
    return mixed


def _mix_seeds(seed: int, keys: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return the first four words of the seed sequences of many spawn keys, shape (n, 4).

    They are those of `numpy.random.SeedSequence`, whose algorithm is that of M. E. O'Neill,
    "Developing a seed_seq alternative", 2015.

    Args:
        seed: the seed of all sequences.
        keys: words of 32 bits, shape (words, n).
    """
    words_of_seed = [seed >> bit & 0xFFFFFFFF for bit in range(0, max(seed.bit_length(), 1), 32)]
    words_of_seed += [0] * (_POOL - len(words_of_seed))
    shape = keys.shape[1:]
    entropy = [*(np.full(shape, word, np.uint32) for word in words_of_seed), *keys]
    mixing = _Hash(0x43B0D7E5, 0x931E8875)
    pool = [mixing(words) for words in entropy[:_POOL]]
    for source in range(_POOL):
        for into in range(_POOL):
            if into != source:
                pool[into] = _mix(pool[into], mixing(pool[source]))
    for words in entropy[_POOL:]:
        pool = [_mix(word, mixing(words)) for word in pool]
    drawing_out = _Hash(0x8B51F9DD, 0x58F38DED)
    words = np.stack([drawing_out(pool[number % _POOL]) for number in range(8)], axis=-1)
    return words.astype("<u4").view("<u8").astype(np.uint64)


@contextmanager
def drawing() -> Iterator[Callable[[], bool]]:
    """Watch the streams created in the block; yield a function: has any of them been drawn from?

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
    """The streams of many entities for one purpose, each created when it is first needed.

    Args:
        streams: the streams of the seed.
        purpose: the purpose of these.
        count: the number of entities.

    Attributes:
        drawn: whether `StreamGroup.addresses` has been called.
    """

    def __init__(self, streams: Streams, purpose: str, count: int) -> None:
        self._streams = streams
        self._purpose = purpose
        self._made: dict[int, np.random.Generator] = {}
        self._addresses = np.zeros(count, np.int64)
        self.drawn = False

    def of(self, number: int) -> np.random.Generator:
        """Return the stream of an entity."""
        stream = self._made.get(number)
        if stream is None:
            stream = self._made[number] = self._streams(self._purpose, number)
        return stream

    def of_many(self, numbers: Sequence[int]) -> list[np.random.Generator]:
        """Return the streams of some entities."""
        streams = self._made
        new = [number for number in numbers if number not in streams]
        streams.update(zip(new, self._streams.of_entities(self._purpose, new), strict=True))
        return [streams[number] for number in numbers]

    def addresses(
        self, numbers: NDArray[np.int64], address: Callable[[np.random.Generator], int]
    ) -> NDArray[np.int64]:
        """Return the addresses of some streams; each is looked up once; see `StreamGroup`."""
        self.drawn = True
        new = numbers[self._addresses[numbers] == 0]
        self._addresses[new] = [address(stream) for stream in self.of_many(new.tolist())]
        return self._addresses[numbers]


class StreamGroup(NamedTuple):
    """The streams of some entities, for code that draws from all of them at once.

    Attributes:
        streams: the streams of all entities.
        numbers: the numbers of these entities, shape (n,).
    """

    streams: EntityStreams
    numbers: NDArray[np.int64]

    def addresses(self, address: Callable[[np.random.Generator], int]) -> NDArray[np.int64]:
        """Return the address of each stream's bit generator, shape (n,), to draw from it.

        Args:
            address: returns the address of a stream's bit generator.
        """
        return self.streams.addresses(self.numbers, address)
