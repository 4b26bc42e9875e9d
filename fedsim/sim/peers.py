"""Peers: nodes that speak to their neighbours, each in a task of its own, and no server."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

from fedsim.errors import RunError
from fedsim.ports import Array, ClientId, Message, node_name
from fedsim.protocol.packing import Packing
from fedsim.protocol.peer import PeerEnd
from fedsim.protocol.stopping import RunStopped
from fedsim.record.ends import DONE, NO_CLIENTS, Ending
from fedsim.record.rounds import Traffic
from fedsim.sim.fleet import Fleet
from fedsim.sim.main_task import ENDED, ending_of
from fedsim.sim.node import SimNode
from fedsim.sim.observer import Observer
from fedsim.sim.peer_rounds import PeerRounds
from fedsim.sim.setup import PeerMethod, Setup


class Peers:
    """Runs the coroutines of all nodes, until a stop rule applies or nobody is left.

    A node that cannot go on is gone for good, and so is one whose coroutine has ended: the others
    go on without it.

    Attributes:
        network: the lanes between them.
        remedy: what helps where everybody waits.
    """

    remedy = "give participation.deadline"

    def __init__(
        self,
        setup: Setup,
        fleet: Fleet,
        observer: Observer,
        traffic: Traffic,
        looks: set[str],
    ) -> None:
        self._presence = fleet.presence
        self._method = cast("PeerMethod", setup.algorithm)
        self.network = fleet.peer_network()
        self._rounds = PeerRounds(range(len(setup.fleet)), observer, traffic)
        self._nodes = [self._node(setup, fleet, n, looks) for n in range(len(setup.fleet))]
        received = [setup.carriage.to_server(node.receive) for node in self._nodes]
        self.network.join(received, self._undelivered)
        self.network.prepare(fleet.supplies)
        self._there = set(range(len(setup.fleet)))
        self._lost: set[ClientId] = set()
        self._tasks: dict[ClientId, asyncio.Task[None]] = {}
        self._over: asyncio.Future[Ending] | None = None
        self._end: Ending | BaseException | None = None  # how, once that is known

    def _node(self, setup: Setup, fleet: Fleet, number: ClientId, looks: set[str]) -> SimNode:
        overlay = setup.overlay
        assert overlay is not None, "without an overlay it is a star"  # noqa: S101
        end = PeerEnd(
            number,
            overlay.neighbours[number],
            Packing(setup.packer_up, number),
            beacons=setup.silence.beacon,
            deadline=min(setup.silence.closes_after, setup.participation.closes_after),
            header_bits=setup.header_bits,
            carriage=setup.carriage,
        )
        return SimNode(
            end,
            self.network,
            fleet.equipment(number, looks),
            initial=setup.initial,
            weights=overlay.weights(number),
            commit=self._commit,
            rounds=setup.stop.rounds,
        )

    # -- how it goes on ----------------------------------------------------------------

    async def run(self) -> Ending:
        """Return how it ended; the first node that fails ends it, too."""
        self._over = asyncio.get_running_loop().create_future()
        for node in self._nodes:
            if not self._presence.there(node.id):
                self._lost.add(node.id)
                self._leave(node.id)
        for number in sorted(self._there):
            live = self._nodes[number].run(self._method.live)
            self._tasks[number] = task = asyncio.create_task(live, name=node_name(number))
            task.add_done_callback(partial(self._ended, number))
        if self._end is not None:
            self._finish(self._end)
        try:
            return await self._over
        finally:
            await self._cancel()

    async def _cancel(self) -> None:
        """Cancel all nodes, one of which may fail as it is cancelled."""
        for task in self._tasks.values():
            task.cancel()
        for end in await asyncio.gather(*self._tasks.values(), return_exceptions=True):
            if isinstance(end, Exception) and isinstance(self._end, Ending):
                raise end

    def stop(self, reason: str) -> None:
        """End the run at this very moment."""
        self._finish(Ending(DONE, reason))

    def lose(self, node: ClientId) -> None:
        """Let a node break off all that it does: it cannot go on, and is gone for good."""
        if node in self._there and node in self._tasks:
            self._lost.add(node)
            self._tasks[node].cancel()
            self.network.abort(node)
            self._leave(node)

    @property
    def doing(self) -> str:
        """Empty: no one round is that of all."""
        return ""

    @property
    def stuck(self) -> str:
        """Whom the first node that waits waits for, in words; empty where nobody waits."""
        waits = [self._nodes[number].stuck for number in sorted(self._there)]
        return next((text for text in waits if text), "")

    # -- what happens ------------------------------------------------------------------

    def _undelivered(self, node: ClientId, message: Message) -> None:
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
        """Do what may close a round, which may end the run."""
        if self._end is not None:
            return
        try:
            act(*args)
        except RunStopped as stopped:
            self._finish(ending_of(stopped))
        except RunError as error:
            self._finish(error)

    def _leave(self, node: ClientId) -> None:
        """Let the others go on without a node."""
        self._there.discard(node)
        self._try(self._rounds.gone, node)
        for other in self._nodes:
            other.lose(node)
        if not self._there:
            if not self._lost:
                self._finish(Ending(DONE, ENDED))
                return
            gone = self._presence.why_gone(sorted(self._lost))
            status = NO_CLIENTS if len(self._lost) == len(self._nodes) else DONE
            self._finish(Ending(status, gone or "every node has ended or is gone"))

    def _ended(self, node: ClientId, task: asyncio.Task[None]) -> None:
        """Take note that a node's coroutine has ended, whyever."""
        if node not in self._there:
            return
        if task.cancelled():
            self._finish(RuntimeError(f"{task.get_name()} was cancelled from within"))
        elif (error := task.exception()) is None:
            self._leave(node)
        elif not isinstance(error, KeyboardInterrupt | SystemExit):  # these end the loop
            self._finish(error)

    def _finish(self, end: Ending | BaseException) -> None:
        """End the run, for a reason or with an error, unless it has ended already."""
        self._end = end if self._end is None else self._end
        if self._over is None or self._over.done():
            return
        if isinstance(self._end, Ending):
            self._over.set_result(self._end)
        else:
            self._over.set_exception(self._end)
