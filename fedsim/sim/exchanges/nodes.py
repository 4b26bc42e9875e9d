"""Nodes whose exchanges the kernel computes: their coroutines run ahead of the clock.

The steps of a node up to its next exchange depend only on the messages of the last one, not on
their arrival times. So the coroutine of a node resumes as soon as these messages have been sent. It
yields its steps (work, commits, messages), whose times the kernel determines.
"""

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from types import coroutine
from typing import Any, NamedTuple, Never, cast

import numpy as np

from fedsim.core.ports import Array, ClientId, Message, Oracle, Reply, Work
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.overlay import Overlay
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.transport import Envelope, Transport
from fedsim.protocol.uncommitted import UncommittedExchanges
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
    """Return the protocol endpoint of a node."""
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
    """Placeholder for a clock: a coroutine that runs ahead of the time cannot read it."""

    @property
    def now(self) -> float:
        raise ReactionError("a node reads the time")

    def at_deadline(self, when: float, callback: Callable[..., object], *args: Any) -> Never:
        raise ReactionError("a node sets a timer")


@coroutine
def _hand_over(waits: bool) -> Generator[bool, list[Reply], list[Reply]]:
    """Yield the steps so far to the driver; return the replies if `waits` for an exchange."""
    return (yield waits)


class PlayedNode(Participant):
    """Implements `fedsim.core.ports.Node` for a node on mains.

    Args:
        protocol: the node's endpoint; the kernel opens its exchanges instead.
        device, parts: see `Participant`.
        near: the neighbours, and the row of the mixing matrix.
        initial: see below.
        transport: encodes the messages.
        header_bits: the header bits of every message.
        keep: receives models ahead of their commit times.
        rounds: the largest number of rounds of the run.

    Attributes:
        initial: the model that all start from, shape (d,).
        neighbours, senders: the neighbours, in order; both are the same.
        weights, own_weight: the row of the mixing matrix.
        steps: the steps up to the next exchange.
        sent: the envelope of that exchange.
        posts: the messages of the last even and odd exchange, as neighbours receive them.
        exchange_number: the number of the last exchange that was reached, from 1.
        mix: None; see `fedsim.core.ports.Node.mix`.
    """

    mix = None

    _protocol: PeerProtocol

    def __init__(
        self,
        protocol: PeerProtocol,
        device: DeviceLaw,
        parts: Belongings,
        *,
        near: Neighbourhood,
        initial: Array,
        transport: Transport,
        header_bits: int,
        keep: Keep,
        rounds: float,
    ) -> None:
        super().__init__(protocol, _NoClock(), device, parts)
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
        self._uncommitted = UncommittedExchanges("node.commit(model)")
        self._coroutine: Coroutine[bool, list[Reply] | None, None]

    @property
    def battery(self) -> None:
        """None, as the node is on mains."""
        self._looks.add("battery")

    @property
    def harvest(self) -> float:
        """1, as the node is on mains."""
        return 1.0

    # -- for the driver ----------------------------------------------------------------

    def start(self, live: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """Create the coroutine."""
        self._coroutine = live(self)

    def resume(self, replies: list[Reply] | None) -> bool:
        """Resume the coroutine, with replies if it waits for some.

        Returns:
            Whether it has submitted work and has not reached its next exchange.

        Raises:
            ReactionError: the coroutine has ended, or awaits something else.
        """
        try:
            waits = self._coroutine.send(replies)
        except StopIteration:
            raise ReactionError("a node has ended") from None
        if not isinstance(waits, bool):
            raise ReactionError("a node awaits more than its work and its messages")
        return not waits

    def close(self) -> None:
        """Close the coroutine."""
        self._coroutine.close()

    # -- for the method ----------------------------------------------------------------

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.core.ports.Client.compute`.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        if self._protocol.round > self._rounds:
            await self._rest()
        if begun is not None:
            raise ReactionError("a node looks at the pieces of its work")
        ticket: Any = self._submit(work)
        for _ in range(work.pieces):
            # Drawn ahead of the clock. Each node draws from a stream of its own, so the numbers are
            # the same.
            seconds = work.operations / self._speed if self._speed else self._duration(work)
            if not seconds and self._evaluator.together:
                # Zero-duration work of a batching evaluator completes one turn of the loop later,
                # after events of other nodes.
                raise ReactionError("work of no time ends after events of other nodes")
            self.steps.append((COMPUTE, seconds, work.operations, work.samples))
        if self._evaluator.together:
            # Yield so that all busy nodes submit their work before the evaluator computes a batch.
            await _hand_over(False)
        return self._collect(ticket)

    async def exchange(self, message: Message | Mapping[ClientId, Message]) -> list[Reply]:
        """See `fedsim.core.ports.Node.exchange`."""
        number = self._protocol.round
        if number > self._rounds:
            await self._rest()
        if not isinstance(message, Message):
            raise ReactionError("a node has messages for some neighbours alone")
        self.exchange_number += 1
        self._uncommitted.add(number)
        envelope = Envelope(message, number, self.exchange_number, self._header_bits)
        # Encoded ahead of the clock, for the checks of the transport and the length. Receivers get
        # the object itself, as `why_events` excludes transports that decode.
        self.sent = self._transport.encode(envelope, self.id)
        # By parity: a neighbour may still need the message of the exchange before.
        self.posts[self.exchange_number & 1] = Reply(self.id, number, message)
        self.steps.append((EXCHANGE, 0.0, 0.0, 0.0))
        return await _hand_over(True)

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.core.ports.Node.commit`."""
        number = self._protocol.round
        self._protocol.round += 1
        self._uncommitted.close()
        self.steps.append((COMMIT, 0.0, 0.0, 0.0))
        self._keep(self.id, number, model, measures)

    async def _rest(self) -> Never:
        """Park the coroutine: the last round is committed."""
        await _hand_over(True)
        raise AssertionError("a node that rests does not go on")


class NodeScripts:
    """The steps of nodes, each generated by a coroutine.

    Args:
        setup: the configuration of the world.
        fleet: the components of clients.
        rounds: receives the models.
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
        self._written: list[list[Step]] = [[] for _ in self._nodes]

    def _node(
        self, number: ClientId, fleet: Fleet, rounds: PeerRounds, looks: set[str]
    ) -> PlayedNode:
        setup = self._setup
        near = Neighbourhood.of(cast("Overlay", setup.overlay), number)
        state = setup.algorithm.memory(setup.initial)
        belongings = _NodeBelongings(
            setup.evaluator, fleet.oracle(number), state, setup.rng, fleet.take_back, looks
        )
        return PlayedNode(
            endpoint(setup, number, near),
            fleet.kinds[number].device,
            belongings,
            near=near,
            initial=setup.initial,
            transport=setup.transport,
            header_bits=setup.header_bits,
            keep=rounds.take,
            rounds=setup.stop.rounds,
        )

    def begin(self, tables: KernelTables) -> KernelTables:
        """Write the first steps of all nodes."""
        for node in self._nodes:
            node.start(self._live)
        try:
            return self._resume_nodes(tables, self._nodes, [None] * len(self._nodes))
        except ReactionError:
            self.end()
            raise

    def resume(self, tables: KernelTables) -> KernelTables:
        """Write the next steps of the nodes that the kernel asks for."""
        total: Any = tables.total[0]
        nodes = [self._nodes[number] for number in tables.asked[: total["asked"]].tolist()]
        total["asked"] = 0
        return self._resume_nodes(tables, nodes, [self._replies_to(node) for node in nodes])

    def _replies_to(self, node: PlayedNode) -> list[Reply]:
        """Return the replies to a node's exchange, by neighbour; all have been sent."""
        parity = node.exchange_number & 1
        return [cast("Reply", self._nodes[other].posts[parity]) for other in node.neighbours]

    def _resume_nodes(
        self,
        tables: KernelTables,
        nodes: Sequence[PlayedNode],
        replies: Sequence[list[Reply] | None],
    ) -> KernelTables:
        """Resume nodes up to their next exchanges.

        Raises:
            ReactionError: a node fails. Only the event-by-event run shows what the others do
                meanwhile.
        """
        for node in nodes:
            node.steps = []
        try:
            pairs = zip(nodes, replies, strict=True)
            # All nodes have submitted their work before any of them asks for its result, so the
            # evaluator computes one batch per pass.
            busy = [node for node, reply_list in pairs if node.resume(reply_list)]
            while busy:
                busy = [node for node in busy if node.resume(None)]
        except ReactionError:
            raise
        except Exception as error:
            raise ReactionError("a node has failed") from error
        return self._enter(tables, nodes)

    def _enter(self, tables: KernelTables, nodes: Sequence[PlayedNode]) -> KernelTables:
        """Write the steps of nodes, and the messages that follow them."""
        for node in nodes:
            # Most nodes repeat the steps of the round before, and need no update of the tables.
            if node.steps != self._written[node.id]:
                tables = tables.with_steps(len(node.steps))
                tables.enter(np.array([node.id]), node.steps)
                self._written[node.id] = node.steps
        numbers, records = [node.id for node in nodes], tables.nodes
        records["step"][numbers] = 0
        records["steps"][numbers] = [len(node.steps) for node in nodes]
        records["payload"][numbers] = [node.sent.payload_bits for node in nodes]
        records["header"][numbers] = [node.sent.header_bits for node in nodes]
        return tables

    def close_round(self) -> None:
        """Hand over the models of the open round."""
        self._rounds.close()

    def last_message(self, sender: ClientId, odd: int) -> Message:
        """Return a node's message of its last even, or odd, exchange."""
        message: Message = cast("Reply", self._nodes[sender].posts[odd]).message
        return message

    def end(self) -> None:
        """End the coroutines."""
        for node in self._nodes:
            node.close()
