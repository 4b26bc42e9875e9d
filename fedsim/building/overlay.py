"""The neighbours of peers: from what a scenario says to a graph with weights."""

from fedsim.algorithms import PeerAlgorithm
from fedsim.building.inputs import Findings
from fedsim.building.network import Files
from fedsim.errors import DataError
from fedsim.physics.overlay import Overlay
from fedsim.physics.spectral import contracts
from fedsim.scenario import Scenario
from fedsim.streams import stream


def build_overlay(
    scenario: Scenario, nodes: int, files: Files, findings: Findings, seed: int
) -> Overlay | None:
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
        try:
            overlay = neighbours.overlay(nodes, stream(seed, "overlay"))
            overlay.check_neighbours()
        except DataError as error:
            findings.add(f"network.peers.{error.key}", str(error))
        else:
            return _mix(scenario, overlay, findings)
    return None


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
