"""FedAdam and FedYogi are Algorithm 2 of their paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsim.algorithms import FedAdam, FedYogi, ProblemInfo
from fedsim.core.ports import Array
from tests.algorithms.local_loops import SIZES, Local, check_near, local, shares, told

ETA, STEPS, RATE = 0.1, 3, 0.05
KINDS = ("fedadam", "fedyogi")
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}


def adaptive(
    problem: Local, cohorts: list[list[int]], kind: str, beta1: float, beta2: float, tau: float
) -> list[Array]:
    """Reddi et al., Algorithm 2, from v = tau^2."""
    x, m = np.zeros(problem.dimension), np.zeros(problem.dimension)
    v, models = np.full(problem.dimension, tau * tau), []
    for cohort in cohorts:
        p = shares(problem.weights, cohort)
        delta = np.zeros_like(x)
        for share, client in zip(p, cohort, strict=True):
            delta = delta + share * (problem.descend(client, x, ETA, STEPS) - x)
        m = beta1 * m + (1 - beta1) * delta
        if kind == "fedadam":
            v = beta2 * v + (1 - beta2) * delta * delta
        else:
            v = v - (1 - beta2) * delta * delta * np.sign(v - delta * delta)
        x = x + RATE * m / (np.sqrt(v) + tau)
        models.append(x)
    return models


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("cohort", ["all", "two"])
@pytest.mark.parametrize(
    "moments", [{}, {"beta1": 0.5, "beta2": 0.8, "tau": 0.1}, {"beta1": 0.0, "beta2": 0.0}]
)
def test_each_is_the_paper_s_loop(
    kind: str, loss: str, cohort: str, moments: dict[str, float], tmp_path: Path
) -> None:
    problem = local(tmp_path, loss, batch=4)
    algorithm = {"kind": kind, "step_size": ETA, "local_steps": STEPS, "server_rate": RATE}
    seen = told(problem, algorithm | moments, tmp_path, **(TWO if cohort == "two" else {}))
    numbers = {"beta1": 0.9, "beta2": 0.99, "tau": 1e-3} | moments
    check_near(seen.run.models, adaptive(problem, seen.cohorts, kind, **numbers))


def test_a_round_without_a_reply_moves_nothing(tmp_path: Path) -> None:
    problem = local(tmp_path)
    slow = {"count": len(SIZES), "device": {"kind": "pi-4", "speed": "600 flop/s"}}
    blocks = {"fleet": [slow], "participation": {"kind": "full", "deadline": "0.5 s"}}
    algorithm = {"kind": "fedadam", "step_size": ETA, "local_steps": 12, "server_rate": RATE}
    seen = told(problem, algorithm, tmp_path, stop={"rounds": 4}, **blocks).run.models
    assert not seen.any()


METHODS: dict[str, Callable[..., FedAdam]] = {"fedadam": FedAdam, "fedyogi": FedYogi}
SQUARES = arrays(np.float64, 4, elements=st.floats(0, 1e6, width=32))


@pytest.mark.parametrize("kind", KINDS)
@given(
    beta2=st.floats(0, 0.999),
    tau=st.floats(1e-6, 1.0),
    updates=st.lists(SQUARES, min_size=1, max_size=6),
)
def test_the_second_moment_stays_positive_and_bounds_the_step(
    kind: str, beta2: float, tau: float, updates: list[Array]
) -> None:
    """v >= (1 - beta2) Delta^2; under Yogi, which takes as much off, also beta2 Delta^2."""
    least = 1 - beta2 if kind == "fedadam" else min(beta2, 1 - beta2)
    method = METHODS[kind](step_size=0.1, server_rate=1.0, beta2=beta2, tau=tau)
    v = np.full(4, tau**2)
    for delta in updates:
        method.server_rule.add_square(v, delta**2)
        assert (v >= 0).all()
        assert (least * delta**2 <= v * (1 + 1e-12)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_outside_their_meaning_are_refused(kind: str) -> None:
    for wrong in ({"beta1": 1.0}, {"beta2": 1.0}, {"tau": 0.0}, {"server_rate": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            METHODS[kind](**{"step_size": 0.1, "server_rate": 0.1} | wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_above_the_inverse_of_the_steepest_client_is_a_concern(kind: str) -> None:
    info = ProblemInfo(3, 5, lambda: 2.0, lambda: np.array([1.0, 4.0, 2.0]))
    (concern,) = METHODS[kind](step_size=0.5, server_rate=0.1).concerns(info)
    assert "got 0.5, but 1/L_max = 0.25" in concern.text
