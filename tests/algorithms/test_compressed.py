"""Compressed gradient descent is the loop of each paper it stands for.

The loops are plain NumPy, from the papers' boxes: DCGD (Khirirat et al. 2018), EF-SGD
(Karimireddy et al. 2019, algorithm 2), EF21 (Richtarik et al. 2021, algorithm 2), and censored
heavy ball with a compressed innovation.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.algorithms import CompressedDescent, ProblemInfo
from fedsim.core.ports import Array
from fedsim.scenario import Compression
from fedsim.scenario.building.packing import promise
from tests.algorithms.harness import trajectory
from tests.algorithms.packing import Seen, run, scenario
from tests.algorithms.reference import Gradients
from tests.algorithms.test_censored import PROBLEMS, ROUNDS, WORKERS
from tests.works import evaluated

Compress = Callable[[Array], Array]
FULL_PRECISION = {"values": "float64"}
KEPT = 3


def top(v: Array) -> Array:
    """The three coordinates of largest magnitude, in full precision."""
    kept = np.argsort(-np.abs(v), kind="stable")[:KEPT]
    c = np.zeros_like(v)
    c[kept] = v[kept]
    return c


def sign(v: Array) -> Array:
    """The mean magnitude, a float32, with each coordinate's sign."""
    return float(np.float32(np.abs(v).mean())) * np.where(v < 0, -1.0, 1.0)


def loud(v: Array) -> Array:
    """The coordinates of magnitude 20 or more."""
    return np.where(np.abs(v) >= 20.0, v, 0.0)


COMPRESS: dict[str, tuple[dict[str, Any], Compress]] = {
    "top-k": ({"kind": "top-k", "count": KEPT}, top),
    "scaled-sign": ({"kind": "scaled-sign"}, sign),
    "threshold": ({"kind": "threshold", "threshold": 20.0}, loud),
    "identity": ({"kind": "identity"}, lambda v: v),
}


def dcgd(gradients: Gradients, w: Array, alpha: float, beta: float, compress: Compress) -> Array:
    """w <- w - alpha sum_m C(grad f_m(w)), with heavy-ball momentum beta."""
    models, before = [], w
    for _ in range(ROUNDS):
        models.append(w)
        step = sum(compress(gradient(w)) for gradient in gradients)
        w, before = w - alpha * step + beta * (w - before), w
    return np.array(models)


def ef(gradients: Gradients, w: Array, alpha: float, beta: float, compress: Compress) -> Array:
    """p = grad + e; send C(p); e <- p - C(p)."""
    models, before, errors = [], w, np.zeros((len(gradients), w.size))
    for _ in range(ROUNDS):
        models.append(w)
        corrected = np.array([gradient(w) for gradient in gradients]) + errors
        sent = np.array([compress(p) for p in corrected])
        errors = corrected - sent
        w, before = w - alpha * sent.sum(axis=0) + beta * (w - before), w
    return np.array(models)


def ef21(gradients: Gradients, w: Array, alpha: float, beta: float, compress: Compress) -> Array:
    """g_0 = C(grad f(w_0)); w <- w - alpha sum g; g <- g + C(grad f(w) - g)."""
    held = np.array([compress(gradient(w)) for gradient in gradients])
    models, before = [w], w
    for _ in range(ROUNDS - 1):
        w, before = w - alpha * held.sum(axis=0) + beta * (w - before), w
        held += np.array([compress(f(w) - g) for f, g in zip(gradients, held, strict=True)])
        models.append(w)
    return np.array(models)


LOOPS = {"none": dcgd, "ef": ef, "ef21": ef21}
BOTH = [
    (feedback, name)
    for feedback in LOOPS
    for name in COMPRESS
    if (feedback, name) != ("ef21", "threshold")
]


def wire(name: str, feedback: str) -> dict[str, Any]:
    block, _ = COMPRESS[name]
    return FULL_PRECISION | {"up": {"compressor": block, "error_feedback": feedback}}


def models_of(problem: Any, algorithm: dict[str, Any], folder: Path, **blocks: Any) -> Array:
    """Return the models of a run over an ideal network."""
    blocks = {"wire": FULL_PRECISION, "stop": {"rounds": ROUNDS}} | blocks
    return trajectory({"problem": problem, "algorithm": algorithm} | blocks, folder).models


def check_near(seen: Array, expected: Array) -> None:
    """Compare iterates to 1e-10 relative."""
    assert seen.shape == expected.shape
    assert np.abs(seen - expected).max() <= 1e-10 * np.linalg.norm(expected, axis=1).max()


