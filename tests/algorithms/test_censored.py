"""Over an ideal network every method is the plain loop of its paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from fedsim.algorithms import CensoredHeavyBall, LazyGradient, ProblemInfo
from fedsim.algorithms.lag import DEPTH
from fedsim.core.ports import Array
from tests.algorithms import reference
from tests.algorithms.harness import Trajectory, trajectory
from tests.algorithms.reference import Gradients, logistic_gradient
from tests.tiers import every

ROUNDS, WORKERS = 40, 7


def logistic() -> tuple[dict[str, Any], Gradients, Array]:
    """Logistic regression on breast cancer, l2 once per worker; also each L_m."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X), 2.0 * y - 1.0
    parts = [*zip(np.array_split(X, WORKERS), np.array_split(y, WORKERS), strict=True)]
    smoothness = [np.linalg.norm(A, 2) ** 2 / 4 + 0.5 for A, _ in parts]
    spec = {
        "loss": {"kind": "logistic", "scale": "sum", "l2": 0.5, "labels": "plus-minus"},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "contiguous", "clients": WORKERS},
    }
    return spec, [logistic_gradient(A, b, 0.5) for A, b in parts], np.array(smoothness)


def lasso() -> tuple[dict[str, Any], Gradients, Array]:
    """Lasso by subgradient on diabetes, l1 once per worker; also each L_m."""
    X, y = load_diabetes(return_X_y=True)
    parts = [*zip(np.array_split(X, WORKERS), np.array_split(y, WORKERS), strict=True)]

    def gradient_of(A: Array, b: Array) -> Callable[[Array], Array]:
        return lambda w: A.T @ (A @ w - b) + 3.0 * np.sign(w)

    spec = {
        "loss": {"kind": "squared", "scale": "sum", "l1": 3.0},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "contiguous", "clients": WORKERS},
    }
    return (
        spec,
        [gradient_of(A, b) for A, b in parts],
        np.array([np.linalg.norm(A, 2) ** 2 for A, _ in parts]),
    )


PROBLEMS = {"logistic": logistic, "lasso": lasso}


def run(
    problem: dict[str, Any], algorithm: dict[str, Any], folder: Path, **more: Any
) -> Trajectory:
    """Run over an ideal network for ROUNDS rounds."""
    scenario = {
        "problem": problem,
        "algorithm": algorithm,
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
        **more,
    }
    return trajectory(scenario, folder)


def check_same(seen: Trajectory, expected: reference.Path) -> None:
    """Compare iterates to 1e-10 relative, transmissions exactly."""
    models, transmissions = expected
    size = np.linalg.norm(models, axis=1).max()
    assert np.abs(seen.models - models).max() <= 1e-10 * size
    assert seen.transmissions.tolist() == transmissions.tolist()


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(
    ("kind", "beta", "censor"),
    [("chb", 0.4, 0.1), ("hb", 0.4, 0.0), ("lag", 0.0, 0.1), ("gd", 0.0, 0.0), ("chb", 0.6, 0.5)],
)
def test_censored_methods_are_the_paper_s_loop(
    problem: str, kind: str, beta: float, censor: float, tmp_path: Path
) -> None:
    spec, gradients, smoothness = PROBLEMS[problem]()
    alpha = float(1 / smoothness.sum())
    algorithm: dict[str, Any] = {"kind": kind, "step_size": alpha}
    algorithm |= {"momentum": beta} if kind in {"chb", "hb"} else {}
    algorithm |= {"censor": censor} if kind in {"chb", "lag"} else {}
    seen = run(spec, algorithm, tmp_path)
    eps1 = censor / (alpha**2 * WORKERS**2)
    start = np.zeros(seen.models.shape[1])
    check_same(
        seen,
        reference.censored(gradients, start, alpha=alpha, beta=beta, eps1=eps1, rounds=ROUNDS),
    )


@pytest.mark.parametrize("problem", PROBLEMS)
def test_lag_wk_is_the_paper_s_loop(problem: str, tmp_path: Path) -> None:
    spec, gradients, smoothness = PROBLEMS[problem]()
    alpha = float(1 / smoothness.sum())
    seen = run(spec, {"kind": "lag-wk", "step_size": alpha, "xi": 0.1}, tmp_path)
    start = np.zeros(seen.models.shape[1])
    check_same(seen, reference.lag_worker(gradients, start, alpha=alpha, xi=0.1, rounds=ROUNDS))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_lag_ps_is_the_paper_s_loop(problem: str, tmp_path: Path) -> None:
    spec, gradients, smoothness = PROBLEMS[problem]()
    alpha = float(1 / smoothness.sum())
    seen = run(spec, {"kind": "lag-ps", "step_size": alpha}, tmp_path)
    start = np.zeros(seen.models.shape[1])
    check_same(
        seen,
        reference.lag_server(
            gradients, start, alpha=alpha, xi=1.0, smoothness=smoothness, rounds=ROUNDS
        ),
    )


@pytest.mark.parametrize("kind", ["lag-wk", "lag-ps"])
def test_the_first_d_rounds_of_lag_are_those_of_gradient_descent(kind: str, tmp_path: Path) -> None:
    """However large the trigger, which takes D steps of the model."""
    spec, _, smoothness = PROBLEMS["lasso"]()
    alpha = float(1 / smoothness.sum())
    seen = run(spec, {"kind": kind, "step_size": alpha, "xi": 1e12}, tmp_path / kind)
    plain = run(spec, {"kind": "gd", "step_size": alpha}, tmp_path / "gd")
    np.testing.assert_array_equal(seen.models[:DEPTH], plain.models[:DEPTH])
    expected = WORKERS * np.minimum(np.arange(1, ROUNDS + 1), DEPTH)
    assert seen.transmissions.tolist() == expected.tolist()


