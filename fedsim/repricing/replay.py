"""Replay: a method that repeats the messages and work of a recorded run without computing.

The difficulty is not to repeat a run but to notice when it would not have gone the same way. The
replay runs in a world with new times, and at each step compares what that world does with the
history. A client that is sampled here and was not then, one that does not reply and did then, a
message lost for good, a stop rule that is not met where the history ends: each means that the
original method would have had other inputs from there on. No log can say what it would have done,
so the replay ends with an error that names the round, the client and the key of the scenario.
"""

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from fedsim.building.deployment import Deployment, deploy
from fedsim.building.feasibility import policy_of
from fedsim.building.inputs import Findings, Inputs
from fedsim.building.job import assemble, facts_of
from fedsim.building.network import Files
from fedsim.building.round_completion import ensure_completion
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
from fedsim.record.manifest import COMPUTING, EVERY, FILES
from fedsim.record.models import COLUMNS, SHAPE, CheckpointWriter, Figure, NodeModels, chunks
from fedsim.record.parts import PartWriter
from fedsim.record.read import read_run
from fedsim.repricing.history import Original, RunHistory
from fedsim.running.run import execute
from fedsim.scenario import Group, Scenario, Variant
from fedsim.sim.config import Numerics, WorldConfig
from fedsim.worlds.main_task import ENDED

_NOTHING = np.zeros(0)
Refuse = Callable[[str, int, ClientId | None], RepricingError]
"""Returns the error of a world that departs from the history, given text, round and client."""


@dataclass(frozen=True, slots=True)
class SizedPayload:
    """A payload of a known size without values."""

    bits: int

    @property
    def values(self) -> Array:
        """Placeholder values, which are never used."""
        return _NOTHING


@dataclass(frozen=True, slots=True)
class ReplayedMessage(Message):
    """A message with a label and a size."""

    content: SizedPayload


@cache
def replay_message(label: str, bits: int) -> Message:
    """Return a message with this label in the log; equal messages are one object."""
    message: Message = _message_type(label)(SizedPayload(bits))
    return message


@cache
def _message_type(label: str) -> type[ReplayedMessage]:
    return type(label, (ReplayedMessage,), {"__slots__": ()})


class ReplayedMethod:
    """Implements `fedsim.sim.config.Method` by the history of a run.

    Args:
        history: of the run.
        looks: the ports that the method has read; the replay reads them, too, so that the new
            summary records them.
        refuse: see `Refuse`.
        mid_round: the keys of the original's stop rules that may end it in the middle of a round.
    """

    def __init__(
        self,
        history: RunHistory,
        looks: Sequence[str],
        refuse: Refuse,
        mid_round: Collection[str] = (),
    ) -> None:
        self._history = history
        self._mid_round = mid_round
        self._looks = looks
        self._refuse = refuse
        self._committed = -1
        self._due: dict[ClientId, int] = {}  # the tasks of the open exchange

    def memory(self, initial: Array) -> None:
        """Allocate no state."""

    def undelivered(self, client: Client, message: Message) -> None:  # noqa: ARG002 - a hook
        """Refuse: the server has received this message in the original run."""
        raise self._refuse("a message of it is lost for good", client.round, client.id)

    def evaluate(self, model: Array) -> float:  # noqa: ARG002 - recorded
        """Return the recorded objective of the committed round."""
        objective = self._history.objective[self._committed]
        if objective is None:
            number = self._committed + 1
            text = f"ends with round {number}, which was not evaluated in the original run"
            raise self._refuse(text, number, None)
        return objective

    def observe(self, model: Array) -> Mapping[str, Any]:  # noqa: ARG002 - recorded
        """Return the other recorded figures of that round."""
        return self._history.measures[self._committed]

    async def serve(self, server: Server) -> None:
        """Run the recorded server."""
        history = self._history
        for number, (begin, end) in enumerate(pairwise([0, *history.commits])):
            for exchange in range(begin, end):
                await self._exchange(server, exchange)
            self._committed = number
            server.commit(_NOTHING)
        if history.reason != ENDED:
            text = _beyond(len(history.commits), history.reason, self._mid_round)
            raise self._refuse(text, server.round, None)
        for exchange in range(
            history.commits[-1] if history.commits else 0, len(history.exchanges.shared)
        ):
            await self._exchange(server, exchange)

    async def _exchange(self, server: Server, number: int) -> None:
        exchanges, tasks = self._history.exchanges, self._history.tasks
        span = range(exchanges.first[number], exchanges.first[number + 1])
        self._due = {tasks.client[task]: task for task in span}
        requests = {
            tasks.client[task]: replay_message(tasks.received[task], tasks.received_bits[task])
            for task in span
        }
        to = None if exchanges.sampled[number] else list(self._due)
        first = requests[min(requests)]
        # A sampled cohort is not known in advance: every client gets a message, and a client that
        # is in the cohort here but was not in the original run is refused in `handle`.
        each = dict.fromkeys(server.clients, first) | requests if to is None else requests
        message = first if exchanges.shared[number] else each
        replies = await server.exchange(message, to=to)
        if self._due or len(replies) != exchanges.replies[number]:
            received = {reply.client for reply in replies}
            due = [tasks.client[task] for task in span if tasks.message[task]]
            missing = [*self._due, *(client for client in due if client not in received)]
            raise self._refuse("does not reply, but did in the original", server.round, missing[0])

    async def handle(self, client: Client, message: Message) -> Message | Silence:  # noqa: ARG002
        """Run a recorded client: the same work, and the same reply."""
        for look in self._looks:
            getattr(client, look)
        tasks, task = self._history.tasks, self._due.pop(client.id, None)
        if task is None:
            text = "is sampled, but was not in the original"
            raise self._refuse(text, client.round, client.id)
        for work in range(tasks.begin[task], tasks.end[task]):
            price = tasks.operations[work], tasks.samples[work]
            await client.compute(Work(_nothing, None, (), *price))
        label = tasks.message[task]
        return replay_message(label, tasks.bits[task]) if label else SILENCE


