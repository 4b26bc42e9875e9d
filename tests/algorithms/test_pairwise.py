"""Peers that meet in pairs: the laws of random gossip, and AD-PSGD against a loop that replays."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array

from .test_peer_methods import ARROWS, DIM, EDGES, NODES, ROUNDS, drawn, gradients, run

GOSSIP: dict[str, Any] = {"kind": "pairwise-gossip"}
ETA = 0.1
ROOT = Path(__file__).parents[2]
AD_PSGD: dict[str, Any] = {"kind": "ad-psgd", "step_size": ETA}


def radio(rate: int) -> dict[str, Any]:
    return {"kind": "wifi", "up": f"{rate} kbit/s", "down": f"{2 * rate} kbit/s", "latency": "2 ms"}


def members(*speeds: float) -> list[dict[str, Any]]:
    """Return a fleet of nodes that compute so many operations a millisecond, on unequal radios."""
    return [
        {
            "count": 1,
            "device": {"kind": "pi-4", "speed": f"{speed} kFLOP/s"},
            "radio": radio(100 + 7 * number),
        }
        for number, speed in enumerate(speeds)
    ]


UNEQUAL = members(31.0, 47.0, 23.0, 61.0, 19.0, 3.0)


def test_pairwise_gossip_preserves_the_mean(tmp_path: Path) -> None:
    result = run(GOSSIP, tmp_path)
    means = np.array([model.ravel() for model in result.models["model"]])
    assert np.abs(means - means[0]).max() < 1e-14
    apart = result.rounds["consensus"].to_numpy()
    assert apart[-1] < apart[0] / 5
    assert (result.rounds["transmissions"][1:] == 2 * NODES).all()


def second_eigenvalue(graph: "nx.Graph[int]") -> float:
    """Return that of E[W] = I - mean over exchanges of (e_i - e_j)(e_i - e_j)'/2."""
    mean = np.eye(len(graph))
    for i in graph:
        for j in graph.adj[i]:
            e = np.zeros(len(graph))
            e[i], e[j] = 1, -1
            mean -= np.outer(e, e) / 2 / len(graph) / graph.degree(i)
    return float(np.sort(np.linalg.eigvalsh(mean))[-2])


@pytest.mark.parametrize("kind", ["complete", "ring"])
def test_the_squared_distance_falls_by_the_second_eigenvalue_an_exchange(
    kind: str, tmp_path: Path
) -> None:
    """On a complete graph the expectation is that; elsewhere it is at most that.

    Given all before, the expected ratio of a round's squared distance to the one before is the
    eigenvalue to the power of the exchanges in a round: the mean over rounds and seeds is that
    within four of its standard errors.
    """
    changes = {"network": {"peers": {"kind": kind}}, "stop": {"rounds": 16}, "models": {}}
    rounds = run(GOSSIP, tmp_path, **changes, seeds=6).rounds
    squares = [own["consensus"].to_numpy() ** 2 for _, own in rounds.groupby("seed")]
    ratios = np.concatenate([each[1:] / each[:-1] for each in squares])
    graph = nx.complete_graph(NODES) if kind == "complete" else nx.cycle_graph(NODES)
    law = second_eigenvalue(graph) ** NODES
    error = ratios.std() / len(ratios) ** 0.5
    assert error < 0.1 * law
    assert ratios.mean() - law < 4 * error
    if kind == "complete":
        assert law == pytest.approx((1 - 1 / (NODES - 1)) ** NODES)
        assert law - ratios.mean() < 4 * error


