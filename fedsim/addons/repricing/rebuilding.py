"""Rebuilding: the world of a changed scenario, with a replay in place of the method."""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from fedsim.addons.repricing.history import Original, RunHistory
from fedsim.addons.repricing.replay import ReplayedMethod
from fedsim.core.errors import DataError, RepricingError
from fedsim.core.ports import Array, ClientId, Packer, node_name
from fedsim.physics.run_length import RunLengthSequence
from fedsim.problems.problem import client_shares
from fedsim.protocol.participation import Participation
from fedsim.protocol.privacy.wrapper import EPSILON
from fedsim.protocol.stopping import Stop
from fedsim.results.record.client_table import Facts
from fedsim.results.record.folder import MODELS
from fedsim.results.record.manifest import COMPUTING, EVERY, FILES
from fedsim.results.record.models import (
    COLUMNS,
    SHAPE,
    CheckpointWriter,
    Figure,
    NodeModels,
    chunks,
)
from fedsim.results.record.parts import PartWriter
from fedsim.results.record.read import read_run
from fedsim.running.run import execute
from fedsim.scenario import Group, Scenario, Variant
from fedsim.scenario.building.builder import complete_tiers
from fedsim.scenario.building.deployment import Deployment, deploy
from fedsim.scenario.building.facts import facts_of
from fedsim.scenario.building.feasibility import policy_of
from fedsim.scenario.building.inputs import Findings, Inputs
from fedsim.scenario.building.job import assemble, meter_of
from fedsim.scenario.building.network import Files
from fedsim.scenario.building.round_completion import ensure_completion
from fedsim.scenario.tiers import hop
from fedsim.sim.config import Hop, Numerics, WorldConfig

# The models of a re-priced run: those of the original, since nothing is trained.

_NONE = COLUMNS.with_metadata({SHAPE: b"[0]"}).empty_table()


class CopiedModels:
    """Implements `fedsim.results.record.models.CheckpointWriter` by copying the original's models.

    A run that ends like the original has the same models, to the byte. One that ends earlier has
    those of its own rounds, and the model of its last round only if the original has kept it.

    Args:
        original: the run.
        parts: the writer of the table.
    """

    def __init__(self, original: Original, parts: PartWriter) -> None:
        self._original = original
        self._parts = parts
        self._last = 0
        self.nodes: NodeModels | None = None  # runs among peers are not re-priced

    def see(self, number: int, model: Array, figure: Figure) -> None:
        """Register the last round of the run."""
        self._last = number

    def close(self) -> None:
        """Write the models of all rounds of this run.

        Raises:
            DataError: the models of the original are damaged.
            OutputError: they cannot be written.
        """
        kept = f"{MODELS}.parquet" in self._original.manifest[FILES]  # not in older runs
        for number, chunk in enumerate(chunks(self._original.folder) if kept else [_NONE]):
            # Copied by rounds, as the new run may end earlier. One empty part is written in any
            # case, so that the table has its schema.
            rows = chunk.filter(pc.field("round") <= self._last)
            if len(rows) or not number:
                self._parts.write(rows)
        self._parts.close()

    def abandon(self) -> None:
        """Keep the parts written so far; see `PartWriter`."""
        self._parts.abandon()


# A run that follows the log of another one.


