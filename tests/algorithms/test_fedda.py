"""Fast-FedDA, C-FedDA and MC-FedDA are the loops of their paper, in fewer vectors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.algorithms import FastFedDA
from fedsim.core.ports import Array
from fedsim.problems import Regulariser
from fedsim.problems.penalties import L1, Nuclear
from tests.algorithms.local_loops import Local, check_near, shares, told
from tests.algorithms.penalised import (
    NORMS,
    PENALTIES,
    PROJECTIONS,
    Bound,
    in_ball,
    penalised,
)
from tests.tiers import examples

MU, GAMMA, STEPS = 0.3, 20.0, 3
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}
BLOCK = {"mu": MU, "gamma": GAMMA, "local_steps": STEPS}

Prox = Callable[[Array, float], Array]


def mirror(prox: Prox, z: Array, A: float, w0: Array) -> Array:
    """P_A(z) = prox_{h/b}(-(z/A - gamma w0/A)/b), b = mu/2 + gamma/A."""
    b = MU / 2 + GAMMA / A
    return prox(-(z / A - GAMMA * w0 / A) / b, 1 / b)


def fast_fedda(problem: Local, prox: Prox, w0: Array, cohorts: list[list[int]]) -> list[Array]:
    """Bao et al., Algorithm 1, with all that it keeps."""
    w, xs, gs, models = w0, w0, np.zeros_like(w0), []
    for r, cohort in enumerate(cohorts, start=1):
        p, gradients, points = shares(problem.weights, cohort), [], []
        for m in cohort:
            v, g, x = w, gs, xs
            for k in range(1, STEPS + 1):
                g = g + problem.gradient(m, v)
                v = mirror(prox, g - MU / 2 * x, (r - 1) * STEPS + k, w0)
                x = x + v
            gradients.append(g)
            points.append(x)
        gs, xs = p @ np.array(gradients), p @ np.array(points)
        w = mirror(prox, gs - MU / 2 * xs, r * STEPS, w0)
        xs = xs + w
        models.append(w)
    return models


def c_fedda(
    problem: Local, bound: Bound, w0: Array, cohorts: list[list[int]], radius: float
) -> list[Array]:
    """Bao et al., Algorithm 2: the map is the minimiser under |w - w0| <= radius."""

    def bounded(z: Array, A: float) -> Array:
        return mirror(lambda w, step: bound(w, step, w0, radius), z, A, w0)

    w, xs, gs, models = w0, w0, np.zeros_like(w0), []
    for r, cohort in enumerate(cohorts, start=1):
        p, gradients = shares(problem.weights, cohort), []
        for m in cohort:
            v, g = w, gs
            for _ in range(STEPS):
                g = g + problem.gradient(m, v)
                v = bounded(g - MU / 2 * STEPS * xs, r * STEPS)
            gradients.append(g)
        gs = p @ np.array(gradients)
        w = bounded(gs - MU / 2 * STEPS * xs, r * STEPS)
        xs = xs + w
        models.append(w)
    return models


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("cohort", ["all", "two"])
@pytest.mark.parametrize("combined", [False, True])
def test_fast_fedda_is_the_paper_s_loop(
    penalty: str, cohort: str, combined: bool, tmp_path: Path
) -> None:
    problem, prox, start = penalised(tmp_path, penalty, batch=4)
    block = {"kind": "fast-fedda", "combined": combined} | BLOCK
    seen = told(problem, block, tmp_path, **(TWO if cohort == "two" else {}))
    check_near(seen.run.models, fast_fedda(problem, prox, start, seen.cohorts))


@pytest.mark.parametrize("penalty", PROJECTIONS)
@pytest.mark.parametrize("cohort", ["all", "two"])
@pytest.mark.parametrize("radius", [1.0, 1000.0])
def test_c_fedda_is_the_paper_s_loop(
    penalty: str, cohort: str, radius: float, tmp_path: Path
) -> None:
    problem, prox, start = penalised(tmp_path, penalty, batch=4)
    block = {"kind": "c-fedda", "ball": {"kind": f"{penalty}-ball", "radius": radius}} | BLOCK
    seen = told(problem, block, tmp_path, **(TWO if cohort == "two" else {}))
    bound = in_ball(prox, PROJECTIONS[penalty], NORMS[penalty])
    check_near(seen.run.models, c_fedda(problem, bound, start, seen.cohorts, radius))
    away = np.array([NORMS[penalty](model - start) for model in seen.run.models])
    assert np.all(away <= radius * (1 + 1e-12))
    assert (away >= radius * (1 - 1e-12)).any() == (radius == 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PROJECTIONS)
@pytest.mark.parametrize("cohort", ["all", "two"])
def test_mc_fedda_is_c_fedda_stage_after_stage(penalty: str, cohort: str, tmp_path: Path) -> None:
    problem, prox, start = penalised(tmp_path, penalty, batch=4)
    own = problem.block["penalty"]["weight"]
    lengths, weights, radii = [5, 4, 1], [4 * own, 2 * own, own], [2.0, 1.0, 1000.0]
    stages = [
        {"rounds": rounds, "weight": weight, "radius": radius}
        for rounds, weight, radius in zip(lengths, weights, radii, strict=True)
    ]
    block = {"kind": "mc-fedda", "stages": stages} | BLOCK
    blocks = {"stop": {"rounds": 12}} | (TWO if cohort == "two" else {})
    seen = told(problem, block, tmp_path, **blocks)
    expected = [start]
    for first, end, weight, radius in zip((0, 5, 9), (5, 9, 12), weights, radii, strict=True):

        def heavier(w: Array, step: float, factor: float = weight / own) -> Array:
            return prox(w, step * factor)

        part = seen.cohorts[first:end]
        bound = in_ball(heavier, PROJECTIONS[penalty], NORMS[penalty])
        expected += c_fedda(problem, bound, expected[-1], part, radius)
    check_near(seen.run.models, expected[1:])


# What is reported


def means(models: list[Array]) -> list[Array]:
    """Return the mean of the models up to each of them."""
    return [np.mean(models[: n + 1], axis=0) for n in range(len(models))]


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES)
def test_fast_fedda_can_report_the_mean_of_its_models(penalty: str, tmp_path: Path) -> None:
    """What is sent is the same to the bit."""
    problem, prox, start = penalised(tmp_path, penalty, batch=4)
    sent, block = [], {"kind": "fast-fedda"} | BLOCK
    for output in ("last", "average"):
        seen = told(problem, block | {"output": output}, tmp_path / output)
        sent.append([row["payload_bits"] for row in seen.events if row["event"] == "send"])
    check_near(seen.run.models, means(fast_fedda(problem, prox, start, seen.cohorts)))
    assert sent[0] == sent[1]


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PROJECTIONS)
@pytest.mark.parametrize("cohort", ["all", "two"])
def test_a_stage_starts_from_what_the_last_one_reports(
    penalty: str, cohort: str, tmp_path: Path
) -> None:
    """The mean of the models of the stage, and of no other."""
    problem, prox, start = penalised(tmp_path, penalty, batch=4)
    bound = in_ball(prox, PROJECTIONS[penalty], NORMS[penalty])
    weight = problem.block["penalty"]["weight"]
    stages = [{"rounds": 6, "weight": weight, "radius": radius} for radius in (1.5, 1000.0)]
    block = {"kind": "mc-fedda", "stages": stages, "output": "average"} | BLOCK
    seen = told(problem, block, tmp_path, **(TWO if cohort == "two" else {}))
    first = means(c_fedda(problem, bound, start, seen.cohorts[:6], 1.5))
    second = means(c_fedda(problem, bound, first[-1], seen.cohorts[6:], 1000.0))
    check_near(seen.run.models, first + second)
    assert np.linalg.norm(first[-1] - start) > 0.1


@pytest.mark.parametrize("penalty", PROJECTIONS)
def test_c_fedda_can_report_the_mean_of_its_models(penalty: str, tmp_path: Path) -> None:
    problem, prox, start = penalised(tmp_path, penalty, batch=4)
    ball = {"kind": f"{penalty}-ball", "radius": 1000.0}
    block = {"kind": "c-fedda", "ball": ball, "output": "average"} | BLOCK
    seen = told(problem, block, tmp_path)
    bound = in_ball(prox, PROJECTIONS[penalty], NORMS[penalty])
    check_near(seen.run.models, means(c_fedda(problem, bound, start, seen.cohorts, 1000.0)))


# The map


@given(
    seed=st.integers(0, 1000),
    A=st.sampled_from([0.5, 1.0, 30.0]),
    mu=st.sampled_from([0.0, 0.2, 2.0]),
    weight=st.sampled_from([0.01, 0.5, 5.0]),
    penalty=st.sampled_from([L1, Nuclear]),
)
@examples(60)
def test_p_is_the_minimiser_that_defines_it(
    seed: int, A: float, mu: float, weight: float, penalty: type[L1] | type[Nuclear]
) -> None:
    """-(z + A mu/2 w + gamma (w - w0))/(A weight) is a subgradient of the norm at w.

    That is so where its dual norm is at most one, and its product with w is the norm of w.
    """
    rng = np.random.default_rng(seed)
    z, w0 = 3 * A * rng.standard_normal(12), rng.standard_normal(12)
    h = Regulariser(penalty(weight=weight), (4, 3))
    w = FastFedDA(mu=mu, gamma=1.5).point(z, A, w0, h)
    G = -(z + A * mu / 2 * w + 1.5 * (w - w0)) / (A * weight)
    matrix = G.reshape(4, 3)
    dual = np.abs(G).max() if penalty is L1 else np.linalg.norm(matrix, 2)
    norm = np.abs(w).sum() if penalty is L1 else np.linalg.norm(w.reshape(4, 3), "nuc")
    assert dual <= 1 + 1e-9
    assert G @ w == pytest.approx(norm, rel=1e-9, abs=1e-9)


def test_with_no_weight_p_is_a_step_from_the_centre() -> None:
    method = FastFedDA(mu=0.3, gamma=2.0)
    z, w0 = np.array([1.0, -4.0]), np.array([0.5, 0.5])
    h = Regulariser(L1(weight=9.0), (2,))
    assert method.point(z, 0.0, w0, h) == pytest.approx(w0 - z / 2.0, rel=1e-15)
