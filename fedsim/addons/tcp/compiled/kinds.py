"""Types of the two views of a buffer: integers and doubles. Kernels access single numbers."""

from collections.abc import MutableSequence

Integers = MutableSequence[int]
Reals = MutableSequence[float]