@pytest.mark.parametrize(("feedback", "name"), BOTH)
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_dcgd_is_the_paper_s_loop(feedback: str, name: str, beta: float, tmp_path: Path) -> None:
    spec, gradients, smoothness = PROBLEMS["logistic"]()
    alpha = float(0.2 / smoothness.sum())
    algorithm = {"kind": "dcgd", "step_size": alpha, "momentum": beta}
    seen = models_of(spec, algorithm, tmp_path, wire=wire(name, feedback))
    start = np.zeros(seen.shape[1])
    check_near(seen, LOOPS[feedback](gradients, start, alpha, beta, COMPRESS[name][1]))


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_with_nothing_compressed_it_is_gd_and_with_momentum_hb(
    problem: str, tmp_path: Path
) -> None:
    spec, _, _ = PROBLEMS[problem]()
    for momentum, twin in ((0.0, {"kind": "gd"}), (0.4, {"kind": "hb", "momentum": 0.4})):
        step_size = {"step_size": "0.5/L"}
        algorithm = {"kind": "dcgd", "momentum": momentum} | step_size
        folders = (tmp_path / f"{name} {momentum}" for name in ("dcgd", "twin"))
        one, two = (
            models_of(spec, method, folder)
            for method, folder in zip((algorithm, twin | step_size), folders, strict=True)
        )
        check_near(one, two)


@pytest.mark.parametrize("feedback", ["ef", "ef21"])
def test_of_an_exact_compressor_no_feedback_has_anything_to_add(
    feedback: str, tmp_path: Path
) -> None:
    spec, _, _ = PROBLEMS["logistic"]()
    algorithm = {"kind": "dcgd", "step_size": "0.5/L"}
    fed, plain = (
        models_of(spec, algorithm, tmp_path / each, wire=wire("identity", each))
        for each in (feedback, "none")
    )
    check_near(fed, plain)


def censored(
    gradients: Gradients, w: Array, alpha: float, beta: float, eps1: float, compress: Compress
) -> tuple[Array, list[int]]:
    """CHB whose innovations are compressed: the server adds what it gets to what it holds."""
    before, held, sent = w, np.zeros((len(gradients), w.size)), 0
    models, counts = [], []
    for _ in range(ROUNDS):
        moved = np.sum((w - before) ** 2)
        for m, gradient in enumerate(gradients):
            innovation = gradient(w) - held[m]
            if np.sum(innovation**2) > eps1 * moved:
                held[m] += compress(innovation)
                sent += 1
        models.append(w)
        counts.append(sent)
        w, before = w - alpha * held.sum(axis=0) + beta * (w - before), w
    return np.array(models), counts


@pytest.mark.parametrize("name", ["top-k", "scaled-sign", "threshold"])
def test_the_censor_says_whether_and_the_compressor_what(name: str, tmp_path: Path) -> None:
    spec, gradients, smoothness = PROBLEMS["logistic"]()
    alpha = float(0.2 / smoothness.sum())
    eps1 = 0.1 / (alpha * WORKERS) ** 2
    algorithm = {"kind": "chb", "step_size": alpha, "momentum": 0.4, "censor": 0.1}
    blocks = {"wire": wire(name, "none"), "stop": {"rounds": ROUNDS}}
    seen = trajectory({"problem": spec, "algorithm": algorithm} | blocks, tmp_path)
    start = np.zeros(seen.models.shape[1])
    models, counts = censored(gradients, start, alpha, 0.4, eps1, COMPRESS[name][1])
    check_near(seen.models, models)
    assert seen.transmissions.tolist() == counts
    assert counts[-1] < WORKERS * ROUNDS


def test_the_sum_of_a_cohort_stands_for_that_of_all(tmp_path: Path) -> None:
    """E of the step is that of all clients: M/|S| sum_S, as the log says who was drawn."""
    two = {"kind": "uniform", "count": 2}
    seen = run(scenario(wire=wire("top-k", "none"), participation=two), tmp_path)
    w, alpha = seen.models[0], float(seen.job.parameters["step_size"])
    for number, model in enumerate(seen.models, start=1):
        assert model == pytest.approx(w, rel=1e-10, abs=1e-12)
        drawn = [client_of(row) for row in seen.of("sampled") if row["round"] == number]
        assert len(drawn) == 2
        gradients = [gradient_of(seen, client, w) for client in drawn]
        w = w - alpha * 4 / 2 * sum(top(gradient) for gradient in gradients)


@pytest.mark.parametrize(("feedback", "said"), [("none", True), ("ef", False), ("ef21", False)])
def test_noise_takes_a_shorter_step(feedback: str, *, said: bool) -> None:
    """With omega = 1, M = 2, L_max = 2 it is 1/8; feedback has a theory of its own."""
    up = {"compressor": {"kind": "rand-k", "fraction": 0.5}, "error_feedback": feedback}
    link = Compression.model_validate(up)
    uplink = promise(link, 10)
    info = ProblemInfo(2, 10, lambda: 3.0, lambda: np.array([1.0, 2.0]), uplink=uplink)
    assert not list(CompressedDescent(step_size=1 / 8).concerns(info))
    concerns = list(CompressedDescent(step_size=0.2).concerns(info))
    assert [concern.key for concern in concerns] == ["step_size"] * said
    assert all("got 0.2" in text and "= 0.125 " in text for _, text in concerns)


def client_of(row: dict[str, Any]) -> int:
    return int(row["node"].removeprefix("client-"))


def gradient_of(seen: Seen, client: int, w: Array) -> Array:
    """Return a client's gradient: of its own loss, which tests/problems checks."""
    problem = seen.job.problem
    return evaluated(problem.oracles[client].gradient(w), *problem.losses)
