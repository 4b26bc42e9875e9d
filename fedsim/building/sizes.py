"""How many clients, gateways and runs a scenario may stand for: what fits into memory."""

from fedsim.building.findings import Findings
from fedsim.limits import afford
from fedsim.scenario import Scenario, TreeNetwork

CLIENT = 2000
"""The bytes that a client takes at the least: its routes, its draws and its state."""

GATEWAY = 500
"""The bytes that a gateway takes at the least: two links and their names."""


def check_counts(scenario: Scenario, findings: Findings) -> None:
    """Raise a ScenarioError where fleet or network would not fit into the limit of memory."""
    with findings.at("fleet"):
        clients = scenario.clients
        afford("fleet", f"{clients} clients", CLIENT * clients)
    network = scenario.network
    if isinstance(network, TreeNetwork):
        with findings.at("network.gateways"):
            afford("network", f"{network.gateways} gateways", GATEWAY * network.gateways)
    findings.settle()
