"""The neighbours of peers: from their description in a scenario to a graph with weights."""

from collections.abc import Sequence
from functools import partial

from fedsim.algorithms import PeerAlgorithm
from fedsim.core.errors import DataError
from fedsim.core.streams import stream
from fedsim.physics.failures import (
    EdgeFailures,
    FailingByExchange,
    FailingInTime,
    OverlayInTime,
    PeerGraph,
)
from fedsim.physics.graphs_in_time import (
    Matchings,
    NeighboursByExchange,
    NeighboursInTime,
    OnePeer,
    OverlayCycle,
)
from fedsim.physics.medium import RadioGraph
from fedsim.physics.mobility import Moving
from fedsim.physics.overlay import Neighbours, Overlay
from fedsim.physics.spectral import contracts
from fedsim.scenario import Scenario
from fedsim.scenario.building.fleet import BuiltGroup
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.building.network import Files


def build_overlay(
    scenario: Scenario, nodes: int, files: Files, findings: Findings, seed: int
) -> PeerGraph | None:
    """Return the neighbours of peers, with weights that their method can mix with.

    Args:
        scenario: the scenario.
        nodes: the number of peers.
        files: reads files of edges.
        findings: collects faults; the result is None if there are any.
        seed: the seed of random graphs.
    """
    neighbours = scenario.network.peers
    if neighbours is None or not nodes:
        return None
    with findings.at("network.peers.path"):
        neighbours = neighbours.read_edges(files.pairs)
        if isinstance(neighbours, NeighboursInTime):
            neighbours = neighbours.follow(files.read)
        try:
            if isinstance(neighbours, NeighboursByExchange | NeighboursInTime):
                return _changing(scenario, neighbours, nodes, findings, seed)
            overlay = neighbours.overlay(nodes, stream(seed, "overlay"))
            overlay.check_neighbours()
            if scenario.network.failures is not None:
                return _changing(scenario, neighbours, nodes, findings, seed, overlay)
        except DataError as error:
            findings.add(f"network.peers.{error.key}", str(error))
        else:
            return _mix(scenario, overlay, findings)
    return None


def _changing(
    scenario: Scenario,
    neighbours: Neighbours,
    nodes: int,
    findings: Findings,
    seed: int,
    overlay: Overlay | None = None,
) -> PeerGraph | None:
    """Return neighbours that change over time or exchanges, if the method supports them.

    With an overlay, the neighbours stay, and only their edges fail.

    Raises:
        DataError: there are no neighbours.
    """
    mixing, method, failures = (
        scenario.network.mixing,
        scenario.algorithm,
        scenario.network.failures,
    )
    place, seen = "network.peers.kind", neighbours.kind
    if overlay is not None:
        place, seen = "network.failures", "failures of edges"
    if not (isinstance(method, PeerAlgorithm) and method.graph_may_change):
        findings.add(place, f"got {seen}, but {method.kind} needs a graph that does not change")
        return None
    directed = isinstance(neighbours, OnePeer) or (overlay is not None and overlay.directed)
    default = "out-degree" if directed else "metropolis"
    if mixing is not None and mixing.kind != default:
        text = f"got {mixing.kind}, but {neighbours.kind} has weights by {default}, computed anew"
        findings.add("network.mixing.kind", f"{text} for each exchange; leave it out")
        return None
    streams = partial(stream, seed, "overlay")
    graphs: Overlay | OverlayCycle | Matchings | None = overlay
    if isinstance(neighbours, NeighboursByExchange):
        turns = neighbours.sequence(nodes, streams)
        turns.of(1).check(method.needs)
        graphs = turns
    if failures is not None:
        if reason := _unfit(failures, neighbours, method, directed=directed):
            findings.add("network.failures", reason)
            return None
        if graphs is not None and not failures.in_time:
            drawn = partial(stream, seed, "failures")
            return FailingByExchange(graphs, failures.probability, drawn)
    elif graphs is not None:
        return graphs
    moving = neighbours if isinstance(neighbours, NeighboursInTime) else None
    overlay_in_time = OverlayInTime(nodes, _law(moving, overlay, failures), streams)
    overlay_in_time.play()
    return overlay_in_time


def _law(
    moving: NeighboursInTime | None, overlay: Overlay | None, failures: EdgeFailures | None
) -> NeighboursInTime | FailingInTime:
    """Return the law of a graph that changes in time: by itself, by failing edges, or both."""
    base = moving or overlay
    if failures is not None and base is not None:
        return FailingInTime(base, failures)
    assert moving is not None, "without failures, the graph changes by itself"  # noqa: S101
    return moving