@dataclass(frozen=True)
class Repricing:
    """Implements `fedsim.scenario.building.job.ExecutableRun` by replaying the log of another run.

    Attributes:
        original: the run that is replayed.
        variant: the changed scenario.
        groups: of its fleet, then its tiers.
        deployment: its fleet and network.
        policy: the participation policy.
        tiers: those of the servers above gateways.
        history: of the original.
        inputs: the hashes of the files that the changed scenario names, by path.
        remarks: what readers of these files chose, with the key that each concerns.
    """

    original: Original
    variant: Variant
    groups: tuple[Group, ...]
    deployment: Deployment
    policy: Participation
    tiers: tuple[Participation, ...]
    history: RunHistory
    inputs: Mapping[str, str]
    remarks: Mapping[str, str]

    @property
    def seed(self) -> int:
        """The seed of all its streams."""
        return self.variant.scenario.seed

    @property
    def members(self) -> RunLengthSequence[int]:
        """The group number of each client, and then of each gateway."""
        return self.deployment.nodes

    @property
    def opening(self) -> str:
        """The detail of the log's first row."""
        return self.history.opening

    @property
    def identity(self) -> dict[str, Any]:
        """The entries of the summary known before the run: the original's, but for targets."""
        summary = self.original.summary
        names = "variant", "seed", "algorithm", "parameters", "concerns"
        about = "clients", "dimension", "problem", "reference"
        stop = self.variant.scenario.stop
        target = {"target": stop.gap, "targets": stop.targets}
        return {
            **{name: summary[name] for name in names},
            **target,
            **{name: summary[name] for name in about},
            **({} if self._tolerance is None else {"tolerance": self._tolerance}),
            **({"may_be_silent": True} if summary.get("may_be_silent") else {}),
        }

    @property
    def _tolerance(self) -> float | None:
        """The tolerance of the original's constraint; None in older runs."""
        tolerance: float | None = self.original.summary.get("tolerance")
        return tolerance

    @property
    def computing(self) -> Mapping[str, Any]:
        """The settings of numerical computation, from the original run."""
        chosen: Mapping[str, Any] = self.original.manifest.get(COMPUTING, {})
        return chosen

    @property
    def facts(self) -> Mapping[str, Facts]:
        """The attributes of the clients, for the client table."""
        samples, names = np.array(self.original.samples, np.int64), self.original.names
        facts = facts_of(self.groups, self.members, samples, names, self.deployment.hierarchy)
        spent = self.original.epsilons
        return {**facts, EPSILON: spent} if spent else facts

    def model_writer(self, folder: Path) -> CheckpointWriter:
        """Return the writer of the run's models."""
        return CopiedModels(self.original, PartWriter(folder, MODELS))

    def run_notes(self) -> Iterable[tuple[str, str]]:
        """Return no note: a replay calls no program."""
        return ()

    def advice(self) -> str:
        """Return no hint: a replay computes nothing."""
        return ""

    @property
    def setup(self) -> WorldConfig:
        """The configuration of its world."""
        looks, then = self.original.summary["looks"], self.original.scenario.stop
        mid_round = [rule.key for rule in then.rules if rule.mid_round]
        method = ReplayedMethod(self.history, looks, self._refusal, mid_round)
        rows = np.array(self.original.samples, np.int64)
        no_loss: Any = SimpleNamespace(rows=0)  # nothing is computed
        reference = self.original.summary["reference"]
        numerics = Numerics(
            algorithm=method,
            initial=np.zeros(0),
            smoothness=_unknown,
            samples=rows.astype(float),
            weights=client_shares(rows, self.variant.scenario.problem.weighting),
            evaluate=method.evaluate,
            optimum=nan if reference is None else reference["value"],
            measures=[method.observe],
            tolerance=self._tolerance,
            packer_up=_no_packer,
            packer_down=_no_packer,
        )
        oracles = [no_loss] * len(self.members)
        parts = self.deployment, self.policy, oracles, numerics
        every = self.variant.scenario.observe.every or self.computing.get(EVERY, 1)
        made = assemble(self.variant.scenario, self.seed, *parts, every, self._hops(method))
        method.counts = made.tally().close().keys()
        meter = meter_of(self.variant.scenario, self.original.summary["dimension"])
        return replace(made, infrastructure=meter)

    def _hops(self, method: ReplayedMethod) -> tuple[Hop, ...]:
        """Return the configuration of each level of the hierarchy; empty without tiers."""
        if not self.tiers:
            return ()
        scenario = self.variant.scenario
        views = [scenario, *(hop(scenario, number) for number in range(len(self.tiers)))]
        rounds = [1, *(tier.rounds for tier in scenario.tiers)]
        policies = self.policy, *self.tiers
        return tuple(
            Hop(
                method=method,
                packer_up=_no_packer,
                packer_down=_no_packer,
                participation=policy,
                silence=view.silence,
                rounds=count,
            )
            for view, policy, count in zip(views, policies, rounds, strict=True)
        )

    def _refusal(self, text: str, number: int, client: ClientId | None) -> RepricingError:
        """Return the error of a world that departs from the history."""
        if client is None:
            rule = self.history.reason.partition(":")[0]
            is_own_rule = rule in Stop.model_fields or rule in self.original.scenario.stop.own
            return self.error(f"stop.{rule}" if is_own_rule else "stop", text)
        group = self.members[client]
        named = "battery" if self.groups[group].battery else "radio"
        name = node_name(client, len(self.original.samples))
        place = self.deployment.kinds[group].place
        return self.error(f"{place}.{named}", f"in round {number} {name} {text}")

    def error(self, key: str, text: str) -> RepricingError:
        """Return the error that names a key of the changed scenario."""
        again = "the rest needs training again: fedsim run"
        return RepricingError([self.variant.fault(key, f"{text}; {again}")])