class Replay:
    """AD-PSGD in the order in which its nodes computed and received.

    What becomes of an offer to a busy node follows from the rule, told again here.
    """

    def __init__(self) -> None:
        self.x = np.zeros((NODES, DIM))
        self.read = self.x.copy()  # the models at which the nodes compute
        self.answers = self.x.copy()
        self.asked, self.busy = [0] * NODES, [False] * NODES
        self.held: list[list[int]] = [[] for _ in range(NODES)]

    def compute(self, node: int) -> None:
        self.asked[node] += 1
        self.busy[node] = True

    def offer(self, node: int, other: int) -> None:
        """Take an offer of another node, which keeps its model meanwhile."""
        if not self.busy[node]:
            self.answers[other] = self.x[node]
            self.x[node] = (self.x[node] + self.x[other]) / 2
        elif (self.asked[other], other) < (self.asked[node], node):
            self.held[node].append(other)

    def release(self, node: int) -> None:
        self.busy[node] = False
        held, self.held[node] = self.held[node], []
        for other in held:
            self.offer(node, other)

    def end(self, node: int, *, answered: bool) -> None:
        """Average, if the offer of the node was not refused, and step."""
        if answered:
            self.x[node] = (self.x[node] + self.answers[node]) / 2
        else:
            self.release(node)
        self.x[node] -= ETA * gradients(self.read)[node]


def replay(events: pd.DataFrame) -> Iterator[tuple[Array, float]]:
    """Yield the mean model, and how far models are apart, after every M exchanges."""
    world, done = Replay(), 0
    wanted = events["event"].isin(["compute", "receive"]) & events["detail"].isna()
    for row in events[wanted].itertuples():
        node = int(str(row.node)[7:])
        if row.event == "compute":
            world.compute(node)
        elif row.message == "offer":
            world.offer(node, int(str(row.peer)[7:]))
        else:
            world.end(node, answered=bool(row.message == "counteroffer"))
            done += 1
            if done % NODES == 0:
                mean = world.x.mean(axis=0)
                yield mean, float(np.sqrt(((world.x - mean) ** 2).sum(axis=1).mean()))
            world.release(node)
            world.read[node] = world.x[node]


def test_ad_psgd_is_a_loop_in_the_order_of_its_log(tmp_path: Path) -> None:
    result = run(AD_PSGD, tmp_path, fleet=UNEQUAL, stop={"rounds": 40})
    events = result.events
    kinds = events.loc[events["event"] == "receive", "message"].value_counts()
    assert min(kinds[["offer", "counteroffer", "beacon"]]) > 10
    compared = 0
    found = zip(result.models["model"], result.rounds["consensus"][1:], strict=True)
    for (model, consensus), (mean, apart) in zip(found, replay(events), strict=False):
        assert np.abs(model.ravel() - mean).max() < 1e-10
        assert consensus == pytest.approx(apart, abs=1e-10)
        compared += 1
    assert compared == 40
    assert result.rounds["objective"].iloc[-1] < 0.9 * result.rounds["objective"].iloc[0]


def test_pairwise_gossip_is_a_loop_in_the_order_of_its_log(tmp_path: Path) -> None:
    result = run(GOSSIP, tmp_path)
    events, x, done = result.events, drawn(), 0
    met = (events["event"] == "receive") & (events["message"] == "counteroffer")
    found = zip(result.models["model"], result.rounds["consensus"][1:], strict=True)
    for row in events[met].itertuples():
        pair = [int(str(name)[7:]) for name in (row.node, row.peer)]
        x[pair] = x[pair].mean(axis=0)
        done += 1
        if done % NODES == 0:
            model, consensus = next(found)
            mean = x.mean(axis=0)
            assert np.abs(model.ravel() - mean).max() < 1e-10
            apart = np.sqrt(((x - mean) ** 2).sum(axis=1).mean())
            assert consensus == pytest.approx(apart, abs=1e-10)
    assert done == NODES * ROUNDS


def test_messages_are_charged_and_take_time(tmp_path: Path) -> None:
    result = run(AD_PSGD, tmp_path, fleet=UNEQUAL)
    events, rounds = result.events, result.rounds
    sent = events[events["event"] == "send"]
    assert rounds["bits_up"].sum() == pytest.approx(
        sent[["payload_bits", "header_bits", "transport_bits"]].to_numpy().sum(), rel=0.1
    )
    assert (sent.loc[sent["detail"].isna(), "duration"] > 0).all()
    assert (np.diff(rounds["t"]) > 0).all()
    assert rounds["transmissions"].sum() + rounds["beacons"].sum() >= 2 * NODES * ROUNDS - NODES
    assert result.summary["status"].item() == "done"


