"""A node of the virtual world that speaks to its neighbours: feeds its end of the protocol."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import inf
from typing import Any, cast

from fedsim.ports import Array, ClientId, Message, Reply, Work
from fedsim.protocol.envelope import Envelope
from fedsim.protocol.peer import PeerEnd
from fedsim.protocol.verdict import Verdict
from fedsim.record.schema import Event
from fedsim.sim.engine.alarms import Alarms
from fedsim.sim.engine.calendar import DEADLINE
from fedsim.sim.engine.loop import SimLoop
from fedsim.sim.network.peers import PeerNetwork
from fedsim.sim.worker import Equipment, Worker

Live = Callable[[Any], Coroutine[Any, Any, None]]
"""`PeerAlgorithm.live`, a coroutine function of the node."""

Commit = Callable[[ClientId, int, Array, dict[str, float]], None]
"""Told of a node, the number of its round, its model and its figures."""


class SimNode(Worker):
    """Implements `fedsim.ports.Node`.

    Args:
        end: its end of the protocol.
        network: the lanes between all nodes.
        equipment: what it works with.
        initial, weights: see below.
        commit: takes its models.
        rounds: as many as the run can have.

    Attributes:
        initial: the model that all start from, shape (d,).
        weights: those of its neighbours.
    """

    def __init__(
        self,
        end: PeerEnd,
        network: PeerNetwork,
        equipment: Equipment,
        *,
        initial: Array,
        weights: Mapping[ClientId, float],
        commit: Commit,
        rounds: float,
    ) -> None:
        super().__init__(end, equipment)
        self.initial = initial
        self.weights = weights
        self._end: PeerEnd = end
        self._network = network
        self._commit = commit
        self._rounds = rounds
        self._over: asyncio.Future[None] | None = None  # of the exchange that is waited for

    @property
    def neighbours(self) -> Sequence[ClientId]:
        """Those that are still there, in order."""
        return self._end.neighbours

    @property
    def stuck(self) -> str:
        """Whom it waits for, in words; empty where for nobody."""
        return self._end.stuck

    async def run(self, live: Live) -> None:
        """Run its coroutine."""
        self._loop = asyncio.get_running_loop()
        self._waits = Alarms(cast("SimLoop", self._loop))
        await live(self)

    async def exchange(self, message: Message | Mapping[ClientId, Message]) -> list[Reply]:
        """See `fedsim.ports.Node.exchange`."""
        await self._another_round()
        post = self._end.open(message)
        if not isinstance(message, Message):
            self._note_silence(message)
        for envelope, neighbours in post:
            envelope.word = self._log.word(envelope.message.label)
            self._network.send(self.id, neighbours, envelope)
        await self._finished()
        return self._end.replies()

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.ports.Node.commit`."""
        number = self._end.round
        self._end.round += 1
        self._commit(self.id, number, model, measures)

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.ports.Client.compute`."""
        await self._another_round()
        return await super().compute(work, begun)

    async def _another_round(self) -> None:
        """Wait for ever where it has committed all rounds that there can be.

        Who is ahead of the others, or on its own, would do what no round is the end of.
        """
        if self._end.round > self._rounds:
            await self._loop.create_future()

    async def _finished(self) -> None:
        """Wait until the exchange is over."""
        if self._end.over:
            return
        self._over = over = self._loop.create_future()
        span, timer = self._end.deadline, None
        if span < inf:
            now = self._calendar.now
            timer = self._calendar.at(now + span, self._overdue, priority=DEADLINE)
        try:
            await over
        finally:
            self._over = None
        if timer is not None:
            timer.cancel()

    def _note_silence(self, said: Mapping[ClientId, Message]) -> None:
        now, number = self._calendar.now, self._end.round
        for one in self._end.neighbours:
            if one not in said:
                self._log.append(now, 0.0, Event.SILENT, self.id, one, number)

    # -- what happens to it ------------------------------------------------------------

    def receive(self, sender: ClientId, envelope: Envelope) -> None:
        """Take a message that has arrived."""
        verdict = self._end.heard(sender, envelope)
        if verdict is Verdict.CLOSED:
            self._wake()
        elif verdict is Verdict.DROPPED:
            now, word = self._calendar.now, self._log.word(verdict.value)
            what = envelope.round, envelope.word
            self._log.append(now, 0.0, Event.LATE, sender, self.id, *what, detail=word)

    def lose(self, neighbour: ClientId) -> None:
        """Take note that a neighbour is gone for good."""
        if self._end.gone(neighbour):
            self._wake()

    def _overdue(self) -> None:
        if self._end.overdue():
            self._wake()

    def _wake(self) -> None:
        """Let the exchange end, which nothing can change any more."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
