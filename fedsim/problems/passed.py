"""JAX functions, as they are passed in from Python."""

from collections.abc import Callable
from typing import Any, NamedTuple


class PassedFunctions(NamedTuple):
    """JAX functions passed in from Python.

    Attributes:
        init: maps a random key to the initial parameters, a tree of arrays.
        apply: maps parameters and inputs (b, ...) to outputs (b, C) or (b,).
        loss: maps outputs and targets to the loss of each row, shape (b,); None for the
            criterion's.
    """

    init: Callable[[Any], Any]
    apply: Callable[[Any, Any], Any]
    loss: Callable[[Any, Any], Any] | None = None
