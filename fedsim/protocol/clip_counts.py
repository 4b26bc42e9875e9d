"""Counts of the vectors that a clip has shortened, for the notes of a run."""

from collections import Counter
from math import ceil, exp, floor, isfinite, log, log10

import numpy as np

from fedsim.core.ports import Array
from fedsim.core.text import format_number

_ROUNDING = 1e-9
"""Relative length by which a vector that was clipped before may exceed the clip."""

_CLASSES = 100
"""Norms within 1 % of each other are counted together, so that long runs need no memory."""


class ClipCounts:
    """How many vectors of a run a clip has shortened, and how long these were.

    Args:
        clip: the largest norm.

    Attributes:
        clip: see the argument.
        vectors: the number of vectors.
        shortened: the number of those that were longer than the clip.
        largest: the largest finite norm of these; 0 without one.
    """

    def __init__(self, clip: float) -> None:
        self.clip = clip
        self.vectors = self.shortened = 0
        self.largest = 0.0
        self._classes = Counter[int]()

    def add(self, norms: Array | float) -> None:
        """Count vectors by their norms before they are clipped."""
        lengths = np.atleast_1d(norms)
        self.vectors += lengths.size
        for length in lengths[lengths > self.clip * (1 + _ROUNDING)].tolist():
            self.shortened += 1
            if isfinite(length):
                self.largest = max(self.largest, length)
                self._classes[round(_CLASSES * log(length))] += 1

    @property
    def share(self) -> float:
        """The share of vectors that were shortened; 0 without vectors."""
        return self.shortened / self.vectors if self.vectors else 0.0

    @property
    def median(self) -> float:
        """The median norm of the shortened vectors, within 1 %; 0 without one."""
        half, seen = self._classes.total() / 2, 0
        for number, count in sorted(self._classes.items()):
            seen += count
            if seen >= half:
                return exp(number / _CLASSES)
        return 0.0

    @property
    def sufficient(self) -> float:
        """The smallest number of two digits that is no less than the largest norm.

        >>> counts = ClipCounts(1.0)
        >>> counts.add(np.array([0.5, 7.31]))
        >>> counts.sufficient
        7.4
        """
        if not self.largest:
            return self.clip
        digits = 1 - floor(log10(self.largest))
        return round(ceil(self.largest * 10.0**digits) / 10.0**digits, max(digits, 0))

    def __str__(self) -> str:
        """Return how many vectors were shortened, and their norms before, for a sentence.

        >>> counts = ClipCounts(1.0)
        >>> counts.add(np.array([0.5, 4.0, 4.0, 8.0]))
        >>> str(counts)
        '1 shortened 75 % of 4 vectors (their norms: 4 in the median, 8 at most)'
        """
        share = 100 * self.share
        shown = "below 1" if share < 1 else str(int(share))
        norms = f"{format_number(self.median, '.2g')} in the median"
        return (
            f"{self.clip:g} shortened {shown} % of {self.vectors:,} vectors"
            f" (their norms: {norms}, {format_number(self.largest, '.2g')} at most)"
        )
