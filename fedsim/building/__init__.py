"""The one place where specs become live objects.

A `Builder` keeps the problem that it built last, because the variants of a scenario mostly
share it: data is read, split and solved once.
"""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from fedsim.algorithms import Algorithm, Setting
from fedsim.building.feasibility import (
    check_cells,
    check_closing,
    check_deadline,
    check_supplies,
)
from fedsim.building.files import Files
from fedsim.building.findings import Findings
from fedsim.building.fleet import makes
from fedsim.building.job import Job
from fedsim.building.network import topology
from fedsim.building.policies import check_sizes, participation
from fedsim.errors import DataError, Fault, ScenarioError
from fedsim.problems import Objective, Problem, Reference, optimum
from fedsim.problems.data import Catalogue, find
from fedsim.scenario import Group, Plan, ProblemSpec, Scenario, Variant
from fedsim.scenario.plan import file_order
from fedsim.streams import stream

__all__ = ["Builder", "Job", "missing_data"]


class Builder:
    """Builds the jobs of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._files = Files(plan.folder)
        self._key = ""
        self._problem: Problem
        self._references: dict[Objective, Reference | None] = {}

    def check(self) -> list[Job]:
        """Build every variant under its first seed.

        Raises:
            ScenarioError: with the faults of all variants, each place once: what several
                variants have in common is wrong in all of them.
        """
        jobs: list[Job] = []
        faults: dict[tuple[str, str], Fault] = {}
        for variant in self.plan.variants:
            try:
                jobs.append(self.build(variant, variant.seeds[0]))
            except ScenarioError as error:
                for fault in error.faults:
                    faults.setdefault((fault.where, fault.key), fault)
        if faults:
            raise ScenarioError(sorted(faults.values(), key=file_order))
        return jobs

    def build(self, variant: Variant, seed: int) -> Job:
        """Build one variant under one seed.

        Raises:
            ScenarioError: with all that the data, the files of the fleet and the network, or
                the world as a whole cannot do although it is asked of them.
        """
        findings, scenario = Findings(variant), variant.scenario
        solved = self._solved(scenario, seed, findings)
        groups = scenario.fleet or _ideal(solved)
        fleet = makes(groups, self._files, findings)
        members = tuple(make.group for make in fleet for _ in range(make.spec.count))
        names = [fleet[number].name for number in members]
        links = topology(scenario.network, names, self.plan.folder, findings)
        check_cells(scenario, fleet, findings)
        check_supplies(fleet, findings)
        if solved:
            policy = participation(scenario.participation, solved.problem)
            check_sizes(scenario.participation, len(members), findings)
            check_deadline(scenario, fleet, members, solved.problem.losses, findings)
            check_closing(scenario, fleet, policy, findings)
            findings.settle()
            return Job(variant, seed, *solved, groups, members, fleet, links, policy)
        raise ScenarioError(findings.faults)

    def _solved(self, scenario: Scenario, seed: int, findings: Findings) -> "_Solved | None":
        """Return the problem and its solution; None where something is wrong with the data."""
        try:
            problem = self._get_problem(scenario, seed)
            algorithm = scenario.algorithm.configured(_setting(problem, scenario.algorithm))
            reference = self._get_reference(algorithm.objective)
        except DataError as error:
            findings.add(f"problem.{error.key}", str(error))
            return None
        if scenario.stop.gap is not None and reference is None:
            text = f"no optimum is known for the loss {problem.loss.kind}, so no gap to it either"
            findings.add("stop.gap", text)
        return _Solved(problem, algorithm, reference)

    def _get_problem(self, scenario: Scenario, seed: int) -> Problem:
        spec, clients = scenario.problem, scenario.clients or None
        key = f"{spec.model_dump_json()} {clients} {seed}"
        if key != self._key:
            self._problem = _problem(spec, clients, seed, self.plan.folder)
            self._key = key
            self._references.clear()
        return self._problem

    def _get_reference(self, objective: Objective) -> Reference | None:
        if objective not in self._references:
            self._references[objective] = optimum(self._problem, objective)
        return self._references[objective]


def missing_data(plan: Plan) -> list[str]:
    """Return the names of catalogued data sets that a plan needs and this machine lacks."""
    missing: list[str] = []
    for variant in plan.variants:
        data = variant.scenario.problem.data
        if isinstance(data, Catalogue) and data.name not in missing and not _on_disk(data.name):
            missing.append(data.name)
    return missing


def _on_disk(name: str) -> bool:
    try:
        return find(name).is_file()
    except DataError:
        return False


def _problem(spec: ProblemSpec, clients: int | None, seed: int, folder: Path) -> Problem:
    samples = spec.data.load(folder, stream(seed, "data"))
    rows = spec.split.assign(samples, clients, stream(seed, "split"))
    return Problem.of(spec.loss, [samples.take(own) for own in rows])


class _Solved(NamedTuple):
    """A problem, the method configured for it, and its optimum where one is known."""

    problem: Problem
    algorithm: Algorithm
    reference: Reference | None


def _ideal(solved: _Solved | None) -> tuple[Group, ...]:
    """Return as many ideal clients as the split has made."""
    return (Group(count=len(solved.problem.losses)),) if solved else ()


def _setting(problem: Problem, algorithm: Algorithm) -> Setting:
    return Setting(
        clients=len(problem.losses),
        dimension=problem.dimension,
        smoothness=partial(problem.smoothness, algorithm.objective),
    )
