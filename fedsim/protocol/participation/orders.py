"""Orders of clients, of which a round of a large fleet looks at the first few only."""

from collections.abc import Iterable, Iterator

import numpy as np

from fedsim.ports import Array

WHOLE = 10_000
"""Of up to so many clients a whole permutation is drawn: it takes 0.1 ms."""

_FIRST = 1_024
"""So many places are worked out at first, and eight times as many then."""


def permutation(clients: int, rng: np.random.Generator) -> Iterable[int]:
    """Return so many clients in a random order.

    How far it is looked at changes no later draw from the same generator.
    """
    if clients > WHOLE:
        return _shuffled(clients, rng.spawn(1)[0])
    order: Iterable[int] = rng.permutation(clients)
    return order


def _shuffled(clients: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield clients in a random order, drawn as far as it is looked at.

    It is Fisher and Yates' shuffle, which holds only what it has moved.
    """
    moved: dict[int, int] = {}
    for begin, end in _stretches(clients):
        places = np.arange(begin, end)
        for place, other in zip(
            range(begin, end), rng.integers(places, clients).tolist(), strict=True
        ):
            yield moved.get(other, other)
            moved[other] = moved.pop(place, place)


def ascending(keys: Array) -> Iterator[int]:
    """Yield the places of keys from the least on, equal ones in order, sorted as far as looked at.

    >>> list(ascending(np.array([3.0, 1.0, 2.0, 1.0])))
    [1, 3, 2, 0]
    """
    told = 0
    for _, end in _stretches(len(keys)):
        least = np.flatnonzero(keys <= np.partition(keys, end - 1)[end - 1])
        order = least[np.argsort(keys[least], kind="stable")]
        yield from order[told:].tolist()
        told = len(order)


def _stretches(count: int) -> Iterator[tuple[int, int]]:
    """Yield where stretches of so many places begin and end, each longer than the last one."""
    begin, end = 0, min(_FIRST, count)
    while begin < end:
        yield begin, end
        begin, end = end, min(8 * end, count)
