"""Peers that mix their neighbours' vectors by a rule, against loops of NumPy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array
from tests.algorithms.test_gossip import (
    IDEAL,
    NODES,
    ROUNDS,
    STEP,
    adjacency,
    gradient,
    mixing,
    parts,
    scenario,
)

DENSE_GRAPH = {"kind": "random", "degree": 5}
FALSE = NODES - 1
ATTACKED: list[dict[str, Any]] = [
    {"count": NODES - 1},
    {"count": 1, "attack": {"kind": "sign-flip", "scale": 3}},
]
RADIUS = 0.2


def clipped(own: Array, received: list[Array], weights: list[float]) -> Array:
    moved = own.copy()
    for vector, weight in zip(received, weights, strict=True):
        difference = vector - own
        length = float(np.sqrt((difference**2).sum()))
        moved += weight * (difference if length <= RADIUS else RADIUS / length * difference)
    return moved


def trimmed(own: Array, received: list[Array], weights: list[float]) -> Array:
    """With f = 1: of each coordinate, without the least and the largest of the neighbours'."""
    kept = []
    for k, value in enumerate(own):
        others = sorted(float(vector[k]) for vector in received)
        kept.append(np.mean([value, *others[1:-1]]))
    return np.array(kept)


RULES: dict[str, tuple[dict[str, Any], Any]] = {
    "clipped-gossip": ({"radius": RADIUS}, clipped),
    "trimmed-mean": ({"byzantine": 1}, trimmed),
}


def loop(rule: Any, graph: Array, data: list[tuple[Array, Array]], d: int) -> list[Array]:
    """Return the means of the models; node `FALSE` sends -3 times its own."""
    x, W, means = np.zeros((NODES, d)), mixing(graph), []
    for _ in range(ROUNDS):
        sent = x.copy()
        sent[FALSE] *= -3
        after = []
        for i in range(NODES):
            near = np.flatnonzero(graph[i])
            mixed = rule(x[i], [sent[j] for j in near], [W[i, j] for j in near])
            after.append(mixed - STEP * gradient(x[i], *data[i]))
        x = np.array(after)
        means.append(x.mean(axis=0))
    return means


@pytest.mark.parametrize("kind", RULES)
def test_d_psgd_is_the_loop(kind: str) -> None:
    settings, rule = RULES[kind]
    written = scenario(DENSE_GRAPH, ATTACKED) | {"aggregation": {"kind": kind, **settings}}
    result = fedsim.run(written)
    means = np.array([model.ravel() for model in result.models["model"]])
    expected = loop(rule, adjacency(result.events), parts(written), means.shape[1])
    assert np.abs(means - np.array(expected)).max() < 1e-10


@pytest.mark.parametrize("kind", RULES)
def test_a_rule_keeps_what_a_malicious_client_would_destroy(kind: str) -> None:
    written = scenario(DENSE_GRAPH, ATTACKED) | {"models": {}}
    false = fedsim.run(written).rounds["objective"]
    held = fedsim.run(written | {"aggregation": {"kind": kind, **RULES[kind][0]}}).rounds
    true = fedsim.run(scenario(DENSE_GRAPH, IDEAL) | {"models": {}}).rounds["objective"]
    assert held["objective"].iloc[-1] < false.iloc[-1]
    assert held["objective"].iloc[-1] < 1.5 * true.iloc[-1]


def test_with_a_large_radius_it_is_the_weighted_mean() -> None:
    """Gossip of random vectors: nothing is clipped."""
    written = scenario(DENSE_GRAPH) | {"algorithm": {"kind": "gossip"}}
    clipping = written | {"aggregation": {"kind": "clipped-gossip", "radius": 1e9}}
    one, other = fedsim.run(written).rounds, fedsim.run(clipping).rounds
    assert other["consensus"].to_numpy() == pytest.approx(one["consensus"].to_numpy(), abs=1e-12)


@pytest.mark.parametrize("otherwise", ["median", "skip", "end"])
def test_too_few_neighbours(otherwise: str, tmp_path: Path) -> None:
    """On a ring each has two, and the trimmed mean of f = 1 needs three."""
    rule = {"kind": "trimmed-mean", "byzantine": 1, "otherwise": otherwise}
    written = scenario({"kind": "ring"}) | {"aggregation": rule, "stop": {"rounds": 4}}
    result = fedsim.run(written, out=tmp_path)
    summary = json.loads((result.runs[0] / "summary.json").read_text(encoding="utf-8"))
    if otherwise == "end":
        assert summary["rounds"] == 0
        assert summary["reason"] == "trimmed-mean needs 2f + 1 = 3 vectors, and got 2"
        return
    short = "trimmed-mean had fewer than 2f + 1 = 3 vectors"
    if otherwise == "skip":  # each node goes on alone
        kept = f"{4 * NODES} rounds of nodes kept the node's own vector"
        note = f"aggregation.otherwise: {kept}: {short}"
    else:
        assert result.rounds["replaced"].iloc[1:].tolist() == [NODES] * 4
        note = f"in {4 * NODES} of {4 * NODES} rounds of nodes {short}"
    assert any(note in each for each in summary["notes"])


def test_neighbours_that_are_not_finite_are_left_out() -> None:
    fleet = [ATTACKED[0], {"count": 1, "attack": {"kind": "nan"}}]
    rule = {"kind": "clipped-gossip", "radius": 1.0}
    result = fedsim.run(scenario(DENSE_GRAPH, fleet) | {"aggregation": rule})
    assert np.isfinite(result.rounds["objective"]).all()
    assert result.rounds["dropped"].iloc[1:].tolist() == [5] * ROUNDS


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"aggregation": {"kind": "krum", "byzantine": 1}}, "use mean or trimmed-mean"),
        (
            {
                "algorithm": {"kind": "extra", "step_size": 0.1},
                "aggregation": {"kind": "clipped-gossip", "radius": 1.0},
            },
            "one of the methods d-psgd, dfedavg or gossip",
        ),
        (
            {"aggregation": {"kind": "trimmed-mean", "byzantine": 1, "before": ["nnm"]}},
            "peers mix the vectors as they are",
        ),
        (
            {"network": {}, "algorithm": {"kind": "fedavg", "step_size": 0.1, "local_steps": 2},
             "aggregation": {"kind": "clipped-gossip", "radius": 1.0}},
            "a rule of peers",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        fedsim.run(scenario(DENSE_GRAPH) | changed)
