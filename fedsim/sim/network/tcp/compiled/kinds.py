"""Types of a buffer, as integers and as doubles: arrays, of which kernels see single numbers."""

from collections.abc import MutableSequence

Integers = MutableSequence[int]
Reals = MutableSequence[float]
