"""What goes together where there is no server, but peers."""

from collections.abc import Iterator

from fedsim.algorithms import ALGORITHMS, PeerAlgorithm
from fedsim.scenario.closings import Conflict
from fedsim.scenario.specs import ScenarioKeys


def peering(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """A method of peers needs neighbours, and a method with a server has none."""
    method, neighbours = scenario.algorithm, scenario.network.peers
    if not isinstance(method, PeerAlgorithm):
        if neighbours is not None:
            kinds = ALGORITHMS.where(lambda each: issubclass(each, PeerAlgorithm))
            text = (
                f"got {neighbours.kind}, but {method.kind} has a server, whom all clients answer;"
                f" leave peers out, or take a method of peers ({', '.join(kinds)})"
            )
            yield "network.peers", text, neighbours.kind
        return
    if neighbours is None:
        text = (
            f"missing: {method.kind} is a method of peers, who speak to their neighbours; say who"
            " these are, such as network: {peers: {kind: ring}}"
        )
        yield "network.peers", text, None
    yield from _ways(scenario)
    yield from _asking(scenario)
    for number, group in enumerate(scenario.fleet):
        if not group.availability.always:
            kind = group.availability.kind
            text = f"got {kind}, but a node that goes is gone for good among peers; use always"
            yield f"fleet.{number}.availability.kind", text, kind


def _ways(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Peers use links as they come, and no direction of them is the server's."""
    network, kind = scenario.network, scenario.algorithm.kind
    if network.model != "fluid":
        yield "network.model", f"got {network.model}, but peers take fluid alone", network.model
    if network.broadcast != "unicast":
        text = f"got {network.broadcast}, but a peer tells each neighbour for itself; use unicast"
        yield "network.broadcast", text, network.broadcast
    for key, discipline in network.disciplines.items():
        if discipline == "slotted":
            text = "got slotted, but who shares a link is not fixed among peers; use fair or fifo"
            yield f"network.{key}", text, discipline
    if scenario.wire.down != type(scenario.wire.down)():
        seen = scenario.wire.down.compressor.kind
        text = f"got {seen}, but what the nodes of {kind} tell each other is wire.up; leave it out"
        yield "wire.down", text, seen


def _asking(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Nobody draws a cohort of peers; a deadline is all that closes an exchange early."""
    policy, kind = scenario.participation, scenario.algorithm.kind
    if not policy.asks_all:
        text = f"got {policy.kind}, but nobody asks the nodes of {kind}; use full"
        yield "participation.kind", text, policy.kind
        return
    if policy.noticed != "at-once":
        text = f"got {policy.noticed}, but neighbours notice at once who has gone; leave it out"
        yield "participation.noticed", text, policy.noticed
    for key in ("quorum", "give_up", "least_charge"):
        if seen := getattr(policy, key):
            text = f"got {seen:g}, but among peers a deadline alone ends an exchange; leave it out"
            yield f"participation.{key}", text, seen
