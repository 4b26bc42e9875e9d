"""A star: one server, and the clients that reply to it."""

import asyncio
from typing import cast

from fedsim.ports import ClientId, Message
from fedsim.protocol.selection import Selection
from fedsim.protocol.server import ServerProtocol
from fedsim.protocol.stopping import NoClientsLeft, RunStopped
from fedsim.protocol.transport import ClientProtocol, Envelope
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.summary import DONE, NO_CLIENTS, Ending
from fedsim.sim.client import SimClient
from fedsim.sim.config import Method, WorldConfig
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.fleet import Fleet
from fedsim.sim.lazy import LazyTable
from fedsim.sim.observer import Observer
from fedsim.sim.server import SimServer
from fedsim.wire.packers import Packing

# The main task of a star: the server's coroutine, and its end together with the clients' tasks.

ENDED = "the algorithm has ended"
"""Why a run is over that no rule has stopped."""


class MainTask:
    """Runs the server's coroutine in the main task, and ends the tasks of the clients.

    Args:
        method: what the server serves.
        server: that serves it.
        clients: those made so far, by number.

    Attributes:
        over: whether the world has ended, so that no client replies any more.
    """

    def __init__(self, method: Method, server: SimServer, clients: LazyTable[SimClient]) -> None:
        self.over = False
        self._method = method
        self._server = server
        self._clients = clients
        self._main: asyncio.Task[object] | None = None
        self._stopped = ""
        self._failures: list[BaseException] = []

    def stop(self, reason: str) -> None:
        """End the run now."""
        if not self._stopped and not self._failures:
            self._stopped = reason
            self._cancel()

    def _cancel(self) -> None:
        if self._main is not None:
            self._main.cancel()

    async def run(self) -> Ending:
        """Return how it ended; the first client that fails ends it, too."""
        self._main = asyncio.current_task()
        try:
            return await self._serve_until_end()
        finally:
            self.over = True
            # In order: what is aborted stands in the log.
            tasks = [task for client in self._clients.in_order() if (task := client.end())]
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            for end in ends:  # a handler may fail as it is cancelled, too
                if isinstance(end, Exception) and not self._failures:
                    raise end

    def fail(self, name: str, failure: BaseException) -> None:
        """End the run: a client has stopped answering before the world has ended."""
        if isinstance(failure, asyncio.CancelledError):
            failure = RuntimeError(f"the handler of {name} was cancelled from within")
        self._failures.append(failure)
        self._cancel()

    async def _serve_until_end(self) -> Ending:
        """Return how the server has ended."""
        try:
            return await self._serve()
        except asyncio.CancelledError:
            if self._failures:
                raise self._failures[0] from None
            if not self._stopped or self._main is None:
                raise
            self._main.uncancel()
            return Ending(DONE, self._stopped)

    async def _serve(self) -> Ending:
        try:
            await self._method.serve(self._server)
        except RunStopped as stopped:
            return ending_of(stopped)
        except BaseExceptionGroup as group:  # a task of a group may have committed
            stopped_in, others = group.split(RunStopped)
            if stopped_in is None or others is not None:
                raise
            return _first(stopped_in)
        return Ending(DONE, ENDED)


def ending_of(stopped: BaseException) -> Ending:
    """Return the ending of a run that was stopped by this exception."""
    return Ending(NO_CLIENTS if isinstance(stopped, NoClientsLeft) else DONE, str(stopped))


def _first(error: BaseException) -> Ending:
    """Return how a run has ended, by the first error in a group, or in a group within it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return ending_of(error)


class Star:
    """Assembles and runs the server and its clients.

    Attributes:
        server: its server.
        clients: those made so far, by number.
        network: the lanes between them.
        remedy: what helps where every actor waits.
    """

    remedy = "give participation.give_up, or a deadline"

    def __init__(
        self,
        setup: WorldConfig,
        fleet: Fleet,
        observer: Observer,
        calendar: Calendar,
        log: EventLog,
        traffic: Traffic,
        looks: set[str],
    ) -> None:
        self._fleet = fleet
        self._observer = observer
        self._calendar = calendar
        self._log = log
        self._traffic = traffic
        self._looks = looks
        self._setup = setup
        self.network = fleet.network()
        self.server = self._make_server(setup)
        self.clients = LazyTable(self._make_client)
        transport = setup.transport
        self.network.connect(
            transport.to_server(self.server.receive),
            transport.to_clients(self._on_received),
            self._on_undelivered,
        )
        self.network.prepare(fleet.supplies)
        self._method = cast("Method", setup.algorithm)
        self._main_task = MainTask(self._method, self.server, self.clients)
        self.run, self.stop = self._main_task.run, self._main_task.stop
        # Read once: each time they are read of their objects makes another one.
        self._handle, self._fail = self._method.handle, self._main_task.fail

    def _make_server(self, setup: WorldConfig) -> SimServer:
        return SimServer(
            self._server_protocol(setup),
            calendar=self._calendar,
            network=self.network,
            presence=self._fleet.presence,
            log=self._log,
            traffic=self._traffic,
            initial=setup.initial,
            smoothness=setup.smoothness,
            packing=Packing(setup.packer_down),
            weights=setup.shares,
            rng=setup.rng("server", 0),
            commit=self._observer.commit,
            stay=self._observer.stay,
            looks=self._looks,
        )

    def _server_protocol(self, setup: WorldConfig) -> ServerProtocol:
        clients, policy = range(len(setup.fleet)), setup.participation
        rng = setup.rng("cohort", 0)
        selection = Selection(policy, self._fleet.presence, clients, rng, setup.samples)
        silence, header = setup.silence, setup.header_bits
        return ServerProtocol(clients, selection, policy, silence, header, setup.transport)

    def _make_client(self, number: ClientId) -> SimClient:
        setup = self._setup
        protocol = ClientProtocol(
            number,
            Packing(setup.packer_up, number),
            beacons=setup.silence.beacon,
            header_bits=setup.header_bits,
            transport=setup.transport,
        )
        equipment = self._fleet.equipment(number, self._looks)
        client = SimClient(protocol, self.network, equipment, self._handle, self._fail)
        if self._main_task.over:
            client.end()
        return client

    # -- what happens ------------------------------------------------------------------

    def lose(self, client: ClientId) -> None:
        """Abort all that a client does: it has left, or its battery is empty."""
        if client in self.clients:
            self.clients[client].abort()
        self.network.abort(client)
        self.server.lose(client)

    def _on_received(self, client: ClientId, envelope: Envelope) -> None:
        self.clients[client].receive(client, envelope)

    def _on_undelivered(self, client: ClientId, message: Message) -> None:
        self.clients[client].undelivered(client, message)

    @property
    def doing(self) -> str:
        """Describe the current activity in a few words; may be called from another thread."""
        asked, answered, in_transit = self.server.answers
        if not asked:
            return ""
        made = (self.network.made + len(self.clients)) / 2
        if not answered and made < asked:
            return f"round {self.server.round}: making clients, {made / asked:.0%}"
        replies = f", {in_transit:,} replies in transit" if in_transit else ""
        return f"round {self.server.round}: {answered:,} of {asked:,} answered{replies}"

    @property
    def stuck(self) -> str:
        """Describe which clients the server was still waiting for at the end; empty if none."""
        return self.server.stuck