def rebuild(original: Original, variant: Variant, history: RunHistory, folder: Path) -> Repricing:
    """Build the world of a changed scenario.

    Args:
        original: the run.
        variant: the changed scenario.
        history: of the run.
        folder: to which relative paths of the scenario refer.

    Raises:
        ScenarioError: the scenario is refused for a fresh run as well.
    """
    scenario, findings = variant.scenario, Findings(variant)
    groups = scenario.fleet or (Group(count=len(original.samples)),)
    deployment = deploy(scenario, groups, Files(folder), findings)
    policy = policy_of(scenario, np.array(original.samples, np.int64), findings)
    policy = ensure_completion(
        scenario, deployment.groups, policy, findings, _no_timeout, deployment
    )
    outer = [tier.outer for tier in scenario.tiers]
    tiers = complete_tiers(scenario, outer, deployment, findings, "values", _no_timeout)
    _check_gap(scenario, original, findings)
    findings.settle()
    inputs = Inputs(folder).hashes(scenario)
    closing = tuple(tier.participation for tier in tiers)
    every = *groups, *scenario.tiers
    built = deployment, policy, closing, history, inputs, findings.remarks
    return Repricing(original, variant, every, *built)


def _check_gap(scenario: Scenario, original: Original, findings: Findings) -> None:
    for key in scenario.stop.readers("gap") if original.summary["reference"] is None else ():
        findings.add(f"stop.{key}", "the run knows no optimum, so there is no gap to it")


def _unknown() -> Array:
    raise AssertionError("a replay needs no smoothness")


def _no_timeout() -> float:
    raise AssertionError("runs with rounds that close early are not re-priced")


def _no_packer(*_: Any) -> Packer:
    raise AssertionError("a replay packs nothing")


# Replay check: a user-defined method is replayed in its original world first.
#
# Methods of fedsim wait only for exchanges and work. Another one may wait in a way that no port
# shows, such as a timer of asyncio, which leaves no row in the log; its replay would then be faster
# than the run. In its own world, the replay has to reproduce all times and joules exactly.

_COMPARED = ("t", "duration", "joules")


def check_replay(original: Original, variant: Variant, history: RunHistory, folder: Path) -> None:
    """Replay a run in its own world, and compare the rows up to its last round.

    Args:
        original: the run.
        variant: its own scenario.
        history: of the run.
        folder: to which relative paths of the scenario refer.

    Raises:
        DataError: some row differs.
    """
    if not history.commits:
        return
    # Up to the last commit only: rows after it depend on why the run ended.
    stop = Stop(rounds=len(history.commits))
    scenario = variant.scenario.model_copy(update={"stop": stop})
    same = Variant(variant.name, scenario)
    with tempfile.TemporaryDirectory(prefix="fedsim-") as folder_of_replay:
        again = execute(rebuild(original, same, history, folder), Path(folder_of_replay))
        if not _agree(original.folder, again):
            text = (
                f"{original.folder}: a replay of {scenario.algorithm.kind} does not reproduce its"
                " log, so the method waits in a way that the log does not show (or fedsim has"
                " changed since); a new run is needed: fedsim run"
            )
            raise DataError("folder", text)


def _agree(one: Path, other: Path) -> bool:
    """Return whether two logs agree up to the last round of the second."""
    first, second = (read_run(path, "events") for path in (one, other))
    # Exact equality: the replay performs the same operations, so any difference in the last bit is
    # one of time.
    count = 1 + np.flatnonzero(second["event"] == "round")[-1]
    return all(
        np.array_equal(first[name].to_numpy()[:count], second[name].to_numpy()[:count])
        for name in _COMPARED
    )
