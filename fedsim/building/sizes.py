"""How many clients, gateways and runs a scenario may stand for: what fits into memory."""

from fedsim.building.findings import Findings
from fedsim.limits import afford
from fedsim.ports import Meaning
from fedsim.scenario import Scenario
from fedsim.scenario.feedback import held_alike

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


def check_held(scenario: Scenario, clients: int, dimension: int, findings: Findings) -> None:
    """Find what the server keeps of its clients under EF21 where that does not fit into memory."""
    with findings.at("wire.down.error_feedback"):
        size = held(scenario, clients, dimension)
        what = (
            f"what the server keeps of each of {clients} clients, vectors of {dimension} values"
            " that differ from client to client under ef21,"
        )
        afford("wire.down.error_feedback", what, size)


def held(scenario: Scenario, clients: int, dimension: int) -> int:
    """Return the most bytes of what a server keeps of each client's vectors under EF21.

    0 where it keeps one state for all. Clients with the same history share theirs.
    """
    method, link = scenario.algorithm, scenario.wire.down
    kept = {Meaning.STATE, Meaning.INCREMENT}
    fields = sum(meaning in kept for meaning in method.down.values())
    apart = link.error_feedback == "ef21" and not held_alike(scenario)
    return 8 * dimension * clients * fields * apart
