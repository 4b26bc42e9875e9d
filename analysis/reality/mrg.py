"""The random numbers of ns-3, so that a model of fedsim loses the packets that ns-3 has lost.

MRG32k3a (L'Ecuyer, 1999), in streams of 2^127 numbers and runs of 2^76 (L'Ecuyer, Simard, Chen and
Kelton, 2002), all from the seed 1, as ns-3 has it.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

FIRST, SECOND = 2**32 - 209, 2**32 - 22853
"""The moduli of the two parts."""

STREAM, RUN = 127, 76
"""How far streams and runs are apart, in powers of two."""

PER_NODE = 9
"""The streams that ns-3's protocols take for each node before the losses' one."""

Matrix = NDArray[np.object_]
"""Of integers without a bound."""

_STEPS = (
    (np.array([[0, 1, 0], [0, 0, 1], [-810728, 1403580, 0]], object), FIRST),
    (np.array([[0, 1, 0], [0, 0, 1], [-1370589, 0, 527612]], object), SECOND),
)


def _power(matrix: Matrix, times: int, modulus: int) -> Matrix:
    found: Matrix = np.eye(3, dtype=int).astype(object)
    while times:
        if times & 1:
            found = found @ matrix % modulus
        matrix = matrix @ matrix % modulus
        times >>= 1
    return found


@cache
def _jumps(power: int) -> tuple[Matrix, Matrix]:
    """Return the matrices of as many steps as a power of two."""
    first, second = [_power(matrix, 2**power, modulus) for matrix, modulus in _STEPS]
    return first, second


def numbers(stream: int, run: int, seed: int = 1) -> Iterator[float]:
    """Yield the numbers of a stream in a run, uniform between 0 and 1.

    Those of L'Ecuyer's own program begin so:

    >>> drawn = numbers(0, 0, seed=12345)
    >>> [f"{next(drawn):.6f}" for _ in range(2)]
    ['0.127011', '0.318528']
    """
    starts = list[Any]()
    for part, (_, modulus) in enumerate(_STEPS):
        start: Matrix = np.array([seed] * 3, object)
        for power, times in ((STREAM, stream), (RUN, run)):
            start = _power(_jumps(power)[part], times, modulus) @ start % modulus
        starts.append(start.tolist())
    (x0, x1, x2), (y0, y1, y2) = starts
    while True:
        x0, x1, x2 = x1, x2, (1403580 * x1 - 810728 * x0) % FIRST
        y0, y1, y2 = y1, y2, (527612 * y2 - 1370589 * y0) % SECOND
        yield ((x2 - y2 - 1) % FIRST + 1) / (FIRST + 1)


class SameLosses:
    """Packets are lost that ns-3 loses, as far as they come in the same order.

    Args:
        share: of packets that get lost.
        nodes: of the network.
        seed: of the run, as transfers.cc takes it.
    """

    def __init__(self, share: float, nodes: int, seed: int) -> None:
        self.mean = share
        self._drawn = numbers(PER_NODE * nodes, 1 + seed)
        self._places = list[int]()

    def losses(self, count: int) -> int:
        """Return how many of some packets get lost."""
        self._places = [n for n in range(count) if next(self._drawn) < self.mean]
        return len(self._places)

    def choice(self, count: int, lost: int, *, replace: bool) -> NDArray[np.int64]:
        """Return which ones these were, as a generator draws them."""
        return np.array(self._places)
