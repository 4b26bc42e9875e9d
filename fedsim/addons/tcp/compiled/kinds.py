"""Types of kernels: the two views of a buffer, its records, and a train."""

from collections.abc import MutableSequence
from typing import Any, NamedTuple

Integers = MutableSequence[int]
Reals = MutableSequence[float]
Record = Any


class Train(NamedTuple):
    """Segments that are sent one after the other: see `SegmentTrain`.

    Attributes:
        number: the number of the first segment.
        segments: how many there are.
        bits: the size of a segment.
        sent: the time at which the first segment was sent, s.
        pace: the time between two segments as they were sent, s.
        first, last: the times at which the first and the last segment arrive, s.
    """

    number: int
    segments: int
    bits: float
    sent: float
    pace: float
    first: float
    last: float
