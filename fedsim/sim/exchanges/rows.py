"""Equal nodes: one coroutine stands for all of them, and their vectors are rows.

A method that declares `lives_rows` computes elementwise, from its messages and the node's loss
alone. All nodes then advance together, exchange by exchange, ahead of the clock.
"""

from collections import deque
from collections.abc import Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from types import coroutine
from typing import Any, cast

import numpy as np

from fedsim.core.ports import Array, ClientId, Message, Oracle, Reply, Work
from fedsim.core.streams import EntityStreams
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.overlay import Overlay
from fedsim.problems.evaluators.serial import GroupEvaluator
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.transport import Envelope
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.arrays.together import ClientGroup, GroupDraws, NotAlikeError, Piece, is_plain
from fedsim.sim.config import PeerMethod, WorldConfig
from fedsim.sim.exchanges.layout import COMMIT, COMPUTE, EXCHANGE, KernelTables, Step
from fedsim.sim.exchanges.nodes import endpoint
from fedsim.sim.fleet import Fleet
from fedsim.sim.meetings import Neighbourhood
from fedsim.sim.peer_rounds import PeerRounds
from fedsim.wire.payloads.rows import DenseRows

_NUMBERS, _APART = 2**24, 2
"""Largest number of coordinates of models that wait for the clock, beyond `_APART` rounds."""

_Untimed = tuple[int, float, float]
"""A step without its time: its kind, operations and samples."""

_COMMITS: _Untimed = (COMMIT, 0.0, 0.0)
_EXCHANGES: _Untimed = (EXCHANGE, 0.0, 0.0)


class _NodeDraws(GroupDraws):
    """The random streams of the nodes: one row per node, from its own stream."""

    def standard_normal(self, shape: tuple[int, int]) -> Array:
        """Return normal numbers, shape (n, d)."""
        return np.array(
            [self.streams.of(number).standard_normal(shape[1]) for number in self.numbers.tolist()]
        )


@dataclass(frozen=True, slots=True)
class _Received:
    """The payloads that nodes receive from neighbours of one position.

    Attributes:
        values: one row per receiver, shape (n, d).
    """

    values: Array


@coroutine
def _wait(message: Message | None) -> Generator[Message | None, list[Reply], list[Reply]]:
    """Yield a message to the driver, or None at the end; return the replies."""
    return (yield message)


