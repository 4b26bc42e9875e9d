"""How long this machine takes for a round: the mean of the rounds after the first one.

The first one is left out, in which kernels are compiled and files are read; and what is looked up
between two rounds, as the run itself does without it. A round takes no longer than the processor
was at work for it, on however many threads: what other programs take from it is not counted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time

from fedsim.errors import RunError

_FEWEST = 2  # rounds that are timed in any case


class Enough(RunError):
    """Rounds have been timed for as long as was wanted."""


class Pace:
    """Keeps the time between the marks that ends of rounds are.

    Args:
        wanted: seconds for which rounds are timed; two at the least, if there are so many.
    """

    def __init__(self, wanted: float) -> None:
        self._wanted = wanted
        self._marks = 0
        self._left = (0.0, 0.0)  # when the clocks of the wall and of the processor went on
        self._first, self._later = 0.0, 0.0  # seconds of the first round, and of all others

    @property
    def seconds(self) -> float:
        """Of a round; 0 where none has ended."""
        rounds = self._marks - 1
        return self._later / (rounds - 1) if rounds > 1 else self._first

    @contextmanager
    def round(self) -> Iterator[None]:
        """Note the end of a round, or the start of the first; what is done within takes no time.

        Raises:
            Enough: rounds have been timed for as long as is wanted.
        """
        self._note()
        yield
        if self._marks > _FEWEST and self._first + self._later > self._wanted:
            raise Enough("timed for as long as is wanted")
        self._left = perf_counter(), process_time()

    def _note(self) -> None:
        wall, worked = perf_counter(), process_time()
        taken = min(wall - self._left[0], worked - self._left[1])
        if self._marks == 1:
            self._first = taken
        elif self._marks > 1:
            self._later += taken
        self._marks += 1
