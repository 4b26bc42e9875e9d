"""FedSGM is the loop of its paper, on any network."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.algorithms import FedSGM
from fedsim.algorithms.local_steps import Average
from fedsim.core.ports import Array
from tests.algorithms.local_loops import (
    FEATURES,
    SIZES,
    Told,
    check_near,
    shares,
    told,
)
from tests.algorithms.neyman_pearson import Pair, pair, solved
from tests.algorithms.sums import FULL, LOSSY, RANDOM, TARDY, TOP, in_time, random, top

ETA, STEPS, EPS = 0.4, 3, 0.3
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}


def switch(g: float, eps: float, beta: float | None) -> float:
    """Hard without a beta: 1{g > eps}; soft: 1 + beta (g - eps), cut to [0, 1]."""
    return float(g > eps) if beta is None else float(np.clip(1 + beta * (g - eps), 0, 1))


@dataclass
class Loop:
    """What a loop has come through: models, their means, and the numbers of every round."""

    models: list[Array]
    means: list[Array]
    s: list[float]
    g: list[float]


def fedsgm(
    two: Pair,
    cohorts: list[list[int]],
    compress: list[Callable[[Array], Array]],
    beta: float | None,
    moving: list[list[int]] | None = None,
) -> Loop:
    """Upadhyay, Moon, Hashemi 2025, the algorithm's box; only some may be heard of moving."""
    w, loop = np.zeros(FEATURES), Loop([], [], [], [])
    for cohort, movers in zip(cohorts, moving or cohorts, strict=True):
        if not cohort:
            loop.models.append(w)
            loop.s.append(1.0)  # of no weight in the mean
            continue
        g = two.g(w, cohort)
        s = switch(g, EPS, beta)
        loop.models.append(w)
        loop.s.append(s)
        loop.g.append(g)
        step = np.zeros(FEATURES)
        for share, m in zip(shares(two.problem.weights, movers), movers, strict=True):
            v = w
            for _ in range(STEPS):
                v = v - ETA * ((1 - s) * two.f_slope(m, v) + s * two.g_slope(m, v))
            step = step + share * compress[m]((w - v) / ETA)
        w = w - ETA * step
        kept = 1 - np.array(loop.s)
        loop.means.append(kept @ np.array(loop.models) / kept.sum() if kept.any() else w)
    return loop


def run(two: Pair, folder: Path, beta: float | None, **more: Any) -> Told:
    algorithm: dict[str, Any] = {"kind": "fedsgm", "step_size": ETA, "local_steps": STEPS}
    algorithm |= {"tolerance": EPS}
    if beta is not None:
        algorithm |= {"switching": "soft", "sharpness": beta}
    blocks = {
        key: more.pop(key)
        for key in ("wire", "participation", "fleet", "stop", "counting")
        if key in more
    }
    return told(two.problem, algorithm | more, folder, **blocks)


WIRES: dict[str, tuple[dict[str, Any], Any]] = {
    "full": (FULL, lambda: [lambda v: v] * len(SIZES)),
    "rand-k": (RANDOM, random),
    "top-k": (TOP, lambda: [top] * len(SIZES)),
}


@pytest.mark.parametrize("beta", [None, 2 / EPS, 1.5], ids=["hard", "soft", "softer"])
@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("cohort", ["all", "two"])
def test_it_is_the_paper_s_loop(beta: float | None, name: str, cohort: str, tmp_path: Path) -> None:
    two = pair(tmp_path)
    wire, compress = WIRES[name]
    seen = run(two, tmp_path, beta, wire=wire, **(TWO if cohort == "two" else {}))
    loop = fedsgm(two, seen.cohorts, compress(), beta)
    check_near(seen.run.models, loop.models)
    assert [row["switch"] for row in seen.rounds] == pytest.approx(loop.s, rel=1e-9, abs=1e-9)
    assert [row["seen_constraint"] for row in seen.rounds] == pytest.approx(loop.g, rel=1e-9)
    assert 0 < np.mean(loop.s) < 1  # it has switched


@pytest.mark.parametrize("beta", [None, 2 / EPS], ids=["hard", "soft"])
def test_the_mean_is_of_the_near_feasible_rounds(beta: float | None, tmp_path: Path) -> None:
    two = pair(tmp_path)
    seen = run(two, tmp_path, beta, output="average", counting="rounds")
    loop = fedsgm(two, seen.cohorts, [lambda v: v] * len(SIZES), beta)
    check_near(seen.run.models, loop.means)
    assert [row["seen_constraint"] for row in seen.rounds] == pytest.approx(loop.g, rel=1e-9)


def test_soft_switching_is_hard_in_the_limit(tmp_path: Path) -> None:
    two = pair(tmp_path)
    hard = run(two, tmp_path / "hard", None)
    soft = run(two, tmp_path / "soft", 1e12)
    check_near(soft.run.models, list(hard.run.models))


# -- what a round says, and what it costs ----------------------------------------------


def test_a_round_is_two_exchanges_with_a_number_each(tmp_path: Path) -> None:
    seen = run(pair(tmp_path), tmp_path, None, wire={}, stop={"rounds": 2})
    rows = [row for row in seen.events if row["event"] == "send"]
    number, vector = 8 * (1 + 4), 8 * (2 + 4 + 4 * FEATURES)
    bits = {"model": vector, "constraint": number, "meanconstraint": number, "progress": vector}
    said = [row["message"] for row in rows]
    assert {(row["message"], row["payload_bits"]) for row in rows} == set(bits.items())
    assert {said.count(message) for message in bits} == {2 * len(SIZES)}


