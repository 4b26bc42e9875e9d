"""Methods of peers on graphs that change: against loops over matrices, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.physics.graphs_in_time import GraphInTime
from fedsim.physics.mobility import RandomWaypoint

from .test_peer_methods import (
    ETA,
    NODES,
    ROUNDS,
    ZERO,
    distance_to_loop,
    drawn,
    gradients,
    run,
)

CONTACTS = [[0, 1, 0, 35], [1, 2, 10, 25], [3, 4, 0, 12], [2, 5, 20, 90], [0, 5, 30, 90]]
WALK = {"kind": "random-waypoint", "range": "60 m", "width": "100 m", "height": "100 m"}


def shifted(number: int) -> Array:
    """Return W of the one-peer graph of six nodes in an exchange, from 0."""
    step = 2 ** (number % 3)
    W = np.zeros((NODES, NODES))
    for node in range(NODES):
        W[node, node] += 0.5
        W[node, (node - step) % NODES] += 0.5
    return W


def metropolis(edges: set[tuple[int, int]], nodes: int) -> Array:
    degrees = [sum(node in edge for edge in edges) for node in range(nodes)]
    W = np.eye(nodes)
    for one, other in edges:
        W[one, other] = W[other, one] = weight = 1 / (1 + max(degrees[one], degrees[other]))
        W[one, one] -= weight
        W[other, other] -= weight
    return W


def descent(matrices: Iterator[Array]) -> Iterator[Array]:
    x = ZERO
    for W in matrices:
        x = W @ x - ETA * gradients(x)
        yield x


def pushed(matrices: Iterator[Array]) -> Iterator[Array]:
    x, mass = drawn(), np.ones((NODES, 1))
    for W in matrices:
        x, mass = W @ x, W @ mass
        yield x / mass


def tracked(matrices: Iterator[Array]) -> Iterator[Array]:
    x, y = ZERO, gradients(ZERO)
    for W in matrices:
        new = W @ x - ETA * y
        y = W @ y + gradients(new) - gradients(x)
        x = new
        yield x


def recorded() -> Iterator[Array]:
    """Yield W of exchanges that begin every 10 s."""
    for number in range(ROUNDS):
        now = 10.0 * number
        yield metropolis({(a, b) for a, b, lo, hi in CONTACTS if lo <= now < hi}, NODES)


def walked() -> Iterator[Array]:
    """Yield W of exchanges that begin every 10 s among walkers, drawn as the run draws them."""
    law = RandomWaypoint(range="60 m", width="100 m", height="100 m")
    graph = GraphInTime(NODES, law.changes(NODES, stream(1, "overlay")))
    for number in range(ROUNDS):
        graph.advance(10.0 * number)
        pairs = graph.overlay().pairs()
        yield metropolis({(one, other) for one, other in pairs if one < other}, NODES)


def matched() -> Iterator[Array]:
    for number in range(1, ROUNDS + 1):
        order = stream(1, "overlay", number).permutation(NODES).tolist()
        edges = {(order[k], order[k + 1]) for k in range(0, NODES, 2)}
        yield metropolis(edges, NODES)


PEERS: dict[str, tuple[dict[str, Any], Any]] = {
    "one-peer": ({"kind": "one-peer"}, lambda: (shifted(k) for k in range(ROUNDS))),
    "random-matching": ({"kind": "random-matching"}, matched),
    "contacts": ({"kind": "contacts", "contacts": CONTACTS, "every": "10 s"}, recorded),
    "random-waypoint": ({**WALK, "every": "10 s"}, walked),
}


@pytest.mark.parametrize("graph", PEERS)
@pytest.mark.parametrize(
    ("method", "loop"),
    [
        ({"kind": "d-psgd", "step_size": ETA}, descent),
        ({"kind": "push-sum"}, pushed),
        ({"kind": "diging", "step_size": ETA}, tracked),
    ],
)
def test_on_a_changing_graph_a_method_is_its_loop(
    graph: str, method: dict[str, Any], loop: Any, tmp_path: Path
) -> None:
    peers, matrices = PEERS[graph]
    result = run(method, tmp_path, network={"peers": peers})
    assert distance_to_loop(result, loop(matrices())) < 1e-10


EIGHT: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "logistic", "l2": 0.1, "labels": "plus-minus"},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "iid"},
    },
    "algorithm": {"kind": "gossip"},
    "wire": {"values": "float64"},
    "fleet": [{"count": 8}],
    "network": {"peers": {"kind": "one-peer"}},
    "stop": {"rounds": 4},
}


def test_one_peer_gossip_ends_at_the_mean_after_log2_exchanges() -> None:
    apart = fedsim.run(EIGHT).rounds["consensus"]
    assert apart.iloc[2] > 0.1
    assert apart.iloc[3] < 1e-14


def test_mixing_among_walkers_keeps_the_mean_of_the_models(tmp_path: Path) -> None:
    result = run(
        {"kind": "gossip"},
        tmp_path,
        network={"peers": {**WALK, "every": "10 s"}},
        fleet=[{"count": NODES, "device": "pi-4", "radio": "wifi"}],
    )
    means = np.array([model.ravel() for model in result.models["model"]])
    assert np.abs(means - drawn().mean(axis=0)).max() < 1e-12
    # Exchanges begin 10 s apart, and their first messages are sent the same time later.
    sent = result.events[result.events["event"] == "send"]
    first = (sent["t"] - sent["duration"]).groupby(sent["round"]).min()
    assert np.diff(first.sort_index()) == pytest.approx(10.0, abs=1e-6)


def test_a_node_that_leaves_is_in_no_later_exchange(tmp_path: Path) -> None:
    result = run(
        {"kind": "gossip"},
        tmp_path,
        network={"peers": {**WALK, "range": "200 m", "every": "10 s"}},
        fleet=[
            {"count": 1, "device": "pi-4", "radio": "wifi", "battery": {"capacity": "0.02 Wh"}},
            {"count": NODES - 1, "device": "pi-4", "radio": "wifi"},
        ],
    )
    gone = result.events.loc[result.events["event"] == "depleted", "t"]
    assert len(gone) == 1
    sent = result.events[result.events["event"] == "send"]
    assert result.rounds["round"].iloc[-1] == ROUNDS
    late = sent[sent["t"] > gone.iloc[0] + 10]
    assert len(late)
    assert not (late[["node", "peer"]] == "client-0").any(axis=None)


@pytest.mark.parametrize(
    ("method", "network", "key", "words"),
    [
        (
            {"kind": "extra", "step_size": ETA},
            {"peers": {"kind": "one-peer"}},
            "network.peers.kind",
            "extra needs a graph that does not change",
        ),
        (
            {"kind": "gossip"},
            {"peers": WALK, "mixing": {"kind": "best-constant"}},
            "network.mixing.kind",
            "has weights by metropolis",
        ),
        (
            {"kind": "gossip"},
            {"peers": {"kind": "contacts", "contacts": [[0, 9, 0, 5]]}},
            "network.peers.contacts",
            "clients of 0 to 5",
        ),
        (
            {"kind": "gossip"},
            {"peers": {"kind": "contacts", "contacts": [[0, 1, 0, 50]], "repeat": "20 s"}},
            "network.peers.repeat",
            "the last contact ends at 50 s",
        ),
        (
            {"kind": "gossip"},
            {"peers": {"kind": "contacts"}},
            "network.peers.contacts",
            "give one of the two",
        ),
        (
            {"kind": "gossip"},
            {"peers": {**WALK, "max_speed": "0.1 m/s"}},
            "network.peers.max_speed",
            "below min_speed",
        ),
        (
            {"kind": "gossip"},
            {"peers": {"kind": "positions", "range": "5 m", "points": [[0, 0, 1, 1]]}},
            "network.peers.points",
            "no position of client 1",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    method: dict[str, Any], network: dict[str, Any], key: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError) as caught:
        run(method, tmp_path, network=network)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault.message


def test_check_says_how_soon_models_come_together() -> None:
    text = "3 exchanges bring models to their mean"
    assert text in str(fedsim.check(EIGHT).graphs)
    walk = {"network": {"peers": {**WALK, "every": "10 s"}}}
    assert "a node has" in str(fedsim.check(EIGHT | walk).graphs)
