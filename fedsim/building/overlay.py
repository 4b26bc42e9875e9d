"""The neighbours of peers: from what a scenario says to a graph with weights."""

from functools import partial

from fedsim.algorithms import PeerAlgorithm
from fedsim.building.inputs import Findings
from fedsim.building.network import Files
from fedsim.errors import DataError
from fedsim.physics.graphs_in_time import (
    NeighboursByExchange,
    NeighboursInTime,
    OverlayCycle,
    OverlayInTime,
    PeerGraph,
)
from fedsim.physics.overlay import Neighbours, Overlay
from fedsim.physics.spectral import contracts
from fedsim.scenario import Scenario
from fedsim.streams import stream


def build_overlay(
    scenario: Scenario, nodes: int, files: Files, findings: Findings, seed: int
) -> PeerGraph | None:
    """Return the neighbours of peers, with weights that their method can mix with.

    Args:
        scenario: what was written.
        nodes: the number of peers.
        files: where a file of edges is read.
        findings: takes what is wrong with them; the result is None then.
        seed: of graphs that are drawn.
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
        except DataError as error:
            findings.add(f"network.peers.{error.key}", str(error))
        else:
            return _mix(scenario, overlay, findings)
    return None


def _changing(
    scenario: Scenario, neighbours: Neighbours, nodes: int, findings: Findings, seed: int
) -> OverlayCycle | OverlayInTime | None:
    """Return neighbours that change, if they are what the method needs.

    Raises:
        DataError: there are none.
    """
    mixing, method = scenario.network.mixing, scenario.algorithm
    if not (isinstance(method, PeerAlgorithm) and method.graph_may_change):
        text = f"got {neighbours.kind}, but {method.kind} needs a graph that stays as it is"
        findings.add("network.peers.kind", text)
        return None
    default = "metropolis" if isinstance(neighbours, NeighboursInTime) else "out-degree"
    if mixing is not None and mixing.kind != default:
        text = f"got {mixing.kind}, but the weights of {neighbours.kind} are those of {default},"
        findings.add("network.mixing.kind", f"{text} of each exchange anew; leave it out")
        return None
    if isinstance(neighbours, NeighboursByExchange):
        cycle = neighbours.cycle(nodes)
        for graph in cycle.graphs:
            graph.check(method.needs)
        return cycle
    assert isinstance(neighbours, NeighboursInTime), "there are two"  # noqa: S101
    made = OverlayInTime(nodes, neighbours, partial(stream, seed, "overlay"))
    made.play()
    return made


def _mix(scenario: Scenario, overlay: Overlay, findings: Findings) -> Overlay | None:
    """Return neighbours with the weights that they mix with, if these are what the method needs."""
    mixing, method = scenario.network.mixing, scenario.algorithm
    need = method.needs if isinstance(method, PeerAlgorithm) else "doubly-stochastic"
    if overlay.directed and need == "symmetric":
        text = f"got directed edges, but {method.kind} needs a graph of undirected ones"
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
            f"got {mixing.kind}, with which models do not come together: the second largest modulus"
            " of an eigenvalue of the mixing matrix must be less than 1"
        )
        findings.add("network.mixing.kind", text)
        return None
    return mixed
