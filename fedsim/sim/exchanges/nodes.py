"""Nodes whose exchanges are played by the kernel: their coroutines run ahead of the clock.

What a node does up to its next exchange depends on the messages of the last one alone, whenever
they arrive. So its coroutine goes on as soon as these have been sent, and says what work it does,
what it commits and what it sends, in steps whose times the kernel finds.
"""

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from types import coroutine
from typing import Any, Never

from fedsim.physics.devices import DeviceLaw
from fedsim.ports import Array, ClientId, Message, Reply, Work
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.transport import Envelope, Transport
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.client import Participant
from fedsim.sim.exchanges.layout import COMMIT, COMPUTE, EXCHANGE, REST
from fedsim.sim.meetings import Neighbourhood
from fedsim.sim.participant import Belongings

Step = tuple[int, float, float, float]
"""What a node does: one of the kinds of steps, and of work its seconds, operations and samples."""

Keep = Callable[[ClientId, int, Array, dict[str, float]], object]
"""Callback for a model that a node will commit; see `fedsim.sim.peer_nodes.Commit`."""


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
        self.steps.append((REST, 0.0, 0.0, 0.0))
        await _hand_over(True)  # noqa: FBT003
        raise AssertionError("a node that rests does not go on")


def replies_to(node: PlayedNode, nodes: Sequence[PlayedNode]) -> list[Reply]:
    """Return the messages of a node's exchange, all of which have been sent, by neighbour."""
    odd = node.exchange_number & 1
    return [nodes[other].posts[odd] for other in node.neighbours]  # type: ignore[misc]
