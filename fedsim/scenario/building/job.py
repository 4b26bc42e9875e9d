"""A job: one run, ready to start."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from math import nan
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from fedsim.algorithms import Algorithm, Concern
from fedsim.core.columns import one_if_equal
from fedsim.core.errors import DataError
from fedsim.core.ports import SERVER, Array, ClientId, Oracle
from fedsim.core.streams import Streams, stream
from fedsim.physics.infrastructure import InfrastructureMeter
from fedsim.physics.run_length import RunLengthSequence
from fedsim.problems import Observer, Problem, Reference
from fedsim.problems.parts import LocalParts
from fedsim.problems.programs import ProgramProblem, reports
from fedsim.protocol import aggregation
from fedsim.protocol.participation import Participation
from fedsim.protocol.privacy.wrapper import EPSILON, PrivateMethod, Terms
from fedsim.protocol.stopping import Observe
from fedsim.protocol.transport import VALUES, Transport
from fedsim.protocol.wrapping import Wrapper
from fedsim.results.record.client_table import Facts
from fedsim.results.record.folder import MODELS
from fedsim.results.record.manifest import EVERY
from fedsim.results.record.models import Best, CheckpointWriter, ModelTable, NodeModels, OwnModels
from fedsim.results.record.parts import PartWriter
from fedsim.scenario import Group, Scenario, Variant
from fedsim.scenario.building.attacked import attacks_of, under_attack
from fedsim.scenario.building.confidential import terms_of
from fedsim.scenario.building.deployment import Deployment
from fedsim.scenario.building.evaluation import Evaluation
from fedsim.scenario.building.facts import facts_of
from fedsim.scenario.building.fit_messages import FittingMethod
from fedsim.scenario.building.hops import BuiltTier, build_hops
from fedsim.scenario.building.packing import packer
from fedsim.scenario.building.personal import PersonalMethod
from fedsim.scenario.building.secret import kept_in_secret, uplink, without_late
from fedsim.scenario.building.smoothness import SmoothnessConstants
from fedsim.scenario.compatibility import held_alike
from fedsim.scenario.scenario import conflicts
from fedsim.sim.config import Hop, Method, Numerics, WorldConfig
from fedsim.sim.fleet import Roster
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.models import played
from fedsim.wire import HEADER_BITS

# Executable runs: a job, or a replay of a recorded one.


class ExecutableRun(Protocol):
    """A run that is ready to start: a `Job`, or a replay of a recorded one."""

    @property
    def variant(self) -> Variant:
        """The variant from which it was built."""
        ...

    @property
    def seed(self) -> int:
        """The seed of all random streams."""
        ...

    @property
    def members(self) -> RunLengthSequence[int]:
        """The number of each client's group."""
        ...

    @property
    def deployment(self) -> Deployment:
        """The fleet and the network."""
        ...

    @property
    def setup(self) -> WorldConfig:
        """The configuration of its world."""
        ...

    @property
    def opening(self) -> str:
        """The text of the first row of its log."""
        ...

    @property
    def identity(self) -> Mapping[str, Any]:
        """The facts known before it begins, for its summary."""
        ...

    @property
    def computing(self) -> Mapping[str, Any]:
        """The choices of how its numbers are computed, for its manifest."""
        ...

    @property
    def inputs(self) -> Mapping[str, str]:
        """The hashes of the files that its scenario names, except its data, by path."""
        ...

    @property
    def facts(self) -> Mapping[str, Facts]:
        """The attributes of each client, for the client table."""
        ...

    def advice(self) -> str:
        """Return the advice for a run that has diverged, as the end of a sentence."""
        ...

    def run_notes(self) -> Iterable[tuple[str, str]]:
        """Return notes on what the run changed, each a key and a sentence."""
        ...

    def model_writer(self, folder: Path) -> CheckpointWriter:
        """Return the writer of its models to the folder of the run."""
        ...


# Assembly: a world's `WorldConfig` from a scenario and the components built for it.


def assemble(
    scenario: Scenario,
    seed: int,
    deployment: Deployment,
    policy: Participation,
    oracles: Sequence[Oracle],
    numerics: Numerics,
    every: int = 1,
    hops: tuple[Hop, ...] = (),
) -> WorldConfig:
    """Return the configuration of a world.

    Args:
        scenario: the scenario.
        seed: the seed of all random streams.
        deployment: the fleet and the network.
        policy: client sampling, and when a round closes.
        oracles: the clients' losses, in order.
        numerics: the computation.
        every: the number of rounds per evaluation.
        hops: the configuration of each level of the hierarchy; empty without tiers.
    """
    return WorldConfig(
        # Not `asdict`, which would copy every array and block.
        **{field.name: getattr(numerics, field.name) for field in fields(numerics)},
        fleet=_roster(deployment, oracles, seed),
        header_bits=HEADER_BITS,
        rng=Streams(seed),
        topology=deployment.topology,
        overlay=deployment.overlay,
        hierarchy=deployment.hierarchy,
        hops=hops,
        network=played(scenario.network, deployment.medium),
        silence=without_late(scenario, scenario.silence),
        participation=without_late(scenario, policy),
        aggregation=scenario.aggregation,
        stop=scenario.stop,
        observe=Observe(every=every),
        counting=scenario.counting,
        higher=_higher(scenario),
        infrastructure=meter_of(scenario, numerics.initial.size),
    )


