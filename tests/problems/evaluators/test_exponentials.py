"""The functions exp and log(1 + x) of compiled kernels: their stated error, and their bits."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from math import inf, isnan, nan, ulp
from typing import Any

import numba
import numpy as np
import pytest

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled import exponentials

exponential: Any = exponentials.exponential
logarithm: Any = exponentials.logarithm
sigmoid: Any = exponentials.sigmoid
softplus: Any = exponentials.softplus

MANY = 1000


def exact_exp(x: float) -> Decimal:
    return Decimal(x).exp()


def exact_log1p(x: float) -> Decimal:
    return (1 + Decimal(x)).ln()


def _below_zero() -> Array:
    """Return numbers of all sizes, and dense ones around multiples of ln(2)/2, where n changes."""
    rng = np.random.default_rng(0)
    edges = -np.log(2) / 2 * rng.integers(0, 2000, MANY) * (1 + 1e-15 * rng.normal(size=MANY))
    sizes = -np.exp(rng.uniform(-40, np.log(708), MANY))
    return np.concatenate([edges, sizes, np.linspace(-1, 0, MANY), [0.0, -0.0, -708.0]])


def _up_to_one() -> Array:
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(-80, 0, MANY))
    return np.concatenate([sizes, np.linspace(0, 1, MANY), [0.0, 1.0]])


@pytest.mark.parametrize(
    ("function", "exact", "points", "bound"),
    [
        (exponential, exact_exp, _below_zero(), 1.25),
        (logarithm, exact_log1p, _up_to_one(), 1.5),
    ],
    ids=["exp", "log1p"],
)
def test_the_error_is_the_stated_one(
    function: Any, exact: Callable[[float], Decimal], points: Array, bound: float
) -> None:
    """Against decimal arithmetic, in units of the result's last place."""
    with localcontext(prec=100):
        for x in points.tolist():
            wanted, found = exact(x), function.py_func(x)
            assert abs(Decimal(found) - wanted) <= Decimal(bound * ulp(found)), x


@pytest.mark.parametrize("function", [exponential, logarithm, sigmoid, softplus])
def test_a_vectorised_loop_has_the_bits_of_python(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hence of any processor: sums are neither reordered nor fused with products."""

    def fill(x: Array, out: Array) -> None:
        for i in range(len(x)):
            out[i] = function(x[i])

    points = _up_to_one() if function is logarithm else _below_zero()
    if function in (sigmoid, softplus):
        points = np.concatenate([points, -points])
    compiled = np.empty(len(points))
    numba.njit(fill, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")(points, compiled)
    for part in (exponential, logarithm):  # which the others call by name
        monkeypatch.setattr(exponentials, part.__name__, part.py_func)
    expected = [function.py_func(x) for x in points.tolist()]
    assert compiled.tobytes() == np.array(expected).tobytes()


def test_limits() -> None:
    assert [exponential.py_func(x) for x in (0.0, -708.1, -inf)] == [1.0, 0.0, 0.0]
    assert all(isnan(each.py_func(nan)) for each in (exponential, logarithm))
