"""FedMiD and FedDualAvg are the loops of their paper, and their messages what they need be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.algorithms import FedDualAvg, FedMid, ProblemInfo
from fedsim.core.ports import DENSE, SPARSE, Array, Structure
from fedsim.problems import NoPenalty, Penalty, Regulariser
from fedsim.problems.penalties import L1, L2, ElasticNet, GroupL2, Nuclear
from tests.algorithms.local_loops import ROUNDS, Local, check_near, shares, told
from tests.algorithms.penalised import PENALTIES, Link, penalised, setting_of, small
from tests.tiers import every, examples

ETA, RATE, STEPS = 0.1, 1.5, 3
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}
BLOCK = {"step_size": ETA, "server_rate": RATE, "local_steps": STEPS}

Map = Callable[[Array, float], Array]


def fedmid(problem: Local, prox: Map, w: Array, cohorts: list[list[int]]) -> list[Array]:
    """Yuan, Zaheer, Reddi, Algorithm 2."""
    models = []
    for cohort in cohorts:
        delta = np.zeros_like(w)
        for share, m in zip(shares(problem.weights, cohort), cohort, strict=True):
            own = w
            for _ in range(STEPS):
                own = prox(own - ETA * problem.gradient(m, own), ETA)
            delta = delta + share * (own - w)
        w = prox(w + RATE * delta, RATE * ETA * STEPS)
        models.append(w)
    return models


def fed_dual_avg(problem: Local, prox: Map, w: Array, cohorts: list[list[int]]) -> list[Array]:
    """Yuan, Zaheer, Reddi, Algorithm 3."""
    z, models = w, []
    for r, cohort in enumerate(cohorts):
        delta = np.zeros_like(z)
        for share, m in zip(shares(problem.weights, cohort), cohort, strict=True):
            own = z
            for k in range(STEPS):
                e = RATE * ETA * r * STEPS + ETA * k
                own = own - ETA * problem.gradient(m, prox(own, e))
            delta = delta + share * (own - z)
        z = z + RATE * delta
        models.append(prox(z, RATE * ETA * (r + 1) * STEPS))
    return models


LOOPS = {"fedmid": fedmid, "fed-dual-avg": fed_dual_avg}


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("cohort", ["all", "two"])
def test_each_is_its_paper_s_loop(kind: str, penalty: str, cohort: str, tmp_path: Path) -> None:
    problem, prox, start = penalised(tmp_path, penalty, batch=4)
    seen = told(problem, {"kind": kind} | BLOCK, tmp_path, **(TWO if cohort == "two" else {}))
    check_near(seen.run.models, LOOPS[kind](problem, prox, start, seen.cohorts))


def test_without_a_penalty_both_are_federated_averaging(tmp_path: Path) -> None:
    problem, _, _ = penalised(tmp_path, "none", batch=4)
    block = {"step_size": ETA, "local_steps": STEPS}
    runs = [
        told(problem, {"kind": kind} | block, tmp_path / kind).run.models
        for kind in ("fedavg", "fedmid", "fed-dual-avg")
    ]
    check_near(runs[1], list(runs[0]))
    check_near(runs[2], list(runs[0]))


@pytest.mark.parametrize("kind", LOOPS)
def test_a_step_size_may_be_a_share_of_1_over_l(kind: str, tmp_path: Path) -> None:
    problem, _, _ = penalised(tmp_path, "l1")
    seen = told(problem, {"kind": kind, "step_size": "0.5/L"}, tmp_path)
    X = np.vstack([X for X, _ in problem.parts])
    L = np.linalg.norm(X, 2) ** 2 / len(X)
    assert seen.run.job.parameters["step_size"] == pytest.approx(0.5 / L, rel=1e-12)


# Messages


def payload_bits(events: list[dict[str, Any]], sender: str) -> list[int]:
    """Return the bits of the payloads that a node or kind of node sends, in order."""
    return [
        row["payload_bits"]
        for row in events
        if row["event"] == "send" and row["node"].startswith(sender)
    ]


def test_a_sparse_model_comes_down_sparse(tmp_path: Path) -> None:
    """Kind and format 16 bits, d and k 8 each, a code of what stands where, 64 bits a value."""
    problem, _, _ = penalised(tmp_path, "l1")
    heavy = {"kind": "l1", "weight": 2.0}
    problem.block["penalty"] = heavy
    seen = told(problem, {"kind": "fedmid", "step_size": ETA}, tmp_path)
    sent = payload_bits(seen.events, "server")
    kept = [int(np.count_nonzero(model)) for model in seen.run.models]
    assert min(kept) == 0 < max(kept)
    for bits, k in zip(sent, np.repeat([6, *kept[:-1]], 5), strict=True):
        assert 0 <= bits - 16 - 16 - 64 * k <= 16


@pytest.mark.parametrize("kind", ["up", "down"])
def test_dual_states_are_one_dense_vector_each_way(kind: str, tmp_path: Path) -> None:
    problem, _, _ = penalised(tmp_path, "l1")
    block = {"kind": "fed-dual-avg", "step_size": ETA}
    seen = told(problem, block, tmp_path, wire={"values": "float32"})
    sent = payload_bits(seen.events, "server" if kind == "down" else "client")
    assert len(sent) == ROUNDS * len(problem.parts)
    assert set(sent) == {16 + 32 + 32 * problem.dimension}


@every(
    ("penalty", "structure"),
    [
        (NoPenalty(), DENSE),
        (L2(weight=1.0), DENSE),
        (L1(weight=1.0), SPARSE),
        (ElasticNet(weight=1.0), SPARSE),
        (GroupL2(weight=1.0), SPARSE),
        (Nuclear(weight=1.0), Structure("low-rank", 4)),
    ],
)
def test_models_have_the_structure_that_the_penalty_gives(
    penalty: Penalty, structure: Structure
) -> None:
    assert Regulariser(penalty, (4, 3)).structure == structure


@pytest.mark.parametrize("method", [FedMid, FedDualAvg])
def test_a_prox_is_charged_with_every_gradient(method: type[Any]) -> None:
    problem = small(Nuclear(weight=0.1), matrix=True)
    link = Link(problem, method(step_size=0.1, local_steps=3), rounds=1)
    link.run()
    svd = 16 * 4 * 3 * 3 + 8 * 3**3
    for node, loss in zip(link.nodes, problem.losses, strict=True):
        assert node.operations == [loss.gradient_operations + svd] * 3


# Rounds without replies


@pytest.mark.parametrize("method", [FedMid, FedDualAvg])
@given(deaf=st.sets(st.integers(1, 6), max_size=5))
@examples(15)
def test_a_round_without_replies_changes_nothing(method: type[Any], deaf: set[int]) -> None:
    """The models are those of the other rounds alone, the last of them standing in for it."""
    problem = small(L1(weight=0.1))
    block = method(step_size=0.05, local_steps=2, batch=3)
    whole = Link(problem, block, rounds=8)
    models = [whole.initial, *whole.run()]
    heard = np.cumsum([number not in deaf for number in range(1, 9)])
    assert np.array_equal(
        Link(problem, block, rounds=8, deaf=deaf).run(), [models[n] for n in heard]
    )


# The models


@given(seed=st.integers(0, 10), weight=st.floats(0.01, 3.0))
@examples(20)
def test_models_of_fed_dual_avg_are_minimisers_in_closed_form(seed: int, weight: float) -> None:
    """w minimises e h + |w - z|^2/2: what is left of z is a subgradient of e h."""
    problem = small(L1(weight=weight), seed=seed)
    link = Link(problem, FedDualAvg(step_size=0.05, local_steps=2), rounds=5)
    models = link.run()
    states = [message.z.values for message in link.told[1:]]  # type: ignore[attr-defined]
    for r, (w, z) in enumerate(zip(models[:-1], states, strict=True), start=1):
        t = 0.05 * 2 * r * weight
        assert (z - w)[w != 0] == pytest.approx(t * np.sign(w[w != 0]), rel=1e-9)
        assert np.abs((z - w)[w == 0]).max(initial=0.0) <= t


@pytest.mark.parametrize("method", [FedMid, FedDualAvg])
def test_so_heavy_a_penalty_leaves_nothing(method: type[Any]) -> None:
    models = Link(small(L1(weight=1e4)), method(step_size=0.01), rounds=3).run()
    assert not models.any()


def test_fed_dual_avg_with_single_steps_on_all_rows_goes_to_the_optimum() -> None:
    problem = small(L1(weight=0.3))
    w = Link(problem, FedDualAvg(step_size=0.05), rounds=2000).run()[-1]
    assert problem.regulariser.residual(w, problem.gradient(w)) < 1e-6


@pytest.mark.parametrize(("server_prox", "weight"), [(True, 0.6), (False, 0.3)])
def test_fedmid_counts_the_penalty_on_both_sides(server_prox: bool, weight: float) -> None:
    """With one client and K = 1 its two soft thresholds are one of 2 h: it minimises f + 2 h."""
    problem = small(L1(weight=0.3), sizes=(20,))
    method = FedMid(step_size=0.05, server_prox=server_prox)
    w = Link(problem, method, rounds=2000).run()[-1]
    gradient = problem.gradient(w)
    assert problem.regulariser.with_weight(weight).residual(w, gradient) < 1e-8


def test_without_the_server_s_prox_fedmid_is_the_mean_of_local_models(tmp_path: Path) -> None:
    problem, prox, w = penalised(tmp_path, "l1")
    seen = told(problem, {"kind": "fedmid", "step_size": ETA, "server_prox": False}, tmp_path)
    models = []
    for _ in range(ROUNDS):
        own = [prox(w - ETA * problem.gradient(m, w), ETA) for m in range(len(problem.parts))]
        w = problem.weights @ np.array(own)
        models.append(w)
    check_near(seen.run.models, models)


# Parameters


def test_rates_beyond_the_theorems_are_named() -> None:
    problem = small(L1(weight=0.1))
    info = setting_of(problem)
    L = float(problem.client_smoothness.max())
    method = FedDualAvg(step_size=1.0, server_rate=2.0)
    rate, step = method.configure(info).concerns(info)
    assert (rate.key, step.key) == ("server_rate", "step_size")
    assert "got 2;" in rate.text
    assert "got 1," in step.text
    assert f"1/(4 L_max) = {0.25 / L:g}" in step.text
    assert not list(FedDualAvg(step_size=0.24 / L).concerns(info))


def test_what_is_configured_for_one_problem_is_not_for_another() -> None:
    method = FedMid(step_size=0.1)
    penalties = [L1(weight=0.1), L1(weight=0.2)]
    ready = [method.configure(setting_of(small(penalty))) for penalty in penalties]
    assert [one.regulariser.penalty for one in ready] == penalties
    assert method.regulariser.penalty == NoPenalty()


@pytest.mark.parametrize("wrong", [0.0, -1.0])
def test_a_server_rate_is_above_0(wrong: float) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        FedMid(step_size=0.1, server_rate=wrong)
    assert (
        ProblemInfo(clients=1, dimension=1, smoothness=lambda: 1.0).regulariser.penalty.kind
        == "none"
    )
