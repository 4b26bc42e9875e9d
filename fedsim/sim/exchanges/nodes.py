"""Nodes whose exchanges are played by the kernel: their coroutines run ahead of the clock.

What a node does up to its next exchange depends on the messages of the last one alone, whenever
they arrive. So its coroutine goes on as soon as these have been sent, and says what work it does,
what it commits and what it sends, in steps whose times the kernel finds.
"""

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from types import coroutine
from typing import Any, NamedTuple, Never, cast

import numpy as np

from fedsim.physics.devices import DeviceLaw
from fedsim.physics.overlay import Overlay
from fedsim.ports import Array, ClientId, Message, Oracle, Reply, Work
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.transport import Envelope, Transport
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.client import Participant
from fedsim.sim.config import PeerMethod, WorldConfig
from fedsim.sim.exchanges.layout import COMMIT, COMPUTE, EXCHANGE, KernelTables, Step
from fedsim.sim.fleet import Fleet
from fedsim.sim.meetings import Neighbourhood
from fedsim.sim.participant import Belongings
from fedsim.sim.peer_rounds import PeerRounds
from fedsim.wire.packers import Packing

Keep = Callable[[ClientId, int, Array, dict[str, float]], object]
"""Callback for a model that a node will commit; see `fedsim.sim.peer_nodes.Commit`."""


class _NodeBelongings(NamedTuple):
    """See `fedsim.sim.participant.Belongings`."""

    evaluator: Any
    oracle: Oracle
    state: Any
    rng: Any
    take_back: Any
    looks: set[str]


def endpoint(setup: WorldConfig, number: ClientId, near: Neighbourhood) -> PeerProtocol:
    """Return the endpoint of a node."""
    return PeerProtocol(
        number,
        near.neighbours,
        Packing(setup.packer_up, number),
        beacons=setup.silence.beacon,
        deadline=setup.silence.closes_after,
        header_bits=setup.header_bits,
        transport=setup.transport,
    )


class _NoClock:
    """Takes the place of a clock: a coroutine that runs ahead of the time cannot read it."""

    @property
    def now(self) -> float:
        raise ReactionError("a node reads the time")

    def at_deadline(self, when: float, callback: Callable[..., object], *args: Any) -> Never:  # noqa: ARG002
        raise ReactionError("a node sets a timer")


@coroutine
def _hand_over(waits: bool) -> Generator[bool, list[Reply], list[Reply]]:  # noqa: FBT001
    """Let the driver have the steps so far; return the replies if it is an exchange that waits."""
    return (yield waits)


