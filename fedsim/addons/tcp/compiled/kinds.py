"""Types of kernels: the two views of a buffer, and its records."""

from collections.abc import MutableSequence
from typing import Any

Integers = MutableSequence[int]
Reals = MutableSequence[float]
Record = Any
