"""Maximum likelihood against closed forms of linear models, and the coverage of its intervals."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from fedsim.addons.calibration.likelihood import LEVEL, Maximum, fit_speed, maximise
from fedsim.core.ports import Array
from tests.tiers import every

FREE = (np.array([-50.0, -50.0]), np.array([50.0, 50.0]))


def linear(X: Array, y: Array, kinds: NDArray[np.intp] | None = None) -> Maximum:
    """Fit y = X b, with one standard deviation for each kind."""
    given = np.zeros(len(y), np.intp) if kinds is None else kinds
    return maximise(lambda b: X @ b - y, lambda _: X, [np.zeros(X.shape[1])], FREE, given)


def test_a_linear_model_has_the_errors_of_ordinary_least_squares() -> None:
    rng = np.random.default_rng(1)
    n = 7
    X = np.column_stack([np.ones(n), 1e9 * rng.normal(size=n)])  # of very different sizes
    y = X @ [2.0, 1e-9] + 0.3 * rng.normal(size=n)
    found = linear(X, y)
    solution, squares, *_ = np.linalg.lstsq(X, y, rcond=None)
    sigma = np.sqrt(squares[0] / (n - 2))
    errors = sigma * np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
    assert found.x == pytest.approx(solution, rel=1e-6)
    assert found.sigmas == pytest.approx([sigma], rel=1e-2)  # turns end at 1 %
    assert found.errors == pytest.approx(errors, rel=1e-2)
    assert found.quantiles == pytest.approx(stats.t.ppf((1 + LEVEL) / 2, n - 2), rel=1e-3)
    assert found.unknown == ()


def test_a_noisy_kind_counts_for_less() -> None:
    rng = np.random.default_rng(2)
    kinds = np.repeat([0, 1], 400)
    sigma = np.where(kinds, 3.0, 0.1)
    X = np.column_stack([np.ones(800), rng.normal(size=800)])
    y = X @ [1.0, -2.0] + sigma * rng.normal(size=800)
    found = linear(X, y, kinds)
    assert found.sigmas == pytest.approx([0.1, 3.0], rel=0.1)
    weights = 1 / sigma
    known, *_ = np.linalg.lstsq(X * weights[:, None], y * weights, rcond=None)
    assert found.x == pytest.approx(known, abs=2e-3)


@every(
    ("columns", "unknown"),
    [([[1, 1]], (0, 1)), ([[1, 0]], (1,)), ([[0, 1]], (0,)), ([[1, 0], [0, 1]], ())],
)
def test_parameters_without_an_effect_of_their_own_are_named(
    columns: list[list[float]], unknown: tuple[int, ...]
) -> None:
    X = np.tile(np.array(columns, float), (6, 1))
    found = linear(X, np.linspace(0.0, 3.0, len(X)))
    assert found.unknown == unknown
    assert np.isinf(found.errors).nonzero()[0].tolist() == [*unknown]


def test_of_several_starts_that_which_soon_fits_best_is_taken() -> None:
    def residuals(b: Array) -> Array:
        return np.array([np.cos(b[0]) + b[0] / 10 + 2.0, b[1]])

    def jacobian(b: Array) -> Array:
        return np.array([[-np.sin(b[0]) + 0.1, 0.0], [0.0, 1.0]])

    starts = [np.array([9.0, 0.0]), np.array([-9.0, 0.0])]
    kinds = np.zeros(2, np.intp)
    best = min(
        optimize.least_squares(residuals, start, jac=jacobian, bounds=FREE).cost for start in starts
    )
    for order in (starts, starts[::-1]):
        found = maximise(residuals, jacobian, order, FREE, kinds)
        assert 0.5 * (residuals(found.x) ** 2).sum() == pytest.approx(best, rel=1e-6)


def test_a_speed_is_a_mean_of_logarithms_with_the_intervals_of_t_and_chi_squared() -> None:
    amounts, seconds = np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.1, 1.7, 4.4, 3.1])
    logs, n = np.log(amounts / seconds), 4
    found = fit_speed(amounts, seconds)
    spread = logs.std(ddof=1)
    half = stats.t.ppf(0.95, n - 1) * spread / np.sqrt(n)
    ends = logs.mean() + np.array([0.0, -half, half])
    assert found.speed == pytest.approx(np.exp(ends))
    chi = stats.chi2.ppf([0.95, 0.05], n - 1)
    assert found.sigma == pytest.approx([spread, *(spread * np.sqrt((n - 1) / chi))])
    assert found.sigma[1] < found.sigma[0] < found.sigma[2]
