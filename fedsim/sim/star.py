"""A star: one server, and the clients that reply to it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from fedsim.core.ports import ClientId, Message
from fedsim.protocol.transport import ClientProtocol, Envelope
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.sim.client import Participant, SimClient
from fedsim.sim.config import Method, WorldConfig, what_follows
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.fleet import Fleet
from fedsim.sim.known import known_fleet
from fedsim.sim.lazy import LazyTable
from fedsim.sim.network.transport import ServerLanes
from fedsim.sim.server import SimServer
from fedsim.sim.worlds.main_task import MainTask
from fedsim.sim.worlds.observer import Observer
from fedsim.sim.worlds.open_spans import Unsettled
from fedsim.wire.packers import Packing


class Star:
    """Assembles and runs a server and its clients.

    Attributes:
        server: the server.
        clients: the clients that exist so far, by number.
        network: the lanes between them.
        remedy: the advice if every actor waits.
        left: empty; a client that is lost leaves the fleet, and may come back.
    """

    remedy = "give participation.give_up, or a deadline"
    left: Mapping[ClientId, float] = MappingProxyType({})

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
        self.network = self._make_network()
        self.server = self._make_server(setup)
        observer.counts = self.server.tally.close
        self.clients: LazyTable[Any] = LazyTable(self._make_client)
        self._connect()
        self._method = cast("Method", setup.algorithm)
        self._main_task = MainTask(
            self._top(setup).serve, self.server, self._end_clients, self._observer.begin
        )
        self.run, self.stop = self._main_task.run, self._main_task.stop
        # Read once, as every access creates a new bound method.
        self._handle, self._fail = setup.handler, self._main_task.fail
        self._follows = what_follows(self._method)

    def unsettled(self) -> Unsettled:
        """Return the energy that no row has charged yet."""
        return self._fleet.unsettled(self.network.open_spans())

    @property
    def unheard(self) -> int:
        """The number of clients that were asked, and of which no reply has ever counted."""
        return self.server.unheard

    @property
    def aggregation_notes(self) -> Sequence[tuple[str, str]]:
        """Notes on what the rule of aggregation did, each with the key that it concerns."""
        return list(self.server.tally.notes())

    def _top(self, setup: WorldConfig) -> Method:
        """Return the method of the server."""
        return cast("Method", setup.algorithm)

    def _make_network(self) -> ServerLanes:
        return self._fleet.network()

    def _connect(self) -> None:
        """Connect the network to the server and to the clients."""
        transport, network = self._setup.transport, self.network
        network.connect(
            transport.to_server(self.server.receive),
            transport.to_clients(self._on_received),
            self._on_undelivered,
        )
        network.prepare(self._fleet.supplies)

    def _make_server(self, setup: WorldConfig) -> SimServer:
        presence = self._fleet.presence
        return SimServer(
            setup.server_protocol(presence, setup.transport, known_fleet(setup, presence)),
            calendar=self._calendar,
            network=self.network,
            presence=presence,
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

    def _protocol(self, number: ClientId) -> ClientProtocol:
        """Return the endpoint of a client."""
        setup = self._setup
        return ClientProtocol(
            number,
            Packing(setup.packer_up, number),
            beacons=setup.silence.beacon,
            header_bits=setup.header_bits,
            transport=setup.transport,
        )

    def _make_client(self, number: ClientId) -> Participant:
        equipment, protocol = self._fleet.equipment(number, self._looks), self._protocol(number)
        client = SimClient(
            protocol, self.network, equipment, self._handle, self._fail, self._follows
        )
        # A message in transit may reach its client for the first time after the end of the run.
        if self._main_task.over:
            client.end()
        return client

    # -- events ------------------------------------------------------------------------

    def _end_clients(self) -> "Iterator[asyncio.Future[None]]":
        """End all clients made so far; yield a future per client that has a handler to cancel."""
        for client in self.clients.in_order():
            if (ended := client.end()) is not None:
                yield ended

    def lose(self, client: ClientId) -> None:
        """Abort all that a client does: it has left, or its battery is empty."""
        # `in`, as a lookup would create the client: one that was never asked has nothing to abort.
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
        # A lane is created as a message is sent, and its client as the message arrives. Both take
        # time in a large fleet, so each counts for half.
        created = (self.network.made + len(self.clients)) / 2
        if not answered and created < asked:
            return f"round {self.server.round}: making clients, {created / asked:.0%}"
        replies = f", {in_transit:,} replies in transit" if in_transit else ""
        return f"round {self.server.round}: {answered:,} of {asked:,} answered{replies}"

    @property
    def stuck(self) -> str:
        """Describe which clients the server was still waiting for at the end; empty if none."""
        return self.server.stuck
