"""FedAvg, FedProx and FedNova are the loops of their papers, and keep their promises."""

from collections.abc import Callable
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import Concern, FedAvg, FedNova, FedProx, ProblemInfo
from fedsim.algorithms.local_steps import LocalSteps
from fedsim.core.ports import Array
from tests.algorithms.local_loops import LOSSES, SIZES, Local, check_near, local, shares, told

ETA, BATCH = 0.1, 4
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}
LENGTHS: dict[str, dict[str, int]] = {"steps": {"local_steps": 4}, "epochs": {"epochs": 2}}


def steps_of(length: dict[str, int], m: int, batch: int | None) -> int:
    """Return tau_m."""
    if "local_steps" in length:
        return length["local_steps"]
    return length["epochs"] * ceil(SIZES[m] / (batch or SIZES[m]))


def averaged(
    problem: Local, cohorts: list[list[int]], length: dict[str, int], mu: float = 0.0
) -> list[Array]:
    """McMahan et al., Algorithm 1: w <- sum_i p_i w_i; with mu, Li et al., Algorithm 2."""
    w, models = np.zeros(problem.dimension), []
    for cohort in cohorts:
        p = shares(problem.weights, cohort)
        own = [problem.descend(m, w, ETA, steps_of(length, m, problem.batch), mu) for m in cohort]
        w = np.sum([share * each for share, each in zip(p, own, strict=True)], axis=0)
        models.append(w)
    return models


def normalised(
    problem: Local, cohorts: list[list[int]], length: dict[str, int], mu: float = 0.0
) -> list[Array]:
    """Wang et al., (6): w <- w - tau_eff sum_i p_i eta d_i, d_i the mean of its gradients."""
    w, models = np.zeros(problem.dimension), []
    for cohort in cohorts:
        p = shares(problem.weights, cohort)
        tau = [steps_of(length, m, problem.batch) for m in cohort]
        step, own = np.zeros_like(w), []
        for m, steps in zip(cohort, tau, strict=True):
            local_w, gradients = w, []
            for _ in range(steps):
                gradients.append(problem.gradient(m, local_w))
                local_w = local_w - ETA * gradients[-1]
            own.append(np.mean(gradients, axis=0))
        for share, d in zip(p, own, strict=True):
            step = step + share * ETA * d
        w = w - float(p @ tau) * step
        models.append(w)
    return models


LOOPS = {"fedavg": averaged, "fedprox": averaged, "fednova": normalised}


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("cohort", ["all", "two"])
@pytest.mark.parametrize("batch", [None, BATCH])
def test_each_is_its_paper_s_loop(
    kind: str, length: str, cohort: str, batch: int | None, tmp_path: Path
) -> None:
    problem = local(tmp_path, "logistic", batch)
    algorithm = {"kind": kind, "step_size": ETA} | LENGTHS[length]
    mu = 0.7 if kind == "fedprox" else 0.0
    algorithm |= {"mu": mu} if mu else {}
    seen = told(problem, algorithm, tmp_path, **(TWO if cohort == "two" else {}))
    assert {len(each) for each in seen.cohorts} == {2 if cohort == "two" else len(SIZES)}
    check_near(seen.run.models, LOOPS[kind](problem, seen.cohorts, LENGTHS[length], mu))


@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_the_loop_of_every_loss(loss: str, tmp_path: Path) -> None:
    problem = local(tmp_path, loss, BATCH)
    seen = told(problem, {"kind": "fedavg", "step_size": ETA, "epochs": 1}, tmp_path)
    check_near(seen.run.models, averaged(problem, seen.cohorts, {"epochs": 1}))


@pytest.mark.parametrize("kind", ["fedavg", "fednova"])
def test_clients_of_unequal_size_may_have_equal_weights(kind: str, tmp_path: Path) -> None:
    problem = local(tmp_path)
    problem.block["weights"] = "equal"
    seen = told(problem, {"kind": kind, "step_size": ETA, "local_steps": 3}, tmp_path)
    check_near(seen.run.models, LOOPS[kind](problem, seen.cohorts, {"local_steps": 3}))


def test_a_batch_may_grow(tmp_path: Path) -> None:
    problem = local(tmp_path)
    growing = {"start": 2, "ratio": 0.9}
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_steps": 2, "batch": growing}
    seen = told(problem, algorithm, tmp_path)
    w, models = np.zeros(problem.dimension), []
    for t in range(len(seen.run.models)):
        problem.batch = ceil(2 / 0.9**t)
        own = [problem.descend(m, w, ETA, 2) for m in range(len(SIZES))]
        w = np.sum([p * each for p, each in zip(problem.weights, own, strict=True)], axis=0)
        models.append(w)
    check_near(seen.run.models, models)


@pytest.mark.parametrize("kind", LOOPS)
def test_one_full_step_each_is_gradient_descent_on_the_weighted_mean(
    kind: str, tmp_path: Path
) -> None:
    problem = local(tmp_path)
    seen = told(problem, {"kind": kind, "step_size": ETA}, tmp_path).run.models
    w = np.zeros(problem.dimension)
    for model in seen:
        w = w - ETA * problem.mean_gradient(w)
        assert model == pytest.approx(w, rel=1e-10, abs=1e-13)


