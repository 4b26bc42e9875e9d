"""Peers: nodes that exchange messages with neighbours, each in its own task, without a server."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import inf
from typing import Any, Never, cast

from fedsim.errors import RunError
from fedsim.physics.overlay import Overlay
from fedsim.ports import Array, ClientId, Message, Reply, Work, node_name
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.server import ReplyOutcome
from fedsim.protocol.stopping import RunStopped
from fedsim.protocol.transport import Envelope
from fedsim.record.rounds import Traffic
from fedsim.record.schema import Event
from fedsim.record.summary import DONE, NO_CLIENTS, Ending
from fedsim.sim.client import Equipment, Worker
from fedsim.sim.config import PeerMethod, WorldConfig
from fedsim.sim.engine.light_task import LightTask, Pause, settle
from fedsim.sim.engine.loop import SimLoop
from fedsim.sim.fleet import Fleet
from fedsim.sim.meetings import ALONE, Meetings, Neighbourhood, meetings
from fedsim.sim.network.peers import PeerNetwork
from fedsim.sim.peer_rounds import PeerRounds
from fedsim.wire.packers import Packing
from fedsim.worlds.main_task import ENDED, ending_of
from fedsim.worlds.observer import Observer

# A peer node of the simulated world: connects its coroutine to its protocol endpoint.

Live = Callable[[Any], Coroutine[Any, Any, None]]
"""`PeerAlgorithm.live`, a coroutine function of the node."""

Commit = Callable[[ClientId, int, Array, dict[str, float]], None]
"""Callback for a node, the number of its round, its model and its figures."""


Ended = Callable[[ClientId, BaseException | None], None]
"""Callback for a node whose coroutine has ended, with the error or the cancellation, if any."""


class SimNode(Worker):
    """Implements `fedsim.ports.Node`.

    Args:
        protocol: its endpoint.
        network: the lanes between all nodes.
        equipment: what it works with.
        initial: see below.
        near: its neighbours, and its row of the mixing matrix.
        meetings: say so of each exchange, if the graph changes.
        commit: takes its models.
        rounds: as many as the run can have.

    Attributes:
        initial: the model that all start from, shape (d,).
        weights: those of its senders.
        own_weight: that of its own vector.
        failure: what its coroutine has ended with, if that is an error or a cancellation.
    """

    def __init__(
        self,
        protocol: PeerProtocol,
        network: PeerNetwork,
        equipment: Equipment,
        *,
        initial: Array,
        near: Neighbourhood,
        meetings: Meetings | None,
        commit: Commit,
        rounds: float,
    ) -> None:
        super().__init__(protocol, equipment)
        self.initial = initial
        self.weights: Mapping[ClientId, float] = near.weights
        self.own_weight = near.own_weight
        self._meetings = meetings
        self._protocol: PeerProtocol = protocol
        self._network = network
        self._commit = commit
        self._rounds = rounds
        self._over: Pause | None = None  # until the end of the exchange that is waited for
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
        """Those that it receives from, still present, in order."""
        return self._protocol.senders

    @property
    def stuck(self) -> str:
        """Describe which neighbours it waits for; empty if none."""
        return self._protocol.stuck

    def start(self, live: Live, ended: Ended) -> None:
        """Run its coroutine from the next turn of the loop on."""
        self._loop = cast("SimLoop", asyncio.get_running_loop())
        self._ended = ended
        self._task = self._waits = LightTask(self._loop, self)
        self._task.start(self._run(live))

    async def _run(self, live: Live) -> None:
        await live(self)

    @property
    def started(self) -> bool:
        """Whether its coroutine runs, or has run."""
        return self._task is not None

    def cancel(self) -> None:
        """Cancel its coroutine: it is gone for good."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> "asyncio.Future[None] | None":
        """Cancel its coroutine as the world ends.

        Returns:
            A future that is done once it has ended; None where it does not run.
        """
        if self._task is None or not self._task.cancel():
            return None
        self._done = self._loop.create_future()
        return self._done

    def on_end(self, failure: BaseException | None) -> None:
        """Handle the end of its coroutine; see `fedsim.sim.engine.light_task.Owner`."""
        self.failure = failure
        if self._done is not None:
            settle(self._done, failure)
        else:
            self._loop.call_soon(self._ended, self.id, failure)

    async def exchange(self, message: Message | Mapping[ClientId, Message]) -> list[Reply]:
        """See `fedsim.ports.Node.exchange`."""
        if self._protocol.round > self._rounds:
            await self._never()
        if self._meetings is not None:
            await self._meet(self._meetings)
        post = self._protocol.open(message)
        if not isinstance(message, Message):
            self._record_silence(message)
        for envelope, neighbours in post:
            envelope.word = self._log.word(envelope.message.label)
            self._network.send(self.id, neighbours, envelope)
        if not self._protocol.over:
            await self._wait_finished()
        return self._protocol.replies()

    async def _meet(self, meetings: Meetings) -> None:
        """Wait until the next exchange may begin, with neighbours of its own."""
        near = await meetings.begin(self.id, self._protocol.next_exchange)
        self._protocol.meet(near.neighbours, near.senders)
        self.weights, self.own_weight = near.weights, near.own_weight

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.ports.Node.commit`."""
        number = self._protocol.round
        self._protocol.round += 1
        self._commit(self.id, number, model, measures)

    def compute(
        self, work: Work, begun: Callable[[int], None] | None = None
    ) -> Coroutine[Any, Any, Array]:
        """See `fedsim.ports.Client.compute`."""
        if self._protocol.round > self._rounds:
            return self._never()
        return super().compute(work, begun)

    async def _never(self) -> Never:
        """Wait for ever: all rounds that there can be are committed.

        A node that is ahead of the others, or alone, would act without a round to end it.
        """
        await self._loop.create_future()
        raise AssertionError("a future that nobody completes")

    async def _wait_finished(self) -> None:
        """Wait until the exchange, which is open, is over."""
        assert self._task is not None, "only its coroutine exchanges"  # noqa: S101
        self._over = over = self._task.pause()
        span, timer = self._protocol.deadline, None
        if span < inf:
            now = self._calendar.now
            timer = self._calendar.at_deadline(now + span, self._on_deadline)
        try:
            await over
        finally:
            self._over = None
        if timer is not None:
            timer.cancel()

    def _record_silence(self, sent: Mapping[ClientId, Message]) -> None:
        now, number = self._calendar.now, self._protocol.round
        for one in self._protocol.neighbours:
            if one not in sent:
                self._log.append(now, 0.0, Event.SILENT, self.id, one, number)

    # -- what happens to it ------------------------------------------------------------

    def receive(self, sender: ClientId, envelope: Envelope) -> None:
        """Receive a message."""
        verdict = self._protocol.receive(sender, envelope)
        if verdict is ReplyOutcome.CLOSED:
            self._wake()
        elif verdict is ReplyOutcome.DROPPED:
            now, word = self._calendar.now, self._log.word(verdict.value)
            what = envelope.round, envelope.word
            self._log.append(now, 0.0, Event.LATE, sender, self.id, *what, detail=word)

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


class Peers:
    """Runs the coroutines of all nodes, until a stop rule applies or no node is left.

    A node that fails is gone for good, and so is one whose coroutine has ended: the others
    go on without it.

    Attributes:
        network: the lanes between them.
        remedy: what helps where every actor waits.
    """

    remedy = "give participation.deadline"

    def __init__(
        self,
        setup: WorldConfig,
        fleet: Fleet,
        observer: Observer,
        traffic: Traffic,
        looks: set[str],
    ) -> None:
        self._presence = fleet.presence
        self._method = cast("PeerMethod", setup.algorithm)
        self.network = fleet.peer_network()
        overlay, nodes = setup.overlay, range(len(setup.fleet))
        assert overlay is not None, "without an overlay it is a star"  # noqa: S101
        self._overlay = overlay
        self._meetings = meetings(overlay, fleet.calendar, nodes)
        self._rounds = PeerRounds(nodes, observer, traffic)
        self._nodes = [self._node(setup, fleet, n, looks) for n in range(len(setup.fleet))]
        received = [setup.transport.to_server(node.receive) for node in self._nodes]
        self.network.join(received, self._on_undelivered)
        self.network.prepare(fleet.supplies)
        self._there = set(range(len(setup.fleet)))
        self._lost: set[ClientId] = set()
        self._over: asyncio.Future[Ending] | None = None
        self._end: Ending | BaseException | None = None  # how, once that is known

    def _node(self, setup: WorldConfig, fleet: Fleet, number: ClientId, looks: set[str]) -> SimNode:
        overlay, known = self._overlay, None
        if isinstance(overlay, Overlay):
            near = Neighbourhood.of(overlay, number)
        else:
            near, known = ALONE, range(len(setup.fleet))
        end = PeerProtocol(
            number,
            near.neighbours,
            Packing(setup.packer_up, number),
            beacons=setup.silence.beacon,
            deadline=min(setup.silence.closes_after, setup.participation.closes_after),
            header_bits=setup.header_bits,
            transport=setup.transport,
            senders=near.senders,
            known=known,
        )
        return SimNode(
            end,
            self.network,
            fleet.equipment(number, looks),
            initial=setup.initial,
            near=near,
            meetings=self._meetings,
            commit=self._commit,
            rounds=setup.stop.rounds,
        )

    # -- how it goes on ----------------------------------------------------------------

    async def run(self) -> Ending:
        """Return how it ended; the first node that fails ends it, too."""
        self._over = asyncio.get_running_loop().create_future()
        for node in self._nodes:
            if not self._presence.is_present(node.id):
                self._lost.add(node.id)
                self._leave(node.id)
        for number in sorted(self._there):
            self._nodes[number].start(self._method.live, self._on_end)
        if self._end is not None:
            self._finish(self._end)
        try:
            return await self._over
        finally:
            await self._cancel()

    async def _cancel(self) -> None:
        """Cancel all nodes, one of which may fail as it is cancelled."""
        ends = [ended for node in self._nodes if (ended := node.end()) is not None]
        await asyncio.gather(*ends, return_exceptions=True)
        for node in self._nodes:
            if isinstance(node.failure, Exception) and isinstance(self._end, Ending):
                raise node.failure

    def stop(self, reason: str) -> None:
        """End the run now."""
        self._finish(Ending(DONE, reason))

    def lose(self, node: ClientId) -> None:
        """Abort all that a node does: it cannot go on, and is gone for good."""
        if node in self._there and self._nodes[node].started:
            self._lost.add(node)
            self._nodes[node].cancel()
            self.network.abort(node)
            self._leave(node)

    @property
    def doing(self) -> str:
        """Empty: nodes are in different rounds."""
        return ""

    @property
    def stuck(self) -> str:
        """Describe what the first blocked node is waiting for; empty if none is blocked."""
        waits = [self._nodes[number].stuck for number in sorted(self._there)]
        return next((text for text in waits if text), "")

    # -- what happens ------------------------------------------------------------------

    def _on_undelivered(self, node: ClientId, message: Message) -> None:
        self._nodes[node].undelivered(node, message)

    def _commit(
        self, node: ClientId, number: int, model: Array, measures: dict[str, float]
    ) -> None:
        """Take a node's model; where the run is over the call does not return."""
        self._try(self._rounds.commit, node, number, model, measures)
        if isinstance(self._end, Ending):
            raise RunStopped(self._end.reason)
        if self._end is not None:
            raise self._end

    def _try(self, act: Callable[..., None], *args: object) -> None:
        """Call a function that may close a round and so end the run."""
        if self._end is not None:
            return
        try:
            act(*args)
        except RunStopped as stopped:
            self._finish(ending_of(stopped))
        except RunError as error:
            self._finish(error)

    def _leave(self, node: ClientId) -> None:
        """Remove a node; the others go on without it."""
        self._there.discard(node)
        self._try(self._rounds.node_left, node)
        if self._meetings is not None:
            self._meetings.leave(node)
        for other in self._nodes:
            other.lose(node)
        if not self._there:
            if not self._lost:
                self._finish(Ending(DONE, ENDED))
                return
            gone = self._presence.why_gone(sorted(self._lost))
            status = NO_CLIENTS if len(self._lost) == len(self._nodes) else DONE
            self._finish(Ending(status, gone or "every node has ended or is gone"))

    def _on_end(self, node: ClientId, failure: BaseException | None) -> None:
        """Handle the end of a node's coroutine, whatever the reason."""
        if node not in self._there:
            return
        if isinstance(failure, asyncio.CancelledError):
            self._finish(RuntimeError(f"{node_name(node)} was cancelled from within"))
        elif failure is None:
            self._leave(node)
        else:
            self._finish(failure)

    def _finish(self, end: Ending | BaseException) -> None:
        """End the run, for a reason or with an error, unless it has ended already."""
        self._end = end if self._end is None else self._end
        if self._over is None or self._over.done():
            return
        if isinstance(self._end, Ending):
            self._over.set_result(self._end)
        else:
            self._over.set_exception(self._end)
