"""Step sizes: numbers, or multiples of what the smoothness of a problem allows."""

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from fedsim.errors import DataError, ParameterError

_FACTOR = r"(?P<factor>([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_RELATIVE = re.compile(rf"^\s*{_FACTOR}\s*/\s*(?P<constant>L|L_max)\s*$")


def _step_size(value: object) -> object:
    """Accept a positive number, or a multiple of 1/L or 1/L_max as text."""
    if isinstance(value, str):
        match = _RELATIVE.match(value)
        if match and 0 < float(match["factor"]) < float("inf"):
            return value.strip()
    elif (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    ):
        return float(value)
    raise ValueError(
        'a step size is a number above 0, or a multiple of 1/L or 1/L_max as text, such as "1/L" '
        'or "0.5/L_max"'
    )


StepSize = Annotated[
    float | str,
    BeforeValidator(_step_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": _RELATIVE.pattern},
            ]
        }
    ),
]
"""A step size: a positive number, "c/L" with L the smoothness constant of the whole objective, or
"c/L_max" with the largest of those of the clients' losses."""


def resolved(
    step_size: float | str, constants: Mapping[str, Callable[[], float]], key: str = "step_size"
) -> float:
    """Return a step size as a number.

    Args:
        step_size: as `StepSize` has validated it.
        constants: what returns L and L_max, by these names; called only where it is asked for.
        key: of the step size within the `algorithm` block.

    Raises:
        ParameterError: there is no such constant, it is zero, or so small that the step has no end.
    """
    if not isinstance(step_size, str):
        return step_size
    match = _RELATIVE.match(step_size)
    assert match is not None, "validated by StepSize"  # noqa: S101
    factor, name = float(match["factor"]), match["constant"]
    try:
        constant = constants[name]()
    except DataError as error:
        raise ParameterError(key, f"got {step_size}, but {error}") from None
    if constant and isfinite(factor / constant):
        return factor / constant
    flat = "features that are zero, and no l2, make a flat loss" if not constant else "too small"
    raise ParameterError(
        key,
        f"got {step_size}, but the smoothness constant {name} is {constant:g} ({flat}); give the "
        "step size as a number",
    )