def network() -> tuple[dict[str, Any], Gradients]:
    """A network of 3 sigmoid units with a linear output, its gradient by the chain rule."""
    X, y = load_diabetes(return_X_y=True)
    X, units = scale(X), 3

    def gradient_of(A: Array, b: Array) -> Callable[[Array], Array]:
        def gradient(w: Array) -> Array:
            d = A.shape[1]
            inward, bias = w[: d * units].reshape(d, units), w[d * units : (d + 1) * units]
            outward, shift = w[(d + 1) * units : -1], w[-1]
            active = expit(A @ inward + bias)
            error = active @ outward + shift - b
            back = error[:, None] * outward * active * (1 - active)
            parts = [A.T @ back, back.sum(axis=0), active.T @ error, error.sum()]
            return np.concatenate([np.ravel(part) for part in parts]) + 0.1 * w

        return gradient

    spec = {
        "loss": {"kind": "mlp", "hidden": units, "output": "squared", "scale": "sum", "l2": 0.1},
        "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
        "split": {"kind": "contiguous", "clients": WORKERS},
    }
    parts = zip(np.array_split(X, WORKERS), np.array_split(y, WORKERS), strict=True)
    return spec, [gradient_of(A, b) for A, b in parts]


@pytest.mark.slow
@pytest.mark.parametrize(("momentum", "censor"), [(0.4, 0.1), (0.0, 0.1), (0.4, 0.0)])
def test_the_loop_is_the_same_where_the_problem_is_not_convex(
    momentum: float, censor: float, tmp_path: Path
) -> None:
    spec, gradients = network()
    alpha = 1e-5
    algorithm = {"kind": "chb", "step_size": alpha, "momentum": momentum, "censor": censor}
    seen = run(spec, algorithm, tmp_path)
    eps1 = censor / (alpha**2 * WORKERS**2)
    start = seen.models[0]
    assert np.abs(start).max() > 0
    check_same(
        seen,
        reference.censored(gradients, start, alpha=alpha, beta=momentum, eps1=eps1, rounds=ROUNDS),
    )


def test_censoring_saves_messages_and_the_others_do_not(tmp_path: Path) -> None:
    spec, _, smoothness = logistic()
    alpha = float(1 / smoothness.sum())
    seen = run(spec, {"kind": "chb", "step_size": alpha}, tmp_path / "chb")
    full = run(spec, {"kind": "hb", "step_size": alpha}, tmp_path / "hb")
    assert full.transmissions[-1] == ROUNDS * WORKERS
    assert seen.transmissions[-1] < ROUNDS * WORKERS / 2


def test_rounding_on_the_wire_does_not_add_up(tmp_path: Path) -> None:
    """The next innovation makes up for the rounding of the last: errors stay of one rounding."""
    spec, gradients, smoothness = logistic()
    alpha = float(1 / smoothness.sum())
    many: dict[str, Any] = {"wire": {"values": "float32"}, "stop": {"rounds": 150}}
    seen = run(spec, {"kind": "gd", "step_size": alpha}, tmp_path, **many)
    start = np.zeros(30)
    exact, _ = reference.censored(gradients, start, alpha=alpha, beta=0.0, eps1=0.0, rounds=150)
    error = np.abs(seen.models - exact).max() / np.abs(exact).max()
    assert 0 < error < 20 * 2.0**-24


def test_a_step_size_relative_to_l_uses_the_smoothness_of_the_whole_objective(
    tmp_path: Path,
) -> None:
    X = scale(load_breast_cancer().data)
    whole = np.linalg.norm(X, 2) ** 2 / 4 + 0.5 * WORKERS
    spec, _, _ = logistic()
    seen = run(spec, {"kind": "gd", "step_size": "0.5/L"}, tmp_path)
    assert seen.job.algorithm.model_dump()["step_size"] == pytest.approx(0.5 / whole, rel=1e-12)


def test_eps1_follows_from_c_the_step_size_and_the_number_of_workers() -> None:
    info = ProblemInfo(clients=9, dimension=22, smoothness=lambda: 1.0)
    for method in (CensoredHeavyBall, LazyGradient):
        ready = method(kind=method.model_fields["kind"].default, step_size=1e-4, censor=0.1)
        assert ready.configure(info).eps1 == pytest.approx(0.1 / (1e-8 * 81), rel=1e-12)
        given = method(kind=method.model_fields["kind"].default, step_size=1e-4, eps1=0.01)
        assert given.configure(info).eps1 == 0.01


def test_a_method_takes_c_or_eps1_but_not_both() -> None:
    with pytest.raises(ValueError, match="either censor or eps1"):
        CensoredHeavyBall(step_size=1.0, censor=0.1, eps1=0.1)


@every(
    "wrong",
    [0, -1.0, "2/M", "L", "0/L", "1e999/L", "1.2.3/L", "./L", "nan", True, None, float("inf")],
)
def test_a_wrong_step_size_is_refused_with_what_would_do(wrong: Any) -> None:
    with pytest.raises(ValueError, match="a number above 0, or a multiple of 1/L"):
        CensoredHeavyBall(step_size=wrong)