def computing(seen: Told) -> float:
    """Return how long clients have computed, s."""
    return float(sum(row["duration"] for row in seen.events if row["event"] == "compute"))


def test_a_gradient_without_weight_is_not_computed(tmp_path: Path) -> None:
    two = pair(tmp_path)
    slow = {"fleet": [{"count": len(SIZES), "device": {"kind": "pi-4", "speed": "1 kflop/s"}}]}
    one = {"stop": {"rounds": 1}} | slow
    hard = computing(run(two, tmp_path / "hard", None, **one))
    half = computing(run(two, tmp_path / "half", 1.5, tolerance=0.9, **one))
    # A value is half a gradient; of the gradients there are 3 for either, or 6 for both.
    assert half / hard == pytest.approx((0.5 + 6) / (0.5 + 3), rel=1e-9)


@pytest.mark.parametrize(("deadline", "rounds"), [("5 s", 60), ("12 ms", 120)])
def test_it_goes_on_where_messages_are_lost_or_late(
    deadline: str, rounds: int, tmp_path: Path
) -> None:
    """Numbers that miss the first exchange come in the second, among the vectors.

    Within 12 ms often no client answers; such a round is no step, and they take more of them.
    """
    two = pair(tmp_path)
    best = solved(two, EPS)
    blocks = LOSSY | {"participation": {"kind": "full", "deadline": deadline}}
    seen = run(two, tmp_path, 2 / EPS, stop={"rounds": rounds}, **blocks)
    abandoned = [row for row in seen.events if row["event"] == "abandoned"]
    assert rounds - len(abandoned) >= 45
    late = [row["message"] for row in seen.events if row["event"] == "late"]
    assert (late.count("constraint") > 10) == (deadline == "12 ms")
    assert two.g(seen.run.models[-1]) < EPS
    assert two.f(seen.run.models[-1]) < two.f(best) + 0.2


SLUGGISH: dict[str, Any] = {
    "fleet": [
        {"count": count, "device": device, "radio": {"kind": "wifi"}}
        for count, device in ((3, "pi-4"), (2, {"kind": "pi-4", "speed": "10 kflop/s"}))
    ],
    "participation": {"kind": "full", "deadline": "60 ms"},
}
"""The last two clients say their numbers in time, and their vectors when they can."""


@pytest.mark.parametrize("late", ["constraint", "progress"])
def test_what_is_late_is_not_counted(late: str, tmp_path: Path) -> None:
    two = pair(tmp_path)
    blocks = (TARDY if late == "constraint" else SLUGGISH) | {"stop": {"rounds": 20}}
    seen = run(two, tmp_path, 2 / EPS, **blocks)
    heard, moved = in_time(seen, "constraint"), in_time(seen, "progress")
    assert [row["event"] for row in seen.events if row["message"] == late].count("late") > 10
    assert (heard == moved) == (late == "constraint")
    check_near(
        seen.run.models, fedsgm(two, heard, [lambda v: v] * len(SIZES), 2 / EPS, moved).models
    )


def test_a_round_that_no_client_answers_moves_nothing(tmp_path: Path) -> None:
    """Nor does the method see it: no figure of it is committed, and the last model stays."""
    radio = LOSSY["fleet"][0]["radio"] | {"loss": {"kind": "independent", "rate": "95 %"}}
    blocks = LOSSY | {"fleet": [LOSSY["fleet"][0] | {"radio": radio}], "stop": {"rounds": 30}}
    blocks["counting"] = "rounds"
    seen = run(pair(tmp_path), tmp_path, None, **blocks)
    unanswered = {row["round"] for row in seen.events if row["event"] == "abandoned"}
    heard = {row["round"] for row in seen.events if row["event"] == "receive"}
    assert len(unanswered) > 20
    assert unanswered & heard, "clients have received the model, and no answer has arrived"
    stays = [number for number in sorted(unanswered) if number > 1]
    for number in stays:
        assert (seen.run.models[number - 1] == seen.run.models[number - 2]).all()
        before, row = seen.rounds[number - 2 : number]
        assert row.get("switch") == before.get("switch")


@given(st.lists(st.tuples(st.floats(-9, 9), st.sampled_from([0.0, 0.25, 1.0])), max_size=20))
def test_a_mean_as_it_comes(added: list[tuple[float, float]]) -> None:
    average, otherwise = Average(np.zeros(1)), np.array([77.0])
    for w, weight in added:
        average.add(np.array([w]), weight)
    total = sum(weight for _, weight in added)
    expected = sum(w * weight for w, weight in added) / total if total else 77.0
    assert average.or_else(otherwise)[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.floats(-5, 5), st.floats(0.01, 1.0))
def test_the_switch_grows_from_nothing_to_one_below_the_tolerance(g: float, eps: float) -> None:
    hard = FedSGM(step_size=1.0, tolerance=eps)
    soft = FedSGM(step_size=1.0, tolerance=eps, switching="soft")
    assert hard.switch(g) == (g > eps)
    assert hard.switch(g) <= soft.switch(g) <= 1.0
    assert soft.switch(eps / 2) == pytest.approx(0.0, abs=1e-12)  # beta = 2/eps
    assert soft.switch(0.75 * eps) == pytest.approx(0.5)
