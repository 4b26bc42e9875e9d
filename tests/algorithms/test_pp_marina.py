"""PP-MARINA is algorithm 4 of its paper, and ends where compressed gradients of a sample cannot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.algorithms import PPMarina, ProblemInfo
from fedsim.core.errors import TheoryWarning
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.wire import Contract
from tests.algorithms.local_loops import SIZES, Local, check_near, local, told
from tests.algorithms.sums import RANDOM, gaps, random

GAMMA = 0.2
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}


def pp_marina(problem: Local, cohorts: list[list[int]], p: float) -> tuple[list[Array], list[bool]]:
    """Gorbunov et al., algorithm 4, clients weighted with p_i; also which rounds were in full."""
    w, models, compress = np.zeros(problem.dimension), [], random()
    coins, full = stream(1, "server", 0), [True]
    g = before = w
    for cohort in cohorts:
        models.append(w)
        if full[-1]:
            g = problem.mean_gradient(w)
        else:
            scale = len(SIZES) / len(cohort)
            for m in cohort:
                difference = problem.gradient(m, w) - problem.gradient(m, before)
                g = g + scale * problem.weights[m] * compress[m](difference)
        before, w = w, w - GAMMA * g
        full.append(coins.random() < p)
    return models, full[:-1]


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("p", [None, 0.5])
def test_it_is_its_paper_s_loop(loss: str, p: float | None, tmp_path: Path) -> None:
    problem = local(tmp_path, loss)
    algorithm: dict[str, Any] = {"kind": "pp-marina", "step_size": GAMMA}
    algorithm |= {} if p is None else {"probability": p}
    seen = told(problem, algorithm, tmp_path, wire=RANDOM, **TWO)
    rate = 2 / len(SIZES) * 2 / problem.dimension if p is None else p
    models, full = pp_marina(problem, seen.cohorts, rate)
    check_near(seen.run.models, models)
    assert [len(cohort) == len(SIZES) for cohort in seen.cohorts] == full
    assert not all(full)


@pytest.mark.slow
def test_a_sample_s_differences_converge_linearly_where_its_gradients_stall(
    tmp_path: Path,
) -> None:
    problem, step = local(tmp_path), {"step_size": "0.05/L"}
    gap = gaps(problem, {"kind": "pp-marina", "probability": 0.2} | step, RANDOM, 1500, **TWO)
    assert gap[-1] < 1e-10 * gap[0]
    with pytest.warns(TheoryWarning, match="assumes that all clients take part"):
        floor = gaps(problem, {"kind": "dcgd"} | step, RANDOM, 300, **TWO)
    assert floor[150:].min() > 1e-3 * floor[0]


def test_the_step_of_its_theorem() -> None:
    """L = 5; (1 - p) (1 + omega)/(p r) = 4 with p = 1/2, omega = 7 and r = 2."""
    each = np.array([1.0, 7.0, 5.0, 5.0])
    uplink = Contract("unbiased", 7.0)
    info = ProblemInfo(4, 5, lambda: 2.0, lambda: each, uplink=uplink, cohort_size=2)
    assert PPMarina(step_size=1.0).configure(info).probability == 1 / 16
    assert not list(PPMarina(step_size=1 / 15, probability=0.5).concerns(info))
    (concern,) = PPMarina(step_size=0.067, probability=0.5).concerns(info)
    assert concern.key == "step_size"
    assert "= 0.06667 (Gorbunov et al. 2021, theorem 4.1)" in concern.text
