"""Relaying: which clients of a graph forward the messages of others, and whether they may go."""

from collections.abc import Iterator

from fedsim.building.inputs import Findings
from fedsim.building.job import Deployment
from fedsim.ports import ClientId, node_name
from fedsim.scenario import Scenario


def relays_of(deployment: Deployment) -> set[ClientId]:
    """Return the clients that forward messages of others."""
    return set(_relays(deployment))


def _relays(deployment: Deployment) -> Iterator[ClientId]:
    topology, overlay = deployment.topology, deployment.overlay
    if topology is None or topology.paths is None:
        return
    for route in (*topology.up, *topology.down):
        yield from route.relays
    if overlay is not None:
        for node, neighbours in enumerate(overlay.neighbours):
            for other in neighbours:
                yield from topology.between(node, other).relays


def relayed_by(deployment: Deployment) -> str:
    """Return the first relay that may go, by its name; empty where none may."""
    mortal = {
        group.number
        for group in deployment.groups
        if group.spec.battery is not None or not group.spec.availability.always
    }
    if not mortal:  # routes are found one by one: not where nothing hangs on them
        return ""
    for client in sorted(relays_of(deployment)):
        if (number := deployment.members[client]) in mortal:
            return f"{node_name(client)} ({deployment.groups[number].name})"
    return ""


def check_broadcast(scenario: Scenario, deployment: Deployment, findings: Findings) -> None:
    """Find cells of a graph whose broadcast would have to be forwarded to one of its listeners."""
    if scenario.network.broadcast != "cell" or deployment.topology is None:
        return
    relays = {client for route in deployment.topology.down for client in route.relays}
    if relays:
        text = (
            f"{node_name(min(relays))} forwards what the server sends to others, so that they do"
            " not hear one transmission; use network.broadcast: unicast"
        )
        findings.add("network.broadcast", text)
