"""DIANA and MARINA are the loops of their papers, and end where compressed gradients cannot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import Algorithm, Diana, Marina, ProblemInfo
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.wire import Contract
from tests.algorithms.local_loops import SIZES, Local, check_near, local, told
from tests.algorithms.sums import FULL, RANDOM, TOP, gaps, random

GAMMA = 0.2
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}


def diana(problem: Local, cohorts: list[list[int]], alpha: float, beta: float) -> list[Array]:
    """Mishchenko et al., algorithm 1; a cohort's differences are scaled to stand for all."""
    w, models, compress = np.zeros(problem.dimension), [], random()
    v, h = np.zeros_like(w), np.zeros((len(SIZES), w.size))
    for cohort in cohorts:
        models.append(w)
        g = problem.weights @ h
        for m in cohort:
            d = compress[m](problem.gradient(m, w) - h[m])
            g = g + len(SIZES) / len(cohort) * problem.weights[m] * d
            h[m] += alpha * d
        v = beta * v + g
        w = w - GAMMA * v
    return models


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("cohort", ["all", "two"])
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize(("alpha", "beta"), [(None, 0.0), (0.1, 0.5)])
def test_diana_is_its_paper_s_loop(
    loss: str, cohort: str, batch: int | None, alpha: float | None, beta: float, tmp_path: Path
) -> None:
    problem = local(tmp_path, loss, batch)
    algorithm: dict[str, Any] = {"kind": "diana", "step_size": GAMMA, "momentum": beta}
    algorithm |= {} if alpha is None else {"shift_rate": alpha}
    blocks = {"wire": RANDOM} | (TWO if cohort == "two" else {})
    seen = told(problem, algorithm, tmp_path, **blocks)
    rate = 2 / problem.dimension if alpha is None else alpha  # 1/(1 + omega)
    check_near(seen.run.models, diana(problem, seen.cohorts, rate, beta))


def marina(problem: Local, rounds: int, p: float) -> tuple[list[Array], list[bool]]:
    """Gorbunov et al., algorithm 1; also which rounds were in full."""
    w, models, compress = np.zeros(problem.dimension), [], random()
    coins, full = stream(1, "server", 0), [True]
    g, before = np.zeros((len(SIZES), w.size)), w
    for _ in range(rounds):
        models.append(w)
        for m in range(len(SIZES)):
            now = problem.gradient(m, w)
            g[m] = now if full[-1] else g[m] + compress[m](now - problem.gradient(m, before))
        before, w = w, w - GAMMA * problem.weights @ g
        full.append(coins.random() < p)
    return models, full[:-1]


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("p", [None, 0.7, 1.0])
def test_marina_is_its_paper_s_loop(loss: str, p: float | None, tmp_path: Path) -> None:
    problem = local(tmp_path, loss)
    algorithm: dict[str, Any] = {"kind": "marina", "step_size": GAMMA}
    algorithm |= {} if p is None else {"probability": p}
    seen = told(problem, algorithm, tmp_path, wire=RANDOM)
    rate = 2 / problem.dimension if p is None else p
    models, full = marina(problem, len(seen.run.models), rate)
    check_near(seen.run.models, models)
    sent = [row for row in seen.events if (row["event"], row["node"]) == ("send", "client-0")]
    assert [row["message"] == "fulldifference" for row in sent] == full
    in_full = 8 * (2 + 4 + 8 * problem.dimension)
    assert {row["payload_bits"] for row in sent if row["message"] == "fulldifference"} == {in_full}
    assert all(row["payload_bits"] < in_full for row in sent if row["message"] == "difference")


# -- what they are for -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*assumes that all clients take part:fedsim.core.errors.TheoryWarning"
)
@pytest.mark.parametrize(
    ("kind", "wire", "blocks"),
    [("diana", RANDOM, {}), ("diana", RANDOM, TWO), ("marina", RANDOM, {}), ("ef21", TOP, {})],
    ids=["diana", "diana two", "marina", "ef21"],
)
def test_they_converge_linearly_where_compressed_gradients_stall(
    kind: str, wire: dict[str, Any], blocks: dict[str, Any], tmp_path: Path
) -> None:
    problem, step = local(tmp_path), {"step_size": "0.08/L"}
    gap = gaps(problem, {"kind": kind} | step, wire, 900, **blocks)
    assert gap[-1] < 1e-12 * gap[0]
    reached = [int(np.argmax(gap < share * gap[0])) for share in (1e-4, 1e-8, 1e-12)]
    assert reached[1] < 2.5 * reached[0]
    assert reached[2] < 3.5 * reached[0]
    floor = gaps(problem, {"kind": "dcgd"} | step, wire, 300, **blocks)
    assert floor[150:].min() > 1e-3 * floor[0]


