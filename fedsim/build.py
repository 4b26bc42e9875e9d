"""The one place where specs become live objects.

A `Builder` keeps the problem that it built last, because the variants of a scenario mostly
share it: data is read, split and solved once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.algorithms import Algorithm, Setting
from fedsim.errors import DataError, Fault, ScenarioError
from fedsim.physics.devices import DeviceModel
from fedsim.physics.radios import RadioModel
from fedsim.ports import Array
from fedsim.problems import LossOracle, Objective, Problem, Reference, optimum
from fedsim.problems.data import Catalogue, find
from fedsim.scenario import (
    BeaconSilence,
    Group,
    Measure,
    Plan,
    ProblemSpec,
    Scenario,
    Silence,
    Stop,
    Variant,
)
from fedsim.sim.network.lanes import ServerLink
from fedsim.sim.setup import Member, Setup
from fedsim.sim.silence import SilencePolicy
from fedsim.sim.stopping import StopRules
from fedsim.streams import stream
from fedsim.wire import HEADER_BITS, Dense


@dataclass(frozen=True)
class Job:
    """One run, ready to start: a variant of a scenario under one seed.

    Attributes:
        variant: what it was built from.
        seed: the seed of all its streams.
        problem: the clients' losses.
        reference: the optimum; None where none is known.
        algorithm: configured for the problem.
        groups: the groups of the fleet; one of ideal clients where none was written.
        members: the number of the group that each client belongs to.
    """

    variant: Variant
    seed: int
    problem: Problem
    reference: Reference | None
    algorithm: Algorithm
    groups: tuple[Group, ...]
    members: tuple[int, ...]

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's parameters as the numbers that run."""
        return self.algorithm.model_dump(exclude={"kind"}, exclude_none=True, mode="json")

    @property
    def scenario(self) -> Scenario:
        """The scenario, complete."""
        return self.variant.scenario

    @cached_property
    def setup(self) -> Setup:
        """Everything that the world is made of."""
        pack = partial(Dense.of, format=self.scenario.wire.values)
        server = self.scenario.network.server
        return Setup(
            algorithm=self.algorithm,
            fleet=[
                _member(self.groups[number], oracle)
                for number, oracle in zip(self.members, self.problem.oracles, strict=True)
            ],
            initial=self.problem.initial(stream(self.seed, "initial model")),
            smoothness=lambda: self.problem.client_smoothness,
            evaluate=partial(self.problem.value, objective=self.algorithm.objective),
            optimum=self.reference.value if self.reference else nan,
            measures={name: partial(_MEASURES[name], self) for name in self.scenario.measures},
            pack_up=pack,
            pack_down=pack,
            header_bits=HEADER_BITS,
            rng=partial(stream, self.seed),
            server=ServerLink(server.up, server.down, server.latency),
            silence=_silence(self.scenario.silence),
            stop=_stop(self.scenario.stop),
        )


def _gradient_norm(job: Job, model: Array) -> float:
    """Return the norm of the objective's (sub)gradient at `model`."""
    return float(np.linalg.norm(job.problem.gradient(model, job.algorithm.objective)))


_MEASURES: dict[Measure, Callable[[Job, Array], float]] = {"gradient_norm": _gradient_norm}


class Builder:
    """Builds the jobs of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
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
            raise ScenarioError(list(faults.values()))
        return jobs

    def build(self, variant: Variant, seed: int) -> Job:
        """Build one variant under one seed.

        Raises:
            ScenarioError: the data, the split or the loss cannot do what is asked of them.
        """
        scenario = variant.scenario
        try:
            problem = self._get_problem(scenario, seed)
            algorithm = scenario.algorithm.configured(_setting(problem, scenario.algorithm))
            reference = self._get_reference(algorithm.objective)
        except DataError as error:
            raise ScenarioError([variant.fault(f"problem.{error.key}", str(error))]) from error
        if scenario.stop.gap is not None and reference is None:
            text = f"no optimum is known for the loss {problem.loss.kind}, so no gap to it either"
            raise ScenarioError([variant.fault("stop.gap", text)])
        groups = scenario.fleet or (Group(count=len(problem.losses)),)
        members = tuple(n for n, group in enumerate(groups) for _ in range(group.count))
        return Job(variant, seed, problem, reference, algorithm, groups, members)

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


def _setting(problem: Problem, algorithm: Algorithm) -> Setting:
    return Setting(
        clients=len(problem.losses),
        dimension=problem.dimension,
        smoothness=partial(problem.smoothness, algorithm.objective),
    )


def _member(group: Group, oracle: LossOracle) -> Member:
    device, radio = group.device, group.radio
    return Member(
        DeviceModel(device.speed, device.active, device.idle),
        RadioModel(
            radio.up,
            radio.down,
            radio.latency,
            radio.energy_up,
            radio.energy_down,
            radio.base,
        ),
        oracle,
    )


def _silence(spec: Silence) -> SilencePolicy:
    if isinstance(spec, BeaconSilence):
        return SilencePolicy()
    return SilencePolicy(beacon=False, after=spec.after, keep_late=spec.late == "keep")


def _stop(spec: Stop) -> StopRules:
    return StopRules(
        rounds=spec.rounds,
        gap=-inf if spec.gap is None else spec.gap,
        time=inf if spec.time is None else spec.time,
        bits=inf if spec.bits is None else spec.bits,
        energy=inf if spec.energy is None else spec.energy,
    )
