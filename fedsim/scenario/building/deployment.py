"""Deployment: the components of clients and the links between them, which need no data."""

from collections.abc import Sequence
from typing import NamedTuple

from fedsim.core.ports import SERVER
from fedsim.physics.failures import PeerGraph
from fedsim.physics.hierarchy import Hierarchy, tier_links
from fedsim.physics.medium import RadioGraph
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.topology import Topology, star
from fedsim.scenario import Group, Scenario
from fedsim.scenario.building.feasibility import (
    check_air,
    check_cell_sharing,
    check_cells,
    check_flicker,
    check_supplies,
)
from fedsim.scenario.building.fleet import BuiltGroup, build_groups, check_presence
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.building.lora import check_lora
from fedsim.scenario.building.network import Files, topology
from fedsim.scenario.tiers import asking_too_many, hierarchy_of


class Deployment(NamedTuple):
    """The environment of a method: clients, gateways and links.

    Attributes:
        members: the number of the group of each client.
        groups: the common properties of the clients of each group.
        topology: the links between clients and server; None only if a graph is invalid.
        overlay: the neighbours of each peer; None if there is a server.
        medium: the peers in range of each other; None if peers send over links.
        tiers: the common properties of the gateways of each tier.
        hierarchy: the server of each client and gateway; None without tiers.
    """

    members: RunLengthSequence[int]
    groups: tuple[BuiltGroup, ...]
    topology: Topology | None
    overlay: PeerGraph | None = None
    tiers: tuple[BuiltGroup, ...] = ()
    hierarchy: Hierarchy | None = None
    medium: RadioGraph | None = None

    @property
    def kinds(self) -> tuple[BuiltGroup, ...]:
        """The groups of clients, then the tiers."""
        return (*self.groups, *self.tiers)

    @property
    def nodes(self) -> RunLengthSequence[int]:
        """The index among `kinds` of each client and each gateway."""
        gateways = [(tier.spec.count, tier.number) for tier in self.tiers]
        return RunLengthSequence([*self.members.runs, *gateways])


def deploy(
    scenario: Scenario,
    groups: Sequence[Group],
    files: Files,
    findings: Findings,
    seed: int = 0,
) -> Deployment:
    """Build fleet and network.

    Args:
        scenario: the scenario.
        groups: the groups of its fleet, or one of ideal clients if it has none.
        files: reads the files of the fleet.
        findings: collects faults.
        seed: the seed of random graphs.
    """
    fleet = build_groups(groups, files, findings)
    members = RunLengthSequence((group.spec.count, group.number) for group in fleet)
    group_names = [group.name for group in fleet]
    names = members.map(group_names.__getitem__)
    tiers = build_groups(scenario.tiers, files, findings, "tiers", len(fleet))
    check_presence((*fleet, *tiers), findings)
    tree = _build_hierarchy(scenario, len(members), findings)
    if tree is None:
        links = topology(scenario.network, names, files, findings)
    else:
        links = _links_of_tiers(scenario, tree, files, findings)
    check_cells(scenario, fleet, findings)
    check_air(scenario, fleet, findings)
    check_lora(scenario, fleet, findings)
    check_cell_sharing(scenario, fleet, findings)
    check_supplies((*fleet, *tiers), scenario.participation, findings)
    check_flicker((*fleet, *tiers), findings)
    deployment = Deployment(members, fleet, links, tiers=tiers, hierarchy=tree)
    if scenario.network.peers is None and scenario.network.medium is None:
        return deployment
    from fedsim.scenario.building.overlay import build_medium, build_overlay, check_medium

    overlay = build_overlay(scenario, len(members), files, findings, seed)
    medium = build_medium(scenario, overlay, len(members), files, findings, seed)
    check_medium(scenario, fleet, findings)
    return deployment._replace(overlay=overlay, medium=medium)


def _build_hierarchy(scenario: Scenario, clients: int, findings: Findings) -> Hierarchy | None:
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


def _links_of_tiers(
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
