"""FedSGM's mean iterate keeps what the theorem promises, and what exceeds it is told."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.algorithms import FedSGM, ProblemInfo
from fedsim.algorithms.switching import Theorem
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array
from fedsim.wire import Contract
from tests.algorithms.local_loops import FEATURES, SIZES, local, told
from tests.algorithms.neyman_pearson import pair, solved
from tests.algorithms.sums import FULL, RANDOM
from tests.tiers import examples
from tests.wire.compressors import ALL, of_class


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switching", "steps", "wire"),
    [("hard", 1, FULL), ("hard", 3, RANDOM), ("soft", 1, RANDOM), ("soft", 3, FULL)],
    ids=["hard-1-full", "hard-3-rand-k", "soft-1-rand-k", "soft-3-full"],
)  # every pair of two of the three
def test_the_mean_iterate_is_within_the_theorem_s_tolerance(
    switching: str, steps: int, wire: dict[str, Any], tmp_path: Path
) -> None:
    """The logistic g is above 0 everywhere: what must not be exceeded is a level of it.

    It is exceeded at the start, where all steps are on g.
    """
    two, level, rounds = pair(tmp_path), 0.3, 400 if switching == "hard" else 1200
    best = solved(two, level)
    rows = [np.linalg.norm(X, axis=1).mean() for X in (*two.zeros, *two.ones)]
    theory = {"diameter": float(np.linalg.norm(best)), "lipschitz": max(rows), "rounds": rounds}
    q = 0.0 if wire is FULL else FEATURES / 2 - 1
    made = Theorem.model_validate(theory).constants(steps, q, len(SIZES), soft=switching == "soft")
    algorithm = {
        "kind": "fedsgm",
        "step_size": "theory",
        "tolerance": level + made.tolerance,
        "switching": switching,
        "local_steps": steps,
        "output": "average",
        "theory": theory,
    }
    if switching == "soft":
        algorithm |= {"sharpness": 2 / made.tolerance}
    seen = told(two.problem, algorithm, tmp_path, wire=wire, stop={"rounds": rounds})
    switched = [row["switch"] for row in seen.rounds]
    assert level + made.tolerance < two.g(np.zeros(FEATURES))
    assert switched[0] == 1
    assert 0 < np.mean(switched) < 1
    mean = seen.run.models[-1]
    assert seen.run.job.parameters["step_size"] == pytest.approx(made.step_size)
    assert two.g(mean) <= level + made.tolerance
    assert two.f(mean) - two.f(best) <= made.tolerance


def test_the_constants_by_hand() -> None:
    """E = 5, q = 9, n = 10: Gamma = 50 + 45/20 = 52.25."""
    made = Theorem(diameter=2.0, lipschitz=3.0, rounds=100).constants(5, 9.0, 10, soft=False)
    assert made.step_size == pytest.approx(np.sqrt(4 / (2 * 9 * 500 * 52.25)))
    assert made.tolerance == pytest.approx(np.sqrt(2 * 4 * 9 * 52.25 / 500))


@given(st.integers(1, 50), st.floats(0, 100), st.integers(1, 100), st.integers(1, 10**6))
def test_the_tolerance_is_what_the_step_leaves(steps: int, q: float, n: int, T: int) -> None:
    """The bound D^2/(2 eta E T) + eta G^2 Gamma of Theorem 1 is least at its eta, and eps is it."""
    D, G = 2.0, 3.0
    gamma = 2 * steps**2 + steps * q / (2 * n) if q else steps / 2
    eta, eps = Theorem(diameter=D, lipschitz=G, rounds=T).constants(steps, q, n, soft=False)
    assert D**2 / (2 * eta * steps * T) + eta * G**2 * gamma == pytest.approx(eps)
    assert D**2 / (2 * eta * steps * T) == pytest.approx(eta * G**2 * gamma)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
@given(seed=st.integers(0, 10**6))
@examples(25)
def test_without_compression_the_smaller_constants_do(steps: int, soft: bool, seed: int) -> None:
    """Piecewise linear f_j and g_j, for which the bounds of subgradient methods are made."""
    rng, T, d, clients = np.random.default_rng(seed), 60, 3, 4
    F, H = (rng.standard_normal((clients, 5, d)) for _ in range(2))
    F, H = (A / np.linalg.norm(A, axis=2, keepdims=True) for A in (F, H))
    w, best = rng.standard_normal(d), np.zeros(d)  # f_j = max a.w is least at 0, or below it
    D = float(np.linalg.norm(w))
    theory = Theorem(diameter=D, lipschitz=1.0, rounds=T)
    eta, eps = theory.constants(steps, 0.0, clients, soft=soft)
    method = FedSGM(
        step_size=eta, tolerance=eps, switching="soft" if soft else "hard", local_steps=steps
    )
    total, weight = np.zeros(d), 0.0

    def value(A: Array, v: Array) -> float:
        return float(np.mean([(a @ v).max() for a in A]))

    for _ in range(T):
        s = method.switch(value(H, w))
        total, weight = total + (1 - s) * w, weight + 1 - s
        ends = []
        for f, h in zip(F, H, strict=True):
            v = w
            for _ in range(steps):
                v = v - eta * ((1 - s) * f[(f @ v).argmax()] + s * h[(h @ v).argmax()])
            ends.append(v)
        w = np.mean(ends, axis=0)
    assert weight > 0
    mean = total / weight
    assert value(H, mean) <= eps * (1 + 1e-9)
    assert value(F, mean) - value(F, best) <= eps * (1 + 1e-9)


# -- what is refused, and what theory does not cover -----------------------------------


def info(**more: Any) -> ProblemInfo:
    return ProblemInfo(10, 5, lambda: 2.0, **more)


THEORY = Theorem(diameter=2.0, lipschitz=3.0, rounds=100)


def test_steps_and_tolerances_beyond_the_theorem_are_concerns() -> None:
    """Without compression eta = D/(G E sqrt(T)) = 1/15 and eps = D G/sqrt(T) = 0.6."""
    beyond = FedSGM(step_size=0.07, tolerance=0.5, theory=THEORY).configure(info())
    step, tolerance = beyond.concerns(info())
    assert (step.key, tolerance.key) == ("step_size", "tolerance")
    assert "got 0.07, but the theory's step is 0.06667" in step.text
    assert "got 0.5, but" in tolerance.text
    assert "0.6 " in tolerance.text
    within = FedSGM(step_size="theory", tolerance="theory", theory=THEORY).configure(info())
    assert (within.eta, within.eps) == pytest.approx((1 / 15, 0.6))
    assert not list(within.concerns(info()))
    assert not list(FedSGM(step_size=9.0, tolerance=0.1).concerns(info()))


def test_soft_switching_takes_the_theory_s_beta() -> None:
    soft = FedSGM(step_size="1/L", tolerance="theory", switching="soft", theory=THEORY)
    ready = soft.configure(info())
    assert (ready.eta, ready.eps) == pytest.approx((0.5, 1.2))
    assert ready.sharpness == pytest.approx(2 / 1.2)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"uplink": Contract("contractive", 0.5)}, "contractive, and not unbiased"),
        ({"downlink": Contract("unbiased", 0.5)}, "downlink"),
        ({"cohort_size": 3}, "sample"),
    ],
)
def test_what_the_paper_leaves_open_is_marked(more: dict[str, Any], match: str) -> None:
    (concern,) = FedSGM(step_size=1.0, tolerance=0.1).concerns(info(**more))
    assert concern.key == "kind"
    assert match in concern.text
    assert "the convergence theory of fedsgm assumes" in concern.text


def test_theory_is_of_unbiased_compressors() -> None:
    method = FedSGM(step_size="theory", tolerance=0.1, theory=THEORY)
    with pytest.raises(ParameterError, match="this one is contractive") as caught:
        method.configure(info(uplink=Contract("contractive", 0.5)))
    assert caught.value.key == "step_size"
    said = str(caught.value).rpartition(", or use ")[2]
    assert {*re.split(", | or ", said)} == {ALL[name].kind for name in of_class("unbiased")}
    covered = info(uplink=Contract("unbiased", 0.5))
    assert not list(FedSGM(step_size=1.0, tolerance=0.1).concerns(covered))
    assert method.configure(covered).eta > 0


@pytest.mark.parametrize(
    ("block", "match"),
    [
        ({"step_size": "theory", "tolerance": 0.1}, "needs theory: {diameter"),
        ({"step_size": 0.1, "tolerance": "theory"}, "needs theory: {diameter"),
        ({"step_size": 0.1, "tolerance": 0.1, "sharpness": 3.0}, "belongs to soft switching"),
        ({"step_size": 0.1, "tolerance": 0.0}, "tolerance"),
        ({"step_size": "much", "tolerance": 0.1}, "step_size"),
    ],
)
def test_what_a_block_cannot_mean(block: dict[str, Any], match: str, tmp_path: Path) -> None:
    scenario = {"problem": pair(tmp_path).problem.block, "algorithm": {"kind": "fedsgm"} | block}
    with pytest.raises(fedsim.ScenarioError, match=match):
        fedsim.load(scenario)


def test_it_takes_a_loss_with_a_constraint(tmp_path: Path) -> None:
    algorithm = {"kind": "fedsgm", "step_size": 0.1, "tolerance": 0.1}
    with pytest.raises(fedsim.ScenarioError, match="take neyman-pearson"):
        fedsim.load({"problem": local(tmp_path).block, "algorithm": algorithm})