class NodeGroup(ClientGroup):
    """Implements `fedsim.core.ports.Node` for n nodes of one degree at once.

    Args:
        numbers: the numbers of the nodes.
        protocol: the endpoint of the first node.
        oracle: the loss of the first node; those of the others have as many samples.
        setup: the configuration of the world.
        streams: the random stream of each node.
        looks: the set to which the names of what the method reads are added.

    Attributes:
        initial: the common initial model in each row, shape (n, d).
        others: the neighbours of each node in order, shape (n, degree).
        weights: the weights of the neighbours, by position, each of shape (n, 1).
        steps: the steps up to the next exchange.
        committed: the models that were committed in these, shape (n, d).
    """

    protocol: PeerProtocol  # type: ignore[assignment]
    mix = None

    def __init__(
        self,
        numbers: Numbers,
        protocol: PeerProtocol,
        oracle: Oracle,
        setup: WorldConfig,
        streams: EntityStreams,
        looks: set[str],
    ) -> None:
        evaluator = cast("GroupEvaluator", setup.evaluator)
        super().__init__(numbers, protocol, oracle, evaluator, streams, looks)  # type: ignore[arg-type]
        self.rng = _NodeDraws(streams, numbers)
        self.initial = np.repeat(setup.initial[None], len(numbers), axis=0)
        near = [
            Neighbourhood.of(cast("Overlay", setup.overlay), number) for number in numbers.tolist()
        ]
        self.others = np.array([sorted(place.neighbours) for place in near])
        rows = zip(near, self.others.tolist(), strict=True)
        weights = np.array([[place.weights[other] for other in others] for place, others in rows])
        self.weights = [column[:, None] for column in weights.T]
        self.committed: Array | None = None
        self.steps: list[_Untimed] = []
        self._rounds = setup.stop.rounds
        self.running: Coroutine[Piece | Message | None, list[Reply] | None, None]

    async def compute(self, work: Work, begun: Any = None) -> Array:
        """See `fedsim.core.ports.Client.compute`."""
        if self.protocol.round > self._rounds:
            await _wait(None)
        self.steps += [(COMPUTE, work.operations, work.samples)] * work.pieces
        return await super().compute(work, begun)

    async def exchange(self, message: Message) -> list[Reply]:
        """See `fedsim.core.ports.Node.exchange`: a reply has a row for each node."""
        if not isinstance(message, Message):
            raise NotAlikeError("messages for some neighbours")
        return await _wait(None if self.protocol.round > self._rounds else message)

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.core.ports.Node.commit`."""
        if measures or self.committed is not None or model.shape != self.initial.shape:
            raise NotAlikeError("what is committed")
        self.protocol.round += 1
        # Copied, as the method may go on to change the model in place before it is taken.
        self.committed = model.copy()
        self.steps.append(_COMMITS)


class RowScripts:
    """The steps of nodes, generated by one coroutine per group.

    Args:
        setup: the configuration of the world.
        fleet: the components of clients.
        rounds: receives the models.
        looks: see `NodeGroup`.

    Raises:
        NotAlikeError: the nodes may differ in what they do.
    """

    def __init__(
        self, setup: WorldConfig, fleet: Fleet, rounds: PeerRounds, looks: set[str]
    ) -> None:
        method, evaluator = setup.algorithm, setup.evaluator
        # The declaration counts only in the class that defines `live`: a subclass may override it.
        owner = next((cls for cls in type(method).__mro__ if "live" in vars(cls)), object)
        if not (vars(owner).get("lives_rows") and setup.alike and is_plain(setup)):
            raise NotAlikeError("the method")
        if not isinstance(evaluator, GroupEvaluator):
            raise NotAlikeError("the evaluator")
        self._setup, self._fleet, self._rounds = setup, fleet, rounds
        self._streams = EntityStreams(setup.rng, "client", len(setup.fleet))
        self._groups = list(self._make_groups(evaluator, looks))
        self._values: list[Array] = []  # the last payloads of all nodes, one array per field
        self._message: Message
        self._models: deque[Array] = deque()
        self._rounds_steps: list[list[_Untimed]] = []
        self._counts = np.zeros(len(setup.fleet), np.int64)  # number of steps per round, by node

    def _make_groups(self, evaluator: GroupEvaluator, looks: set[str]) -> Iterator[NodeGroup]:
        setup = self._setup
        overlay = cast("Overlay", setup.overlay)
        degrees = np.array([len(neighbour) for neighbour in overlay.neighbours])
        for degree in np.unique(degrees).tolist():
            numbers = np.flatnonzero(degrees == degree)
            alike = evaluator.alike(numbers)
            if not alike:
                raise NotAlikeError("the losses")
            for places in alike:
                members, first = numbers[places], int(numbers[places[0]])
                end = endpoint(setup, first, Neighbourhood.of(overlay, first))
                yield NodeGroup(
                    members, end, self._fleet.oracle(first), setup, self._streams, looks
                )

    def begin(self, tables: KernelTables) -> KernelTables:
        """See `Scripts.begin`; the steps after the first exchange are known as well.

        Raises:
            NotAlikeError: not all nodes do the same in every round.
        """
        live = cast("PeerMethod", self._setup.algorithm).live
        for group in self._groups:
            group.running = live(group)
        try:
            return self._begin(tables)
        except NotAlikeError:
            self.end()
            raise

    def _begin(self, tables: KernelTables) -> KernelTables:
        # A node repeats: commit, work, exchange. The first time it has nothing to commit, so that
        # step is added here, and skipped by `step` = 1 below.
        self._rounds_steps = [[_COMMITS, *steps] for steps in self._advance()]
        for group, steps in zip(self._groups, self._rounds_steps, strict=True):
            tables = self._enter(tables, group, steps)
        # A second exchange ahead: only if its steps equal those of the first one can the kernel
        # repeat them.
        self._check(self._advance())
        records, total = tables.nodes, tables.total
        records["step"], records["steps"], total["known"] = 1, self._counts, 2
        records["payload"], records["header"] = self._message.bits, self._setup.header_bits
        return tables

    def _enter(self, tables: KernelTables, group: NodeGroup, steps: list[_Untimed]) -> KernelTables:
        """Write the steps of a group, whose devices may take different times."""
        tables = tables.with_steps(len(steps))
        kinds, numbers = self._fleet.kinds, group.clients
        self._counts[numbers] = len(steps)
        # Nodes of one kind have the same device, and so the same durations.
        runs = np.searchsorted(kinds.ends, numbers, side="right")
        for run in np.unique(runs).tolist():
            device = kinds.runs[run][1].device
            timed = [(kind, _seconds(device, *work), *work) for kind, *work in steps]
            tables.enter(numbers[runs == run], cast("list[Step]", timed))
        return tables

    def resume(self, tables: KernelTables) -> KernelTables:
        """See `Scripts.resume`: all nodes advance, also those that get there later.

        Raises:
            ReactionError: nodes deviate from their steps, or are many rounds apart.
        """
        if len(self._models) > _APART and len(self._models) * self._models[0].size > _NUMBERS:
            raise ReactionError("nodes are many rounds apart")
        try:
            self._check(self._advance())
        except NotAlikeError as error:
            raise ReactionError("nodes differ in what they do") from error
        # Nodes that the kernel has stopped at the end of their known steps.
        waiting = np.flatnonzero(tables.nodes["steps"] == 0)
        tables.nodes["steps"][waiting] = self._counts[waiting]
        tables.total["known"] += 1
        return tables

    def _check(self, steps_by_group: Sequence[list[_Untimed]]) -> None:
        """Check that nodes repeat the same steps in every round, or commit the last one."""
        if steps_by_group != self._rounds_steps and any(
            steps != [_COMMITS] for steps in steps_by_group
        ):
            raise NotAlikeError("what nodes do in their rounds")

    def _advance(self) -> list[list[_Untimed]]:
        """Resume all groups up to their next exchange; return their steps before it."""
        replies = [self._replies_to(group) if self._values else None for group in self._groups]
        try:
            pairs = zip(self._groups, replies, strict=True)
            messages = [_drive(group, reply_list) for group, reply_list in pairs]
        except NotAlikeError:
            raise
        except Exception as error:
            raise NotAlikeError("a node has failed") from error
        steps_by_group = [group.steps for group in self._groups]
        sent = [message for message in messages if message is not None]
        if len(sent) == len(messages):
            self._post(sent)
        elif sent:
            raise NotAlikeError("the end")
        models = [group.committed for group in self._groups if group.committed is not None]
        if models:
            self._models.append(self._stack(models))
        for group in self._groups:
            group.steps, group.committed = [], None
        return steps_by_group

    def _post(self, messages: Sequence[Message]) -> None:
        """Store the messages of the nodes of each group."""
        payloads = [message.payloads() for message in messages]
        if not all(type(payload) is DenseRows for fields in payloads for payload in fields):
            raise NotAlikeError("payloads")
        # All messages have to have one length, for good: the kernel knows lengths only.
        bits = {message.bits for message in messages}
        if len(bits) > 1 or (self._values and self._message.bits not in bits):
            raise NotAlikeError("the lengths of messages")
        self._message = messages[0]
        # For the checks of the transport only: the envelope is dropped.
        self._setup.transport.encode(Envelope(self._message, 1, 1, self._setup.header_bits), 0)
        fields = zip(*payloads, strict=True)
        self._values = [self._stack([payload.values for payload in field]) for field in fields]

    def _stack(self, rows: Sequence[Array]) -> Array:
        """Return the rows of all nodes, given those of each group."""
        if len(rows) != len(self._groups):
            raise NotAlikeError("groups")
        stack = np.empty((len(self._counts), rows[0].shape[1]))
        for group, group_rows in zip(self._groups, rows, strict=True):
            stack[group.clients] = group_rows
        return stack

    def _replies_to(self, group: NodeGroup) -> list[Reply]:
        """Return the messages of the neighbours of a group, by position among them."""
        # All nodes are at the same exchange here, so the last payloads of all nodes are those that
        # each receives. A reply's sender is the position among the neighbours, which indexes
        # `weights`.
        make: Any = type(self._message)
        return [
            Reply(place, 0, make(*(_Received(values[others]) for values in self._values)))
            for place, others in enumerate(group.others.T)
        ]

    def close_round(self) -> None:
        """See `Scripts.close_round`."""
        self._rounds.close_with(self._models.popleft())

    def last_message(self, sender: ClientId, odd: int) -> Message:
        """See `Scripts.last_message`."""
        return self._message

    def end(self) -> None:
        """See `Scripts.end`."""
        for group in self._groups:
            group.running.close()


def _seconds(device: DeviceLaw, operations: float, samples: float) -> float:
    """Return the duration of a step, s; 0 without work.

    Raises:
        NotAlikeError: the duration is drawn, or is 0.
    """
    if not samples and not operations:
        return 0.0
    if device.slowdown.drawn:
        raise NotAlikeError("the times of work")
    speed = device.constant
    seconds: float = operations / speed if speed else device.seconds(operations, samples)
    if not 0.0 < seconds < inf:
        raise NotAlikeError("work of no time")
    return seconds


def _drive(group: NodeGroup, replies: list[Reply] | None) -> Message | None:
    """Resume a group up to its next exchange; return its message, or None at the end."""
    while True:
        try:
            waits = group.running.send(replies)
        except StopIteration:
            raise NotAlikeError("an end") from None
        if not isinstance(waits, tuple):  # a tuple is work, which has been computed
            group.steps += [] if waits is None else [_EXCHANGES]
            return waits
        replies = None
