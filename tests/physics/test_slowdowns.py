"""Slowdowns follow their laws."""

import numpy as np
import pytest
from scipy.stats import expon, kstest, lognorm

from fedsim.physics.slowdowns import (
    LognormalSlowdown,
    NoSlowdown,
    ShiftedExponentialSlowdown,
    Slowdown,
)


def draws(law: Slowdown, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    return [law.draw(rng) for _ in range(5000)]


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.5])
def test_the_lognormal_has_median_one(sigma: float) -> None:
    factors = draws(LognormalSlowdown(sigma=sigma), 1)
    assert kstest(factors, lognorm(s=sigma, scale=1).cdf).pvalue > 0.01


@pytest.mark.parametrize(("shift", "rate"), [(0.0, 1.0), (1.0, 0.5), (0.7, 20.0)])
def test_a_task_of_nominal_time_d_takes_a_d_and_an_exponential(shift: float, rate: float) -> None:
    nominal = 3.0
    times = [
        nominal * factor for factor in draws(ShiftedExponentialSlowdown(shift=shift, rate=rate), 2)
    ]
    # P(T <= t) = 1 - exp(-(mu / D) (t - a D))
    assert kstest(times, expon(loc=shift * nominal, scale=nominal / rate).cdf).pvalue > 0.01


@pytest.mark.parametrize(
    "law",
    [LognormalSlowdown(sigma=1.0), NoSlowdown(), ShiftedExponentialSlowdown(shift=0.7, rate=5.0)],
)
def test_nothing_is_below_the_least(law: Slowdown) -> None:
    assert min(draws(law, 3)) >= law.least


def test_no_spread_is_no_slowdown() -> None:
    assert set(draws(NoSlowdown(), 4)) == {1.0} == {NoSlowdown().least}


@pytest.mark.parametrize("sigma", [-0.1, float("inf"), float("nan")])
def test_what_is_no_lognormal_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match=rf"sigma\n.*input_value={sigma}"):
        LognormalSlowdown(sigma=sigma)


@pytest.mark.parametrize(("shift", "rate"), [(-1.0, 1.0), (1.0, 0.0), (1.0, -2.0)])
def test_what_is_no_shifted_exponential_is_refused(shift: float, rate: float) -> None:
    with pytest.raises(ValueError, match=r"(shift|rate)\n.*input_value="):
        ShiftedExponentialSlowdown(shift=shift, rate=rate)
