"""The builder: from a plan to runnable jobs.

A `Builder` caches the last problem, because the variants of a scenario mostly share it: data is
read, split and solved once.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedsim.algorithms import Algorithm, Arrivals, Concern, ProblemInfo
from fedsim.core.blocks.in_memory import check_unchanged
from fedsim.core.errors import DataError, Fault, InfeasibleError, ParameterError, ScenarioError
from fedsim.core.ports import ClientId
from fedsim.core.progress import activity
from fedsim.core.streams import drawing, stream
from fedsim.core.table_columns import CONSTRAINT
from fedsim.problems import (
    Measure,
    Observer,
    OwnObserver,
    Problem,
    ProgramLoss,
    ProgramProblem,
    Reference,
)
from fedsim.problems.evaluators.serial import one_thread
from fedsim.problems.losses import LeastSquares, LinearLoss, Loss
from fedsim.problems.optimizers import GivenOptimizer, Optimizer
from fedsim.problems.partition import stacked_features
from fedsim.problems.parts import LocalParts
from fedsim.problems.restricted import convex
from fedsim.problems.samples import Precision
from fedsim.protocol.participation import (
    AsynchronousParticipation,
    Informed,
    Participation,
)
from fedsim.protocol.transport import Carry
from fedsim.scenario import (
    Group,
    Plan,
    Scenario,
    Variant,
)
from fedsim.scenario.building.attacked import attacks_of
from fedsim.scenario.building.budgets import check_counts, check_held, check_kept
from fedsim.scenario.building.deployment import Deployment, deploy
from fedsim.scenario.building.evaluation import Evaluation, EvaluatorKind, evaluation, problem_of
from fedsim.scenario.building.feasibility import check_deadline, check_restarts, policy_of
from fedsim.scenario.building.hops import BuiltTier, PlacedFindings, configure_tiers
from fedsim.scenario.building.inputs import Findings, Inputs
from fedsim.scenario.building.job import Job
from fedsim.scenario.building.load import ComputingLoad, evaluator_for, every_for, load_of
from fedsim.scenario.building.network import Files
from fedsim.scenario.building.packing import choose_transport, promise
from fedsim.scenario.building.personal import OwnModels, division
from fedsim.scenario.building.round_completion import (
    check_broadcast,
    ensure_completion,
    round_seconds,
    slowest,
)
from fedsim.scenario.building.smoothness import SmoothnessConstants
from fedsim.scenario.plan import file_order
from fedsim.scenario.tiers import hop
from fedsim.sim.engine.loop import collecting_rarely

# Observers: the measures of a scenario, bound to its problem.


def observers(
    scenario: Scenario, problem: Problem, findings: Findings, *, own: bool = False
) -> tuple[Any, ...]:
    """Return the observers of a run, which evaluate measures beside the objective.

    Args:
        scenario: the scenario.
        problem: the observed problem.
        findings: collects measures that the problem does not support.
        own: whether they evaluate a model per client (`OwnObserver`) or one model (`Observer`).
    """
    bound: list[Observer | OwnObserver] = [*problem.observers]
    for number, measure in enumerate(scenario.measures):
        with findings.at(f"measures.{number}"):
            bind = measure.bind_own if own else measure.bind
            bound.append(_with_own_copy(measure, bind(problem), own=own))
    if scenario.algorithm.constrained:
        from fedsim.problems import ConstraintValue

        if not any(isinstance(measure, ConstraintValue) for measure in scenario.measures):
            measure = ConstraintValue()
            bind = measure.bind_own if own else measure.bind
            bound.append(_constraint_alone(bind(problem)))
    return tuple(bound)


def _with_own_copy(
    measure: Measure, observe: Callable[[Any], Mapping[str, float]], *, own: bool
) -> Callable[[Any], Mapping[str, float]]:
    """Return the observer of a measure; a user-defined one gets a copy of each model.

    It may write into its argument, as a computation in place does, or need an array that can be
    written into. Neither the run nor other measures see what it writes.
    """
    if type(measure).__module__.startswith("fedsim."):
        return observe
    if own:
        return lambda models: observe(OwnModels(len(models), lambda n: models[n].copy()))
    return lambda model: observe(model.copy())


def _constraint_alone(observe: Callable[[Any], Mapping[str, float]]) -> Callable[[Any], Any]:
    """Return the observer of a constraint without its other columns."""
    return lambda model: {CONSTRAINT: observe(model)[CONSTRAINT]}


# Tiers: rounds above gateways, which have to end like those with clients.


def complete_tiers(
    scenario: Scenario,
    methods: Sequence[Algorithm],
    deployment: Deployment,
    findings: Findings,
    carry: Carry,
    patience: Callable[[], float],
) -> tuple[BuiltTier, ...]:
    """Return the configuration of servers and gateways, with policies under which rounds end.

    Args:
        scenario: the scenario.
        methods: see `configure_tiers`.
        deployment: the gateways.
        findings: collects faults.
        carry: "values" or "bytes".
        patience: returns the default timeout of a round with clients, s.
    """
    built: list[BuiltTier] = []
    rounds = 1
    for number, (tier, method) in enumerate(zip(scenario.tiers, methods, strict=True)):
        scenario_of_hop, placed = hop(scenario, number), PlacedFindings(findings, number)
        rounds *= tier.rounds
        policy = ensure_completion(
            scenario_of_hop,
            deployment.tiers[number : number + 1],
            tier.participation,
            placed,
            partial(_times, rounds, patience),
            deployment,
        )
        built.append(BuiltTier(method, policy, choose_transport(scenario_of_hop, carry, placed)))
    return tuple(built)


def _times(rounds: int, patience: Callable[[], float]) -> float:
    """Return the default timeout of a round that contains `rounds` rounds with clients, s."""
    return rounds * patience()


class Builder:
    """Builds the jobs of a plan.

    Args:
        plan: the variants and their seeds.
        carry: how messages are passed between nodes, which does not affect logs.
    """

    def __init__(self, plan: Plan, carry: Carry = "values") -> None:
        self.plan = plan
        self._carry = carry
        self._files = Files(plan.folder)
        self._inputs = Inputs(plan.folder)
        self._key = ""
        self._choice: tuple[EvaluatorKind, Precision, tuple[ClientId, ...]] | None = None
        self._evaluation: Evaluation
        self._problem: Problem
        self._drawn = False
        # Jobs of `check`, until `build` returns them.
        self._checked: dict[tuple[str, int], Job] = {}

    def check(self) -> list[Job]:
        """Build every variant under its first seed.

        Raises:
            ScenarioError: with the faults of all variants, one per place, since variants share most
                of the scenario.
            DataError: rows or a module have changed since they were passed in Python.
        """
        check_unchanged([variant.scenario for variant in self.plan.variants])
        jobs: list[Job] = []
        faults: dict[tuple[str, str], list[tuple[Fault, Fault]]] = {}
        for variant in self.plan.variants:
            try:
                jobs.append(self.build(variant, variant.seeds[0]))
            except ScenarioError as error:
                for fault in error.faults:
                    bare = replace(fault, message=fault.message.removeprefix(variant.prefix))
                    faults.setdefault((fault.where, fault.key), []).append((fault, bare))
        if faults:
            joined = [self._join(pairs) for pairs in faults.values()]
            raise ScenarioError(sorted(joined, key=file_order))
        self._checked = {(job.variant.name, job.seed): job for job in jobs}
        return jobs

    def _join(self, pairs: list[tuple[Fault, Fault]]) -> Fault:
        """Return the first fault at a place; without its variant if all variants have the same.

        Args:
            pairs: per variant with a fault, the fault with the name of the variant, and without it.
        """
        named, bare = pairs[0]
        same = len(pairs) == len(self.plan.variants) and all(other == bare for _, other in pairs)
        return bare if same else named

    def build(self, variant: Variant, seed: int) -> Job:
        """Build one variant under one seed. Reuses the job that `check` built, once.

        Raises:
            ScenarioError: with all faults of the data, of the files of fleet and network, and of
                the world as a whole.
        """
        if (checked := self._checked.pop((variant.name, seed), None)) is not None:
            return checked
        # One thread, as the last bits of an optimum would depend on the number of threads. Overflow
        # gives infinity here as in the run, which then diverges.
        infinite = np.errstate(over="ignore", invalid="ignore")
        with one_thread(), infinite, collecting_rarely(), drawing() as drawn:
            with activity(f"building {variant.name}, seed {seed}"):
                job = self._build(variant, seed)
            return replace(job, drawn=drawn() or self._drawn)

    def _build(self, variant: Variant, seed: int) -> Job:
        findings, scenario = Findings(variant), variant.scenario
        # Before any data is read: too many clients would exhaust the memory here.
        check_counts(scenario, findings)
        solved = self._solve(scenario, seed, findings)
        groups = scenario.fleet or _ideal(solved)
        transport = choose_transport(scenario, self._carry, findings)
        deployment = deploy(scenario, groups, self._files, findings, seed)
        if solved:
            losses = solved.problem.losses
            algorithm, d, local = solved.algorithm, solved.problem.dimension, solved.local
            check_held(scenario, len(losses), d, findings)
            check_kept(scenario, algorithm, solved.problem, findings, local)
            policy = policy_of(scenario, solved.problem.rows, findings, local)
            check_deadline(scenario, deployment.groups, deployment.members, losses, findings)
            check_restarts(
                scenario,
                deployment.groups,
                deployment.members,
                losses,
                solved.problem.rows,
                algorithm,
                policy,
                findings,
                d if local is None else len(local.shared),
            )
            observed = solved.evaluation
            has_own = algorithm.personal or local is not None
            measured = observers(scenario, observed.problem, findings, own=has_own)
            job = Job(
                *(variant, seed, *solved[:4], (*groups, *scenario.tiers), deployment, policy),
                *(measured, observed),
                every=solved.every,
                local=local,
                infeasible=solved.infeasible,
            )
            check_broadcast(scenario, deployment, findings)

            def patience() -> float:
                return slowest(job).round_timeout

            # A default timeout depends on the job, which therefore has to exist before it.
            parts = deployment.groups, policy, findings, patience, deployment
            closes = ensure_completion(scenario, *parts)
            context = deployment, findings, self._carry, patience
            tiers = complete_tiers(scenario, solved.outer, *context)
            findings.settle()
            inputs = self._inputs.hashes(scenario)
            complete = replace(
                job,
                participation=closes,
                transport=transport,
                inputs=inputs,
                remarks=findings.remarks,
            )
            # Only this policy needs the job in its world; others let the job be freed.
            if isinstance(policy, Informed) and policy.sees_all:
                complete = replace(complete, times=partial(round_seconds, job))
            return replace(complete, tiers=tiers)
        raise ScenarioError(findings.faults)

    def _solve(self, scenario: Scenario, seed: int, findings: Findings) -> "_Solved | None":
        """Return the problem and its solution; None if the data has faults."""
        reference, infeasible = None, ""
        try:
            problem = self._get_problem(scenario, seed)
            private = scenario.privacy is not None
            local = division(problem, scenario.algorithm, scenario.participation, private=private)
            info = self._info(problem, scenario, seed, local)
            algorithm = scenario.algorithm.configure(info)
            outer = configure_tiers(scenario, info, findings)
            wanted = scenario.problem.optimum == "computed" and info.programs is None
            wanted = wanted and local is None and not algorithm.personal
            if wanted:
                reference, infeasible = _reference(algorithm, problem)
        except ParameterError as error:
            findings.add(f"algorithm.{error.key}", str(error))
            return None
        except DataError as error:
            findings.add(f"problem.{error.key}", str(error))
            return None
        if reference is None:
            for key in scenario.stop.readers("gap"):
                findings.add(f"stop.{key}", _no_gap(scenario, infeasible))
        try:
            load = load_of(problem, algorithm, scenario)
            evaluated = self._evaluate_problem(problem, scenario, load)
        except DataError as error:
            findings.add(error.key, str(error))
            return None
        with activity("checking the conditions of the method's theory"):
            concerns = _concerns(algorithm, info)
        every = every_for(scenario, load)
        among_peers = scenario.network.peers is not None
        has_own = algorithm.personal or local is not None
        if scenario.models.clients and not (has_own or among_peers):
            text = f"got true, but clients of {algorithm.kind} have no models of their own"
            findings.add("models.clients", f"{text}; give algorithm.local, or leave it out")
        if scenario.counting == "iterates" and has_own:
            text = "got iterates, but clients have models of their own, which are kept only at the"
            findings.add("counting", f"{text} end of a round; take rounds")
        if scenario.tiers and local is not None:
            text = "parts of the model stay with clients, which gateways (tiers) do not support yet"
            findings.add("problem.loss.statistics", text)
        parts = problem, algorithm, reference, concerns, evaluated, every, local, outer
        return _Solved(*parts, infeasible)

    def _get_problem(self, scenario: Scenario, seed: int) -> Problem:
        spec, clients = scenario.problem, scenario.clients or None
        method = scenario.algorithm
        # All that the data, its split and its random numbers depend on.
        key = f"{spec.model_dump_json()} {clients} {seed} {scenario.precision}"
        if isinstance(spec.loss, ProgramLoss):  # a program may start from the model of the method
            key += f" {id(type(method))}"
        if key != self._key:
            with drawing() as drawn:
                self._problem = problem_of(
                    spec, clients, seed, self.plan.folder, scenario.precision, method
                )
                self._drawn = drawn()
            self._key, self._choice = key, None
        return self._problem

    def _evaluate_problem(
        self, problem: Problem, scenario: Scenario, load: ComputingLoad | None
    ) -> Evaluation:
        """Return the problem with its evaluator."""
        mislabelled = tuple(m for m, one in attacks_of(scenario).items() if one.mislabels)
        kind = scenario.evaluator or evaluator_for(problem, load)
        choice = kind, scenario.precision, mislabelled
        if choice != self._choice:
            self._evaluation = evaluation(problem, *choice)
            self._choice = choice
        return self._evaluation

    def _info(
        self, problem: Problem, scenario: Scenario, seed: int, local: LocalParts | None
    ) -> ProblemInfo:
        clients = len(problem.losses)
        sent = problem.dimension if local is None else len(local.shared)
        layers = problem.layers if local is None else local.layers
        parts = () if isinstance(problem, ProgramProblem) else problem.parts
        policy = scenario.participation.among(clients)
        constants = SmoothnessConstants.of(problem, scenario.algorithm)
        return ProblemInfo(
            clients=clients,
            dimension=sent,
            smoothness=constants.whole,
            client_smoothness=constants.clients,
            greatest_smoothness=constants.largest,
            shape=problem.shape,
            regulariser=replace(problem.regulariser, scale=1 / problem.total_weight),
            constrained=problem.loss.constrained,
            features=lambda: stacked_features(problem.samples),
            rng=partial(stream, seed, "shared"),
            uplink=promise(scenario.wire.up, sent, layers),
            downlink=promise(scenario.wire.down, sent, layers),
            cohort_size=policy.wanted,
            arrivals=_arrivals(policy, clients),
            quadratic=isinstance(problem.loss, LeastSquares) and not problem.loss.l1,
            hessian=type(problem.loss).hessian is not Loss.hessian,
            loss=problem.loss.kind,
            convex=convex(problem.loss),
            strongly_convex=problem.loss.l2 > 0 and convex(problem.loss),
            has_l1=isinstance(problem.loss, LinearLoss) and problem.loss.l1 > 0,
            folder=self.plan.folder,
            weights=problem.weights,
            coefficients=(
                problem.coefficients
                if scenario.network.peers is None
                else problem.node_coefficients
            ),
            programs=problem if isinstance(problem, ProgramProblem) else None,
            parts=parts,
            sent=parts if local is None else local.sent,
            refuses=partial(_refusal, problem),
            precision=problem.loss.computed_in(scenario.precision),
        )


def _refusal(problem: Problem, optimizer: Optimizer) -> str:
    """Return why an optimizer cannot train the clients' losses; empty if it can."""
    if not isinstance(optimizer, GivenOptimizer):
        return ""
    first = problem.losses[0]
    try:
        problem.loss.check_optimizer(optimizer, first.features, first.outputs)
    except DataError as error:
        return str(error)
    return ""


