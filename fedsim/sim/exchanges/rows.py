"""Nodes that are alike: one coroutine stands for all of them, and their vectors are rows.

A method that declares `lives_rows` computes entry by entry, from its messages and the node's loss
alone. All nodes go on together then, exchange by exchange, ahead of the clock.
"""

from collections import deque
from collections.abc import Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from types import coroutine
from typing import Any, cast

import numpy as np

from fedsim.computing.serial import GroupEvaluator
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.overlay import Overlay
from fedsim.ports import Array, ClientId, Message, Oracle, Reply, Work
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
from fedsim.streams import EntityStreams
from fedsim.wire.payloads.rows import DenseRows

_NUMBERS, _APART = 2**24, 2
"""The largest number of coordinates of models ahead of the clock, of more than so many rounds."""

_Untimed = tuple[int, float, float]
"""A step without its time: its kind, operations and samples."""

_COMMITS: _Untimed = (COMMIT, 0.0, 0.0)
_EXCHANGES: _Untimed = (EXCHANGE, 0.0, 0.0)


class _NodeDraws(GroupDraws):
    """The random streams of the nodes: each draws a row of its own."""

    def standard_normal(self, shape: tuple[int, int]) -> Array:
        """Return normal numbers, shape (n, d)."""
        return np.array(
            [self.streams.of(number).standard_normal(shape[1]) for number in self.numbers.tolist()]
        )


@dataclass(frozen=True, slots=True)
class _Received:
    """A payload of each node, as it arrives at others.

    Attributes:
        values: a row for each receiver, shape (n, d).
    """

    values: Array


@coroutine
def _wait(message: Message | None) -> Generator[Message | None, list[Reply], list[Reply]]:
    """Let the driver have a message, or None for no more; return the replies."""
    return (yield message)


