"""Deployment: the components of clients and the links between them, which need no data."""

from collections.abc import Sequence
from typing import NamedTuple

from fedsim.physics.failures import PeerGraph
from fedsim.physics.hierarchy import Hierarchy
from fedsim.physics.medium import RadioGraph
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.topology import Topology
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
from fedsim.scenario.building.overlay import build_medium, build_overlay, check_medium
from fedsim.scenario.building.tiers import build_hierarchy, links_of_tiers


class Deployment(NamedTuple):
    """The environment of a method: clients, gateways and links.

    Attributes:
        members: the number of the group that each client belongs to.
        groups: what the clients of each group have in common.
        topology: the links between clients and server; None only where a graph is wrong.
        overlay: the neighbours of each peer; None if there is a server.
        medium: the peers in range of each other; None where they send over links.
        tiers: what the gateways of each tier have in common.
        hierarchy: which server each client and gateway has; None without tiers.
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
        scenario: what was written.
        groups: of its fleet; one of ideal clients where none was written.
        files: those that the fleet follows.
        findings: takes what is wrong.
        seed: of graphs that are drawn.
    """
    fleet = build_groups(groups, files, findings)
    members = RunLengthSequence((group.spec.count, group.number) for group in fleet)
    called = [group.name for group in fleet]
    names = members.map(called.__getitem__)
    tiers = build_groups(scenario.tiers, files, findings, "tiers", len(fleet))
    check_presence((*fleet, *tiers), findings)
    tree = build_hierarchy(scenario, len(members), findings)
    if tree is None:
        links = topology(scenario.network, names, files, findings)
    else:
        links = links_of_tiers(scenario, tree, files, findings)
    check_cells(scenario, fleet, findings)
    check_air(scenario, fleet, findings)
    check_lora(scenario, fleet, findings)
    check_cell_sharing(scenario, fleet, findings)
    check_supplies((*fleet, *tiers), findings)
    check_flicker((*fleet, *tiers), findings)
    overlay = build_overlay(scenario, len(members), files, findings, seed)
    medium = build_medium(scenario, overlay, len(members), files, findings, seed)
    check_medium(scenario, fleet, findings)
    return Deployment(members, fleet, links, overlay, tiers, tree, medium)