def missing_data(plan: Plan) -> list[str]:
    """Return the names of catalogued data sets that a plan needs and this machine lacks."""
    from fedsim.problems import Catalogue

    missing: list[str] = []
    for variant in plan.variants:
        problem = variant.scenario.problem
        for data in (problem.data, problem.test):
            if isinstance(data, Catalogue) and data.name not in missing and data.fetchable:
                missing.append(data.name)
    return missing


class _Solved(NamedTuple):
    """A problem, the configured method, the optimum if known, and concerns of the theory.

    It also holds the evaluator, the interval of evaluations, and why no model is feasible.
    """

    problem: Problem
    algorithm: Algorithm
    reference: Reference | None
    concerns: tuple[Concern, ...]
    evaluation: Evaluation
    every: int
    local: LocalParts | None
    outer: tuple[Algorithm, ...]
    infeasible: str


def _ideal(solved: _Solved | None) -> tuple[Group, ...]:
    """Return one ideal client per part of the data."""
    return (Group(count=len(solved.problem.losses)),) if solved else ()


def _reference(algorithm: Algorithm, problem: Problem) -> tuple[Reference | None, str]:
    """Return the optimum, if known, and the reason if no model is feasible."""
    with activity("looking for the optimum"):
        try:
            return algorithm.reference(problem), ""
        except InfeasibleError as error:
            return None, str(error)


def _no_gap(scenario: Scenario, infeasible: str) -> str:
    if infeasible:
        return f"{infeasible}, so there is no optimum, and no gap to it; leave this rule out"
    if scenario.problem.optimum == "unknown":
        return "problem.optimum is unknown, so there is no gap to it; leave one of the two out"
    return f"no optimum is known for the loss {scenario.problem.loss.kind}, so no gap to it either"


def _concerns(algorithm: Algorithm, info: ProblemInfo) -> tuple[Concern, ...]:
    """Return the conditions of its theory that the method is known to violate."""
    concerns: list[Concern] = []
    # A loss may lack a constant of the theory. Then the concerns yielded so far are kept.
    for concerns_of in (algorithm.concerns, algorithm.participation_concerns):
        with suppress(DataError):
            concerns.extend(concerns_of(info))
    return tuple(concerns)


def _arrivals(policy: Participation, clients: int) -> Arrivals | None:
    """Return the settings of an asynchronous server; None for a server with rounds."""
    if not isinstance(policy, AsynchronousParticipation):
        return None
    at_work = clients if policy.concurrency is None else min(policy.concurrency, clients)
    return Arrivals(min(policy.buffer, at_work), at_work, clients)