def _unfit(
    failures: EdgeFailures, neighbours: Neighbours, method: PeerAlgorithm, *, directed: bool
) -> str:
    """Return why the edges of a graph cannot fail in this way; empty if they can."""
    kind = neighbours.kind
    if failures.in_time and (directed or isinstance(neighbours, NeighboursByExchange)):
        return f"got up and down, but edges of {kind} only fail by exchange; use probability"
    if not failures.in_time and isinstance(neighbours, NeighboursInTime):
        return f"got a probability, but {kind} changes in time; give up and down"
    if directed and method.needs != "column-stochastic":
        return (
            f"got directed edges that fail, which leaves W only column stochastic, but"
            f" {method.kind} needs a doubly stochastic one; use undirected edges, or push-sum"
        )
    return ""


def _mix(scenario: Scenario, overlay: Overlay, findings: Findings) -> Overlay | None:
    """Return neighbours with their mixing weights, if the method supports these."""
    mixing, method = scenario.network.mixing, scenario.algorithm
    need = method.needs if isinstance(method, PeerAlgorithm) else "doubly-stochastic"
    if overlay.directed and need == "symmetric":
        text = f"got directed edges, but {method.kind} needs undirected ones"
        findings.add("network.peers.kind", text)
        return None
    block = "peers" if mixing is None else "mixing"
    try:
        mixed = overlay if mixing is None else mixing.apply(overlay)
    except DataError as error:
        findings.add(f"network.{block}.{error.key}", str(error))
        return None
    try:
        mixed.check(need)
    except DataError as error:
        findings.add(f"network.{block}.{error.key}", f"{error}, as {method.kind} needs it")
        return None
    if mixing is not None and not contracts(mixed):
        text = (
            f"got {mixing.kind}, with which models do not converge to each other: the second"
            " largest modulus of an eigenvalue of the mixing matrix must be less than 1"
        )
        findings.add("network.mixing.kind", text)
        return None
    return mixed


# The medium that peers share.


def build_medium(
    scenario: Scenario,
    overlay: PeerGraph | None,
    nodes: int,
    files: Files,
    findings: Findings,
    seed: int,
) -> RadioGraph | None:
    """Return the graph of peers in range of each other, if they share a medium.

    Args:
        scenario: the scenario.
        overlay: the neighbours of peers.
        nodes: the number of peers.
        files: reads files of edges.
        findings: collects faults; the result is None if there are any.
        seed: the seed of random graphs.
    """
    medium = scenario.network.medium
    if medium is None or overlay is None:
        return None
    law, place = medium.graph, "network.medium.graph"
    if law is None:
        if isinstance(overlay, Overlay | OverlayInTime):
            return RadioGraph.of(medium, overlay)
        text = "missing: neighbours change by exchange, which does not determine the nodes in range"
        findings.add(place, f"{text}; give their graph, such as {{kind: complete}}")
        return None
    with findings.at(f"{place}.path"):
        try:
            if isinstance(law, NeighboursInTime):
                return RadioGraph.of(
                    medium, _moving(law, scenario.network.peers, nodes, files, seed)
                )
            return RadioGraph.of(medium, _in_range(law, nodes, files, seed))
        except DataError as error:
            findings.add(f"{place}.{error.key}", str(error))
    return None


def _moving(
    law: NeighboursInTime, peers: Neighbours | None, nodes: int, files: Files, seed: int
) -> OverlayInTime:
    """Return the graph in time of nodes in range.

    Nodes have the same motion in both graphs if both describe the same; ranges may differ.

    Raises:
        DataError, OSError: the graph is invalid.
    """
    if law.every:
        text = f"got {law.every:g} s, but exchanges begin as set by network.peers; leave it out"
        raise DataError("every", text)
    name = "medium"
    if isinstance(law, Moving) and isinstance(peers, Moving):
        same = peers.model_copy(update={"range": law.range, "every": law.every})
        name = "overlay" if same == law else name
    moving = OverlayInTime(nodes, law.follow(files.read), partial(stream, seed, name))
    moving.play()
    return moving


def _in_range(law: Neighbours, nodes: int, files: Files, seed: int) -> Overlay:
    """Return the graph of nodes in range.

    Raises:
        DataError, OSError: it is invalid, changes by exchanges, or has directed edges.
    """
    if isinstance(law, NeighboursByExchange):
        text = f"got {law.kind}, which changes by exchange, unlike the nodes in range; give another"
        raise DataError("kind", text)
    in_range = law.read_edges(files.pairs).overlay(nodes, stream(seed, "medium"))
    if in_range.directed:
        text = "got directed edges, but nodes in range receive each other"
        raise DataError("kind", f"{text}; give undirected ones")
    return in_range


def check_medium(scenario: Scenario, groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Register radios that cannot send to others in range as soon as the medium is free."""
    for group in groups if scenario.network.medium is not None else ():
        both = group.rates.up, group.rates.down
        if group.radio.cellular:
            why = "speaks to a base station"
        elif any(law.signal is not None for law in both):
            why = "follows a trace"
        elif not all(law.continuous for law in both):
            why = "may not send for a while after a message"
        else:
            continue
        text = f"the radio of {group.name} {why}, but under network.medium a radio has to send to"
        text += " nodes in range at any time; use another radio, or links"
        findings.add(f"{group.place}.radio", text)
