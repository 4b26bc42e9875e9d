"""EF21 is algorithm 2 of its paper, and loses nothing of what its clients hold."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.algorithms import EF21, ProblemInfo
from fedsim.algorithms.error_feedback import distortion
from fedsim.core.ports import Array
from fedsim.wire import Contract
from tests.algorithms.local_loops import SIZES, Local, check_near, local, told
from tests.algorithms.sums import (
    FULL,
    LOSSY,
    NETWORKS,
    RANDOM,
    TOP,
    Compress,
    gaps,
    random,
    top,
    watched,
)

GAMMA = 0.2
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}


def shrunk(compress: Compress, factor: float) -> Compress:
    return lambda v: compress(factor * v)


COMPRESSORS: dict[str, Any] = {
    "top-k": (TOP, [top] * len(SIZES)),
    # omega = 6/2 - 1, and 1/(1 + omega) makes it contractive
    "rand-k": (RANDOM, None),
    "identity": (FULL, [lambda v: v] * len(SIZES)),
}


def ef21(
    problem: Local, cohorts: list[list[int]], compress: list[Compress], start: str
) -> list[Array]:
    """Richtarik et al., algorithm 2, on sum_i p_i f_i; who is not asked keeps its g_i."""
    w, models = np.zeros(problem.dimension), []
    g, begun = np.zeros((len(SIZES), w.size)), set[int]()
    for cohort in cohorts:
        models.append(w)
        for m in cohort:
            gradient = problem.gradient(m, w)
            in_full = start == "gradient" and m not in begun
            g[m] = gradient if in_full else g[m] + compress[m](gradient - g[m])
            begun.add(m)
        w = w - GAMMA * problem.weights @ g
    return models


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("start", ["zero", "gradient"])
@pytest.mark.parametrize("cohort", ["all", "two"])
def test_it_is_the_paper_s_loop(name: str, start: str, cohort: str, tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic")
    wire, compress = COMPRESSORS[name]
    compress = compress or [shrunk(each, 1 / 3) for each in random()]
    algorithm = {"kind": "ef21", "step_size": GAMMA, "start": start}
    seen = told(problem, algorithm, tmp_path, wire=wire, **(TWO if cohort == "two" else {}))
    assert {len(each) for each in seen.cohorts} == {2 if cohort == "two" else len(SIZES)}
    check_near(seen.run.models, ef21(problem, seen.cohorts, compress, start))


def test_with_nothing_compressed_it_is_gradient_descent(tmp_path: Path) -> None:
    problem = local(tmp_path)
    algorithm = {"kind": "ef21", "step_size": GAMMA}
    seen, w = told(problem, algorithm, tmp_path).run.models, np.zeros(problem.dimension)
    for model in seen:
        assert model == pytest.approx(w, rel=1e-10, abs=1e-13)
        w = w - GAMMA * problem.mean_gradient(w)


@pytest.mark.parametrize("start", ["zero", "gradient"])
@pytest.mark.parametrize("wire", [TOP, RANDOM, FULL], ids=["top-k", "rand-k", "full"])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_server_holds_what_the_clients_do_whatever_is_lost(
    start: str, wire: dict[str, Any], network: str, tmp_path: Path
) -> None:
    algorithm = {"kind": "ef21", "step_size": GAMMA, "start": start}
    scenario = {"problem": local(tmp_path).block, "algorithm": algorithm, "wire": wire}
    scenario |= NETWORKS[network]
    seen = watched(scenario, tmp_path, lambda held, _: held.g, lambda message: message.d.values)
    seen.check_lateness(network)
    assert max(seen.errors) < 1e-12
    seen.check_steps(GAMMA, lambda exchange: exchange.after if exchange.heard else 0.0)


@pytest.mark.slow
def test_it_ends_at_the_optimum_though_a_third_is_lost(tmp_path: Path) -> None:
    algorithm = {"kind": "ef21", "step_size": "0.1/L"}
    gap = gaps(local(tmp_path), algorithm, TOP, 900, **LOSSY)
    assert gap[-1] < 1e-10 * gap[0]


def test_only_the_first_message_of_a_client_is_sent_in_full(tmp_path: Path) -> None:
    problem = local(tmp_path)
    algorithm = {"kind": "ef21", "step_size": GAMMA, "start": "gradient"}
    wire = TOP | {"values": "float32"}
    seen = told(problem, algorithm, tmp_path, wire=wire, stop={"rounds": 3})
    sent = [row for row in seen.events if row["event"] == "send" and row["node"] != "server"]
    bits: dict[str, list[int]] = {name: [] for name in ("fulldifference", "difference")}
    for row in sent:
        bits[row["message"]].append(row["payload_bits"])
    assert bits["fulldifference"] == [8 * (2 + 4 + 4 * 6)] * len(SIZES)
    assert len(bits["difference"]) == 2 * len(SIZES)
    assert max(bits["difference"]) < 8 * (2 + 4 + 4 * 6)


def test_it_is_sent_in_full_until_it_is_not_lost(tmp_path: Path) -> None:
    algorithm = {"kind": "ef21", "step_size": GAMMA, "start": "gradient"}
    radio = LOSSY["fleet"][0]["radio"] | {"loss": {"kind": "independent", "rate": "60 %"}}
    blocks = LOSSY | {"fleet": [LOSSY["fleet"][0] | {"radio": radio}]}
    seen = told(local(tmp_path), algorithm, tmp_path, wire=TOP, **blocks)
    said = [row["message"] for row in seen.events if row["event"] == "send"]
    assert said.count("fulldifference") > len(SIZES)
    first: dict[str, str] = {}
    for row in seen.events:
        if (row["event"], row["node"]) == ("receive", "server"):
            first.setdefault(row["peer"], row["message"])
    assert list(first.values()) == ["fulldifference"] * len(SIZES)


# -- the theory ------------------------------------------------------------------------


@given(st.floats(1e-6, 1.0))
def test_the_distortion_is_the_root_of_beta_over_theta(delta: float) -> None:
    theta = 1 - np.sqrt(1 - delta)
    assert distortion(delta) == pytest.approx(np.sqrt((1 - delta) / theta / theta))


def info(uplink: Contract) -> ProblemInfo:
    return ProblemInfo(2, 5, lambda: 2.0, lambda: np.array([1.0, 7.0]), uplink=uplink)


@pytest.mark.parametrize(
    ("uplink", "bound"),
    [
        (Contract("exact"), 0.5),
        (Contract("contractive", 0.75), 1 / (2 + 5)),
        (Contract("unbiased", 1 / 3), 1 / (2 + 5)),
    ],
)
def test_a_step_beyond_theorem_1_is_a_concern(uplink: Contract, bound: float) -> None:
    assert not list(EF21(step_size=bound).concerns(info(uplink)))
    (concern,) = EF21(step_size=1.01 * bound).concerns(info(uplink))
    assert concern.key == "step_size"
    assert f"got {1.01 * bound:.4g}" in concern.text
    assert f"{bound:.4g}" in concern.text
    assert "theorem 1" in concern.text


def test_what_is_not_contractive_has_no_step_at_all() -> None:
    (concern,) = EF21(step_size=1e-9).concerns(info(Contract("absolute", 1.0)))
    assert "at most 0 " in concern.text


@pytest.mark.parametrize(
    ("blocks", "match"),
    [
        ({"wire": {"up": {"error_feedback": "ef"}}}, "error feedback by itself"),
        ({"participation": {"kind": "full", "deadline": "1 s", "late": "drop"}}, "running sum"),
    ],
)
def test_what_makes_no_sense_is_refused(blocks: dict[str, Any], match: str, tmp_path: Path) -> None:
    scenario = {"problem": local(tmp_path).block, "algorithm": {"kind": "ef21", "step_size": 1.0}}
    with pytest.raises(fedsim.ScenarioError, match=match):
        fedsim.load(scenario | blocks)