@pytest.mark.parametrize("kind", ["diana", "marina"])
def test_with_nothing_compressed_both_are_gradient_descent(kind: str, tmp_path: Path) -> None:
    problem = local(tmp_path)
    seen = told(problem, {"kind": kind, "step_size": GAMMA}, tmp_path, wire=FULL).run.models
    w = np.zeros(problem.dimension)
    for model in seen:
        assert model == pytest.approx(w, rel=1e-10, abs=1e-12)
        w = w - GAMMA * problem.mean_gradient(w)


# -- the theory ------------------------------------------------------------------------


def info(uplink: Contract, **more: Any) -> ProblemInfo:
    return ProblemInfo(
        4, 5, lambda: 2.0, lambda: np.array([1.0, 7.0, 5.0, 5.0]), uplink=uplink, **more
    )


INFO = info(Contract("unbiased", 2.0))


def test_defaults_are_those_of_the_compressor() -> None:
    assert Diana(step_size=1.0).configure(INFO).shift_rate == 1 / 3
    assert Diana(step_size=1.0).configure(info(Contract("exact"))).shift_rate == 1.0
    assert Diana(step_size=1.0, shift_rate=0.2).configure(INFO).shift_rate == 0.2
    assert Marina(step_size="1/L").configure(INFO).probability == 1 / 3
    assert Marina(step_size="1/L").configure(INFO).step_size == 0.5
    assert Marina(step_size=1.0, probability=0.2).configure(INFO).probability == 0.2


BEYOND: dict[str, tuple[Algorithm, str, list[str]]] = {
    "shift": (
        Diana(step_size=0.01, shift_rate=0.5),
        "shift_rate",
        ["got 0.5", "1/(1 + omega) = 0.3333", "theorem 1"],
    ),
    "diana": (
        Diana(step_size=0.04),
        "step_size",
        ["got 0.04", f"1/((1 + 6 omega/M) L_max) = {1 / 28:.4g}", "omega = 2"],
    ),
    "marina": (  # L^2 = 25, (1 - p) omega/(p M) = 1
        Marina(step_size=0.101),
        "step_size",
        ["got 0.101", "= 0.1 ", "omega = 2", "p = 0.333", "theorem 2.1"],
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_is_beyond_the_theory_is_a_concern(name: str) -> None:
    algorithm, key, texts = BEYOND[name]
    (concern,) = algorithm.configure(INFO).concerns(INFO)
    assert concern.key == key
    assert all(text in concern.text for text in texts), concern.text
    within: dict[str, Algorithm] = {
        "diana": Diana(step_size=1 / 28),
        "marina": Marina(step_size=0.1),
    }
    for each in within.values():
        assert not list(each.configure(INFO).concerns(INFO))


def test_marina_wants_all_clients() -> None:
    some = info(Contract("unbiased", 2.0), cohort_size=2)
    with pytest.raises(ParameterError, match="sample of the clients") as caught:
        Marina(step_size=1.0).configure(some)
    assert caught.value.key == "kind"
    assert Diana(step_size=1.0).configure(some).step_size == 1.0


@pytest.mark.parametrize("kind", ["diana", "marina"])
@pytest.mark.parametrize(
    ("blocks", "match"),
    [
        ({"wire": {"up": {"compressor": {"kind": "top-k", "count": 2}}}}, "needs\n? *an unbiased"),
        ({"wire": RANDOM | {"up": RANDOM["up"] | {"error_feedback": "ef"}}}, "unbiased messages"),
        ({"participation": {"kind": "asynchronous"}}, "needs rounds"),
        ({"participation": {"kind": "full", "deadline": "1 s", "late": "drop"}}, "running sum"),
    ],
)
def test_what_makes_no_sense_is_refused(
    kind: str, blocks: dict[str, Any], match: str, tmp_path: Path
) -> None:
    scenario = {"problem": local(tmp_path).block, "algorithm": {"kind": kind, "step_size": 1.0}}
    with pytest.raises(fedsim.ScenarioError, match=match):
        fedsim.load(scenario | blocks)
