"""MARINA-P is the loop of its paper: a message of its own for each client, compressed for it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import MarinaP, ProblemInfo
from fedsim.core.errors import ParameterError
from fedsim.core.ports import SERVER, Array
from fedsim.core.streams import stream
from fedsim.wire import Contract, RandK, ValueFormat
from tests.algorithms.local_loops import SIZES, Local, check_near, local, told

GAMMA = 0.2
RANDOM: dict[str, Any] = {
    "values": "float64",
    "down": {"compressor": {"kind": "rand-k", "count": 2}},
}


def loop(problem: Local, rounds: int, p: float) -> tuple[list[Array], list[bool]]:
    """Return x of each round, and which rounds were in full."""
    x, models, full = np.zeros(problem.dimension), list[Array](), [True]
    w, step = np.zeros((len(SIZES), x.size)), np.zeros_like(x)
    coins = stream(1, "server", 0)
    draws = [stream(1, "compressor", SERVER, "to", m) for m in range(len(SIZES))]
    for _ in range(rounds):
        models.append(x)
        for m, rng in enumerate(draws):
            if full[-1]:
                w[m] = x
            else:
                w[m] += RandK(count=2).compress(step, rng, ValueFormat.FLOAT64).values
        gradients = np.array([problem.gradient(m, w[m]) for m in range(len(SIZES))])
        step = -GAMMA * problem.weights @ gradients
        x = x + step
        full.append(coins.random() < p)
    return models, full[:-1]


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("p", [None, 0.3, 1.0])
def test_it_is_its_paper_s_loop(loss: str, p: float | None, tmp_path: Path) -> None:
    problem = local(tmp_path, loss)
    algorithm: dict[str, Any] = {"kind": "marina-p", "step_size": GAMMA}
    algorithm |= {} if p is None else {"probability": p}
    seen = told(problem, algorithm, tmp_path, wire=RANDOM)
    models, full = loop(problem, len(seen.run.models), 2 / problem.dimension if p is None else p)
    check_near(seen.run.models, models)
    heard = [row for row in seen.events if (row["event"], row["node"]) == ("receive", "client-3")]
    assert [row["message"] == "model" for row in heard] == full
    asked = [row["message"] for row in seen.events if row["event"] == "exchange"]
    assert asked == ["model" if one else None for one in full]


def test_with_nothing_compressed_it_is_gradient_descent(tmp_path: Path) -> None:
    problem = local(tmp_path)
    algorithm = {"kind": "marina-p", "step_size": GAMMA}
    seen = told(problem, algorithm, tmp_path, wire={"values": "float64"}).run.models
    w = np.zeros(problem.dimension)
    for model in seen:
        assert model == pytest.approx(w, rel=1e-10, abs=1e-12)
        w = w - GAMMA * problem.mean_gradient(w)


INFO = ProblemInfo(4, 5, lambda: 2.0, lambda: np.full(4, 3.0), downlink=Contract("unbiased", 2.0))


def test_steps_are_held_against_the_recursion_of_the_errors() -> None:
    # p = 1/3: 1/(2 + sqrt(2 x 2 x 9)) = 1/8.
    assert list(MarinaP(step_size=0.125).configure(INFO).concerns(INFO)) == []
    (concern,) = MarinaP(step_size=0.126).configure(INFO).concerns(INFO)
    assert (concern.key, "= 0.125 " in concern.text) == ("step_size", True)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    problem = local(tmp_path)
    base = {"problem": problem.block, "algorithm": {"kind": "marina-p", "step_size": GAMMA}}
    biased = {"down": {"compressor": {"kind": "top-k", "count": 2}}}
    feedback = RANDOM | {"down": RANDOM["down"] | {"error_feedback": "ef"}}
    for blocks, key in (
        ({"participation": {"kind": "uniform", "count": 2}}, "algorithm.kind"),
        ({"wire": biased}, "wire.down.compressor.kind"),
        ({"wire": feedback}, "wire.down.error_feedback"),
    ):
        with pytest.raises(fedsim.ScenarioError) as error:
            fedsim.run(base | blocks)
        assert [fault.key for fault in error.value.faults] == [key]
    with pytest.raises(ParameterError, match="participation"):
        MarinaP(step_size=1.0).configure(ProblemInfo(4, 5, lambda: 2.0, cohort_size=2))
