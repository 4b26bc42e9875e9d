"""EF21-P is no method of its own: `error_feedback: ef21` on the downlink is the loop of its paper.

Gruntkowska, Tyurin, Richtarik, "EF21-P and Friends", ICML 2023: clients hold w, the server x, and

    x <- x - gamma g(w),    w <- w + C(x - w),

with what clients send of their gradients at w left open: compressed as DIANA does, or not at all.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Array
from tests.algorithms.local_loops import SIZES, Local, check_near, local, told
from tests.algorithms.sums import RANDOM, TOP, random, top
from tests.algorithms.test_scaffold import gap

GAMMA = 0.2
DOWN: dict[str, Any] = {"down": TOP["up"] | {"error_feedback": "ef21"}}
DIANA: dict[str, Any] = {"kind": "diana", "step_size": GAMMA}
DESCENT: dict[str, Any] = {"kind": "fedavg", "step_size": GAMMA}


def diana(problem: Local, rounds: int) -> list[Array]:
    """EF21-P + DIANA, algorithm 1; the models are the x that the server steps from."""
    x, w, models, compress = np.zeros(6), np.zeros(6), list[Array](), random()
    shifts, alpha = np.zeros((len(SIZES), 6)), 2 / 6
    for _ in range(rounds):
        models.append(x)
        w = w + top(x - w)
        d = np.array([compress[m](problem.gradient(m, w) - shifts[m]) for m in range(len(SIZES))])
        x = x - GAMMA * problem.weights @ (shifts + d)
        shifts = shifts + alpha * d
    return models


def test_with_diana_s_uplink_it_is_its_paper_s_loop(tmp_path: Path) -> None:
    problem = local(tmp_path)
    seen = told(problem, DIANA, tmp_path, wire=RANDOM | DOWN).run.models
    check_near(seen, diana(problem, len(seen)))


def test_with_gradients_in_full_it_is_its_paper_s_loop(tmp_path: Path) -> None:
    problem, x, w = local(tmp_path), np.zeros(6), np.zeros(6)
    seen = told(problem, DESCENT, tmp_path, wire={"values": "float64"} | DOWN).run.models
    for model in seen:
        w = w + top(x - w)
        x = x - GAMMA * problem.mean_gradient(w)
        assert model == pytest.approx(x, rel=1e-10, abs=1e-13)


@pytest.mark.slow
def test_compressed_both_ways_it_ends_at_the_optimum_and_without_feedback_not(
    tmp_path: Path,
) -> None:
    problem, bare = local(tmp_path), {"down": TOP["up"]}
    method = DIANA | {"step_size": 0.149}
    assert gap(problem, method, 600, wire=RANDOM | DOWN) < 1e-10
    assert gap(problem, method, 600, wire=RANDOM | bare) > 1e-3