def test_the_more_it_is_pulled_back_the_less_a_round_moves(tmp_path: Path) -> None:
    problem = local(tmp_path)
    moved = []
    for mu in (0.0, 0.5, 2.0, 8.0):
        algorithm = {"kind": "fedprox", "step_size": 0.05, "mu": mu, "local_steps": 10}
        model = told(problem, algorithm, tmp_path / f"{mu}", stop={"rounds": 1}).run.models[0]
        moved.append(float(np.linalg.norm(model)))
    assert all(more > less for more, less in pairwise(moved))


@pytest.mark.slow
def test_averaging_favours_who_takes_more_steps_and_normalising_does_not(tmp_path: Path) -> None:
    """Wang et al., theorem 1: FedAvg is drawn to the minimiser of sum_i p_i tau_i f_i."""
    problem = local(tmp_path, "squared", batch=5)
    tau = np.ceil(np.array(SIZES) / 5)
    ends = {}
    for kind in ("fedavg", "fednova"):
        algorithm = {"kind": kind, "step_size": 0.02, "epochs": 1}
        ends[kind] = told(problem, algorithm, tmp_path / kind, stop={"rounds": 250}).run.models
    optimum, drawn = (
        minimiser(problem, weights) for weights in (problem.weights, problem.weights * tau)
    )
    for kind, near, far in (("fedavg", drawn, optimum), ("fednova", optimum, drawn)):
        mean = ends[kind][-150:].mean(axis=0)
        assert np.linalg.norm(mean - near) < 0.25 * np.linalg.norm(mean - far)


def minimiser(problem: Local, weights: Array) -> Array:
    """Return the minimiser of sum_i weights_i f_i, squared losses."""
    hessian, right = np.zeros((problem.dimension,) * 2), np.zeros(problem.dimension)
    for weight, (X, y) in zip(weights, problem.parts, strict=True):
        hessian += weight * X.T @ X / len(y)
        right += weight * X.T @ y / len(y)
    return np.asarray(np.linalg.solve(hessian, right))


def test_with_no_reply_the_model_stays_and_a_late_update_counts(tmp_path: Path) -> None:
    problem = local(tmp_path)
    slow = {"count": len(SIZES), "device": {"kind": "pi-4", "speed": "600 flop/s"}}
    blocks = {"fleet": [slow], "participation": {"kind": "full", "deadline": "0.5 s"}}
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_steps": 12}
    seen = told(problem, algorithm, tmp_path, stop={"rounds": 10}, **blocks)
    late = [event["t"] for event in seen.events if event["event"] == "late"]
    heard = ceil(late[0] / 0.5)  # the round that is open when the first update is there
    assert heard > 3
    assert not seen.run.models[: heard - 1].any()
    assert seen.run.models[heard - 1].any()


def test_a_message_of_fednova_has_the_bits_of_a_vector_and_a_number(tmp_path: Path) -> None:
    problem = local(tmp_path)
    wire = {"values": "float32"}
    for kind, bits in {
        "fedavg": 8 * (6 + 4 * 6),
        "fednova": 8 * (6 + 4 * 6) + 8 * (1 + 4),
    }.items():
        algorithm = {"kind": kind, "step_size": ETA, "epochs": 2}
        seen = told(problem, algorithm, tmp_path / kind, wire=wire, stop={"rounds": 2})
        sent = [row for row in seen.events if row["event"] == "send"]
        up = [row["payload_bits"] for row in sent if row["node"] != "server"]
        assert up == [bits] * 10


# -- what is refused, and what theory does not cover -----------------------------------


def test_steps_and_epochs_are_two_ways_to_say_one_thing() -> None:
    with pytest.raises(ValueError, match="either local_steps or epochs, not both"):
        FedAvg(step_size=0.1, local_steps=2, epochs=2)
    with pytest.raises(ValueError, match="greater than 0"):
        FedAvg(step_size=0.1, epochs=0)
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        FedProx(step_size=0.1, mu=-1)


def info() -> ProblemInfo:
    """Three clients, the steepest of L_m = 4."""
    return ProblemInfo(3, 5, lambda: 2.0, lambda: np.array([1.0, 4.0, 2.0]))


def concerns(method: LocalSteps) -> list[Concern]:
    return list(method.configure(info()).concerns(info()))


@pytest.mark.parametrize(
    ("method", "bound"), [(FedAvg, 0.25), (FedNova, 0.25), (FedProx, 1 / 4.01)]
)
def test_a_step_above_the_inverse_of_the_steepest_client_is_a_concern(
    method: Callable[..., LocalSteps], bound: float
) -> None:
    assert concerns(method(step_size=0.999 * bound)) == []
    (concern,) = concerns(method(step_size="1/L"))  # L of the mean is smaller than L_max
    assert concern.key == "step_size"
    assert "got 0.5" in concern.text
    assert f"{bound:g}" in concern.text


def test_a_run_warns_of_it(tmp_path: Path) -> None:
    problem = local(tmp_path)
    scenario = {
        "problem": problem.block,
        "algorithm": {"kind": "fedavg", "step_size": float(1.5 / problem.smoothness().max())},
        "stop": {"rounds": 1},
    }
    with pytest.warns(UserWarning, match=r"algorithm\.step_size: got .*, but 1/L_max = "):
        fedsim.run(scenario)
