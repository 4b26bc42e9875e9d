"""How many clients, gateways and runs a scenario may stand for: what fits into memory."""

from fedsim.building.findings import Findings
from fedsim.limits import afford
from fedsim.scenario import Scenario

CLIENT = 2000
"""The bytes that a client takes at the least: its routes, its draws and its state."""


def check_counts(scenario: Scenario, findings: Findings) -> None:
    """Raise a ScenarioError where fleet or network would not fit into the limit of memory."""
    with findings.at("fleet"):
        clients = scenario.clients
        afford("fleet", f"{clients} clients", CLIENT * clients)
    for need in scenario.network.needs:
        with findings.at(f"network.{need.key}"):
            afford("network", need.what, need.bytes)
    findings.settle()
