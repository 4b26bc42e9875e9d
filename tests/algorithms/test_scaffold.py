"""SCAFFOLD is the loop of its paper, and what its controls are for holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import ProblemInfo, Scaffold
from fedsim.core.ports import Array
from tests.algorithms.local_loops import SIZES, Local, check_near, local, shares, told
from tests.algorithms.sums import NETWORKS, TOP, top, watched

ETA, STEPS = 0.1, 4
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}


def scaffold(problem: Local, cohorts: list[list[int]], server_rate: float) -> list[Array]:
    """Karimireddy et al., Algorithm 1 with option II, clients weighted with p_i."""
    x, c = np.zeros(problem.dimension), np.zeros(problem.dimension)
    controls, models = np.zeros((len(SIZES), problem.dimension)), []
    for cohort in cohorts:
        dx, dc = np.zeros_like(x), np.zeros_like(c)
        for p, m in zip(shares(problem.weights, cohort), cohort, strict=True):
            y = x
            for _ in range(STEPS):
                y = y - ETA * (problem.gradient(m, y) - controls[m] + c)
            renewed = controls[m] - c + (x - y) / (STEPS * ETA)
            dx = dx + p * (y - x)
            dc = dc + problem.weights[m] * (renewed - controls[m])
            controls[m] = renewed
        x, c = x + server_rate * dx, c + dc
        models.append(x)
    return models


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("cohort", ["all", "two"])
@pytest.mark.parametrize(("batch", "server_rate"), [(None, 1.0), (3, 1.0), (3, 0.6)])
def test_it_is_its_paper_s_loop(
    loss: str, cohort: str, batch: int | None, server_rate: float, tmp_path: Path
) -> None:
    problem = local(tmp_path, loss, batch)
    algorithm = {"kind": "scaffold", "step_size": ETA, "local_steps": STEPS}
    algorithm |= {"server_rate": server_rate}
    seen = told(problem, algorithm, tmp_path, **(TWO if cohort == "two" else {}))
    check_near(seen.run.models, scaffold(problem, seen.cohorts, server_rate))


def gap(problem: Local, algorithm: dict[str, Any], rounds: int = 150, **blocks: Any) -> float:
    """Return how far from the optimum a run has ended."""
    defaults = {"wire": {"values": "float64"}, "stop": {"rounds": rounds}}
    scenario = {"problem": problem.block, "algorithm": algorithm} | defaults | blocks
    return float(fedsim.run(scenario).rounds["gap"].iloc[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocks", "rounds"), [({}, 150), (TWO, 400), ({"wire": TOP}, 400)], ids=["all", "two", "top-k"]
)
def test_clients_that_differ_do_not_pull_it_off_the_optimum(
    blocks: dict[str, Any], rounds: int, tmp_path: Path
) -> None:
    problem = local(tmp_path)
    steps = {"step_size": "0.3/L", "local_steps": 10}
    assert gap(problem, {"kind": "scaffold"} | steps, rounds, **blocks) < 1e-10
    assert gap(problem, {"kind": "fedavg"} | steps, rounds, **blocks) > 1e-4


def test_one_full_step_each_is_gradient_descent(tmp_path: Path) -> None:
    """With K = 1 and all of them, c is the gradient of a round ago, and drops out of the mean."""
    problem = local(tmp_path)
    seen = told(problem, {"kind": "scaffold", "step_size": ETA}, tmp_path).run.models
    w = np.zeros(problem.dimension)
    for model in seen:
        w = w - ETA * problem.mean_gradient(w)
        assert model == pytest.approx(w, rel=1e-10, abs=1e-13)


# -- what is lost on the way -----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("wire", [{"values": "float64"}, TOP], ids=["full", "top-k"])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_server_s_control_is_the_mean_of_the_clients_whatever_is_lost(
    wire: dict[str, Any], network: str, tmp_path: Path
) -> None:
    """Less what is still on its way."""
    algorithm = {"kind": "scaffold", "step_size": ETA, "local_steps": 3}
    blocks = NETWORKS[network] | {"wire": wire}
    scenario = {"problem": local(tmp_path).block, "algorithm": algorithm} | blocks
    seen = watched(scenario, tmp_path, lambda own, _: own.c, lambda message: message.c.values)
    seen.check_lateness(network)
    assert max(seen.errors) < 1e-12
    for exchange in seen.exchanges:
        c = exchange.said.c.values
        assert c == pytest.approx(np.zeros_like(c) + exchange.before, rel=1e-10, abs=1e-12)


# -- what is refused, and what theory does not cover -----------------------------------


def test_late_replies_must_not_be_dropped(tmp_path: Path) -> None:
    problem = local(tmp_path)
    scenario = {
        "problem": problem.block,
        "algorithm": {"kind": "scaffold", "step_size": ETA},
        "participation": {"kind": "full", "deadline": "1 s", "late": "drop"},
    }
    with pytest.raises(fedsim.ScenarioError, match="server of scaffold keeps a running sum"):
        fedsim.load(scenario)


def test_feedback_is_of_the_updates_for_the_controls_have_their_own(tmp_path: Path) -> None:
    problem, x = local(tmp_path), np.zeros(6)
    algorithm = {"kind": "scaffold", "step_size": ETA, "local_steps": STEPS}
    wire = {"values": "float64", "up": TOP["up"] | {"error_feedback": "ef"}}
    seen = told(problem, algorithm, tmp_path, wire=wire).run.models
    c, controls, errors = np.zeros(6), np.zeros((len(SIZES), 6)), np.zeros((len(SIZES), 6))
    for model in seen:
        dx, dc = np.zeros(6), np.zeros(6)
        for m, p in enumerate(problem.weights):
            y = x
            for _ in range(STEPS):
                y = y - ETA * (problem.gradient(m, y) - controls[m] + c)
            renewed = controls[m] - c + (x - y) / (STEPS * ETA)
            step = top(errors[m] + y - x)
            errors[m] += y - x - step
            change = top(renewed - controls[m])
            controls[m] += change
            dx, dc = dx + p * step, dc + p * change
        x, c = x + dx, c + dc
        assert model == pytest.approx(x, rel=1e-10, abs=1e-13)


def test_a_step_above_the_inverse_of_the_steepest_client_is_a_concern() -> None:
    info = ProblemInfo(3, 5, lambda: 2.0, lambda: np.array([1.0, 4.0, 2.0]))
    (concern,) = Scaffold(step_size=0.5).concerns(info)
    assert concern.key == "step_size"
    assert "got 0.5, but 1/L_max = 0.25" in concern.text
    assert not list(Scaffold(step_size=0.25).concerns(info))


def test_a_message_has_the_bits_of_its_two_vectors(tmp_path: Path) -> None:
    problem = local(tmp_path)
    algorithm = {"kind": "scaffold", "step_size": ETA}
    seen = told(problem, algorithm, tmp_path, wire={"values": "float32"}, stop={"rounds": 2})
    sent = [row["payload_bits"] for row in seen.events if row["event"] == "send"]
    assert sent == [2 * 8 * (6 + 4 * 6)] * 20
