"""Laws of the world: plain functions on attributes, which Python and kernels execute.

Python calls a law on an object with slots, and a kernel calls the same function on a record whose
fields have the names of the slots. So both perform the same operations in the same order, and agree
to the last bit. The marks of this module only list functions, since most runs need no compiler;
`fedsim.sim.kernels` registers them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

LAWS: dict[Callable[..., Any], bool] = {}
"""All laws so far, each with whether it is inlined into its callers."""


def law(function: Function) -> Function:
    """Mark a function as a law."""
    LAWS[function] = False
    return function


def step(function: Function) -> Function:
    """Mark a function as a law of most events: kernels inline it, as a call would take longer."""
    LAWS[function] = True
    return function


def power(base: float, exponent: float) -> float:
    """Return a power, rounded as the power of C's library, compiled or not."""
    result: float = base**exponent
    return result
