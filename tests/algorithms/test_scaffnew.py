"""Scaffnew is the loop of its paper, and what its control variates are for holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.algorithms import ProblemInfo, Scaffnew
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from tests.algorithms.local_loops import SIZES, Local, check_near, local, told
from tests.algorithms.sums import NETWORKS, TOP, top, watched
from tests.algorithms.test_scaffold import TWO, gap

GAMMA, P = 0.1, 0.3
METHOD: dict[str, Any] = {"kind": "scaffnew", "step_size": GAMMA, "probability": P}


def scaffnew(problem: Local, rounds: int) -> list[Array]:
    """Mishchenko et al., Algorithm 2, with h_i kept as the paper has it, clients weighted by p_i.

    The iterations up to a coin of 1 are drawn at once.
    """
    M, coins, models = len(SIZES), stream(1, "server", 0), list[Array]()
    x, h = np.zeros((M, problem.dimension)), np.zeros((M, problem.dimension))
    for _ in range(rounds):
        for _ in range(coins.geometric(P)):
            gradients = np.array([problem.gradient(m, x[m]) for m in range(M)])
            x = x - GAMMA * (gradients - h)
        mean = problem.weights @ x
        h = h + P / GAMMA * (mean - x)
        x = np.tile(mean, (M, 1))
        models.append(mean)
    return models


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("batch", [None, 3])
def test_it_is_its_paper_s_loop(loss: str, batch: int | None, tmp_path: Path) -> None:
    problem = local(tmp_path, loss, batch)
    seen = told(problem, METHOD, tmp_path).run.models
    check_near(seen, scaffnew(problem, len(seen)))


def test_with_a_coin_that_always_falls_on_1_it_is_gradient_descent(tmp_path: Path) -> None:
    """One step each, and corrections that drop out of the mean."""
    problem = local(tmp_path)
    seen = told(problem, METHOD | {"probability": 1.0}, tmp_path).run.models
    w = np.zeros(problem.dimension)
    for model in seen:
        w = w - GAMMA * problem.mean_gradient(w)
        assert model == pytest.approx(w, rel=1e-10, abs=1e-13)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*assumes that all clients take part")
@pytest.mark.parametrize(
    ("blocks", "rounds"), [({}, 150), (TWO, 500), ({"wire": TOP}, 250)], ids=["all", "two", "top-k"]
)
def test_clients_that_differ_do_not_pull_it_off_the_optimum(
    blocks: dict[str, Any], rounds: int, tmp_path: Path
) -> None:
    algorithm = METHOD | {"step_size": "0.3/L"}
    assert gap(local(tmp_path), algorithm, rounds, **blocks) < 1e-10


def test_what_is_sent_is_what_a_client_remembers_of_it(tmp_path: Path) -> None:
    problem = local(tmp_path)
    seen = told(problem, METHOD, tmp_path, wire=TOP).run.models
    coins, x, totals = stream(1, "server", 0), np.zeros(6), np.zeros((len(SIZES), 6))
    for model in seen:
        steps, change = coins.geometric(P), np.zeros(6)
        for m, p in enumerate(problem.weights):
            y, h = x, P / GAMMA * (x - totals[m])
            for _ in range(steps):
                y = y - GAMMA * (problem.gradient(m, y) - h)
            delta = top(y - x)
            totals[m] += delta
            change += p * delta
        x = x + change
        assert model == pytest.approx(x, rel=1e-10, abs=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("wire", [{"values": "float64"}, TOP], ids=["full", "top-k"])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_model_is_the_mean_of_what_clients_have_sent_whatever_is_lost(
    wire: dict[str, Any], network: str, tmp_path: Path
) -> None:
    """Less what is still on its way."""
    blocks = NETWORKS[network] | {"wire": wire}
    scenario = {"problem": local(tmp_path).block, "algorithm": METHOD} | blocks
    seen = watched(scenario, tmp_path, lambda own, _: own.total, lambda said: said.delta.values)
    seen.check_lateness(network)
    assert max(seen.errors) < 1e-12
    for exchange in seen.exchanges:
        x = exchange.said.x.values
        assert x == pytest.approx(np.zeros_like(x) + exchange.before, rel=1e-10, abs=1e-12)


def test_a_message_has_the_bits_of_a_vector_and_the_model_those_of_a_number_more(
    tmp_path: Path,
) -> None:
    wire = {"values": "float32"}
    seen = told(local(tmp_path), METHOD, tmp_path, wire=wire, stop={"rounds": 2})
    bits = {row["message"]: row["payload_bits"] for row in seen.events if row["event"] == "send"}
    vector = 8 * (6 + 4 * 6)
    assert bits["update"] == vector
    assert vector < bits["start"] <= vector + 8 * (6 + 4)


INFO = ProblemInfo(3, 5, lambda: 2.0, lambda: np.array([1.0, 4.0, 2.0]))


def test_what_its_theory_does_not_cover_is_a_concern() -> None:
    (concern,) = Scaffnew(step_size=0.5, probability=0.1).concerns(INFO)
    assert (concern.key, "got 0.5, but 1/L_max = 0.25" in concern.text) == ("step_size", True)
    some = ProblemInfo(3, 5, lambda: 2.0, lambda: np.array([1.0, 4.0, 2.0]), cohort_size=2)
    (concern,) = Scaffnew(step_size=0.25, probability=0.1).concerns(some)
    assert "assumes that all clients take part" in concern.text
