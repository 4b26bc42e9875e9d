"""D-PSGD against a loop of its own, on ideal and on physical networks."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.tiers import every

NODES, ROUNDS, STEP, L2 = 8, 30, 0.3, 0.1
IDEAL: list[dict[str, Any]] = [{"count": NODES}]
RADIO: dict[str, Any] = {
    "kind": "wifi",
    "up": "2 Mbit/s",
    "down": "8 Mbit/s",
    "latency": "3 ms",
    "energy_up": "1 uJ/bit",
}
LOSSY = RADIO | {"loss": {"kind": "independent", "rate": "10 %"}, "tries": "unlimited"}
SLOW = {"device": {"kind": "pi-4", "speed": "1 MFLOP/s"}, "radio": RADIO}
PHYSICAL = [{"count": 5, "device": "pi-4", "radio": LOSSY}, {"count": 3, **SLOW}]
RING, RANDOM = {"kind": "ring"}, {"kind": "random", "degree": 3}


def scenario(
    neighbours: dict[str, Any], fleet: list[dict[str, Any]] = IDEAL, **network: Any
) -> dict[str, Any]:
    return {
        "problem": {
            "loss": {"kind": "logistic", "scale": "mean", "l2": L2, "labels": "plus-minus"},
            "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
            "split": {"kind": "iid", "remainder": "drop"},
        },
        "algorithm": {"kind": "d-psgd", "step_size": STEP},
        "wire": {"values": "float64"},
        "fleet": fleet,
        "network": {**network, "peers": neighbours},
        "stop": {"rounds": ROUNDS},
        "models": {"every": 1},
    }


def parts(written: dict[str, Any]) -> list[tuple[Array, Array]]:
    """Return the features and the labels of each node."""
    plan = load(written)
    job = Builder(plan).build(plan.variants[0], 1)
    dense = [np.asarray(part.X, dtype=float) for part in job.problem.samples]
    return [
        (X, np.where(part.y == part.y.max(), 1.0, -1.0))
        for X, part in zip(dense, job.problem.samples, strict=True)
    ]


def loss(w: Array, X: Array, y: Array) -> float:
    return float(np.log1p(np.exp(-y * (X @ w))).mean() + L2 / 2 * w @ w)


def gradient(w: Array, X: Array, y: Array) -> Array:
    return np.asarray(X.T @ (-y / (1 + np.exp(y * (X @ w)))) / len(y) + L2 * w)


def adjacency(events: pd.DataFrame) -> Array:
    """Return who has sent something to whom."""
    graph = np.zeros((NODES, NODES))
    sent = events.loc[events["event"] == "send", ["node", "peer"]].drop_duplicates()
    for node, peer in sent.to_numpy():
        graph[int(node[7:]), int(peer[7:])] = 1.0
    return graph


def mixing(graph: Array) -> Array:
    """Return the matrix of Metropolis and Hastings."""
    degrees = graph.sum(axis=1)
    W = graph / (1 + np.maximum.outer(degrees, degrees))
    return np.asarray(W + np.diag(1 - W.sum(axis=1)))


def loop(graph: Array, data: list[tuple[Array, Array]], d: int) -> list[Array]:
    """Return the models of all nodes, shape (M, d), round after round."""
    x, W, models = np.zeros((NODES, d)), mixing(graph), []
    for _ in range(ROUNDS):
        gradients = np.array([gradient(x[i], *data[i]) for i in range(NODES)])
        x = W @ x - STEP * gradients
        models.append(x)
    return models


def check(result: fedsim.Result, written: dict[str, Any]) -> None:
    """Compare a run with the loop: the means, the objective there and how far they are apart."""
    data = parts(written)
    means = np.array([model.ravel() for model in result.models["model"]])
    models = loop(adjacency(result.events), data, means.shape[1])
    assert len(means) == ROUNDS
    for mean, made, row in zip(means, models, result.rounds[1:].itertuples(), strict=True):
        expected = made.mean(axis=0)
        assert np.abs(mean - expected).max() < 1e-10
        distance = np.sqrt(((made - expected) ** 2).sum(axis=1).mean())
        assert row.consensus == pytest.approx(distance, abs=1e-10)
        assert row.objective == pytest.approx(
            np.mean([loss(expected, *each) for each in data]), abs=1e-10
        )


@pytest.mark.parametrize("neighbours", [RING, RANDOM, {"kind": "random", "probability": 0.6}])
def test_on_an_ideal_network_it_is_the_loop(neighbours: dict[str, Any]) -> None:
    written = scenario(neighbours)
    result = fedsim.run(written)
    check(result, written)
    graph = adjacency(result.events)
    assert np.array_equal(graph, graph.T)
    if "degree" in neighbours:
        assert (graph.sum(axis=1) == neighbours["degree"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        {},
        {"server": {"uplink": "4 Mbit/s", "latency": "5 ms"}},
        {"topology": "tree", "gateways": 2, "gateway": {"rate": "3 Mbit/s", "latency": "1 ms"}},
        {
            "topology": "graph",
            "edges": [
                {"source": f"client-{n}", "target": f"client-{(n + 1) % NODES}", "rate": "3 Mbit/s"}
                for n in range(NODES)
            ],
        },
    ],
    ids=["radios", "star", "tree", "graph"],
)
def test_on_a_physical_network_it_is_the_same_and_every_send_has_its_receive(
    network: dict[str, Any],
) -> None:
    written = scenario(RANDOM, PHYSICAL, **network)
    result = fedsim.run(written)
    check(result, written)
    events = result.events
    ends = ["node", "peer", "round", "payload_bits", "transport_bits"]
    sent = events[(events["event"] == "send") & events["detail"].isna()]
    came = events[(events["event"] == "receive") & events["detail"].isna()]
    came = came.rename(columns={"node": "peer", "peer": "node"})
    lines = [sorted(map(tuple, rows[ends].to_numpy().tolist())) for rows in (sent, came)]
    assert lines[0] == lines[1]
    assert len(lines[0]) == ROUNDS * NODES * 3
    assert not {"server"} & {*sent["node"], *sent["peer"]}
    assert (events["event"] == "retransmit").any()
    joules = events.groupby("event", observed=True)["joules"].sum()
    assert joules["send"] > 0


def test_bytes_make_the_log_that_values_make(tmp_path: Path) -> None:
    written = scenario(RING, PHYSICAL)
    values = fedsim.run(written, out=tmp_path / "values").events
    carried = fedsim.run(written, out=tmp_path / "bytes", carry="bytes").events
    pd.testing.assert_frame_equal(values, carried)


@pytest.mark.slow
def test_of_many_rounds_and_a_short_step_all_end_near_the_optimum() -> None:
    written = scenario(RING) | {"stop": {"rounds": 400}, "models": {}}
    result = fedsim.run(written | {"algorithm": {"kind": "d-psgd", "step_size": 0.1}})
    last = result.rounds.iloc[-1]
    assert last["gap"] < 0.01
    assert last["consensus"] < 0.05


def test_the_others_go_on_where_a_battery_dies() -> None:
    battery = {"capacity": "300 mJ", "charge": "100 %", "cutoff": "0 %"}
    fleet = [
        {"count": 1, "device": "pi-4", "radio": RADIO, "battery": battery},
        {"count": NODES - 1, "device": "pi-4", "radio": RADIO},
    ]
    result = fedsim.run(scenario(RING, fleet))
    assert result.summary["status"].item() == "done"
    assert result.summary["reason"].item() == f"rounds: {ROUNDS} of {ROUNDS}"
    assert (result.events["event"] == "depleted").sum() == 1
    assert result.rounds["cohort"].iloc[[0, 1, -1]].tolist() == [0, NODES, NODES - 1]


@every(
    ("change", "key", "words"),
    [
        ({"network": {}}, "network.peers", "network: {peers: {kind: ring}}"),
        ({"algorithm": {"kind": "gd", "step_size": "1/L"}}, "network.peers", "d-psgd"),
        ({"network": {"peers": RING, "model": "lv08"}}, "network.model", "fluid"),
        ({"network": {"peers": RING, "broadcast": "cell"}}, "network.broadcast", "unicast"),
        (
            {"network": {"peers": RING, "server": {"discipline": "slotted"}}},
            "network.server.discipline",
            "fair or fifo",
        ),
        ({"participation": {"kind": "uniform", "count": 3}}, "participation.kind", "use full"),
        ({"participation": {"kind": "full", "quorum": "50 %"}}, "participation.quorum", "deadline"),
        (
            {"wire": {"down": {"compressor": {"kind": "top-k", "fraction": 0.5}}}},
            "wire.down",
            "wire.up",
        ),
        (
            {"fleet": [{"count": 8, "availability": {"kind": "bernoulli", "share": "50 %"}}]},
            "fleet.0.availability.kind",
            "gone for good",
        ),
        ({"network": {"peers": {"kind": "random"}}}, "network.peers.degree", "one of the two"),
        (
            {"network": {"peers": {"kind": "random", "degree": 8}}},
            "network.peers.degree",
            "less than the 8 nodes",
        ),
        (
            {"network": {"peers": {"kind": "edges", "edges": [[0, 1], [2, 3]]}}},
            "network.peers.kind",
            "no path leads from 0 to 2, 3, 4, ...",
        ),
        (
            {"network": {"peers": {"kind": "edges", "edges": [[0, 8]]}}},
            "network.peers.edges.0",
            "of 0 to 7",
        ),
        (
            {"fleet": [{"count": 8, "radio": LOSSY | {"tries": 2}}]},
            "fleet.0.radio.tries",
            "participation.deadline",
        ),
    ],
)
def test_what_does_not_go_together_is_one_error(
    change: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        fedsim.run(scenario(RING) | change)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault.message


def test_what_is_lost_for_good_is_done_without_after_the_deadline() -> None:
    fleet = [{"count": NODES, "device": "pi-4", "radio": LOSSY | {"tries": 1}}]
    written = scenario(RING, fleet) | {"participation": {"kind": "full", "deadline": "1 s"}}
    result = fedsim.run(written)
    assert result.summary["status"].item() == "done"
    assert (result.events["event"] == "lost").any()
    assert result.rounds["objective"].iloc[-1] < result.rounds["objective"].iloc[0]


@pytest.mark.slow
def test_what_reads_a_run_reads_one_of_peers(tmp_path: Path) -> None:
    run = fedsim.run(scenario(RING, PHYSICAL), out=tmp_path, overrides=["stop.rounds=4"])
    said = {
        words: CliRunner().invoke(app, words.split())
        for words in (f"report {tmp_path}", f"trace {tmp_path}", f"compare {tmp_path}")
    }
    for words, result in said.items():
        assert result.exit_code == 0, f"{words}\n{result.output}"
    assert len(list(tmp_path.rglob("trace.json"))) == 1
    table = run.clients
    assert (table["transmissions"] == 8).all()
    assert table["bits_up"].sum() == table["bits_down"].sum()


def test_a_run_of_peers_is_not_priced_again(tmp_path: Path) -> None:
    fedsim.run(scenario(RING), out=tmp_path, overrides=["stop.rounds=4"])
    dear = CliRunner().invoke(app, ["reprice", str(tmp_path), "--set", "fleet.0.radio=lte"])
    assert dear.exit_code == 2
    assert "network.peers: got ring" in dear.output
