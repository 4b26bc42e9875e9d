"""Malicious clients and rules of aggregation in whole runs, against loops of NumPy."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import fedsim
from fedsim.core.blocks.declared import reasons
from fedsim.core.blocks.nature import OF_SIMULATION
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array, Packer
from fedsim.protocol.attacks import ATTACKS, FalsePacker, largest_shift
from fedsim.protocol.attacks.alone import ReplayAttack
from tests.algorithms.local_loops import SIZES, Local, check_near, local, told
from tests.runs import files, small

FEDAVG: dict[str, Any] = {"kind": "fedavg", "step_size": 0.05, "local_steps": 3}
FALSE = (3, 4)
"""The clients of the last group."""


def fleet(attack: dict[str, Any] | None) -> list[dict[str, Any]]:
    group = {} if attack is None else {"attack": attack}
    return [{"count": len(SIZES) - len(FALSE)}, {"count": len(FALSE), **group}]


def update(problem: Local, client: int, w: Array) -> Array:
    own = w
    for _ in range(FEDAVG["local_steps"]):
        own = own - FEDAVG["step_size"] * problem.gradient(client, own)
    return own - w


def trimmed(vectors: Array) -> Array:
    return np.asarray(np.sort(vectors, axis=0)[1:-1].mean(axis=0))


def weighted(problem: Local, vectors: Array) -> Array:
    return problem.weights @ vectors


def flipped(vectors: Array) -> Array:
    return np.array([-4 * v if m in FALSE else v for m, v in enumerate(vectors)])


def little(vectors: Array) -> Array:
    true = vectors[: FALSE[0]]
    shift = true.mean(axis=0) + 1.5 * true.std(axis=0, ddof=1)
    return np.array([shift if m in FALSE else v for m, v in enumerate(vectors)])


def opposed(vectors: Array) -> Array:
    return np.array(
        [-2 * vectors[:3].mean(axis=0) if m in FALSE else v for m, v in enumerate(vectors)]
    )


ATTACKED = {
    "sign-flip": ({"kind": "sign-flip", "scale": 4}, flipped),
    "alie": ({"kind": "alie", "z": 1.5}, little),
    "ipm": ({"kind": "ipm", "scale": 2}, opposed),
}


@pytest.mark.parametrize("attack", ATTACKED)
@pytest.mark.parametrize("rule", ["mean", "trimmed-mean"])
def test_fedavg_is_the_loop(attack: str, rule: str, tmp_path: Path) -> None:
    problem, (block, false) = local(tmp_path), ATTACKED[attack]
    settings = {"kind": rule} | ({"byzantine": 1} if rule == "trimmed-mean" else {})
    seen = told(problem, FEDAVG, tmp_path, fleet=fleet(block), aggregation=settings)
    w, models = np.zeros(problem.dimension), []
    for _ in seen.run.models:
        sent = false(np.array([update(problem, m, w) for m in range(len(SIZES))]))
        w = w + (weighted(problem, sent) if rule == "mean" else trimmed(sent))
        models.append(w)
    check_near(seen.run.models, models)


def test_chb_takes_the_rule_of_all_states_and_silence_keeps_a_state(tmp_path: Path) -> None:
    """Censored clients count with what they sent last: theta descends along M times the median."""
    problem = local(tmp_path)
    alpha, beta = 0.05, 0.4
    method = {"kind": "chb", "step_size": alpha, "momentum": beta, "censor": 2.0}
    seen = told(problem, method, tmp_path, aggregation={"kind": "median"})
    eps1 = 2.0 / (alpha**2 * len(SIZES) ** 2)
    theta = before = np.zeros(problem.dimension)
    held, models, silent = np.zeros((len(SIZES), theta.size)), [], 0
    for _ in seen.run.models:
        models.append(theta)
        step = float((theta - before) @ (theta - before))
        for m, weight in enumerate(problem.weights):
            change = weight * problem.gradient(m, theta) - held[m]
            if change @ change > eps1 * step:
                held[m] += change
            else:
                silent += 1
        aggregate = len(SIZES) * np.median(held, axis=0)
        theta, before = theta - alpha * aggregate + beta * (theta - before), theta
    assert silent > 5
    check_near(seen.run.models, models)


def test_mean_is_what_a_scenario_has_without_the_key(tmp_path: Path) -> None:
    fedsim.run(small(), out=tmp_path / "one")
    fedsim.run(small(aggregation={"kind": "mean"}), out=tmp_path / "other")
    one, other = (files(tmp_path / name) for name in ("one", "other"))
    tables = [name for name in one if name.endswith((".parquet", ".csv"))]
    assert tables
    assert all(one[name] == other[name] for name in tables)


@pytest.mark.parametrize("kind", ["silent", "unreadable"])
def test_who_is_silent_or_unreadable_is_left_out(kind: str, tmp_path: Path) -> None:
    problem = local(tmp_path)
    seen = told(problem, FEDAVG, tmp_path, fleet=fleet({"kind": kind}))
    w, models, true = np.zeros(problem.dimension), [], range(FALSE[0])
    shares = problem.weights[: FALSE[0]] / problem.weights[: FALSE[0]].sum()
    for _ in seen.run.models:
        w = w + shares @ np.array([update(problem, m, w) for m in true])
        models.append(w)
    check_near(seen.run.models, models)
    sent = {
        row["payload_bits"] > 0
        for row in seen.events
        if row["node"] == "client-4" and row["event"] == "send"
    }
    assert (True in sent) == (kind == "unreadable")  # it is charged all the same


def test_vectors_that_are_not_finite_end_a_run_under_mean_alone(tmp_path: Path) -> None:
    problem, group = local(tmp_path), fleet({"kind": "nan"})
    robust = told(problem, FEDAVG, tmp_path, fleet=group, aggregation={"kind": "median"})
    assert np.isfinite(robust.run.models).all()
    scenario = {
        "problem": problem.block,
        "algorithm": FEDAVG,
        "fleet": group,
        "stop": {"rounds": 3},
    }
    with pytest.warns(fedsim.RunWarning, match="diverged in round 1"):
        fedsim.run(scenario)


def test_a_replayed_update_is_one_of_earlier_rounds(tmp_path: Path) -> None:
    problem = local(tmp_path)
    seen = told(problem, FEDAVG, tmp_path, fleet=fleet({"kind": "replay", "rounds": 2}))
    w, models, kept = np.zeros(problem.dimension), [], dict[int, list[Array]]()
    for _ in seen.run.models:
        sent = []
        for m in range(len(SIZES)):
            own = update(problem, m, w)
            earlier = kept.setdefault(m, [])
            sent.append(earlier[0] if m in FALSE and earlier else own)
            kept[m] = [*earlier, own][-2:]
        w = w + problem.weights @ np.array(sent)
        models.append(w)
    check_near(seen.run.models, models)


def test_a_replayed_vector_has_the_shape_of_the_one_it_replaces() -> None:
    # Messages of FedSGM have a constraint's value in some rounds, and an update in others.
    encode = SimpleNamespace(pack=lambda vector, structure: SimpleNamespace(values=vector))
    packer = FalsePacker(cast("Packer", encode), ReplayAttack(), np.random.default_rng(1))
    sent = [np.zeros(()), np.ones(4), np.ones(()), np.zeros(4)]
    assert [packer.pack(vector).values.tolist() for vector in sent] == [0.0, [1.0] * 4] * 2


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ({"kind": "fedexprox", "step_size": 0.1, "mu": 1.0}, "algorithm.extrapolation"),
        ({"kind": "d-psgd", "step_size": 0.1}, "aggregation.kind"),
    ],
)
def test_methods_that_read_single_replies_are_refused(
    algorithm: dict[str, Any], key: str, tmp_path: Path
) -> None:
    scenario = small(algorithm=algorithm, aggregation={"kind": "median"})
    if algorithm["kind"] == "d-psgd":
        scenario |= {"network": {"peers": {"kind": "ring"}}}
    with pytest.raises(ScenarioError, match=key):
        fedsim.run(scenario)


def test_a_rule_for_more_replies_than_a_round_has_is_refused() -> None:
    with pytest.raises(ScenarioError, match="needs 7 replies, but a round has 5"):
        fedsim.run(small(aggregation={"kind": "krum", "byzantine": 2}))


def test_z_of_alie() -> None:
    """Baruch, Baruch, Goldberg 2019: n = 50 with 12 and 24 malicious clients."""
    assert largest_shift(50, 12) == pytest.approx(0.336, abs=5e-4)
    assert largest_shift(50, 24) == pytest.approx(1.426, abs=5e-4)
    assert largest_shift(3, 2) == 1e3


@pytest.mark.parametrize("kind", sorted(ATTACKS.own))
@pytest.mark.parametrize("method", ["fedavg", "chb", "scaffold", "ef21"])
def test_every_attack_runs_with_every_kind_of_server(kind: str, method: str) -> None:
    needed = {"scaled": {"factor": -3.0}}
    steps = {"fedavg": {"step_size": 0.001}, "scaffold": {"step_size": 0.0001}}
    scenario = small(
        algorithm={"kind": method, **steps.get(method, {"step_size": "0.1/L"})},
        fleet=[{"count": 4}, {"count": 1, "attack": {"kind": kind, **needed.get(kind, {})}}],
        aggregation={"kind": "trimmed-mean", "byzantine": 1},
        stop={"rounds": 3},
    )
    result = fedsim.run(scenario)
    assert np.isfinite(result.rounds["objective"]).all()


def test_a_live_run_refuses_what_live_clients_cannot_do() -> None:
    """What a malicious client does alone, a live one does too, but for numbers not finite."""
    needed: dict[str, Any] = {"scaled": {"factor": -3.0}}
    refused = {
        kind
        for kind, attack in ATTACKS.own.items()
        if any(reasons(attack(**needed.get(kind, {})), OF_SIMULATION))
    }
    assert refused == {"nan", "unreadable", "silent", "alie", "ipm", "mimic"}
