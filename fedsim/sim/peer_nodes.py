"""Nodes of the simulated world: each connects its coroutine to its protocol endpoint."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import inf
from typing import Any, Never, cast

from fedsim.core.ports import Array, ClientId, Message, Reply, Work
from fedsim.protocol.aggregation import ADDS_UP, Aggregator
from fedsim.protocol.pairs import PairProtocol, Verdict
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.server import ReplyOutcome
from fedsim.protocol.transport import Envelope
from fedsim.protocol.uncommitted import UncommittedExchanges
from fedsim.results.record.schema import Event
from fedsim.sim.client import Equipment, Worker
from fedsim.sim.engine.light_task import LightTask, Pause, settle
from fedsim.sim.engine.loop import SimLoop
from fedsim.sim.meetings import Meetings, Neighbourhood
from fedsim.sim.network.medium import MediumNetwork
from fedsim.sim.network.peers import PeerNetwork

Live = Callable[[Any], Coroutine[Any, Any, None]]
"""`PeerAlgorithm.live`, a coroutine function of the node."""

Answer = Callable[[Any, Reply], Message]
"""`PairwiseAlgorithm.answer`, a function of the node and an offer."""

Commit = Callable[[ClientId, int, Array, dict[str, float]], None]
"""Callback for a node, the number of its round, its model and its figures."""

Ended = Callable[[ClientId, BaseException | None], None]
"""Callback for a node whose coroutine has ended, with the error or the cancellation, if any."""


class SimNode(Worker):
    """Implements `fedsim.core.ports.Node`.

    Args:
        protocol: the node's endpoint.
        network: the lanes between all nodes.
        equipment: the equipment of the node.
        initial: see below.
        near: the neighbours, and the row of the mixing matrix.
        meetings: determine the neighbours of each exchange, if the graph changes.
        commit: receives the models.
        rounds: the largest number of rounds of the run.

    Attributes:
        initial: the model that all start from, shape (d,).
        weights: the weights of its senders.
        own_weight: the weight of its own vector.
        failure: the error or cancellation with which the coroutine has ended, if any.
    """

    def __init__(
        self,
        protocol: PeerProtocol,
        network: PeerNetwork | MediumNetwork,
        equipment: Equipment,
        *,
        initial: Array,
        near: Neighbourhood,
        meetings: Meetings | None,
        commit: Commit,
        rounds: float,
        aggregator: Aggregator = ADDS_UP,
    ) -> None:
        super().__init__(protocol, equipment)
        self.aggregator = aggregator
        self.mix = None if aggregator is ADDS_UP else aggregator.mix
        self.initial = initial
        self.weights: Mapping[ClientId, float] = near.weights
        self.own_weight = near.own_weight
        self._meetings = meetings
        self._protocol: PeerProtocol = protocol
        self._network = network
        self._commit = commit
        self._rounds = rounds
        self._uncommitted = UncommittedExchanges("node.commit(model)")
        self._over: Pause | None = None  # the wait for the end of an exchange
        self._loop: SimLoop
        self._task: LightTask | None = None  # from its start on
        self._ended: Ended
        self._done: asyncio.Future[None] | None = None  # set once its coroutine is cancelled
        self.failure: BaseException | None = None

    @property
    def neighbours(self) -> Sequence[ClientId]:
        """The neighbours still present, in order."""
        return self._protocol.neighbours

    @property
    def senders(self) -> Sequence[ClientId]:
        """The nodes from which it receives, still present, in order."""
        return self._protocol.senders

    @property
    def stuck(self) -> str:
        """Describe which neighbours the node waits for; empty if none."""
        return self._protocol.stuck

    def start(self, live: Live, ended: Ended) -> None:
        """Run the coroutine from the next turn of the loop on."""
        self._loop = cast("SimLoop", asyncio.get_running_loop())
        self._ended = ended
        self._task = self._waits = LightTask(self._loop, self)
        self._task.start(self._run(live))

    async def _run(self, live: Live) -> None:
        await live(self)

    @property
    def started(self) -> bool:
        """Whether the coroutine runs, or has run."""
        return self._task is not None

    def cancel(self) -> None:
        """Cancel the coroutine: the node is gone for good."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> "asyncio.Future[None] | None":
        """Cancel the coroutine as the world ends.

        Returns:
            A future that is done once it has ended; None if it does not run.
        """
        if self._task is None or not self._task.cancel():
            return None
        self._done = self._loop.create_future()
        return self._done

    def on_end(self, failure: BaseException | None) -> None:
        """Handle the end of the coroutine; see `fedsim.sim.engine.light_task.Owner`."""
        # Kept, as a node may fail only while it is cancelled at the end: see `Peers._cancel`.
        self.failure = failure
        if self._done is not None:
            settle(self._done, failure)
        else:
            self._loop.call_soon(self._ended, self.id, failure)

    async def exchange(self, message: Message | Mapping[ClientId, Message]) -> list[Reply]:
        """See `fedsim.core.ports.Node.exchange`."""
        # A node may be rounds ahead of the others, and no round would end it after the last one.
        if self._protocol.round > self._rounds:
            await self._never()
        if self._meetings is not None:
            await self._meet(self._meetings)
        # Messages of neighbours that are already in this exchange have been stored. They count at
        # once, so the exchange may be over before anything is sent.
        post = self._protocol.open(message)
        if not isinstance(message, Message):
            self._record_silence(message)
        for envelope, neighbours in post:
            envelope.word = self._log.word(envelope.message.label)
            self._network.send(self.id, neighbours, envelope)
        if not self._protocol.over:
            await self._wait_finished()
        self._uncommitted.add(self._protocol.round)
        return self._protocol.replies()

    async def _meet(self, meetings: Meetings) -> None:
        """Wait until the next exchange may begin, and set its neighbours."""
        near = await meetings.begin(self.id, self._protocol.next_exchange)
        self._protocol.meet(near.neighbours, near.senders)
        self.weights, self.own_weight = near.weights, near.own_weight

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.core.ports.Node.commit`."""
        number = self._protocol.round
        self._protocol.round += 1
        self._uncommitted.close()
        if self.mix is not None:
            measures |= self.aggregator.tally.close()
        self._commit(self.id, number, model, measures)

    def compute(
        self, work: Work, begun: Callable[[int], None] | None = None
    ) -> Coroutine[Any, Any, Array]:
        """See `fedsim.core.ports.Client.compute`."""
        if self._protocol.round > self._rounds:
            return self._never()
        return super().compute(work, begun)

    async def _never(self) -> Never:
        """Wait for ever: the last round is committed."""
        await self._loop.create_future()
        raise AssertionError("this future is never completed")

    async def _wait_finished(self) -> None:
        """Wait until the open exchange is over."""
        assert self._task is not None, "only its coroutine exchanges"  # noqa: S101
        # No event can come between this line and the `await` below: the calendar stands still while
        # a coroutine runs. So no wake-up is missed.
        self._over = over = self._task.pause()
        span, timer = self._protocol.deadline, None
        if span < inf:
            now = self._calendar.now
            timer = self._calendar.at_deadline(now + span, self._on_deadline)
        try:
            await over
        except BaseException:
            # BaseException: a method may cancel its own wait, by `asyncio.timeout` say, and then
            # open another exchange.
            self._protocol.cancel()
            raise
        finally:
            # Also after a cancellation: a timer that is left would close a later exchange.
            self._over = None
            if timer is not None:
                timer.cancel()

    def _record_silence(self, sent: Mapping[ClientId, Message]) -> None:
        now, number = self._calendar.now, self._protocol.round
        for neighbour in self._protocol.neighbours:
            if neighbour not in sent:
                self._log.append(now, 0.0, Event.SILENT, self.id, neighbour, number)

    # -- events ------------------------------------------------------------------------

    def receive(self, sender: ClientId, envelope: Envelope) -> None:
        """Receive a message."""
        verdict = self._protocol.receive(sender, envelope)
        if verdict is ReplyOutcome.CLOSED:
            self._wake()
        elif verdict is ReplyOutcome.DROPPED:
            self._record_late(sender, envelope, verdict.value)

    def _record_late(self, sender: ClientId, envelope: Envelope, outcome: str) -> None:
        now, word = self._calendar.now, self._log.word(outcome)
        message_numbers = envelope.round, envelope.word
        self._log.append(now, 0.0, Event.LATE, sender, self.id, *message_numbers, detail=word)

    def lose(self, neighbour: ClientId) -> None:
        """Handle a neighbour that is gone for good."""
        if self._protocol.neighbour_left(neighbour):
            self._wake()

    def _on_deadline(self) -> None:
        if self._protocol.deadline_expired():
            self._wake()

    def _wake(self) -> None:
        """Wake the task that waits for the end of the exchange."""
        if self._over is not None:
            self._over.end()


class SimPairNode(SimNode):
    """Implements `fedsim.core.ports.PairNode`: nodes meet in pairs, at times of their choice.

    Args:
        protocol: the node's endpoint.
        network, equipment: see `SimNode`.
        answer: `PairwiseAlgorithm.answer`, for this node and an offer.
        **parts: see `SimNode`.

    Attributes:
        model: the present model of the node, shape (d,).
    """

    _protocol: PairProtocol

    def __init__(
        self,
        protocol: PairProtocol,
        network: PeerNetwork | MediumNetwork,
        equipment: Equipment,
        *,
        answer: Answer,
        **parts: Any,
    ) -> None:
        super().__init__(protocol, network, equipment, **parts)
        self._answer = answer
        self.model = self.initial

    def begin_round(self, number: int) -> None:
        """Start a round, to which the next exchanges belong."""
        self._protocol.round = number

    async def sleep(self, seconds: float) -> None:
        """See `fedsim.core.ports.PairNode.sleep`."""
        await self._waits.until(self._calendar.now + seconds)

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.core.ports.Client.compute`."""
        now = self._calendar.now
        result = await super().compute(work, begun)
        await self._take_turns(now)
        return result

    async def _take_turns(self, since: float) -> None:
        """Yield to other nodes if no time has passed: a single node could loop for ever."""
        if self._calendar.now == since:
            await asyncio.sleep(0)

    async def contact(self, neighbour: ClientId, message: Message) -> Reply | None:
        """See `fedsim.core.ports.PairNode.contact`."""
        now = self._calendar.now
        self._post(neighbour, self._protocol.offer(neighbour, message))
        if not self._protocol.over:
            await self._wait_finished()
        replies = self._protocol.replies()
        # After a reply, deferred offers wait for `commit`: the node is busy until it has used it.
        if replies:
            return replies[0]
        self._release()
        await self._take_turns(now)
        return None

    async def exchange(self, message: Message | Mapping[ClientId, Message]) -> list[Reply]:
        """Not available: nodes that meet in pairs have no common exchanges."""
        raise TypeError("a node of pairs has no common exchanges; contact a neighbour")

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.core.ports.PairNode.commit`."""
        self.model = model
        self._commit(self.id, self._protocol.round, model, measures)
        self._release()

    def _release(self) -> None:
        """Answer the offers that were deferred while the node was busy."""
        for sender, offer in self._protocol.release():
            self._reply(sender, offer)

    def _reply(self, sender: ClientId, offer: Envelope) -> None:
        reply = Reply(sender, offer.round, offer.message)
        self._post(sender, self._protocol.answer(offer, self._answer(self, reply)))

    def _post(self, receiver: ClientId, envelope: Envelope) -> None:
        envelope.word = self._log.word(envelope.message.label)
        self._network.send(self.id, (receiver,), envelope)

    def receive(self, sender: ClientId, envelope: Envelope) -> None:
        """Receive an offer, or an answer."""
        verdict = self._protocol.receive_in_pair(sender, envelope)
        if verdict is Verdict.ANSWER:
            self._reply(sender, envelope)
        elif verdict is Verdict.REFUSE:
            self._post(sender, self._protocol.answer(envelope))
        elif verdict is Verdict.OVER:
            self._wake()
        elif verdict is Verdict.DROPPED:
            self._record_late(sender, envelope, verdict.value)
