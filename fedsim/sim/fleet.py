"""The fleet: the physical components of all clients, connected to each other."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, overload

import numpy as np

from fedsim.physics.packet_loss import LossProcess
from fedsim.physics.radios import RateLaw, awake_power
from fedsim.physics.radios.channel import Channel, Framing
from fedsim.physics.radios.lora import LoRaRadio
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.topology import star
from fedsim.ports import SERVER, Array, ClientId, Oracle
from fedsim.record.ledger import NO_STORES, Stores
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.sim.client import Equipment
from fedsim.sim.config import WorldConfig
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.lazy import LazyTable
from fedsim.sim.members import ClientConfig
from fedsim.sim.network import routing
from fedsim.sim.network.air import CellRadios
from fedsim.sim.network.broadcast import CellNetwork
from fedsim.sim.network.lanes import Bearer, Lane
from fedsim.sim.network.lora.network import LoRaNetwork
from fedsim.sim.network.medium import MediumNetwork
from fedsim.sim.network.peers import PeerNetwork, PeerRoutes
from fedsim.sim.network.random_access import RandomAccessNetwork
from fedsim.sim.network.relay import Relay
from fedsim.sim.network.relays import Relays
from fedsim.sim.network.tcp.bearers import Connections
from fedsim.sim.network.transmission import choose_bearers, delay
from fedsim.sim.network.transport import NetworkParts, ServerLanes
from fedsim.sim.power.frames import FrameMeter
from fedsim.sim.power.idle import IdleMeter
from fedsim.sim.power.processor import Processor
from fedsim.sim.power.radio import CellularRadio, RadioMeter
from fedsim.sim.power.radio_kind import RadioKind
from fedsim.sim.power.supply import Supply
from fedsim.sim.presence import Charges, Presence

# The roster: the clients of a fleet, each created at its first lookup.


class Roster(Sequence[ClientConfig]):
    """The members of a fleet, each created at its first lookup.

    Args:
        kinds: for each client one like it: of the same device, radio and group, with a battery or
            not, at rates that reach as much, always there or not. Its loss, and where its traces
            start, may be another client's.
        member: makes one client.

    Attributes:
        kinds: see above.
    """

    def __init__(
        self, kinds: RunLengthSequence[ClientConfig], member: Callable[[ClientId], ClientConfig]
    ) -> None:
        self.kinds = kinds
        self._member = member
        self._made = LazyTable(member)

    @classmethod
    def of(cls, members: Sequence[ClientConfig]) -> "Roster":
        """Return the roster of a fleet, whatever sequence it is."""
        return (
            members
            if isinstance(members, cls)
            else cls(RunLengthSequence.of(members), members.__getitem__)
        )

    def oracle(self, client: ClientId) -> Oracle:
        """Return a client's loss; nothing else of the client is created or kept."""
        made = self._made.get(client)
        return (self._member(client) if made is None else made).oracle

    def __len__(self) -> int:
        return len(self.kinds)

    @overload
    def __getitem__(self, index: int) -> ClientConfig: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ClientConfig]: ...
    def __getitem__(self, index: int | slice) -> ClientConfig | Sequence[ClientConfig]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} clients, from 0, and no client {index}")
        return self._made[index]


class HeldStores(Charges, Protocol):
    """Batteries that are played in arrays."""

    def stores(self) -> Stores:
        """Return their accounts, as of now."""
        ...


