"""FedSGM that switches by what was known of the constraint before, in rounds and without."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Array
from tests.algorithms.local_loops import FEATURES, SIZES, check_near, shares
from tests.algorithms.neyman_pearson import Pair, pair, solved
from tests.algorithms.sums import FULL, RANDOM, random
from tests.algorithms.test_arrivals import FLEET
from tests.algorithms.test_switching import EPS, ETA, STEPS, run, switch

ALL = list(range(len(SIZES)))
WIRES: dict[str, Any] = {"full": (FULL, lambda: [lambda v: v] * len(SIZES)),
                         "rand-k": (RANDOM, random)}  # fmt: skip


def steps(two: Pair, m: int, w: Array, s: float) -> Array:
    """The sum of the directions of E steps from w."""
    v = w
    for _ in range(STEPS):
        v = v - ETA * ((1 - s) * two.f_slope(m, v) + s * two.g_slope(m, v))
    return np.asarray((w - v) / ETA)


def loop(
    two: Pair, arrivals: list[list[tuple[int, int]]], beta: float | None, compress: Any
) -> tuple[list[Array], list[float]]:
    """Arrivals by round: client, and the round that it answers."""
    known: dict[int, float] = {}
    models, told, switches = [np.zeros(FEATURES)], list[float | None](), list[float]()
    for arrived in arrivals:
        w = models[-1]
        told.append(_mean(two, known) if known else None)
        movers = [(m, tau) for m, tau in arrived if told[tau - 1] is not None]
        for m, tau in arrived:
            known[m] = two.g(models[tau - 1], [m])
        switches.append(switch(_mean(two, known), EPS, beta))
        step = np.zeros(FEATURES)
        weights = shares(two.problem.weights, [m for m, _ in movers])
        for share, (m, tau) in zip(weights, movers, strict=True):
            g = told[tau - 1]
            assert g is not None
            step += share * compress[m](steps(two, m, models[tau - 1], switch(g, EPS, beta)))
        models.append(w - ETA * step)
    return models[:-1], switches


def _mean(two: Pair, known: dict[int, float]) -> float:
    clients = sorted(known)
    return float(shares(two.problem.weights, clients) @ [known[m] for m in clients])


@pytest.mark.parametrize("beta", [None, 2 / EPS], ids=["hard", "soft"])
@pytest.mark.parametrize("name", WIRES)
def test_in_rounds_it_switches_by_the_round_before(
    beta: float | None, name: str, tmp_path: Path
) -> None:
    two = pair(tmp_path)
    wire, compress = WIRES[name]
    seen = run(two, tmp_path, beta, kind="fedsgm-stale", wire=wire, stop={"rounds": 20})
    rounds = [[(m, t) for m in ALL] for t in range(1, 21)]
    models, switches = loop(two, rounds, beta, compress())
    check_near(seen.run.models, models)
    assert [row["switch"] for row in seen.rounds] == pytest.approx(switches, rel=1e-9, abs=1e-9)
    assert 0 < np.mean(switches) < 1
    assert sum(row["message"] == "constrainedprogress" for row in seen.events) > 0


@pytest.mark.parametrize("beta", [None, 2 / EPS], ids=["hard", "soft"])
def test_under_an_asynchronous_server_by_what_it_knows(beta: float | None, tmp_path: Path) -> None:
    two, policy = pair(tmp_path), {"kind": "asynchronous", "buffer": 2}
    more: dict[str, Any] = {"fleet": FLEET, "participation": policy, "stop": {"rounds": 40}}
    seen = run(two, tmp_path, beta, kind="fedsgm-stale", **more)
    rounds = [sorted(seen.arrivals[2 * t : 2 * t + 2]) for t in range(40)]
    models, switches = loop(two, rounds, beta, [lambda v: v] * len(SIZES))
    check_near(seen.run.models, models)
    assert [row["switch"] for row in seen.rounds] == pytest.approx(switches, rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_it_comes_to_the_constrained_optimum_all_the_same(tmp_path: Path) -> None:
    two = pair(tmp_path)
    blocks = {"kind": "fedsgm-stale", "step_size": 0.05, "output": "average"}
    seen = run(two, tmp_path, None, **blocks, stop={"rounds": 600})
    last = seen.run.models[-1]
    assert two.g(last) < EPS + 0.02
    assert two.f(last) < two.f(solved(two, EPS)) + 0.02
