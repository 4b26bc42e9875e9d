"""Functions of JAX, as they are passed in from Python."""

from collections.abc import Callable
from typing import Any, NamedTuple


class PassedFunctions(NamedTuple):
    """Functions of JAX that were passed in from Python.

    Attributes:
        init: a function of a random key; it returns the initial parameters, a tree of arrays.
        apply: a function of parameters and inputs (b, ...); it returns outputs (b, C) or (b,).
        loss: of outputs and targets, each row's, shape (b,); None for that of the criterion.
    """

    init: Callable[[Any], Any]
    apply: Callable[[Any, Any], Any]
    loss: Callable[[Any, Any], Any] | None = None
