"""Surroundings: the clients' parts and the links between them, which need no data."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedsim.building.feasibility import check_cells, check_flicker, check_supplies
from fedsim.building.files import Files
from fedsim.building.findings import Findings
from fedsim.building.fleet import Make, makes
from fedsim.building.network import topology
from fedsim.physics.topology import Topology
from fedsim.scenario import Group, Scenario


class Surroundings(NamedTuple):
    """What a method runs in.

    Attributes:
        members: the number of the group that each client belongs to.
        makes: the models of the groups.
        topology: the links between clients and server; None only where a graph is wrong.
    """

    members: tuple[int, ...]
    makes: tuple[Make, ...]
    topology: Topology | None


def surroundings(
    scenario: Scenario, groups: Sequence[Group], files: Files, folder: Path, findings: Findings
) -> Surroundings:
    """Build fleet and network.

    Args:
        scenario: what was written.
        groups: of its fleet; one of ideal clients where none was written.
        files: those that the fleet follows.
        folder: where relative paths start.
        findings: takes what is wrong.
    """
    fleet = makes(groups, files, findings)
    members = tuple(make.group for make in fleet for _ in range(make.spec.count))
    names = [fleet[number].name for number in members]
    links = topology(scenario.network, names, folder, findings)
    check_cells(scenario, fleet, findings)
    check_supplies(fleet, findings)
    check_flicker(fleet, findings)
    return Surroundings(members, fleet, links)
