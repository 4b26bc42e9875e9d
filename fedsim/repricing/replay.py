"""Replay: a method that repeats the messages and work of a recorded run without computing."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from fedsim.building.builder import policy_of
from fedsim.building.inputs import Findings, Inputs
from fedsim.building.job import Deployment, assemble, deploy, facts_of
from fedsim.building.network import Files
from fedsim.building.round_completion import closing
from fedsim.errors import DataError, RepricingError
from fedsim.ports import (
    SILENCE,
    Array,
    Client,
    ClientId,
    Message,
    Packer,
    Server,
    Silence,
    Work,
    node_name,
)
from fedsim.protocol.participation import Participation
from fedsim.protocol.stopping import Stop
from fedsim.record.folder import MODELS
from fedsim.record.manifest import COMPUTING, FILES
from fedsim.record.models import COLUMNS, SHAPE, CheckpointWriter, chunks
from fedsim.record.parts import PartWriter
from fedsim.record.read import read_run
from fedsim.repricing.history import Original, Tape
from fedsim.running.run import execute
from fedsim.scenario import Group, Scenario, Variant
from fedsim.sim.setup import Numerics, Setup
from fedsim.sim.star import ENDED

_NOTHING = np.zeros(0)
_AMID = ("time", "batteries")
"""The stop rules that end a run in the middle of a round."""

Refuse = Callable[[str, int, ClientId | None], RepricingError]
"""Makes the error that says why a tape does not fit: of a text, the round and the client."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A payload of so many bits, and without values."""

    bits: int

    @property
    def values(self) -> Array:
        """Placeholder values, which are never used."""
        return _NOTHING


@dataclass(frozen=True, slots=True)
class Said(Message):
    """A message of which the label and the bits are known."""

    content: Weight


@cache
def replay_message(label: str, bits: int) -> Message:
    """Return a message that the log calls `label`; messages alike are one object."""
    message: Message = _message_type(label)(Weight(bits))
    return message


@cache
def _message_type(label: str) -> type[Said]:
    return type(label, (Said,), {"__slots__": ()})


class Reenactment:
    """Implements `fedsim.sim.setup.Method` by a tape.

    It follows the tape for as long as the world lets it: where the cohort is another, or
    a client that answered does not, the original run would have gone differently there.

    Args:
        tape: of the run.
        looks: what the method has looked at, so that the new log says so, too.
        refuse: see `Refuse`.
    """

    def __init__(self, tape: Tape, looks: Sequence[str], refuse: Refuse) -> None:
        self._tape = tape
        self._looks = looks
        self._refuse = refuse
        self._committed = -1
        self._due: dict[ClientId, int] = {}  # the tasks of the exchange that is under way

    def memory(self, initial: Array) -> None:
        """Remember nothing."""

    def undelivered(self, client: Client, message: Message) -> None:  # noqa: ARG002 - a hook
        """Refuse: the server of the tape has heard this message."""
        raise self._refuse("a message of it is lost for good", client.round, client.id)

    def evaluate(self, model: Array) -> float:  # noqa: ARG002 - the tape knows
        """Return the objective of the round that is committed."""
        objective = self._tape.objective[self._committed]
        if objective is None:
            number = self._committed + 1
            raise self._refuse(
                "ends with a round that was not evaluated in the original run", number, None
            )
        return objective

    def observe(self, model: Array) -> Mapping[str, Any]:  # noqa: ARG002 - the tape knows
        """Return the further figures of that round."""
        return self._tape.measures[self._committed]

    async def serve(self, server: Server) -> None:
        """Run the server of the tape."""
        tape = self._tape
        for number, (begin, end) in enumerate(pairwise([0, *tape.commits])):
            for exchange in range(begin, end):
                await self._exchange(server, exchange)
            self._committed = number
            server.commit(_NOTHING)
        if tape.reason != ENDED:
            text = _beyond(len(tape.commits), tape.reason)
            raise self._refuse(text, server.round, None)
        for exchange in range(tape.commits[-1] if tape.commits else 0, len(tape.exchanges.one)):
            await self._exchange(server, exchange)

    async def _exchange(self, server: Server, number: int) -> None:
        exchanges, tasks = self._tape.exchanges, self._tape.tasks
        span = range(exchanges.first[number], exchanges.first[number + 1])
        self._due = {tasks.client[task]: task for task in span}
        told = {
            tasks.client[task]: replay_message(tasks.told[task], tasks.told_bits[task])
            for task in span
        }
        to = None if exchanges.drawn[number] else list(self._due)
        one = told[min(told)]
        # A sampled cohort is not known in advance: every client has a message, and a client that
        # is in the cohort here but was not in the original run is refused when it is asked.
        each = dict.fromkeys(server.clients, one) | told if to is None else told
        message = one if exchanges.one[number] else each
        replies = await server.exchange(message, to=to)
        if self._due or len(replies) != exchanges.said[number]:
            heard = {reply.client for reply in replies}
            spoke = [tasks.client[task] for task in span if tasks.message[task]]
            missing = [*self._due, *(client for client in spoke if client not in heard)]
            raise self._refuse("does not answer, and did then", server.round, missing[0])

    async def handle(self, client: Client, message: Message) -> Message | Silence:  # noqa: ARG002
        """Run a client of the tape: the same work, and the same answer."""
        for look in self._looks:
            getattr(client, look)
        tasks, task = self._tape.tasks, self._due.pop(client.id, None)
        if task is None:
            raise self._refuse("is asked, and was not asked then", client.round, client.id)
        for work in range(tasks.begin[task], tasks.end[task]):
            price = tasks.operations[work], tasks.samples[work]
            await client.compute(Work(_nothing, None, (), *price))
        label = tasks.message[task]
        return replay_message(label, tasks.bits[task]) if label else SILENCE


