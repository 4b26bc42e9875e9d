"""Peers: nodes that exchange messages with neighbours, each in its own task, without a server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from fedsim.core.errors import RunError
from fedsim.core.ports import Array, ClientId, Message, node_name
from fedsim.physics.overlay import Overlay
from fedsim.protocol.aggregation import Tally
from fedsim.protocol.pairs import PairProtocol
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.stopping import RunStopped
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.summary import DONE, NO_CLIENTS, Ending
from fedsim.sim.config import PeerMethod, WorldConfig
from fedsim.sim.fleet import Fleet
from fedsim.sim.meetings import ALONE, Neighbourhood, meetings
from fedsim.sim.peer_nodes import SimNode, SimPairNode
from fedsim.sim.peer_rounds import PairRounds, PeerRounds, begin_rounds
from fedsim.sim.worlds.main_task import ENDED, ending_of
from fedsim.sim.worlds.observer import Observer
from fedsim.sim.worlds.open_spans import Unsettled
from fedsim.wire.packers import Packing

__all__ = ["Peers", "SimNode"]


class Peers:
    """Runs the coroutines of all nodes, until a stop rule applies or no node is left.

    A node that fails is gone for good, and so is one whose coroutine has ended. The others go on
    without it.

    Attributes:
        network: the lanes between them.
        remedy: the advice if every actor waits.
        unheard: 0; no server asks in vain.
    """

    remedy = "give participation.deadline"
    unheard = 0

    def __init__(
        self,
        setup: WorldConfig,
        fleet: Fleet,
        observer: Observer,
        traffic: Traffic,
        looks: set[str],
    ) -> None:
        self._setup, self._observer = setup, observer
        self._fleet, self._presence = fleet, fleet.presence
        self._method = cast("PeerMethod", setup.algorithm)
        self.network = fleet.peer_network()
        overlay, nodes = setup.overlay, range(len(setup.fleet))
        assert overlay is not None, "without an overlay it is a star"  # noqa: S101
        # Set before the nodes are created, as `_node` reads them.
        self._overlay = overlay
        self._meetings = meetings(overlay, fleet.calendar, nodes)
        self._answer = getattr(setup.algorithm, "answer", None)  # only pairwise methods have one
        self._rounds = (
            PeerRounds(nodes, observer, traffic)
            if self._answer is None
            else PairRounds(self._models, len(setup.fleet), observer, traffic, self._begin_round)
        )
        self._nodes = [self._node(setup, fleet, n, looks) for n in range(len(setup.fleet))]
        # `to_server` also for nodes: it decodes with the sender's number. `to_clients` would take
        # the server for the sender of every message.
        received = [setup.transport.to_server(node.receive) for node in self._nodes]
        self.network.join(received, self._on_undelivered)
        self.network.prepare(fleet.supplies)
        self._there = set(range(len(setup.fleet)))
        self._lost: dict[ClientId, float] = {}
        self._calendar = fleet.calendar
        self._over: asyncio.Future[Ending] | None = None
        self._end: Ending | BaseException | None = None  # None while the run goes on

    def _node(self, setup: WorldConfig, fleet: Fleet, number: ClientId, looks: set[str]) -> SimNode:
        overlay, known = self._overlay, None
        if isinstance(overlay, Overlay):
            near = Neighbourhood.of(overlay, number)
        else:
            # The graph changes: `Meetings` sets the neighbours at each exchange, and until then
            # any node may be one.
            near, known = ALONE, range(len(setup.fleet))
        make = PeerProtocol if self._answer is None else PairProtocol
        end = make(
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
        network_and_equipment = self.network, fleet.equipment(number, looks)
        parts: dict[str, Any] = {
            "initial": setup.initial,
            "near": near,
            "meetings": self._meetings,
            "commit": self._commit,
            "rounds": setup.stop.rounds,
        }
        if not setup.aggregation.adds_up:
            parts["aggregator"] = setup.aggregator(setup.aggregation, number, setup.tally())
        if isinstance(end, PairProtocol) and self._answer is not None:
            return SimPairNode(end, *network_and_equipment, answer=self._answer, **parts)
        return SimNode(end, *network_and_equipment, **parts)

    def unsettled(self) -> Unsettled:
        """Return the energy that no row has charged yet."""
        return self._fleet.unsettled(self.network.open_spans())

    def _models(self) -> dict[ClientId, Array]:
        """Return the models of the remaining nodes, which meet in pairs."""
        there = sorted(self._there)
        return {number: cast("SimPairNode", self._nodes[number]).model for number in there}

    @property
    def aggregation_notes(self) -> Sequence[tuple[str, str]]:
        """Notes on what the rule that mixes vectors did, over the rounds of all nodes."""
        together = Tally()
        for node in self._nodes:
            together.add(node.aggregator.tally)
        return list(together.notes("rounds of nodes", "kept the node's own vector"))

    def _begin_round(self, number: int) -> None:
        for node in self._nodes:
            cast("SimPairNode", node).begin_round(number)

    # -- run and end -------------------------------------------------------------------

    async def run(self) -> Ending:
        """Run all nodes; return how the run ended. The first node that fails ends it."""
        self._over = asyncio.get_running_loop().create_future()
        try:
            begin_rounds(self._method, self._setup, self._observer)
        except RunStopped as stopped:
            return ending_of(stopped)
        for node in self._nodes:
            # All absent nodes are removed before the first node starts, so that no exchange waits
            # for one.
            if not self._presence.is_present(node.id):
                self._lost[node.id] = 0.0
                self._leave(node.id)
        for number in sorted(self._there):
            self._nodes[number].start(self._method.live, self._on_end)
        # `stop` may have been called before there was a future to complete.
        if self._end is not None:
            self._finish(self._end)
        try:
            return await self._over
        finally:
            await self._cancel()

    async def _cancel(self) -> None:
        """Cancel all nodes; raise the error of a node that fails as it is cancelled."""
        ends = [ended for node in self._nodes if (ended := node.end()) is not None]
        await asyncio.gather(*ends, return_exceptions=True)
        for node in self._nodes:
            if isinstance(node.failure, Exception) and isinstance(self._end, Ending):
                raise node.failure

    def stop(self, reason: str) -> None:
        """End the run now."""
        self._finish(Ending(DONE, reason))

    @property
    def left(self) -> Mapping[ClientId, float]:
        """The nodes that cannot go on, with the time at which each stopped, s."""
        return self._lost

    def lose(self, node: ClientId) -> None:
        """Abort all activity of a node: it cannot go on, and is gone for good."""
        if node in self._there and self._nodes[node].started:
            # Before `_leave`: if this was the last node, that reports why nodes are gone from this
            # table.
            self._lost[node] = self._calendar.now
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

    # -- events ------------------------------------------------------------------------

    def _on_undelivered(self, node: ClientId, message: Message) -> None:
        self._nodes[node].undelivered(node, message)

    def _commit(
        self, node: ClientId, number: int, model: Array, measures: dict[str, float]
    ) -> None:
        """Store the model of a node; this call does not return if the run is over."""
        # The run may be over because of this commit or of an earlier event. Either way the node
        # must not go on.
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
            # Not raised: the caller may be an event of the calendar, as a node leaves. There no
            # coroutine would pass the error on.
            self._finish(error)

    def _leave(self, node: ClientId) -> None:
        """Remove a node; the others go on without it."""
        # First, since a round of pairs compares its count with the nodes that are left.
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
        elif isinstance(failure, RunStopped):  # its rule of aggregation had too few vectors
            self._finish(ending_of(failure))
        else:
            self._finish(failure)

    def _finish(self, end: Ending | BaseException) -> None:
        """End the run, for a reason or with an error, unless it has ended already."""
        # The first end counts: later ones are its consequences.
        self._end = end if self._end is None else self._end
        if self._over is None or self._over.done():
            return
        if isinstance(self._end, Ending):
            self._over.set_result(self._end)
        else:
            self._over.set_exception(self._end)