class Fleet:
    """The components of all clients, each created when it is first needed.

    A client with a battery, or one that comes and goes, has a part in what happens whether or not
    it gets a message: it exists from the start. Where rounds are played in arrays, batteries are
    arrays, too, and `hold` gives them to the fleet.

    Args:
        setup: of the world.
        calendar, log, traffic: its time, and where it is written down and charged.
        in_arrays: whether its rounds are played in arrays.

    Attributes:
        idle: the meter of their idle power.
        presence: which clients are present.
        supplies: their batteries; clients on mains, and all in arrays, have no entry.
        kinds: for each client one like it; see `Roster`.
        take_back: the method's; see `fedsim.sim.participant.TakeBack`.
        in_arrays: what each client whose rounds are played in arrays has spent, shape (M,); None
            where they are played as events.
        radios: theirs.
        radio_kinds: what the radio of each has in common with others.
    """

    def __init__(
        self,
        setup: WorldConfig,
        calendar: Calendar,
        log: EventLog,
        traffic: Traffic,
        *,
        in_arrays: bool = False,
    ) -> None:
        self._setup = setup
        self.calendar = self._calendar = calendar
        self._log = log
        self._traffic = traffic
        self.take_back = setup.take_back  # read once: it is an object for each time
        self.in_arrays: Array | None = None
        self._held: HeldStores | None = None
        self._followers: dict[ClientId, Sequence[Lane]] = {}
        self._roster = roster = Roster.of(setup.fleet)
        self.kinds = kinds = roster.kinds
        self.idle = IdleMeter(kinds.array(self._idle), log.emissions)
        self.presence = Presence(calendar, log, self.idle)
        alone = kinds.where(lambda kind: kind.battery and not in_arrays)
        self.supplies = {client: self._supply(client) for client in alone}
        for client in kinds.where(
            lambda kind: (kind.battery and not in_arrays) or not kind.availability.always
        ):
            availability, supply = roster[client].availability, self.supplies.get(client)
            self.presence.add(
                client, availability, supply, partial(setup.rng, "availability", client)
            )
        self._processors: list[Processor] = []
        self._owners: list[ClientId] = []  # of the processors
        self.radios = LazyTable(self._radio)
        self._factor = routing.BANDWIDTH_FACTOR if setup.sharing == "lv08" else 1.0
        self.radio_kinds = kinds.map(
            lambda kind: RadioKind.of(kind.radio, kind.rates, self._factor)
        )
        # Among peers a lane is a radio alone: the links depend on the message's receiver.
        links = setup.topology if setup.overlay is None else None
        self._routes = links or star(len(roster))
        self._parts = NetworkParts(calendar, self.lane, log, traffic)
        self._relays = Relays(self._relay, calendar, log, traffic)
        self._bearers = self._choose_bearers()

    def hold(self, stores: "HeldStores") -> None:
        """Have batteries that are played in arrays."""
        self._held = stores
        self.presence.hold(stores)

    def _processor(self, client: ClientId) -> Processor:
        """Create a client's processor, once."""
        made = Processor(self.kinds[client].device, self._calendar, self.supplies.get(client))
        self._processors.append(made)
        self._owners.append(client)
        return made

    def _radio(self, client: ClientId) -> RadioMeter:
        kind, supply = self.radio_kinds[client], self.supplies.get(client)
        if self._setup.lora is not None and isinstance(kind.law, LoRaRadio):
            return FrameMeter(kind, supply)
        if not kind.stateful:
            return RadioMeter(kind, supply)
        return CellularRadio(kind, client, supply, self._calendar, self._log, self._traffic)

    def _supply(self, client: ClientId) -> Supply:
        member = self._roster[client]
        store = member.store(self._setup.participation.least_charge)
        return Supply(
            self._calendar, store, self._idle(member), partial(self.presence.on_crossing, client)
        )

    def _idle(self, member: ClientConfig) -> float:
        """Return the idle power of a client, W; one that shares a medium listens all the time."""
        awake = 0.0 if self._setup.medium is None else awake_power(member.radio)
        return member.device.idle + member.radio.resting + awake

    def _choose_bearers(self) -> tuple[Sequence[Bearer], Sequence[Bearer]]:
        """Return the bearers of the uplinks and the downlinks."""
        setup, kinds = self._setup, self.kinds
        # Under LV08 every radio is a link of the network, in which it has its own trace.
        alike = RunLengthSequence.of(self._roster) if setup.sharing == "lv08" else kinds
        if setup.sharing == "tcp":
            lossy = any(kind.radio.loss.mean for _, kind in kinds.runs)
            losses = self._losses if lossy else None
            connections = Connections(
                setup.tcp,
                self._packets,
                losses,
                self._lost_places,
                opened=True,  # of those that are kept: clients join before the first round
                hashes=self._hashes,
            )
        else:
            connections = None
        return choose_bearers(
            self._calendar,
            self._routes,
            alike.map(lambda member: member.rates.up),
            alike.map(lambda member: member.rates.down),
            model=setup.sharing,
            radio_latency=kinds.map(lambda kind: kind.radio.latency),
            watched=self._watched_rates(),
            changed=self._on_change,
            own=self._law,
            connections=connections,
            radios=self._cell_radios(),
            cell=setup.cell,
            cellular=kinds.map(lambda kind: kind.radio.cellular),
        )

    def _cell_radios(self) -> CellRadios | None:
        """Return what Wi-Fi cells are; None where there are none."""
        setup = self._setup
        if setup.wifi is None:
            return None
        return CellRadios(
            setup.wifi, setup.gateways, self._packets, self._set_airtime, self._spend_collisions
        )

    def _set_airtime(self, client: ClientId, up: bool, sent: float, answered: float) -> None:  # noqa: FBT001
        self.radios[client].set_airtime(up, sent, answered)

    def _spend_collisions(self, client: ClientId, seconds: float) -> None:
        self.radios[client].spend_on_air(True, seconds)  # noqa: FBT003 - up

    # Under TCP, packets are lost on the way of a train, and sent again by the connection.

    def _packets(self, client: ClientId) -> Framing:
        """Return how a client's messages are cut into packets."""
        setup, own = self._setup, self.kinds[client].radio.packaging
        if setup.wifi is not None and not self.kinds[client].radio.cellular:
            return setup.wifi.packaging(own)
        return setup.tcp.packaging(own) if setup.sharing == "tcp" else own

    def _losses(self, client: ClientId, up: bool) -> LossProcess | None:  # noqa: FBT001
        """Return the losses of one direction of a client's radio, if there are any."""
        loss, way = self.kinds[client].radio.loss, "up" if up else "down"
        return loss.process(self._setup.rng("loss", client, way)) if loss.mean else None

    def _lost_places(self, client: ClientId, up: bool) -> np.random.Generator:  # noqa: FBT001
        """Return the stream that draws which packets of a train are lost."""
        return self._setup.rng("tcp", client, "up" if up else "down")

    def _hashes(self, link: int) -> np.random.Generator:
        """Return the stream that puts the flows over a link into FQ-CoDel's queues."""
        return self._setup.rng("tcp", link, "hash")

    def _law(self, client: ClientId, up: bool) -> RateLaw:  # noqa: FBT001
        """Return the rate law of one direction of a client's radio."""
        kind = self.kinds[client]
        own = any(trace.starts_anywhere for trace in kind.radio.traces.values())
        rates = self._roster[client].rates if own else kind.rates
        return rates.up if up else rates.down

    def lane(self, client: ClientId, up: bool) -> Lane:  # noqa: FBT001 - once a lane
        """Create one direction of a client's radio."""
        radio, rate, routes = self.radios[client], self._law(client, up), self._routes
        law, tcp = radio.law, self._setup.sharing == "tcp"
        route = routes.up if up else routes.down
        rng, latency = self._setup.rng, law.latency + route[client].latency
        server, stays = self._setup.server_of(client), self.presence.never_leaves
        lane = Lane(
            client,
            radio,
            self._bearers[0 if up else 1][client],
            # Both directions draw from a stream of one name: shadow and fading are the place's.
            rate,
            rate.carrier(partial(rng, "channel", client)),
            None if tcp else self._losses(client, up),
            delay(latency, self._setup.sharing),
            up=up,
            may_leave=not (stays(client) and stays(server)),  # what a gateway sends breaks off, too
            factor=self._factor,
            packets=self._packets(client),
            reliable=tcp,
        )
        if server != SERVER:
            lane.set_server(server, self._off(server) if up else None)
        if relays := route[client].relays:
            lane.set_route(lane.bearer, lane.latency, self._relays.of(relays))
        return lane

    def _off(self, gateway: ClientId) -> Callable[[], bool] | None:
        """Return whether a gateway is off now, as a function; None for one that always is on."""
        if self.presence.never_leaves(gateway):
            return None
        return lambda: not self.presence.is_present(gateway)

    def channel(self, client: ClientId, up: bool) -> Channel:  # noqa: FBT001 - as `lane`
        """Create the channel of one direction of a client's radio, as its lane has it."""
        rate, law = self._law(client, up), self.kinds[client].radio
        carrier = rate.carrier(partial(self._setup.rng, "channel", client))
        losses = self._losses(client, up)
        return Channel(rate, carrier, losses, self._packets(client), law.most_tries)

    def _relay(self, client: ClientId) -> Relay:
        """Create the relay of the messages that go through a client's node of a graph."""
        rates = self._law(client, True), self._law(client, False)  # noqa: FBT003 - up, and down
        # Its carriers draw what those of its own lanes draw: the place is the same.
        carriers = [rate.carrier(partial(self._setup.rng, "channel", client)) for rate in rates]
        is_present = partial(self.presence.is_present, client)
        return Relay(client, self.radios[client], rates, (carriers[0], carriers[1]), is_present)

    def _watched_rates(self) -> RunLengthSequence[bool]:
        """Return which rates a battery follows; in a cell all receive at the rate of one client."""
        if not self._setup.cells:
            return self.kinds.map(lambda kind: kind.battery is not None)
        groups = {kind.group for _, kind in self.kinds.runs if kind.battery is not None}
        return self.kinds.map(lambda kind: kind.group in groups)

    def network(self) -> ServerLanes:
        """Return the network of the lanes of a star."""
        if self._setup.cells:
            return CellNetwork(self._parts, self.kinds, self._follow)
        if (gateway := self._setup.lora) is not None:
            rng, present = partial(self._setup.rng, "lora"), self.presence.is_present
            radio = self.radios.__getitem__
            return LoRaNetwork(self._parts, self.kinds, gateway, radio, rng, present)
        network = ServerLanes(self._parts)
        network.relays = self._relays
        return network

    def _follow(self, client: ClientId, lanes: Sequence[Lane]) -> None:
        """Let the downlinks of these lanes follow the rate of one client."""
        self._followers[client] = lanes

    def _on_change(self, client: ClientId, up: bool, rate: float) -> None:  # noqa: FBT001
        now = self._calendar.now
        self.radios[client].change(up, rate, now)
        if not up:
            for lane in self._followers.get(client, ()):
                lane.radio.change(up, rate, now)

    def peer_network(self) -> PeerNetwork | MediumNetwork:
        """Return the network of the lanes of peers."""
        if (medium := self._setup.medium) is not None:
            if medium.medium.random:
                rng = partial(self._setup.rng, "medium")
                return RandomAccessNetwork(self._parts, medium, rng)
            return MediumNetwork(self._parts, medium)
        links = self._setup.topology
        ways = PeerRoutes(self._calendar, links, self._watched_rates(), self._on_change, self._law)
        rng = partial(self._setup.rng, "links")
        network = PeerNetwork(self._parts, ways, rng)
        network.relays = self._relays
        return network

    def equipment(self, client: ClientId, looks: set[str]) -> Equipment:
        """Return the equipment of a client.

        Args:
            client: its number.
            looks: the set to which the names of what its method reads are added.
        """
        setup = self._setup
        return Equipment(
            calendar=self._calendar,
            processor=self._processor(client),
            supply=self.supplies.get(client),
            evaluator=setup.evaluator,
            log=self._log,
            traffic=self._traffic,
            oracle=self.oracle(client),
            state=setup.algorithm.memory(setup.initial),
            rng=setup.rng,
            take_back=self.take_back,
            looks=looks,
        )

    def oracle(self, client: ClientId) -> Oracle:
        """Return a client's loss."""
        return self._roster.oracle(client)

    def joules(self) -> Array:
        """Return what each client spent beyond its idle power, shape (M,).

        Where all was spent in arrays it is that very array, of which another exchange writes more.
        """
        if self.in_arrays is not None and not (self._owners or self.radios):
            return self.in_arrays
        spent = np.zeros(len(self._roster))
        if self.in_arrays is not None:  # where most are 0, most of the copy takes no memory
            some = np.flatnonzero(self.in_arrays)
            spent[some] = self.in_arrays[some]
        for client, processor in zip(self._owners, self._processors, strict=True):
            spent[client] += processor.joules
        for client, radio in self.radios.items():
            spent[client] += radio.joules
        return spent

    def stores(self) -> Stores:
        """Return the accounts of the batteries."""
        if self._held is not None:
            return self._held.stores()
        held = list(self.supplies.items())
        if not held:
            return NO_STORES
        for _, supply in held:
            supply.advance()
        rows = [
            (
                supply.store.initial,
                supply.store.level,
                supply.store.charged,
                supply.store.drained,
                supply.delivered,
                supply.settled,
                supply.resolution,
            )
            for _, supply in held
        ]
        clients = np.array([client for client, _ in held], np.intp)
        depletions = np.array([supply.depletions for _, supply in held], np.intp)
        initial, final, charged, drained, delivered, settled, resolution = np.array(rows).T
        account = initial, final, charged, drained, delivered
        return Stores(clients, *account, depletions, settled, resolution)
