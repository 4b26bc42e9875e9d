"""FedExProx is the loop of its paper, and takes proximal steps where all have one minimum."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Array
from tests.algorithms.local_loops import Local, check_near, local, shares, told
from tests.algorithms.test_scaffold import TWO

ETA, STEPS, MU = 0.1, 4, 0.5
METHOD: dict[str, Any] = {"kind": "fedexprox", "step_size": ETA, "local_steps": STEPS, "mu": MU}


def loop(problem: Local, cohorts: list[list[int]], alpha: float | None) -> list[Array]:
    """Li, Acharya, Richtarik, Algorithm 1, with local steps for the prox; diversity for None."""
    w, models = np.zeros(problem.dimension), list[Array]()
    for cohort in cohorts:
        p = shares(problem.weights, cohort)
        steps = np.array([problem.descend(m, w, ETA, STEPS, MU) - w for m in cohort])
        mean = p @ steps
        own = (p @ (steps**2).sum(axis=1)) / (mean @ mean) if alpha is None else alpha
        w = w + own * mean
        models.append(w)
    return models


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("cohort", ["all", "two"])
@pytest.mark.parametrize("alpha", [None, 1.0, 1.7])
def test_it_is_its_paper_s_loop(
    loss: str, cohort: str, alpha: float | None, tmp_path: Path
) -> None:
    problem = local(tmp_path, loss, 3)
    algorithm = METHOD | ({} if alpha is None else {"extrapolation": alpha})
    seen = told(problem, algorithm, tmp_path, **(TWO if cohort == "two" else {}))
    check_near(seen.run.models, loop(problem, seen.cohorts, alpha))


def test_with_alpha_1_it_is_fedprox(tmp_path: Path) -> None:
    problem = local(tmp_path)
    ours, theirs = (
        told(problem, algorithm, tmp_path / algorithm["kind"]).run.models
        for algorithm in (METHOD | {"extrapolation": 1.0}, METHOD | {"kind": "fedprox"})
    )
    assert np.array_equal(ours, theirs)


def test_a_model_that_nobody_moves_from_stays(tmp_path: Path) -> None:
    """At the common minimum the diversity of no steps at all is of none."""
    X = np.eye(4)
    np.savez(tmp_path / "still.npz", X=X, y=np.zeros(4), client=np.arange(4) // 2)
    data = {"kind": "npz", "path": str(tmp_path / "still.npz")}
    block = {"loss": {"kind": "squared"}, "data": data, "split": {"kind": "groups"}}
    problem = Local(block, [(X[:2], X[0] * 0), (X[2:], X[0] * 0)], local(tmp_path).row_gradient, 4)
    assert not told(problem, METHOD, tmp_path, stop={"rounds": 3}).run.models.any()