class PlayedNode(Participant):
    """Implements `fedsim.ports.Node` on mains.

    Args:
        protocol: its endpoint, of which no exchange is opened.
        device, own: see `Participant`.
        near: its neighbours, and its row of the mixing matrix.
        initial: see below.
        transport: how messages are carried.
        header_bits: in front of every message.
        keep: takes its models, before it is known when they are committed.
        rounds: as many as the run can have.

    Attributes:
        initial: the model that all start from, shape (d,).
        neighbours, senders: both the same, in order.
        weights, own_weight: its row of the mixing matrix.
        steps: what it does up to its next exchange, or for good.
        sent: the envelope of that exchange.
        posts: the messages of its even and odd exchanges, as its neighbours get them.
        exchange_number: of its next exchange, from 1; of the last one while it waits for that.
    """

    _protocol: PeerProtocol

    def __init__(
        self,
        protocol: PeerProtocol,
        device: DeviceLaw,
        own: Belongings,
        *,
        near: Neighbourhood,
        initial: Array,
        transport: Transport,
        header_bits: int,
        keep: Keep,
        rounds: float,
    ) -> None:
        super().__init__(protocol, _NoClock(), device, own)
        self.initial = initial
        self.neighbours = self.senders = tuple(near.neighbours)
        self.weights: Mapping[ClientId, float] = near.weights
        self.own_weight = near.own_weight
        self.steps: list[Step] = []
        self.sent: Envelope
        self.posts: list[Reply | None] = [None, None]
        self.exchange_number = 0
        self._transport = transport
        self._header_bits = header_bits
        self._keep = keep
        self._rounds = rounds
        self._coroutine: Coroutine[bool, list[Reply] | None, None]

    @property
    def battery(self) -> None:
        """None: it is on mains."""
        self._looks.add("battery")

    @property
    def harvest(self) -> float:
        """1: it is on mains."""
        return 1.0

    # -- how it is driven --------------------------------------------------------------

    def start(self, live: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """Make its coroutine."""
        self._coroutine = live(self)

    def go_on(self, replies: list[Reply] | None) -> bool:
        """Go on, with replies to its exchange if it waits for some; return whether work is first.

        Raises:
            ReactionError: it has ended, or waits for something else.
        """
        try:
            waits = self._coroutine.send(replies)
        except StopIteration:
            raise ReactionError("a node has ended") from None
        if not isinstance(waits, bool):
            raise ReactionError("a node waits for more than its work and its messages")
        return not waits

    def close(self) -> None:
        """End its coroutine."""
        self._coroutine.close()

    # -- what it does ------------------------------------------------------------------

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.ports.Client.compute`.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        if self._protocol.round > self._rounds:
            await self._rest()
        if begun is not None:
            raise ReactionError("a node looks at the pieces of its work")
        ticket: Any = self._submit(work)
        for _ in range(work.pieces):
            seconds = work.operations / self._speed if self._speed else self._duration(work)
            if not seconds and self._evaluator.together:
                raise ReactionError("others go first where work takes no time")
            self.steps.append((COMPUTE, seconds, work.operations, work.samples))
        if self._evaluator.together:
            await _hand_over(False)  # noqa: FBT003 - others submit theirs
        return self._collect(ticket)

    async def exchange(self, message: Message | Mapping[ClientId, Message]) -> list[Reply]:
        """See `fedsim.ports.Node.exchange`."""
        number = self._protocol.round
        if number > self._rounds:
            await self._rest()
        if not isinstance(message, Message):
            raise ReactionError("a node has messages for some neighbours alone")
        self.exchange_number += 1
        envelope = Envelope(message, number, self.exchange_number, self._header_bits)
        self.sent = self._transport.encode(envelope, self.id)
        self.posts[self.exchange_number & 1] = Reply(self.id, number, message)
        self.steps.append((EXCHANGE, 0.0, 0.0, 0.0))
        return await _hand_over(True)  # noqa: FBT003

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.ports.Node.commit`."""
        number = self._protocol.round
        self._protocol.round += 1
        self.steps.append((COMMIT, 0.0, 0.0, 0.0))
        self._keep(self.id, number, model, measures)

    async def _rest(self) -> Never:
        """Do nothing more: all rounds that there can be are committed."""
        await _hand_over(True)  # noqa: FBT003
        raise AssertionError("a node that rests does not go on")


class NodeScripts:
    """What the nodes do, each by a coroutine.

    Args:
        setup: of the world.
        fleet: its components.
        rounds: takes the models.
        looks: the set to which the names of what the method reads are added.
    """

    def __init__(
        self, setup: WorldConfig, fleet: Fleet, rounds: PeerRounds, looks: set[str]
    ) -> None:
        self._setup, self._rounds = setup, rounds
        self._live = cast("PeerMethod", setup.algorithm).live
        self._nodes = [
            self._node(number, fleet, rounds, looks) for number in range(len(setup.fleet))
        ]
        self._entered: list[list[Step]] = [[] for _ in self._nodes]

    def _node(
        self, number: ClientId, fleet: Fleet, rounds: PeerRounds, looks: set[str]
    ) -> PlayedNode:
        setup = self._setup
        near = Neighbourhood.of(cast("Overlay", setup.overlay), number)
        state = setup.algorithm.memory(setup.initial)
        own = _NodeBelongings(
            setup.evaluator, fleet.oracle(number), state, setup.rng, fleet.take_back, looks
        )
        return PlayedNode(
            endpoint(setup, number, near),
            fleet.kinds[number].device,
            own,
            near=near,
            initial=setup.initial,
            transport=setup.transport,
            header_bits=setup.header_bits,
            keep=rounds.take,
            rounds=setup.stop.rounds,
        )

    def begin(self, tables: KernelTables) -> KernelTables:
        """Enter what all nodes do first."""
        for node in self._nodes:
            node.start(self._live)
        try:
            return self._advance(tables, self._nodes, [None] * len(self._nodes))
        except ReactionError:
            self.end()
            raise

    def go_on(self, tables: KernelTables) -> KernelTables:
        """Enter what the nodes that are asked do next."""
        total: Any = tables.total[0]
        nodes = [self._nodes[number] for number in tables.asked[: total["asked"]].tolist()]
        total["asked"] = 0
        return self._advance(tables, nodes, [self._replies_to(node) for node in nodes])

    def _replies_to(self, node: PlayedNode) -> list[Reply]:
        """Return the messages of a node's exchange, all of which have been sent, by neighbour."""
        odd = node.exchange_number & 1
        return [cast("Reply", self._nodes[other].posts[odd]) for other in node.neighbours]

    def _advance(
        self,
        tables: KernelTables,
        nodes: Sequence[PlayedNode],
        replies: Sequence[list[Reply] | None],
    ) -> KernelTables:
        """Let nodes go on up to their next exchanges.

        Raises:
            ReactionError: one fails; what the others do meanwhile, only events tell.
        """
        for node in nodes:
            node.steps = []
        try:
            both = zip(nodes, replies, strict=True)
            busy = [node for node, given in both if node.go_on(given)]
            while busy:
                busy = [node for node in busy if node.go_on(None)]
        except ReactionError:
            raise
        except Exception as error:
            raise ReactionError("a node has failed") from error
        return self._enter(tables, nodes)

    def _enter(self, tables: KernelTables, nodes: Sequence[PlayedNode]) -> KernelTables:
        """Enter the steps of nodes, and what they send after these, in the tables."""
        for node in nodes:
            if node.steps != self._entered[node.id]:
                tables = tables.with_steps(len(node.steps))
                tables.enter(np.array([node.id]), node.steps)
                self._entered[node.id] = node.steps
        numbers, own = [node.id for node in nodes], tables.nodes
        own["step"][numbers] = 0
        own["steps"][numbers] = [len(node.steps) for node in nodes]
        own["payload"][numbers] = [node.sent.payload_bits for node in nodes]
        own["header"][numbers] = [node.sent.header_bits for node in nodes]
        return tables

    def close_round(self) -> None:
        """Hand the models of the open round over."""
        self._rounds.close()

    def last_message(self, sender: ClientId, odd: int) -> Message:
        """Return a node's message of its last even, or odd, exchange."""
        message: Message = cast("Reply", self._nodes[sender].posts[odd]).message
        return message

    def end(self) -> None:
        """End the coroutines."""
        for node in self._nodes:
            node.close()
