"""Rebuilding: the world of a changed scenario, with a re-enactment in place of the method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.building.assembly import assemble
from fedsim.building.closing import closing
from fedsim.building.deployment import Deployment, deploy
from fedsim.building.files import Files
from fedsim.building.findings import Findings
from fedsim.building.inputs import Inputs
from fedsim.building.job import facts_of
from fedsim.building.policies import policy_of
from fedsim.errors import RepricingError
from fedsim.ports import Array, ClientId, Packer, node_name
from fedsim.protocol.participation import Participation
from fedsim.protocol.stopping import Stop
from fedsim.record.folder import MODELS
from fedsim.record.manifest import COMPUTING
from fedsim.record.models import Keeper
from fedsim.record.parts import Parts
from fedsim.repricing.known_models import KnownModels
from fedsim.repricing.original import Original
from fedsim.repricing.reenactment import Reenactment
from fedsim.repricing.tape import Tape
from fedsim.scenario import Group, Scenario, Variant
from fedsim.sim.setup import Numerics, Setup


@dataclass(frozen=True)
class Repricing:
    """Implements `fedsim.building.ready.Ready`: a run that is made again from the log of another.

    Attributes:
        original: the run whose decisions it takes.
        variant: the changed scenario.
        groups: of its fleet.
        deployment: its fleet and network.
        policy: who is asked.
        tape: what was said and done.
        inputs: the hashes of the files that the changed scenario names, by path.
    """

    original: Original
    variant: Variant
    groups: tuple[Group, ...]
    deployment: Deployment
    policy: Participation
    tape: Tape
    inputs: Mapping[str, str]

    @property
    def seed(self) -> int:
        """The seed of all its streams."""
        return self.variant.scenario.seed

    @property
    def members(self) -> Sequence[int]:
        """The number of the group that each client belongs to."""
        return self.deployment.members

    @property
    def opening(self) -> str:
        """What the first row of the log says."""
        return self.tape.opening

    @property
    def identity(self) -> dict[str, Any]:
        """What is known of the run before it begins: but for its target, what was known then."""
        known = self.original.summary
        names = "variant", "seed", "algorithm", "parameters", "concerns"
        about = "clients", "dimension", "problem", "reference"
        stop = self.variant.scenario.stop
        target = {"target": stop.gap, "targets": stop.targets}
        return {
            **{name: known[name] for name in names},
            **target,
            **{name: known[name] for name in about},
            "start": known.get("start"),  # older runs have none
        }

    @property
    def computing(self) -> Mapping[str, Any]:
        """How its numbers came about: as those of the run that it is priced from."""
        chosen: Mapping[str, Any] = self.original.manifest.get(COMPUTING, {})
        return chosen

    @property
    def facts(self) -> Mapping[str, Sequence[object]]:
        """What each client is, for the client table."""
        return facts_of(self.groups, self.members, self.original.samples)

    def keeper(self, folder: Path) -> Keeper:
        """Return what keeps the models that are known of the run, in the new one's folder."""
        return KnownModels(self.original, Parts(folder, MODELS))

    def advice(self) -> str:
        """Return nothing: what was finite is finite."""
        return ""

    @property
    def setup(self) -> Setup:
        """Everything that its world is made of."""
        method = Reenactment(self.tape, self.original.summary["looks"], self._refusal)
        nobody: Any = None  # no loss: nothing is computed
        reference = self.original.summary["reference"]
        played = Numerics(
            algorithm=method,
            initial=np.zeros(0),
            smoothness=_unknown,
            samples=np.array(self.original.samples, float),
            evaluate=method.evaluate,
            optimum=nan if reference is None else reference["value"],
            measures=[method.observe],
            packer_up=_no_packer,
            packer_down=_no_packer,
        )
        oracles = [nobody] * len(self.members)
        return assemble(
            self.variant.scenario, self.seed, self.deployment, self.policy, oracles, played
        )

    def _refusal(self, text: str, number: int, client: ClientId | None) -> RepricingError:
        """Return the error of a world that does not follow the tape."""
        if client is None:
            rule = self.tape.reason.partition(":")[0]
            return self.error(f"stop.{rule}" if rule in Stop.model_fields else "stop", text)
        group = self.members[client]
        named = "battery" if self.groups[group].battery else "radio"
        return self.error(f"fleet.{group}.{named}", f"in round {number} {node_name(client)} {text}")

    def error(self, key: str, text: str) -> RepricingError:
        """Return the error that names a key of the changed scenario."""
        again = "what comes then needs training again: fedsim run"
        return RepricingError([self.variant.fault(key, f"{text}; {again}")])


def rebuilt(original: Original, variant: Variant, tape: Tape, folder: Path) -> Repricing:
    """Build the world of a changed scenario.

    Args:
        original: the run.
        variant: the changed scenario.
        tape: of the run.
        folder: where the relative paths of the scenario start.

    Raises:
        ScenarioError: a fresh run of it would not begin.
    """
    scenario, findings = variant.scenario, Findings(variant)
    groups = scenario.fleet or (Group(count=len(original.samples)),)
    deployment = deploy(scenario, groups, Files(folder), findings)
    policy = policy_of(scenario, np.array(original.samples, np.int64), findings)
    policy = closing(scenario, deployment.groups, policy, findings, _no_patience, deployment)
    _check_gap(scenario, original, findings)
    findings.settle()
    inputs = Inputs(folder).hashes(scenario)
    return Repricing(original, variant, groups, deployment, policy, tape, inputs)


def _check_gap(scenario: Scenario, original: Original, findings: Findings) -> None:
    if scenario.stop.gap is not None and original.summary["reference"] is None:
        findings.add("stop.gap", "no optimum is known to the log, so no gap to it either")


def _unknown() -> Array:
    raise AssertionError("a re-enactment asks for no smoothness")


def _no_patience() -> float:
    raise AssertionError("rounds that close before all have answered are not priced again")


def _no_packer(*_: Any) -> Packer:
    raise AssertionError("a re-enactment packs nothing")