def _nothing() -> Array:
    return _NOTHING


def _beyond(rounds: int, reason: str, mid_round: Collection[str]) -> str:
    """Explain why a log has no data beyond its last round."""
    if reason.partition(":")[0] in mid_round:
        return (
            f"the log ends in the middle of round {rounds + 1} ({reason}), and lacks the rest of"
            " it, which this run would need"
        )
    return f"the log ends after round {rounds} ({reason}), but this run would continue"


# The models of a re-priced run: those of the original, since nothing is trained.

_NONE = COLUMNS.with_metadata({SHAPE: b"[0]"}).empty_table()


class CopiedModels:
    """Implements `fedsim.record.models.CheckpointWriter` by copying the original's models.

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

    def see(self, number: int, model: Array, figure: Figure) -> None:  # noqa: ARG002 - placeholders
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
            known = chunk.filter(pc.field("round") <= self._last)
            if len(known) or not number:
                self._parts.write(known)
        self._parts.close()

    def abandon(self) -> None:
        """Keep the parts written so far; see `PartWriter`."""
        self._parts.abandon()


# Rebuilding: the world of a changed scenario, with a replay in place of the method.


@dataclass(frozen=True)
class Repricing:
    """Implements `fedsim.building.job.ExecutableRun`: a run by the log of another one.

    Attributes:
        original: the run that is replayed.
        variant: the changed scenario.
        groups: of its fleet.
        deployment: its fleet and network.
        policy: the participation policy.
        history: of the original.
        inputs: the hashes of the files that the changed scenario names, by path.
    """

    original: Original
    variant: Variant
    groups: tuple[Group, ...]
    deployment: Deployment
    policy: Participation
    history: RunHistory
    inputs: Mapping[str, str]

    @property
    def seed(self) -> int:
        """The seed of all its streams."""
        return self.variant.scenario.seed

    @property
    def members(self) -> Sequence[int]:
        """The group number of each client."""
        return self.deployment.members

    @property
    def opening(self) -> str:
        """The detail of the log's first row."""
        return self.history.opening

    @property
    def identity(self) -> dict[str, Any]:
        """The entries of the summary known before the run: the original's, but for targets."""
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
        """How its numbers were computed: as in the original run."""
        chosen: Mapping[str, Any] = self.original.manifest.get(COMPUTING, {})
        return chosen

    @property
    def facts(self) -> Mapping[str, Sequence[object]]:
        """The attributes of the clients, for the client table."""
        return facts_of(self.groups, self.members, self.original.samples, self.original.names)

    def model_writer(self, folder: Path) -> CheckpointWriter:
        """Return the writer of the run's models."""
        return CopiedModels(self.original, PartWriter(folder, MODELS))

    def advice(self) -> str:
        """Return no hint: a replay computes nothing."""
        return ""

    @property
    def setup(self) -> WorldConfig:
        """The configuration of its world."""
        looks, then = self.original.summary["looks"], self.original.scenario.stop
        mid_round = [rule.key for rule in then.rules if rule.mid_round]
        method = ReplayedMethod(self.history, looks, self._refusal, mid_round)
        no_loss: Any = None  # nothing is computed
        reference = self.original.summary["reference"]
        numerics = Numerics(
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
        parts = self.deployment, self.policy, oracles, numerics
        every = self.variant.scenario.observe.every or self.computing.get(EVERY, 1)
        return assemble(self.variant.scenario, self.seed, *parts, every)

    def _refusal(self, text: str, number: int, client: ClientId | None) -> RepricingError:
        """Return the error of a world that departs from the history."""
        if client is None:
            rule = self.history.reason.partition(":")[0]
            own = rule in Stop.model_fields or rule in self.original.scenario.stop.own
            return self.error(f"stop.{rule}" if own else "stop", text)
        group = self.members[client]
        named = "battery" if self.groups[group].battery else "radio"
        return self.error(f"fleet.{group}.{named}", f"in round {number} {node_name(client)} {text}")

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
    _check_gap(scenario, original, findings)
    findings.settle()
    inputs = Inputs(folder).hashes(scenario)
    return Repricing(original, variant, groups, deployment, policy, history, inputs)


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
# fedsim's own methods wait only for exchanges and work. Another one may wait in a way that no port
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
    count = 1 + np.flatnonzero(second["event"] == "round")[-1]
    return all(
        np.array_equal(first[name].to_numpy()[:count], second[name].to_numpy()[:count])
        for name in _COMPARED
    )
