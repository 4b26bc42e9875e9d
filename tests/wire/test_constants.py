"""Every constant, numerically: means, variances and contractions, at vectors that are hard."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from fedsim.core.ports import Array
from fedsim.wire import (
    E3M0,
    QSGD,
    Compressor,
    Contract,
    Dithered,
    HardThreshold,
    Natural,
    PowerSGD,
    RandK,
    ScaledSign,
    TernGrad,
    TopK,
    ValueFormat,
)
from tests.tiers import every
from tests.wire.compressors import ALL, F64, hard_vectors, of_class, vectors

DRAWS, SIGMAS = 1000, 6.0
NORM_ROUNDING = 2.0**-20
"""Norms are rounded up to float32, by less than 2^-23. What that adds to a level is taken off by
one draw in millions, so a mean over fewer is as much too large, and so is a mean square."""
VECTORS = hard_vectors(20) | {"one coordinate": np.array([-0.7])}
hard = every("vector", VECTORS.values())


class Grid:
    """Draws that go through (0, 1) in equal steps, one for all coordinates at a time.

    Where a coordinate depends on its own draw alone, a mean over all steps is an integral over
    that draw, off by at most what the draw changes, over the number of steps.
    """

    def __init__(self) -> None:
        self._step = 0

    def random(self, size: int) -> Array:
        self._step += 1
        return np.full(size, (self._step - 0.5) / DRAWS)


def arrivals(compressor: Compressor, vector: Array) -> tuple[Array, Array]:
    """Return what arrives of many draws, shape (draws, d), and what their mean may be off by."""
    by_coordinate = not isinstance(compressor, RandK | PowerSGD)
    rng: Any = Grid() if by_coordinate else np.random.default_rng(1)
    arrived = np.array([compressor.compress(vector, rng, F64).values for _ in range(DRAWS)])
    if by_coordinate:
        return arrived, unit(compressor, vector) / DRAWS
    return arrived, SIGMAS * arrived.std(axis=0, ddof=1) / math.sqrt(DRAWS)


def unit(compressor: Compressor, vector: Array) -> Array:
    """Return how far apart the two values are that a coordinate may arrive as, at most."""
    if isinstance(compressor, Natural):
        return np.abs(vector)
    assert isinstance(compressor, QSGD | TernGrad | Dithered)
    norm = compressor.norm(vector) * (1 + NORM_ROUNDING)
    return np.full(vector.size, norm / compressor.steps(vector.size))


def mean_error(compressor: Compressor, vector: Array, target: Array) -> tuple[float, float]:
    """Return the mean of |C(v) - target|^2, and what it may be off by."""
    arrived, _ = arrivals(compressor, vector)
    return error_of(compressor, vector, target, arrived)


def error_of(
    compressor: Compressor, vector: Array, target: Array, arrived: Array
) -> tuple[float, float]:
    """Return the mean of |C(v) - target|^2 over what arrived, and what it may be off by."""
    errors = square(arrived - target)
    doubt = SIGMAS * errors.std(ddof=1) / math.sqrt(DRAWS)
    if not isinstance(compressor, RandK | PowerSGD):
        apart = unit(compressor, vector)
        farthest = np.abs(arrived - target).max(axis=0) + apart
        doubt = float((2 * farthest * apart).sum()) / DRAWS
    return float(errors.mean()), doubt + 1e-12 * float(square(vector))


def square(vectors: Array) -> Array:
    """Return the squared norm of each row."""
    squares: Array = np.einsum("...i,...i", vectors, vectors)
    return squares


@hard
@every("name", of_class("unbiased"))
def test_the_unbiased_are_unbiased_and_within_omega(name: str, vector: Array) -> None:
    compressor = ALL[name]
    arrived, doubt = arrivals(compressor, vector)
    rounding = NORM_ROUNDING * np.linalg.norm(vector)
    assert (np.abs(arrived.mean(axis=0) - vector) <= doubt + rounding).all()
    error, error_doubt = error_of(compressor, vector, vector, arrived)
    own = compressor.contract_for(vector).constant
    assert own <= compressor.contract(vector.size).constant + 1e-12
    assert error <= (own + NORM_ROUNDING) * square(vector) + error_doubt


@pytest.mark.slow
@pytest.mark.parametrize("case", ["normal", "dominated", "between powers", "one coordinate"])
@pytest.mark.parametrize("name", of_class("unbiased"))
def test_the_unbiased_are_contractive_once_they_are_shrunk(name: str, case: str) -> None:
    vector = VECTORS[case]
    contract = ALL[name].contract(vector.size)
    assert contract.delta == contract.shrink == 1 / (1 + contract.constant)
    error, doubt = mean_error(ALL[name], contract.shrink * vector, vector)
    assert error <= (1 - contract.delta + NORM_ROUNDING) * square(vector) + doubt


@pytest.mark.slow
@hard
@every("compressor", [RandK(count=1), RandK(count=20), TernGrad()])
def test_these_attain_their_omega_at_every_vector(compressor: Compressor, vector: Array) -> None:
    error, doubt = mean_error(compressor, vector, vector)
    omega = compressor.contract_for(vector).constant
    assert abs(error - omega * square(vector)) <= doubt + NORM_ROUNDING * square(vector)


@every("name", ["natural", "terngrad", "dithered 2", "dithered 5"])
def test_these_attain_their_omega_at_the_worst_vector(name: str) -> None:
    dimension, compressor = 36, ALL[name]
    vector = np.full(dimension, 4 / 3)
    if isinstance(compressor, Dithered | TernGrad):
        steps = compressor.steps(dimension)
        vector[:] = 1 / (1 + math.sqrt(1 + (dimension - 1) / steps**2)) / steps
        vector[0] = 1.0
    error, doubt = mean_error(compressor, vector, vector)
    assert abs(error - compressor.contract(dimension).constant * square(vector)) <= doubt
    assert doubt < 0.05 * error


@given(vectors())
@pytest.mark.parametrize("name", ["top 2", "top 30 %", "sign", "threshold", "identity", "e3m0"])
def test_the_deterministic_are_within_their_delta(name: str, vector: Array) -> None:
    compressor = ALL[name]
    error = square(compressor.compress(vector, np.random.default_rng(0), F64).values - vector)
    own, worst = compressor.contract_for(vector), compressor.contract(vector.size)
    assert own.delta >= worst.delta - 1e-12
    assert error <= (1 - own.delta) * square(vector) + 1e-9 * square(vector)
    if worst.kind == "absolute":
        assert error <= worst.constant * (1 + 1e-12)


@every(("compressor", "vector"), [
    (TopK(count=3), np.full(10, -2.0)),
    (TopK(fraction=0.5), np.ones(10)),
    (ScaledSign(), np.array([0, 0, 3.0, 0])),
    (E3M0(), np.array([1.0, *9 * [-0.75]])),
    (E3M0(), np.array([1.0, *(2**17 - 1) * [np.nextafter(2.0**-7, 0)]])),
])  # fmt: skip
def test_these_attain_their_delta(compressor: Compressor, vector: Array) -> None:
    values = compressor.compress(vector, np.random.default_rng(0), F64).values
    delta = compressor.contract(vector.size).delta
    assert square(values - vector) == pytest.approx((1 - delta) * square(vector))


def test_the_scaled_sign_attains_the_delta_of_its_vector() -> None:
    vector = np.random.default_rng(0).standard_normal(50)
    values = ScaledSign().compress(vector, np.random.default_rng(0), F64).values
    delta = ScaledSign().contract_for(vector).delta
    assert 0.4 < delta < 0.9  # 2/pi for a normal vector
    assert square(values - vector) == pytest.approx((1 - delta) * square(vector))


def test_a_threshold_leaves_almost_its_bound() -> None:
    compressor, vector = HardThreshold(threshold=0.5), np.full(20, np.nextafter(0.5, 0))
    assert compressor.contract_for(vector).delta == 0
    assert square(vector) == pytest.approx(compressor.contract(20).constant)


def spectrum(values: list[float]) -> Array:
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.standard_normal((6, 6))).Q for _ in range(2))
    matrix: Array = left * np.array(values) @ right.T
    return matrix.ravel()


@every("rank", [1, 2, 5, 6])
@every("singular", [[1] * 6, [6, 5, 4, 3, 2, 1], [1, 0, 0, 0, 0, 0], [9] + [1] * 5])
def test_factors_from_a_random_start_contract(rank: int, singular: list[float]) -> None:
    vector, compressor = spectrum(singular), PowerSGD(rank=rank)
    error, doubt = mean_error(compressor, vector, vector)
    delta = compressor.contract(36).delta
    assert delta == rank / 6
    rounding = 1e-12 * square(vector)
    assert error <= (1 - delta) * square(vector) + doubt + rounding
    if len(set(singular)) == 1:
        assert abs(error - (1 - delta) * square(vector)) <= rounding


def two_valued(low: float, high: float, dimension: int) -> Array:
    """Return a vector of two magnitudes with a mean square of 1."""
    share = (1 - low**2) / (high**2 - low**2)
    return np.where(np.arange(dimension) < share * dimension, high, low)


def level_vectors(dimension: int) -> dict[str, Array]:
    """Return vectors whose levels are spread in many ways."""
    rng = np.random.default_rng(0)
    two = {
        f"{low} and {high}": two_valued(low, high, dimension)
        for low in (0.0, 0.25, 0.5, 0.75)
        for high in (1.25, 1.5, 2.0, 4.0)
    }
    return two | {
        "normal": rng.standard_normal(dimension),
        "laplace": rng.laplace(size=dimension),
        "uniform": rng.uniform(-1, 1, dimension),
        "constant": np.ones(dimension),
        "heavy": rng.standard_cauchy(dimension),
    }


@every("name", level_vectors(1))
@every("dimension", [1_000, 20_000])
def test_qsgd_with_sqrt_d_levels_costs_at_most_2_8_bits_a_coordinate(
    name: str, dimension: int
) -> None:
    rng = np.random.default_rng(0)
    vector = level_vectors(dimension)[name]
    for order in (vector, rng.permutation(vector) * rng.choice([-1, 1], dimension)):
        payload = QSGD().compress(order, rng, ValueFormat.FLOAT64)
        assert payload.steps == math.ceil(math.sqrt(dimension))
        assert payload.bits <= 2.8 * dimension + 32  # sizes and the kind included


def test_one_level_of_qsgd_costs_far_less() -> None:
    rng = np.random.default_rng(0)
    payload = QSGD(levels=1).compress(rng.standard_normal(10_000), rng, F64)
    # About sqrt(d) coordinates, each with log2 of the gap of sqrt(d) and a sign.
    assert 0.5 < payload.indices.size / 100 < 1.0
    assert payload.bits < 100 * (math.log2(100) + 4)


def test_qsgd_has_the_smaller_of_the_two_constants_of_its_lemma() -> None:
    # Alistarh et al. 2017, lemma 3.1: min(d/s^2, sqrt(d)/s).
    assert QSGD(levels=4).contract(4) == Contract("unbiased", 4 / 16)
    assert QSGD(levels=1).contract(4) == Contract("unbiased", 2.0)


def test_a_threshold_whose_square_is_too_large_promises_nothing() -> None:
    assert HardThreshold(threshold=1e200).contract(4) == Contract("absolute", math.inf)