class NodeGroup(ClientGroup):
    """Implements `fedsim.ports.Node` for n nodes of one degree at once.

    Args:
        numbers: theirs.
        protocol: the endpoint of the first one.
        oracle: its loss; the others' have equally many samples.
        setup: of the world.
        streams: each node's own.
        looks: the set to which the names of what the method reads are added.

    Attributes:
        initial: the model that all start from, in each row, shape (n, d).
        others: their neighbours in order, shape (n, degree).
        weights: those of the neighbours, by their places, each of shape (n, 1).
        steps: what they do up to their next exchange.
        committed: the models of a round that is committed in these, shape (n, d).
    """

    protocol: PeerProtocol  # type: ignore[assignment]

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
        near = [Neighbourhood.of(cast("Overlay", setup.overlay), one) for one in numbers.tolist()]
        self.others = np.array([sorted(each.neighbours) for each in near])
        rows = zip(near, self.others.tolist(), strict=True)
        weights = np.array([[each.weights[one] for one in others] for each, others in rows])
        self.weights = [column[:, None] for column in weights.T]
        self.committed: Array | None = None
        self.steps: list[_Untimed] = []
        self._rounds = setup.stop.rounds
        self.running: Coroutine[Piece | Message | None, list[Reply] | None, None]

    async def compute(self, work: Work, begun: Any = None) -> Array:  # noqa: ANN401 - as there
        """See `fedsim.ports.Client.compute`."""
        if self.protocol.round > self._rounds:
            await _wait(None)
        self.steps += [(COMPUTE, work.operations, work.samples)] * work.pieces
        return await super().compute(work, begun)

    async def exchange(self, message: Message) -> list[Reply]:
        """See `fedsim.ports.Node.exchange`: a reply has a row for each node."""
        if not isinstance(message, Message):
            raise NotAlikeError("messages for some neighbours")
        return await _wait(None if self.protocol.round > self._rounds else message)

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.ports.Node.commit`."""
        if measures or self.committed is not None or model.shape != self.initial.shape:
            raise NotAlikeError("what is committed")
        self.protocol.round += 1
        self.committed = model.copy()
        self.steps.append(_COMMITS)


class RowScripts:
    """What the nodes do, a coroutine for each group of them.

    Args:
        setup: of the world.
        fleet: its components.
        rounds: takes the models.
        looks: see `NodeGroup`.

    Raises:
        NotAlikeError: the nodes may differ in what they do.
    """

    def __init__(
        self, setup: WorldConfig, fleet: Fleet, rounds: PeerRounds, looks: set[str]
    ) -> None:
        method, evaluator = setup.algorithm, setup.evaluator
        owner = next((cls for cls in type(method).__mro__ if "live" in vars(cls)), object)
        if not (vars(owner).get("lives_rows") and setup.alike and is_plain(setup)):
            raise NotAlikeError("the method")
        if not isinstance(evaluator, GroupEvaluator):
            raise NotAlikeError("the evaluator")
        self._setup, self._fleet, self._rounds = setup, fleet, rounds
        self._streams = EntityStreams(setup.rng, "client", len(setup.fleet))
        self._groups = list(self._make_groups(evaluator, looks))
        self._values: list[Array] = []  # of what all nodes have sent last, a payload each
        self._message: Message
        self._models: deque[Array] = deque()
        self._rounds_steps: list[list[_Untimed]] = []
        self._counts = np.zeros(len(setup.fleet), np.int64)  # of these, by node

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
                own, first = numbers[places], int(numbers[places[0]])
                end = endpoint(setup, first, Neighbourhood.of(overlay, first))
                yield NodeGroup(own, end, self._fleet.oracle(first), setup, self._streams, looks)

    def begin(self, tables: KernelTables) -> KernelTables:
        """See `Scripts.begin`; what follows the first exchange is known as well.

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
        self._rounds_steps = [[_COMMITS, *steps] for steps in self._advance()]
        for group, steps in zip(self._groups, self._rounds_steps, strict=True):
            tables = self._enter(tables, group, steps)
        self._check(self._advance())
        own, total = tables.nodes, tables.total
        own["step"], own["steps"], total["known"] = 1, self._counts, 2
        own["payload"], own["header"] = self._message.bits, self._setup.header_bits
        return tables

    def _enter(self, tables: KernelTables, group: NodeGroup, steps: list[_Untimed]) -> KernelTables:
        """Enter the steps of a group, whose devices may differ in what these take."""
        tables = tables.with_steps(len(steps))
        kinds, numbers = self._fleet.kinds, group.clients
        self._counts[numbers] = len(steps)
        runs = np.searchsorted(kinds.ends, numbers, side="right")
        for run in np.unique(runs).tolist():
            device = kinds.runs[run][1].device
            timed = [(kind, _seconds(device, *work), *work) for kind, *work in steps]
            tables.enter(numbers[runs == run], cast("list[Step]", timed))
        return tables

    def resume(self, tables: KernelTables) -> KernelTables:
        """See `Scripts.resume`: all nodes go on, also those that get there later.

        Raises:
            ReactionError: they do something else than before, or are many rounds apart.
        """
        if len(self._models) > _APART and len(self._models) * self._models[0].size > _NUMBERS:
            raise ReactionError("nodes are many rounds apart")
        try:
            self._check(self._advance())
        except NotAlikeError as error:
            raise ReactionError("nodes differ in what they do") from error
        waiting = np.flatnonzero(tables.nodes["steps"] == 0)
        tables.nodes["steps"][waiting] = self._counts[waiting]
        tables.total["known"] += 1
        return tables

    def _check(self, found: Sequence[list[_Untimed]]) -> None:
        """Check that nodes do what they do in every round, or commit the last one."""
        if found != self._rounds_steps and any(steps != [_COMMITS] for steps in found):
            raise NotAlikeError("what nodes do in their rounds")

    def _advance(self) -> list[list[_Untimed]]:
        """Let all groups go on up to their next exchange; return what they do before it."""
        replies = [self._replies_to(group) if self._values else None for group in self._groups]
        try:
            both = zip(self._groups, replies, strict=True)
            messages = [_drive(group, given) for group, given in both]
        except NotAlikeError:
            raise
        except Exception as error:
            raise NotAlikeError("a node has failed") from error
        found = [group.steps for group in self._groups]
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
        return found

    def _post(self, messages: Sequence[Message]) -> None:
        """Take what the nodes of each group send."""
        payloads = [message.payloads() for message in messages]
        if not all(type(each) is DenseRows for own in payloads for each in own):
            raise NotAlikeError("payloads")
        bits = {message.bits for message in messages}
        if len(bits) > 1 or (self._values and self._message.bits not in bits):
            raise NotAlikeError("the lengths of messages")
        self._message = messages[0]
        self._setup.transport.encode(Envelope(self._message, 1, 1, self._setup.header_bits), 0)
        fields = zip(*payloads, strict=True)
        self._values = [self._stack([each.values for each in own]) for own in fields]

    def _stack(self, rows: Sequence[Array]) -> Array:
        """Return the rows of all nodes, given those of each group."""
        if len(rows) != len(self._groups):
            raise NotAlikeError("groups")
        stack = np.empty((len(self._counts), rows[0].shape[1]))
        for group, own in zip(self._groups, rows, strict=True):
            stack[group.clients] = own
        return stack

    def _replies_to(self, group: NodeGroup) -> list[Reply]:
        """Return the messages of the neighbours of the nodes of a group, by their places."""
        make: Any = type(self._message)
        return [
            Reply(place, 0, make(*(_Received(every[others]) for every in self._values)))
            for place, others in enumerate(group.others.T)
        ]

    def close_round(self) -> None:
        """See `Scripts.close_round`."""
        self._rounds.close_with(self._models.popleft())

    def last_message(self, sender: ClientId, odd: int) -> Message:  # noqa: ARG002 - all are as long
        """See `Scripts.last_message`."""
        return self._message

    def end(self) -> None:
        """See `Scripts.end`."""
        for group in self._groups:
            group.running.close()


def _seconds(device: DeviceLaw, operations: float, samples: float) -> float:
    """Return how long a step takes, s; 0 without work.

    Raises:
        NotAlikeError: that is drawn, or work takes no time.
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


def _drive(group: NodeGroup, given: list[Reply] | None) -> Message | None:
    """Let a group go on to its next exchange; return its message, None where it is at its end."""
    while True:
        try:
            waits = group.running.send(given)
        except StopIteration:
            raise NotAlikeError("an end") from None
        if not isinstance(waits, tuple):  # of work, whose result it has
            group.steps += [] if waits is None else [_EXCHANGES]
            return waits
        given = None
