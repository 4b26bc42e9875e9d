"""The functions exp and log(1 + x) on the ranges that losses need, in plain arithmetic.

A call of the C library takes one number, and keeps the compiler from computing several at once. The
functions here have neither branches nor calls, so that a loop over them is vectorised. Each product
and sum is rounded by itself in the order in which it is written: the results are the same on any
processor, and those of Python.
"""

import math
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from fedsim.problems.evaluators.compiled.compiler import rounded

_PER_LN2: Final = 1.4426950408889634
"""1/ln 2."""

_LN2_HIGH: Final = 0.6931471803691238
"""The leading 32 bits of ln 2: its products with whole numbers below 2^21 are exact."""

_LN2_LOW: Final = 1.9082149292705877e-10
"""The rest of ln 2."""

_SHIFT: Final = 1.5 * 2.0**52
"""A sum of this and a small number is rounded to a whole one, which its last bits then hold."""

_LOWEST: Final = -708.0
"""Where exp is still a normal number; it becomes 0 below."""


def _power_of_two(shifted: float) -> float:
    """Return 2^n for `shifted` = `_SHIFT` + n, with n from -1022 to 1023."""
    return math.ldexp(1.0, int(shifted - _SHIFT)) if math.isfinite(shifted) else math.nan


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _exponent_bits(_: Any, shifted: Any) -> Any:
    """Return 2^n: the last bits of `shifted` moved to where a number has its exponent."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        whole = ir.IntType(64)
        biased = builder.add(builder.bitcast(arguments[0], whole), whole(1023))
        return builder.bitcast(builder.shl(biased, whole(52)), ir.DoubleType())

    return types.float64(shifted), generate


@overload(_power_of_two, strict=False, jit_options={"forceinline": True})  # type: ignore[untyped-decorator]
def _choose_power(_: Any) -> Any:
    return lambda shifted: _exponent_bits(shifted)  # noqa: PLW0108 - what Numba compiles


@rounded
def exponential(x: float) -> float:
    """Return exp(x) for x <= 0, to within 1.25 units in the last place; 0 below -708.

    With x = n ln 2 + r and |r| <= ln(2)/2 it is 2^n exp(r), and exp(r) = 1 + r + r^2 p(r), where p
    interpolates at the zeros of a Chebyshev polynomial and is off by 2e-17.
    """
    # Rounds x / ln 2 to a whole number without a branch.
    shifted = x * _PER_LN2 + _SHIFT
    n = shifted - _SHIFT
    # The subtraction is exact in two parts, so that r keeps full precision.
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = 2.510038549551032e-08
    p = p * r + 2.7620088445409746e-07
    p = p * r + 2.7557268459997064e-06
    p = p * r + 2.4801521295954376e-05
    p = p * r + 0.00019841269863053618
    p = p * r + 0.0013888888917213717
    p = p * r + 0.008333333333330062
    p = p * r + 0.04166666666662413
    p = p * r + 0.16666666666666669
    p = p * r + 0.5
    # Below `_LOWEST` the exponent bits wrap around, and the product is of no use: the next line
    # replaces it. A NaN stays one, through r.
    result = (1.0 + (r + r * r * p)) * _power_of_two(shifted)
    return 0.0 if x < _LOWEST else result


@rounded
def logarithm(x: float) -> float:
    """Return log(1 + x) for 0 <= x <= 1, to within 1.5 units in the last place.

    With s = x/(2 + x) it is 2 artanh(s) = 2 s + 2 s^3 q(s^2), where q interpolates likewise and
    s^2 q is off by 1e-17. And 2 s = x - s x, of which x is exact.
    """
    s = x / (2.0 + x)
    z = s * s
    q = 0.08082022805971766
    q = q * z + 0.04400369243072337
    q = q * z + 0.06000536404795356
    q = q * z + 0.06657072104827468
    q = q * z + 0.07692785032479312
    q = q * z + 0.09090894718066429
    q = q * z + 0.11111111358713932
    q = q * z + 0.1428571428355438
    q = q * z + 0.20000000000007292
    q = q * z + 0.3333333333333333
    return x - s * (x - (z + z) * q)


@rounded
def sigmoid(u: float) -> float:
    """Return 1/(1 + exp(-u)) without overflow."""
    u = np.float64(u)
    e = exponential(-abs(u))
    return (1.0 if u >= 0 else e) / (1.0 + e)


@rounded
def softplus(u: float) -> float:
    """Return log(1 + exp(u)) without overflow, and without cancellation for u far below 0."""
    u = np.float64(u)
    # log(1 + e^u) = max(u, 0) + log(1 + e^-|u|).
    return (u if u >= 0 else 0.0) + logarithm(exponential(-abs(u)))
