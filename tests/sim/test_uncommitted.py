"""A method that never commits ends with an error that says so, and no method that does."""

from typing import Any, Literal

import pytest

import fedsim
from fedsim.addons.conformance import check_algorithm
from fedsim.algorithms import GradientDescent
from fedsim.algorithms.censored import Iterate
from fedsim.algorithms.gossip import DPSGD
from fedsim.algorithms.pairwise import PairwiseGossip
from fedsim.core.ports import Node, PairNode, Server
from fedsim.protocol.transport import LocalProtocolError
from fedsim.protocol.uncommitted import MOST_EXCHANGES
from tests.runs import PEERS, small

STAR: dict[str, dict[str, Any]] = {
    "in arrays": {},
    "by events": {"participation": {"kind": "full", "deadline": "1 h"}},
}


class Uncommitted(GradientDescent):
    """Asks for gradients, and forgets the commit."""

    kind: Literal["uncommitted"] = "uncommitted"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        while True:
            await server.exchange(Iterate(server.pack(server.initial)))


class Patient(GradientDescent):
    """Commits after as many exchanges as a round can have."""

    kind: Literal["patient"] = "patient"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        while True:
            for _ in range(MOST_EXCHANGES - 1):
                await server.exchange(Iterate(server.pack(server.initial)))
            server.commit(server.initial)


class Inner(GradientDescent):
    """Has more inner steps than a round may have, and commits in between."""

    kind: Literal["inner"] = "inner"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        for step in range(1, 2 * MOST_EXCHANGES):
            await server.exchange(Iterate(server.pack(server.initial)))
            if step % (MOST_EXCHANGES // 2) == 0:
                server.commit(server.initial)
        server.commit(server.initial)


class Forgetful(DPSGD):
    """A peer that mixes models, and forgets the commit."""

    kind: Literal["forgetful"] = "forgetful"  # type: ignore[assignment]

    async def live(self, node: Node) -> None:
        while True:
            await self.mix_models(node, node.initial)


class ForgetfulPair(PairwiseGossip):
    """A node that averages with neighbours, and forgets the commit."""

    kind: Literal["forgetful-pair"] = "forgetful-pair"  # type: ignore[assignment]

    async def live(self, node: PairNode) -> None:  # type: ignore[override]  # as the method's own
        while node.neighbours:
            await node.sleep(float(node.rng.exponential(self.every)))
            await self.average(node)


def _check(error: fedsim.RunError, call: str) -> None:
    assert f"the method had {MOST_EXCHANGES:,} exchanges in it without a commit" in str(error)
    assert f"call {call}(model) once per round" in str(error)


@pytest.mark.parametrize("world", ["in arrays", "by events"])
def test_a_server_that_never_commits_fails(world: str) -> None:
    own = small(algorithm={"kind": "uncommitted", "step_size": "1/L"}, **STAR[world])
    with pytest.raises(fedsim.RunError, match="round 1 does not close") as caught:
        fedsim.run(own, blocks=[Uncommitted])
    _check(caught.value, "server.commit")


@pytest.mark.parametrize("path", ["in a kernel", "by events"])
def test_a_peer_that_never_commits_fails(path: str) -> None:
    near = {"peers": {"kind": "ring"}, "mixing": "metropolis"}
    lossy = {"kind": "wifi", "loss": {"kind": "independent", "rate": "20 %"}}
    radio = "wifi" if path == "in a kernel" else lossy
    own = {
        **PEERS,
        "algorithm": {"kind": "forgetful", "step_size": 0.3},
        "network": near,
        "fleet": [{"count": 4, "device": "pi-4", "radio": radio}],
    }
    with pytest.raises(fedsim.RunError, match="round 1 does not close") as caught:
        fedsim.run(own, blocks=[Forgetful])
    _check(caught.value, "node.commit")


@pytest.mark.parametrize("nodes", [2, 4])
def test_a_node_of_pairs_that_never_commits_fails(nodes: int) -> None:
    """Its second contact fails, as it is busy with the first until its commit."""
    own = {
        **PEERS,
        "algorithm": {"kind": "forgetful-pair", "every": "1 s"},
        "network": {"peers": {"kind": "complete"}},
        "fleet": [{"count": nodes, "device": "pi-4", "radio": "wifi"}],
    }
    words = "not committed: call node.commit"
    with pytest.raises(LocalProtocolError, match=words) as caught:
        fedsim.run(own, blocks=[ForgetfulPair])
    assert "`await self.average(node)`" in str(caught.value)  # the line of the method
    assert "in the run base, seed 1" in caught.value.__notes__


def test_conformance_reports_it_once() -> None:
    method = {"kind": "uncommitted", "step_size": "1/L"}
    table = check_algorithm({"problem": small()["problem"], "algorithm": method}, [Uncommitted])
    (row,) = table.to_dict("records")
    assert (row["world"], row["outcome"]) == ("no trouble", "failed")
    assert "without a commit; call server.commit" in row["reason"]


def test_the_error_says_what_helps_a_method_of_more_inner_steps() -> None:
    own = small(algorithm={"kind": "uncommitted", "step_size": "1/L"})
    with pytest.raises(fedsim.RunError, match="commits its present model in between"):
        fedsim.run(own, blocks=[Uncommitted])
    inner = small(algorithm={"kind": "inner", "step_size": "1/L"})
    result = fedsim.run(inner, blocks=[Inner])
    assert result.summary["status"].tolist() == ["done"]
    assert result.summary["rounds"].tolist() == [4]


def test_many_exchanges_of_a_round_and_many_abandoned_rounds_are_in_order() -> None:
    """Only exchanges of one round count: neither those of others, nor abandoned ones."""
    patient = small(algorithm={"kind": "patient", "step_size": "1/L"}, stop={"rounds": 2})
    assert fedsim.run(patient, blocks=[Patient]).summary["status"].tolist() == ["done"]
    short = {"kind": "full", "give_up": "1 ms"}
    abandoned = small(participation=short, stop={"rounds": 2 * MOST_EXCHANGES})
    result = fedsim.run(abandoned, check=False)
    assert result.summary["status"].tolist() == ["done"]
    assert (result.events["event"] == "abandoned").sum() == 2 * MOST_EXCHANGES