def test_a_slow_node_does_not_hold_up_the_others_as_under_d_psgd() -> None:
    """The scenario in short: under D-PSGD every round takes the time of the slow node."""
    result = fedsim.run(ROOT / "scenarios/slow-peer.yaml", overrides=["stop.rounds=12"])
    spans = result.rounds.groupby("variant", observed=True)["t"].last()
    assert spans["d-psgd"] > 4 * spans["d-psgd-even"]
    assert spans["ad-psgd"] < 1.5 * spans["ad-psgd-even"]


def test_where_nothing_takes_time_nodes_take_turns(tmp_path: Path) -> None:
    events = run(AD_PSGD, tmp_path, network={"peers": {"kind": "complete"}}).events
    counts = events.loc[events["event"] == "compute", "node"].value_counts()
    made = counts[counts > 0]
    assert len(made) == NODES
    assert made.max() - made.min() <= 1


def test_wake_ups_are_of_each_nodes_own_poisson_clock(tmp_path: Path) -> None:
    """Spans between a node's offers are exponential; those of nodes differ."""
    changes = {"network": {"peers": {"kind": "complete"}}, "stop": {"rounds": 100}, "models": {}}
    result = run(GOSSIP | {"every": "10 s"}, tmp_path, **changes)
    events = result.events
    offers = events[(events["event"] == "send") & (events["message"] == "offer")]
    assert len(offers) == 100 * NODES
    spans = np.concatenate([np.diff(own["t"]) for _, own in offers.groupby("node", observed=True)])
    # The mean and the deviation of an exponential are equal; 600 spans tell to some 4 %.
    assert spans.mean() == pytest.approx(10, rel=0.15)
    assert spans.std() == pytest.approx(10, rel=0.2)
    assert all(a != b for a, b in pairwise(offers["t"]))


def test_who_has_lost_its_answer_goes_on_after_the_deadline(tmp_path: Path) -> None:
    lossy = radio(100) | {"loss": {"kind": "independent", "rate": "20 %"}, "tries": 1}
    fleet = [{"count": NODES, "device": "pi-4", "radio": lossy}]
    with pytest.raises(ScenarioError, match=r"participation\.deadline"):
        run(AD_PSGD, tmp_path, fleet=fleet)
    policy = {"kind": "full", "deadline": "300 ms"}
    result = run(AD_PSGD, tmp_path, fleet=fleet, participation=policy)
    assert result.summary["status"].item() == "done"
    assert (result.events["event"] == "lost").any()


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        (
            {"network": {"peers": {"kind": "edges", "edges": ARROWS, "directed": True}}},
            "network.peers.kind",
            "needs undirected",
        ),
        ({"network": {"peers": {"kind": "one-peer"}}}, "network.peers.kind", "does not change"),
        (
            {"network": {"peers": {"kind": "edges", "edges": EDGES[:4]}}},
            "network.peers.kind",
            "must be connected",
        ),
        (
            {"network": {"peers": {"kind": "ring"}, "mixing": {"kind": "metropolis"}}},
            "network.mixing",
            "weighs no neighbours",
        ),
        (
            {"wire": {"up": {"compressor": {"kind": "qsgd"}}}},
            "wire.up.compressor.kind",
            "send their vectors uncompressed",
        ),
        (
            {"participation": {"kind": "full", "deadline": "1 s", "late": "drop"}},
            "participation.late",
            "drop late messages in any case",
        ),
    ],
)
@pytest.mark.parametrize("method", [GOSSIP, AD_PSGD], ids=["gossip", "ad-psgd"])
def test_what_pairs_need_is_a_rule(
    method: dict[str, Any], changes: dict[str, Any], key: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError) as caught:
        run(method, tmp_path, **changes)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault
