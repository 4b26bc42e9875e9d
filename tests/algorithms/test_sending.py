"""Models or differences: the same iterates, and compression that works for both."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.core.ports import Array
from tests.algorithms import test_arrivals, test_matching_pursuit, test_thresholding
from tests.algorithms.deadlines import late, slow
from tests.algorithms.harness import trajectory
from tests.algorithms.local_loops import check_near as check_all
from tests.algorithms.local_loops import local
from tests.algorithms.packing import run
from tests.algorithms.unequal import FULL_PRECISION, check_near, unequal

HARD = ("distributed-iht", "fed-ht", "fediter-ht")
TOP = {"kind": "top-k", "count": 2}


@pytest.mark.parametrize("sends", ["models", "differences"])
@pytest.mark.parametrize("kind", HARD)
def test_hard_thresholding_has_the_iterates_of_its_paper_either_way(
    kind: str, sends: str, tmp_path: Path
) -> None:
    problem, steps = unequal("logistic", tmp_path), 1 if kind == "distributed-iht" else 3
    algorithm = test_thresholding.block(kind, local_steps=steps, batch=6, sends=sends)
    seen = trajectory(test_thresholding.scenario(problem, algorithm), tmp_path / "run").models
    batches: list[int | None] = [6] * test_thresholding.ROUNDS
    check_near(seen, test_thresholding.loop(problem, kind, K=steps, batches=batches))


@pytest.mark.parametrize("sends", ["models", "differences"])
def test_matching_pursuit_has_the_iterates_of_its_paper_either_way(
    sends: str, tmp_path: Path
) -> None:
    problem = unequal("squared", tmp_path)
    algorithm = test_matching_pursuit.block(sends=sends)
    seen = trajectory(test_matching_pursuit.scenario(problem, algorithm), tmp_path / "run").models
    check_near(seen, test_matching_pursuit.loop(problem, test_matching_pursuit.least_squares))


# -- late, and without rounds ----------------------------------------------------------


def test_differences_are_added_whenever_they_arrive(tmp_path: Path) -> None:
    """Under an asynchronous server: w <- H(w + mean(w_i - w_tau)), tau the round it answers."""
    problem, sparsity = local(tmp_path), 3
    algorithm = {"kind": "fed-ht", "sparsity": sparsity, "sends": "differences"}
    seen = test_arrivals.run(problem, algorithm, tmp_path, buffer=2)
    models: list[Array] = [np.zeros(problem.dimension)]
    for _, arrived in test_arrivals.buffers(seen, 2):
        own = problem.weights[[m for m, _ in arrived]]
        change = np.zeros(problem.dimension)
        for p, (m, tau) in zip(own / own.sum(), arrived, strict=True):
            start = models[tau - 1]
            end = problem.descend(m, start, test_arrivals.ETA, test_arrivals.STEPS)
            change += p * (end - start)
        models.append(test_thresholding.largest(models[-1] + change, sparsity))
    check_all(seen.run.models, models[1:])
    assert max(t - tau for t, told in test_arrivals.buffers(seen, 2) for _, tau in told) > 3


@pytest.mark.parametrize(("sends", "moves"), [("models", False), ("differences", True)])
def test_a_late_difference_counts_and_a_late_model_does_not(
    sends: str, moves: bool, tmp_path: Path
) -> None:
    problem = unequal("squared", tmp_path)
    algorithm = test_thresholding.block("fed-ht", sends=sends)
    scenario = test_thresholding.scenario(problem, algorithm, **slow(4, behind=4, up="100 kbit/s"))
    seen = run(scenario, tmp_path / "run")
    assert len(late(seen)) >= test_thresholding.ROUNDS
    assert bool(np.any(seen.models)) == moves


# -- compressed ------------------------------------------------------------------------


def end(problem: dict[str, Any], algorithm: dict[str, Any], **wire: Any) -> float:
    """Return the objective after 300 rounds."""
    blocks = {"wire": FULL_PRECISION | wire, "stop": {"rounds": 300}}
    result = fedsim.run({"problem": problem, "algorithm": algorithm} | blocks)
    return float(result.rounds["objective"].iloc[-1])


def top(feedback: str) -> dict[str, Any]:
    return {"compressor": TOP, "error_feedback": feedback}


METHODS: dict[str, dict[str, Any]] = {
    "fedgradmp": {"sparsity": 4},
    "fed-ht": {"sparsity": 4, "step_size": "0.3/L", "local_steps": 3},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("kind", METHODS)
def test_a_tenth_of_the_numbers_up_ends_where_all_of_them_do(kind: str, tmp_path: Path) -> None:
    """With feedback that fits what is sent; models alone lose what is left out of each."""
    problem, algorithm = unequal("squared", tmp_path).block, {"kind": kind, **METHODS[kind]}
    differences = algorithm | {"sends": "differences"}
    plain = end(problem, algorithm)
    assert end(problem, algorithm, up=top("none")) > 100 * plain
    assert end(problem, algorithm, up=top("ef21")) < 1.05 * plain
    assert end(problem, differences, up=top("ef")) < 1.05 * plain
    assert end(problem, differences, up=top("ef21")) < 1.05 * plain


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_a_tenth_of_the_numbers_down_ends_where_all_of_them_do(tmp_path: Path) -> None:
    problem = unequal("squared", tmp_path).block
    algorithm = {"kind": "fedavg", "step_size": "0.3/L", "local_steps": 3}
    plain = end(problem, algorithm)
    assert end(problem, algorithm, down=top("none")) > 1000 * plain
    assert end(problem, algorithm, down=top("ef21")) < 1.05 * plain
