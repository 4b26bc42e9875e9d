"""Observers: the measures of a scenario, bound to its problem."""

from fedsim.building.findings import Findings
from fedsim.problems import Observer, Problem
from fedsim.scenario import Scenario


def observers(scenario: Scenario, problem: Problem, findings: Findings) -> tuple[Observer, ...]:
    """Return what is evaluated every round beside the objective.

    Args:
        scenario: what was written.
        problem: whose models are looked at.
        findings: takes the measures that the problem cannot serve.
    """
    bound: list[Observer] = [*problem.observers]
    for number, measure in enumerate(scenario.measures):
        with findings.at(f"measures.{number}"):
            bound.append(measure.bind(problem, scenario.algorithm.objective))
    return tuple(bound)
