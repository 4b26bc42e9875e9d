"""A star: one server, and the clients that answer it."""

from typing import cast

from fedsim.ports import ClientId, Message
from fedsim.protocol.client import ClientEnd
from fedsim.protocol.envelope import Envelope
from fedsim.protocol.packing import Packing
from fedsim.protocol.selection import Selection
from fedsim.protocol.server import ServerEnd
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.sim.client import SimClient
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.fleet import Fleet
from fedsim.sim.main_task import MainTask
from fedsim.sim.observer import Observer
from fedsim.sim.on_demand import OnDemand
from fedsim.sim.server import SimServer
from fedsim.sim.setup import Method, Setup


class Star:
    """Assembles the server and its clients, and lets them run.

    Attributes:
        server: its server.
        clients: those made so far, by number.
        network: the lanes between them.
        remedy: what helps where everybody waits.
    """

    remedy = "give participation.give_up, or a deadline"

    def __init__(
        self,
        setup: Setup,
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
        self.clients = OnDemand(self._make_client)
        carriage = setup.carriage
        self.network.connect(
            carriage.to_server(self.server.receive),
            carriage.to_clients(self._received),
            self._undelivered,
        )
        self.network.prepare(fleet.supplies)
        self._method = cast("Method", setup.algorithm)
        self._main_task = MainTask(self._method, self.server, self.clients)
        self.run, self.stop = self._main_task.run, self._main_task.stop
        # Read once: each time they are read of their objects makes another one.
        self._handle, self._fail = self._method.handle, self._main_task.fail

    def _make_server(self, setup: Setup) -> SimServer:
        return SimServer(
            self._server_end(setup),
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

    def _server_end(self, setup: Setup) -> ServerEnd:
        clients, policy = range(len(setup.fleet)), setup.participation
        rng = setup.rng("cohort", 0)
        selection = Selection(policy, self._fleet.presence, clients, rng, setup.samples)
        silence, header = setup.silence, setup.header_bits
        return ServerEnd(clients, selection, policy, silence, header, setup.carriage)

    def _make_client(self, number: ClientId) -> SimClient:
        setup = self._setup
        end = ClientEnd(
            number,
            Packing(setup.packer_up, number),
            beacons=setup.silence.beacon,
            header_bits=setup.header_bits,
            carriage=setup.carriage,
        )
        equipment = self._fleet.equipment(number, self._looks)
        client = SimClient(end, self.network, equipment, self._handle, self._fail)
        if self._main_task.over:
            client.end()
        return client

    # -- what happens ------------------------------------------------------------------

    def lose(self, client: ClientId) -> None:
        """Let a client break off all that it does: it has gone, or its battery is empty."""
        if client in self.clients:
            self.clients[client].abort()
        self.network.abort(client)
        self.server.lose(client)

    def _received(self, client: ClientId, envelope: Envelope) -> None:
        self.clients[client].receive(client, envelope)

    def _undelivered(self, client: ClientId, message: Message) -> None:
        self.clients[client].undelivered(client, message)

    @property
    def doing(self) -> str:
        """What goes on, in a few words, for who looks from another thread."""
        asked, answered, under_way = self.server.answers
        if not asked:
            return ""
        made = (self.network.made + len(self.clients)) / 2
        if not answered and made < asked:
            return f"round {self.server.round}: making clients, {made / asked:.0%}"
        replies = f", {under_way:,} replies under way" if under_way else ""
        return f"round {self.server.round}: {answered:,} of {asked:,} answered{replies}"

    @property
    def stuck(self) -> str:
        """Whom the server waited for when the world ended, in words; empty where for nobody."""
        return self.server.stuck
