"""Concerns: conditions of a paper's theory that do not hold, and values for which they hold.

A recommendation is part of the text, as "give `key: value`", to be copied into the block. Its
figures are rounded to the side on which the condition holds.
"""

from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import NamedTuple

EXCESS = 1e-9
"""The relative amount by which a value may exceed a bound: the recommended bound is rounded."""

_DIGITS = 4


class Concern(NamedTuple):
    """A condition of a paper's theory that does not hold.

    Attributes:
        key: the key of the parameter in the `algorithm` block.
        text: the message, with the value, the bound and the source of the condition.
    """

    key: str
    text: str


def at_most(bound: float) -> str:
    """Return a bound with four digits, rounded down.

    >>> at_most(0.123456), at_most(0.5), at_most(1.99999e-9)
    ('0.1234', '0.5', '1.999e-9')
    """
    return _round(bound, ROUND_FLOOR)


def at_least(bound: float) -> str:
    """Return a bound with four digits, rounded up.

    >>> at_least(0.123456), at_least(3.0)
    ('0.1235', '3')
    """
    return _round(bound, ROUND_CEILING)


def _round(bound: float, rounding: str) -> str:
    context = Context(prec=_DIGITS, rounding=rounding)
    return f"{context.create_decimal(bound).normalize():g}"


def concern(key: str, text: str, value: str) -> Concern:
    """Return a concern that ends with the recommended value."""
    return Concern(key, f"{text}; give `{key}: {value}`")


def long_step(
    step: float, curvature: float, text: Callable[[float], str], value: str = ""
) -> Iterator[Concern]:
    """Yield a concern if a step is longer than 1/curvature.

    Args:
        step: the step size.
        curvature: 1 over the largest admissible step; 0 if every step is admissible.
        text: returns the sentence for a bound.
        value: the recommended value, such as "1/L"; empty for the bound itself.
    """
    if step * curvature > 1 + EXCESS:
        bound = 1 / curvature
        yield concern("step_size", text(bound), value or at_most(bound))