def meter_of(scenario: Scenario, dimension: int) -> InfrastructureMeter | None:
    """Return what counts the energy of server and network; None if the scenario does not."""
    law = scenario.infrastructure
    return None if law is None else InfrastructureMeter(law, dimension)


def _higher(scenario: Scenario) -> frozenset[str]:
    """Return the columns for which more is better."""
    reported = frozenset(name for name, more in reports(scenario.problem.loss).items() if more)
    return reported.union(*(measure.higher for measure in scenario.measures))


def _roster(deployment: Deployment, oracles: Sequence[Oracle], seed: int) -> Roster:
    """Return the clients and then the gateways: one per group at once, the others on demand."""
    nodes, kinds, tree = deployment.nodes, deployment.kinds, deployment.hierarchy

    def oracle(node: ClientId) -> Oracle:
        if tree is None or node < tree.clients:
            return oracles[node]
        from fedsim.sim.tiers import RoundsOracle

        return cast("Oracle", RoundsOracle(sum(oracle(below).rows for below in tree.below[node])))

    def member(client: ClientId) -> ClientConfig:
        return kinds[nodes[client]].member(client, oracle(client), seed)

    runs: list[tuple[int, ClientConfig]] = []
    client = 0
    for size, number in nodes.runs:
        # Runs of one client if members of the group differ in more than their loss.
        step = size if kinds[number].alike else 1
        runs += [(step, member(first)) for first in range(client, client + size, step)]
        client += size
    return Roster(RunLengthSequence(runs), member)


