"""Memory limits of clients, gateways and runs."""

from fedsim.algorithms import Algorithm
from fedsim.algorithms.local_training import LocalUpdates
from fedsim.core.memory import check_budget
from fedsim.core.ports import Meaning
from fedsim.problems import Problem
from fedsim.problems.parts import LocalParts
from fedsim.scenario import Scenario
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.compatibility import held_alike

CLIENT = 400
"""Least memory of a client, bytes: its state in arrays, and its row of the client table."""


def check_counts(scenario: Scenario, findings: Findings) -> None:
    """Raise a ScenarioError if the fleet or the network exceeds the memory budget."""
    with findings.at("fleet"):
        clients = scenario.clients
        check_budget("fleet", f"{clients} clients", CLIENT * clients)
    for need in scenario.network.needs:
        with findings.at(f"network.{need.key}"):
            check_budget("network", need.what, need.bytes)
    findings.settle()


def check_held(scenario: Scenario, clients: int, dimension: int, findings: Findings) -> None:
    """Register states that the server stores for its clients under EF21 beyond the budget."""
    with findings.at("wire.down.error_feedback"):
        size = vector_memory(scenario, clients, dimension)
        what = (
            f"the server's states of {clients} clients, vectors of {dimension} values that differ"
            " from client to client under ef21,"
        )
        check_budget("wire.down.error_feedback", what, size)


def check_kept(
    scenario: Scenario,
    algorithm: Algorithm,
    problem: Problem,
    findings: Findings,
    local: LocalParts | None = None,
) -> None:
    """Register memory of clients between rounds beyond the budget.

    It consists of optimizer states, parts of the model that stay with clients, and own models.
    """
    clients, dimension = len(problem.losses), problem.dimension
    has_own = local is not None or algorithm.personal
    key = f"algorithm.{('kind' if local is None else 'local') if has_own else 'optimizer_state'}"
    with findings.at(key):
        wanted = scenario.participation.among(clients).wanted
        asked = clients if wanted is None else min(wanted, clients)
        values = algorithm.kept_values(dimension) + (0 if local is None else len(local.local))
        which = "what is kept" if has_own else "the optimizer's state"
        what = f"{which} of {asked} clients, {values} values each,"
        # Optimizer states may have a narrower type than float64.
        narrow = 8 - problem.loss.state_type.itemsize
        state = algorithm.kept_state(dimension) if isinstance(algorithm, LocalUpdates) else 0
        size = 8 * values - narrow * state
        check_budget(key, what, size * asked)


def vector_memory(scenario: Scenario, clients: int, dimension: int) -> int:
    """Return an upper bound of the server's states of clients under EF21, bytes.

    It is 0 if the server has one state for all. Clients with the same history share theirs.
    """
    method, link = scenario.algorithm, scenario.wire.down
    kept = {Meaning.STATE, Meaning.INCREMENT}
    fields = sum(meaning in kept for meaning in method.downlink.values())
    apart = link.error_feedback == "ef21" and not held_alike(scenario)
    return 8 * dimension * clients * fields * apart