def _nothing() -> Array:
    return _NOTHING


def _beyond(rounds: int, reason: str) -> str:
    """Say why a log has nothing for what comes after its last round."""
    if reason.partition(":")[0] in _AMID:
        return (
            f"the log ends in the middle of round {rounds + 1} ({reason}), and does not have the"
            " rest of it, which this run would begin"
        )
    return f"the log ends after round {rounds} ({reason}), and this run would go on"


# The models of a re-priced run: nothing is trained, so they are the original's.

_NONE = COLUMNS.with_metadata({SHAPE: b"[0]"}).empty_table()


class KnownModels:
    """Implements `fedsim.record.models.CheckpointWriter` by what the original has kept.

    A run that ends as the original does has the same models, to the byte. One that ends earlier
    has those of the rounds that it gets to, and its last one only where that was kept.

    Args:
        original: the run.
        parts: where the table goes.
    """

    def __init__(self, original: Original, parts: PartWriter) -> None:
        self._original = original
        self._parts = parts
        self._last = 0

    def see(self, number: int, model: Array) -> None:  # noqa: ARG002 - it stands for nothing
        """Take note of how far the run has come."""
        self._last = number

    def close(self) -> None:
        """Write the models of the rounds that there were.

        Raises:
            DataError: the original's are damaged.
            OutputError: they cannot be written.
        """
        told = f"{MODELS}.parquet" in self._original.manifest[FILES]  # not in older runs
        for number, chunk in enumerate(chunks(self._original.folder) if told else [_NONE]):
            known = chunk.filter(pc.field("round") <= self._last)
            if len(known) or not number:
                self._parts.write(known)
        self._parts.close()

    def abandon(self) -> None:
        """Leave what is there; see `PartWriter`."""
        self._parts.abandon()


# Rebuilding: the world of a changed scenario, with a replay in place of the method.


@dataclass(frozen=True)
class Repricing:
    """Implements `fedsim.building.job.ExecutableRun`: a run made again from the log of another.

    Attributes:
        original: the run whose decisions are replayed.
        variant: the changed scenario.
        groups: of its fleet.
        deployment: its fleet and network.
        policy: the clients asked.
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

    def model_writer(self, folder: Path) -> CheckpointWriter:
        """Return what keeps the models that are known of the run, in the new one's folder."""
        return KnownModels(self.original, PartWriter(folder, MODELS))

    def advice(self) -> str:
        """Return nothing: what was finite is finite."""
        return ""

    @property
    def setup(self) -> Setup:
        """Everything that its world is made of."""
        method = Reenactment(self.tape, self.original.summary["looks"], self._refusal)
        no_loss: Any = None  # nothing is computed
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
        oracles = [no_loss] * len(self.members)
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


# Replay check: a user-defined method is replayed in its original world first.
#
# fedsim's own methods wait for nothing but exchanges and work. Another one may keep time in a way
# that no port shows, such as by a timer of asyncio; its re-enactment is then another run.

_TELLING = ("t", "duration", "joules")


def prove(original: Original, variant: Variant, tape: Tape, folder: Path) -> None:
    """Re-enact a run as it was, and compare its rows up to its last round.

    Args:
        original: the run.
        variant: its own scenario.
        tape: of the run.
        folder: where the relative paths of the scenario start.

    Raises:
        DataError: they differ.
    """
    if not tape.commits:
        return
    stop = Stop(rounds=len(tape.commits))
    scenario = variant.scenario.model_copy(update={"stop": stop})
    same = Variant(variant.name, scenario)
    with tempfile.TemporaryDirectory(prefix="fedsim-") as aside:
        again = execute(rebuilt(original, same, tape, folder), Path(aside))
        if not _agree(original.folder, again):
            text = (
                f"{original.folder}: the log of {scenario.algorithm.kind} does not come about again"
                " from what it says and does, so it keeps time in a way that the log does not tell"
                " (or fedsim has changed since); it takes another run: fedsim run"
            )
            raise DataError("folder", text)


def _agree(one: Path, other: Path) -> bool:
    """Say whether two logs tell the same up to the last round of the second."""
    first, second = (read_run(path, "events") for path in (one, other))
    count = 1 + np.flatnonzero(second["event"] == "round")[-1]
    return all(
        np.array_equal(first[name].to_numpy()[:count], second[name].to_numpy()[:count])
        for name in _TELLING
    )