@dataclass(frozen=True)
class Job:
    """One run, ready to start: a variant of a scenario under one seed.

    Attributes:
        variant: the variant from which it was built.
        seed: the seed of all random streams.
        problem: the clients' losses.
        algorithm: the method, configured for the problem.
        reference: the optimum; None if it is not known.
        infeasible: why no model meets the method's constraint, as a clause; empty if some do.
        remarks: choices of file readers: sentences, with the keys that they concern.
        groups: the groups of the fleet, or one of ideal clients if there is no fleet; then the
            tiers.
        deployment: the fleet and the network.
        participation: client sampling, and when a round closes.
        observers: the measures of a round: each an `Observer`, or an `OwnObserver` if clients have
            models of their own.
        concerns: the conditions of the method's theory that do not hold.
        evaluation: the evaluator of the clients' work, and the problem for observers.
        every: the number of rounds per evaluation.
        drawn: whether a random number was drawn for the problem or the method.
        transport: the transport of messages, which has no effect on logs.
        inputs: the hashes of the files that the scenario names, except its data, by path.
        local: the parts of the model that stay with clients; None for none.
        times: returns the mean time of a round of each client alone, s.
        tiers: the configuration of the servers above gateways.
    """

    variant: Variant
    seed: int
    problem: Problem
    algorithm: Algorithm
    reference: Reference | None
    concerns: tuple[Concern, ...]
    groups: tuple[Group, ...]
    deployment: Deployment
    participation: Participation
    observers: tuple[Callable[[Any], Mapping[str, float]], ...]
    evaluation: Evaluation
    every: int = 1
    drawn: bool = False
    transport: Transport = VALUES
    inputs: Mapping[str, str] = field(default_factory=dict)
    local: LocalParts | None = None
    times: Callable[[], Sequence[float]] = tuple
    tiers: tuple[BuiltTier, ...] = ()
    infeasible: str = ""
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def members(self) -> RunLengthSequence[int]:
        """The number of the group of each client, and then of each gateway."""
        return self.deployment.nodes

    @property
    def clients(self) -> int:
        """The number of clients, without gateways."""
        return len(self.deployment.members)

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's parameters, with the numbers that are used."""
        return self.algorithm.model_dump(exclude={"kind"}, exclude_none=True, mode="json")

    @property
    def scenario(self) -> Scenario:
        """The scenario, complete."""
        return self.variant.scenario

    @property
    def opening(self) -> str:
        """The text of the first row of the log: the optimum from which gaps are measured."""
        reference = self.reference
        if reference is None:
            unknown = "no reference optimum is known for this loss"
            return f"no reference optimum: {self.infeasible}" if self.infeasible else unknown
        return (
            f"reference {reference.title} {reference.value!r} by {reference.method}, "
            f"gradient norm {reference.residual:.3g}"
        )

    @property
    def identity(self) -> dict[str, Any]:
        """The facts known before the run begins, for its summary."""
        return {
            "variant": self.variant.name,
            "seed": self.seed,
            "algorithm": self.algorithm.kind,
            "parameters": self.parameters,
            "concerns": [f"{concern.key}: {concern.text}" for concern in self.concerns],
            "target": self.scenario.stop.gap,
            "targets": self.scenario.stop.targets,
            "clients": self.clients,
            "dimension": self.problem.dimension,
            "problem": self.problem.fingerprint,
            "reference": None if self.reference is None else self._reference,
            **({} if self._tolerance is None else {"tolerance": self._tolerance}),
            **({"may_be_silent": True} if self.algorithm.may_be_silent else {}),
        }

    @property
    def _tolerance(self) -> float | None:
        """The value of the constraint up to which it is met; None without one."""
        method = self.algorithm
        return method.constraint_tolerance if method.constrained else None

    @property
    def _reference(self) -> dict[str, Any]:
        keys = ("value", "method", "residual", "certified")
        return {key: getattr(self.reference, key) for key in keys}

    @property
    def computing(self) -> Mapping[str, Any]:
        """The choices of how numbers are computed and how often evaluated, for the manifest."""
        chosen = self.scenario.observe.every is None and self.every > 1
        return {**self.evaluation.choice, **({EVERY: self.every} if chosen else {})}

    @property
    def facts(self) -> dict[str, Facts]:
        """What each client is, for the client table."""
        names, rows = self.problem.naming.clients, self.problem.rows
        facts = facts_of(self.groups, self.members, rows, names, self.deployment.hierarchy)
        spent = {} if self._private is None else {EPSILON: self._private.account.epsilons.tolist()}
        return {**facts, **spent}

    def run_notes(self) -> Iterator[tuple[str, str]]:
        """Yield notes on clients' own programs, and on clipped vectors: a key and a sentence."""
        if isinstance(self.problem, ProgramProblem):
            yield from self.problem.run_notes()
        runs = self.setup.algorithm
        if isinstance(runs, Wrapper):
            yield from runs.run_notes()

    def advice(self) -> str:
        """Return why the objective of a run has risen, or which step size may help."""
        if attack := self._attack_advice():
            return f"; {attack}"
        step_size = getattr(self.algorithm, "step_size", None)
        if step_size is None:
            return ""
        name = self.algorithm.measured_by
        try:
            safe = SmoothnessConstants.of(self.problem, self.algorithm).step(name)
        except DataError:  # a loss without a smoothness constant, or with none above 0
            safe = None
        noise = 0.0 if self.terms is None else self.terms.noise_length
        remedy = "take less noise, more clients per round, or fewer rounds"
        if noise >= 1:
            text = f"the noise of a round is {noise:.3g} times as long as a mean update may be"
            return f"; {text}: {remedy}"
        if safe is None:
            less = " or less noise" if noise else ""
            return f"; step_size is {step_size:g}, try a smaller one{less}"
        if noise and step_size <= safe:
            text = f"step_size is {step_size:g}, at most 1/{name}, so the noise is the cause"
            return f"; {text}: {remedy}"
        return f"; step_size is {step_size:g}, and 1/{name} = {safe:g}"

    def _attack_advice(self) -> str:
        """Return that clients attack, and a rule that withstands them; empty if the rule does."""
        attackers, rule = len(attacks_of(self.scenario)), self.scenario.aggregation
        clients = len(self.members)
        # Of rules that are not set for a number of attackers, none is known to be too weak.
        limit = 0 if rule.adds_up else getattr(rule, "byzantine", None)
        withstood = clients if limit is None else limit
        if attackers <= withstood:
            return ""
        known = f"the {rule.kind} does not withstand it"
        if not rule.adds_up:
            known = f"{rule.kind} withstands {withstood} (aggregation.byzantine)"
        text = f"{attackers} of {clients} clients attack, and {known}"
        if clients <= 2 * attackers:
            return f"{text}; no rule withstands an attack of half of the clients or more"
        remedy = aggregation.TrimmedMean(byzantine=attackers)  # loaded only where it is advised
        attacked = self.scenario.model_copy(update={"aggregation": remedy})
        why = [problem for _, problem, _ in conflicts(attacked)]
        if why:  # the advice would be refused
            return f"{text}; trimmed-mean would, but not in this scenario: {why[0]}"
        return f"{text}: give aggregation: {{kind: trimmed-mean, byzantine: {attackers}}}"

    def model_writer(self, folder: Path) -> ModelTable:
        """Return the writer of its models to the folder of the run."""
        spec = self.scenario.models
        best = Best(spec.best, rises=spec.best in _higher(self.scenario)) if spec.best else None
        kept: OwnModels = self._personal.models if self._personal else NodeModels()
        clients = kept if spec.clients else None
        return ModelTable(PartWriter(folder, MODELS), self.problem.shape, spec.every, best, clients)

    @cached_property
    def setup(self) -> WorldConfig:
        """Everything that the world is made of."""
        among_peers = self.scenario.network.peers is not None
        oracles = self.evaluation.oracles(among_peers=among_peers)
        numerics = self._numerics()
        parts = self.deployment, self.participation, oracles, numerics
        config = assemble(self.scenario, self.seed, *parts, self.every, self._hops(numerics))
        return under_attack(replace(config, round_seconds=self.times), attacks_of(self.scenario))

    def _hops(self, numerics: Numerics) -> tuple[Hop, ...]:
        """Return the configuration of each level of the hierarchy; empty without tiers."""
        if not self.tiers:
            return ()
        clients = BuiltTier(self.algorithm, self.participation, self.transport)
        runs = cast("Method", numerics.algorithm)
        return build_hops(self.scenario, clients, self.tiers, runs, self.seed, self.problem.layers)

    @property
    def personal(self) -> bool:
        """Whether each client has a model of its own."""
        return self.algorithm.personal or self.local is not None

    @property
    def sent_values(self) -> int:
        """The number of values of the model that are sent."""
        return self.problem.dimension if self.local is None else len(self.local.shared)

    def _observe(self, personal: PersonalMethod | None) -> "_Observed":
        """Return the evaluation of a round: of one model, or of a model per client."""
        if personal is None:
            return _Observed(self.evaluation.value, self.observers)
        value = personal.objective(self.evaluation.problem)
        return _Observed(value, tuple(map(personal.observer, self.observers)))

    @cached_property
    def _initial(self) -> Array:
        """The initial model, shape (d,)."""
        start = self.scenario.problem.start
        return start.draw(self.problem, stream(self.seed, "initial model"))

    @cached_property
    def _personal(self) -> PersonalMethod | None:
        """The method with models per client; None if there is one model."""
        parts = self.algorithm, self._initial, len(self.problem.losses), self.local
        return PersonalMethod(*parts) if self.personal else None

    @cached_property
    def terms(self) -> Terms | None:
        """The terms of a differentially private run; None for other runs."""
        if self.scenario.privacy is None:
            return None
        problem, runs = self.problem, self._personal or self.algorithm
        memory = runs.memory(self._initial)
        sizes = problem.rows.astype(float)
        parts = self.algorithm, self.participation, problem.weights, sizes, memory
        return terms_of(self.scenario, *parts, self.seed, self.sent_values)

    @cached_property
    def _private(self) -> PrivateMethod | None:
        """The method with clipped replies and noise; None without privacy."""
        if self.terms is None:
            return None
        return PrivateMethod(self._personal or self.algorithm, self.terms)

    def _numerics(self) -> Numerics:
        scenario, problem, method = self.scenario, self.problem, self.algorithm
        wire, seed = scenario.wire, self.seed
        initial, personal = self._initial, self._personal
        # If preprocessing is fitted by messages, they come before those of the method.
        exchange = problem.fit_exchange
        runs = kept_in_secret(
            scenario,
            self._private or personal or method,
            method,
            policy=self.participation,
            weights=problem.weights,
            sent_values=self.sent_values,
            seed=seed,
        )
        layers = problem.layers if self.local is None else self.local.layers
        observed = self._observe(personal)
        return Numerics(
            algorithm=runs if exchange is None else FittingMethod(runs, exchange),
            initial=initial,
            smoothness=lambda: problem.coefficients * problem.client_smoothness,
            weights=problem.weights,
            samples=one_if_equal(problem.rows.astype(float)),
            evaluate=observed.evaluate,
            valued=problem.valued,
            optimum=self.reference.value if self.reference else nan,
            measures=observed.measures,
            tolerance=self._tolerance,
            packer_up=partial(
                packer,
                uplink(scenario),
                wire.values,
                seed,
                meanings=method.up,
                unbiased="up" in method.unbiased,
                layers=layers,
            ),
            packer_down=partial(
                packer,
                wire.down,
                wire.values,
                seed,
                SERVER,
                meanings=method.downlink,
                unbiased="down" in method.unbiased,
                layers=layers,
                by_client=not held_alike(scenario),
            ),
            evaluator=self.evaluation.evaluator,
            transport=self.transport,
            alike=True,
        )


class _Observed(NamedTuple):
    """Evaluations of a committed model, shape (d,): the objective, and further measures."""

    evaluate: Callable[[Array], float]
    measures: tuple[Observer, ...]
