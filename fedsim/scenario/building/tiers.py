"""Tiers: the server of each client and gateway, and the links between them."""

from fedsim.core.ports import SERVER
from fedsim.physics.hierarchy import Hierarchy, tier_links
from fedsim.physics.topology import Topology, star
from fedsim.scenario import Scenario
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.building.network import Files, topology
from fedsim.scenario.tiers import asking_too_many, hierarchy_of


def build_hierarchy(scenario: Scenario, clients: int, findings: Findings) -> Hierarchy | None:
    """Return the server of each client and gateway; None without tiers.

    Args:
        scenario: the scenario.
        clients: the number of clients.
        findings: collects tiers with more gateways than there are nodes below them.
    """
    if not scenario.tiers:
        return None
    if scenario.tiers[0].count > clients:
        seen = scenario.tiers[0].count
        text = f"got {seen}, but there are {clients} clients below; give that or less"
        findings.add("tiers.0.count", text)
        return None
    for key, text, _ in asking_too_many(scenario, clients):
        findings.add(key, text)
    return hierarchy_of(scenario, clients)


def links_of_tiers(
    scenario: Scenario, tree: Hierarchy, files: Files, findings: Findings
) -> Topology | None:
    """Return the links of the server and of all gateways, and the routes over them."""
    top = [f"gateway-{number}" for number in tree.below[SERVER]]
    at_top = topology(scenario.network, top, files, findings)
    if at_top is None:
        return None
    links = {SERVER: at_top}
    for gateways, tier in zip(tree.levels[1:], scenario.tiers, strict=True):
        settings = dict(tier.link)
        links |= {server: star(len(tree.below[server]), **settings) for server in gateways}
    return tier_links(tree, links)
