"""The fleet: the physical components of all clients, and their connections."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import SERVER, Array, ClientId, Oracle
from fedsim.physics.packet_loss import LossProcess
from fedsim.physics.radios import RateLaw
from fedsim.physics.radios.channel import Channel, Framing
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.topology import star
from fedsim.results.record.ledger import NO_STORES, Stores
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.sim.client import Equipment
from fedsim.sim.config import WorldConfig
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.lazy import LazyTable
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.lanes import Lane
from fedsim.sim.network.models import FleetSite, built_in
from fedsim.sim.network.relay import Relay
from fedsim.sim.network.relays import Relays
from fedsim.sim.network.transport import NetworkParts, ServerLanes
from fedsim.sim.power.idle import IdleMeter
from fedsim.sim.power.processor import Processor
from fedsim.sim.power.radio import CellularRadio, RadioMeter
from fedsim.sim.power.radio_kind import RadioKind
from fedsim.sim.power.supply import Supply
from fedsim.sim.power.unsettled import OpenWork, open_states
from fedsim.sim.presence import Charges, Presence
from fedsim.sim.worlds.open_spans import (
    NO_SPANS,
    Spans,
    StageTable,
    Unsettled,
    bounds,
    tails,
    within_batteries,
)

if TYPE_CHECKING:  # peers alone have these
    from fedsim.sim.network.medium import MediumNetwork
    from fedsim.sim.network.peers import PeerNetwork

# The roster: the clients of a fleet, each created at its first lookup.


class Roster(Sequence[ClientConfig]):
    """The members of a fleet, each created at its first lookup.

    Args:
        kinds: a representative of each client: it has the same device, radio, group and peak rates,
            and agrees on whether there is a battery and whether it is always present. Its loss and
            the start of its traces may be those of another client.
        member: creates one client.

    Attributes:
        kinds: see above.
    """

    def __init__(
        self, kinds: RunLengthSequence[ClientConfig], member: Callable[[ClientId], ClientConfig]
    ) -> None:
        self.kinds = kinds
        self._member = member
        self._members = LazyTable(member)

    @classmethod
    def of(cls, members: Sequence[ClientConfig]) -> "Roster":
        """Return the roster of a fleet."""
        return (
            members
            if isinstance(members, cls)
            else cls(RunLengthSequence.of(members), members.__getitem__)
        )

    def oracle(self, client: ClientId) -> Oracle:
        """Return a client's loss without creating or keeping the rest of the client."""
        member = self._members.get(client)
        return (self._member(client) if member is None else member).oracle

    def __len__(self) -> int:
        return len(self.kinds)

    @overload
    def __getitem__(self, index: int) -> ClientConfig: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ClientConfig]: ...
    def __getitem__(self, index: int | slice) -> ClientConfig | Sequence[ClientConfig]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} clients, from 0, and no client {index}")
        return self._members[index]


class HeldStores(Charges, Protocol):
    """Batteries that are computed in arrays."""

    def stores(self) -> Stores:
        """Return their accounts at this time."""
        ...


class Fleet:
    """The components of all clients, each created when it is first needed.

    A client with a battery, or one that comes and goes, acts whether or not it gets a message, so
    it exists from the start. If rounds run in arrays, batteries are arrays, too; `hold` passes them
    to the fleet.

    Args:
        setup: the configuration of the world.
        calendar, log, traffic: the calendar, the event log, and the totals of costs.
        in_arrays: whether rounds run in arrays.

    Attributes:
        idle: the meter of idle power.
        presence: which clients are present.
        supplies: the batteries by client; clients on mains, and all batteries in arrays, have no
            entry.
        kinds: a representative of each client; see `Roster`.
        take_back: the method's; see `fedsim.sim.participant.TakeBack`.
        vectorised_joules: the energy of each client, J, shape (M,), if rounds are played in arrays
            or by a kernel; otherwise None.
        work: the work in progress.
        radios: the radios by client.
        radio_kinds: the constants of each radio.
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
        self.take_back = setup.take_back  # read once, as every access creates a new object
        self.vectorised_joules: Array | None = None
        self._held: HeldStores | None = None
        self.work = OpenWork()
        self._awake: dict[CellularRadio, None] = {}
        self._stages: StageTable | None = None
        self._followers: dict[ClientId, Sequence[Lane]] = {}
        self._roster = roster = Roster.of(setup.fleet)
        self.kinds = kinds = roster.kinds
        # The order matters: `Presence` switches off the idle power of empty batteries, and a supply
        # reports to `Presence` from its first event on.
        self.idle = IdleMeter(kinds.array(self._idle), log.emissions)
        self.presence = Presence(calendar, log, self.idle)
        owners = kinds.where(lambda kind: kind.battery and not in_arrays)
        self.supplies = {client: self._supply(client) for client in owners}
        for client in kinds.where(
            lambda kind: (kind.battery and not in_arrays) or not kind.availability.always
        ):
            availability, supply = roster[client].availability, self.supplies.get(client)
            self.presence.add(
                client, availability, supply, partial(setup.rng, "availability", client)
            )
        self._processors: list[Processor] = []
        self._owners: list[ClientId] = []  # the clients of these processors
        # One radio serves both lanes of a client, and its relay. It is created by the first of
        # them.
        self.radios = LazyTable(self._radio)
        factor = setup.network.factor
        self.radio_kinds = kinds.map(lambda kind: RadioKind.of(kind.radio, kind.rates, factor))
        # Among peers a lane is only a radio, as the links depend on the receiver of a message.
        links = setup.topology if setup.overlay is None else None
        self._routes = links or star(len(roster))
        self._relays = Relays(self._relay, calendar, log, traffic)
        self._site = self._make_site()
        self._bearers = setup.network.bearers(self._site)

    def hold(self, stores: "HeldStores") -> None:
        """Use batteries that are computed in arrays."""
        self._held = stores
        self.presence.hold(stores)

    def _processor(self, client: ClientId) -> Processor:
        """Create a client's processor, once."""
        processor = Processor(self.kinds[client].device, self._calendar, self.supplies.get(client))
        self._processors.append(processor)
        self._owners.append(client)
        return processor

    def _radio(self, client: ClientId) -> RadioMeter:
        kind, supply = self.radio_kinds[client], self.supplies.get(client)
        # A network layer may bring its own meter; otherwise the radio's states decide.
        if (meter := self._setup.network.meter(kind, supply)) is not None:
            return meter
        if not kind.stateful:
            return RadioMeter(kind, supply)
        ends = self._calendar, self._log, self._traffic
        return CellularRadio(kind, client, supply, *ends, self._awake)

    def _supply(self, client: ClientId) -> Supply:
        member = self._roster[client]
        store = member.store(self._setup.participation.least_charge)
        return Supply(
            self._calendar, store, self._idle(member), partial(self.presence.on_crossing, client)
        )

    def _idle(self, member: ClientConfig) -> float:
        """Return the idle power of a client, W."""
        listening = self._setup.network.listening(member.radio)
        return member.device.idle + member.radio.resting + listening

    def _make_site(self) -> FleetSite:
        """Return the site on which the network is built."""
        setup, kinds, network = self._setup, self.kinds, self._setup.network
        # Traces that start at a different time for each client make all clients different.
        rated = RunLengthSequence.of(self._roster) if network.own_traces else kinds
        lossy = any(kind.radio.loss.mean for _, kind in kinds.runs)
        return FleetSite(
            calendar=self._calendar,
            topology=self._routes,
            up=rated.map(lambda member: member.rates.up),
            down=rated.map(lambda member: member.rates.down),
            latency=kinds.map(lambda kind: kind.radio.latency),
            watched=network.watched(kinds),
            cellular=kinds.map(lambda kind: kind.radio.cellular),
            changed=self._on_change,
            own=self._law,
            framing=self._packets,
            losses=self._losses if lossy else None,
            rng=setup.rng,
            on_air=self._set_airtime,
            collided=self._spend_collisions,
            built_in=built_in,
            kinds=kinds,
            between=setup.topology,
            parts=NetworkParts(self._calendar, self.lane, self._log, self._traffic),
            radio=self.radios.__getitem__,
            present=self.presence.is_present,
            follow=self._follow,
            relays=self._relays,
        )

    def _set_airtime(self, client: ClientId, up: bool, sent: float, answered: float) -> None:
        self.radios[client].set_airtime(up, sent, answered)

    def _spend_collisions(self, client: ClientId, seconds: float) -> None:
        self.radios[client].spend_on_air(True, seconds)

    def _packets(self, client: ClientId) -> Framing:
        """Return how a client's messages are cut into packets."""
        return self._setup.network.framing(self.kinds[client].radio)

    def _losses(self, client: ClientId, up: bool) -> LossProcess | None:
        """Return the loss process of one direction of a radio, if any."""
        loss, way = self.kinds[client].radio.loss, "up" if up else "down"
        return loss.process(self._setup.rng("loss", client, way)) if loss.mean else None

    def _law(self, client: ClientId, up: bool) -> RateLaw:
        """Return the rate law of one direction of a client's radio."""
        kind = self.kinds[client]
        # Creating a member of the roster takes time in a large fleet. It is avoided where the
        # representative has the same rates.
        differs = any(trace.starts_anywhere for trace in kind.radio.traces.values())
        rates = self._roster[client].rates if differs else kind.rates
        return rates.up if up else rates.down

    def lane(self, client: ClientId, up: bool) -> Lane:
        """Create one direction of a client's radio."""
        radio, rate, routes = self.radios[client], self._law(client, up), self._routes
        law, network = radio.law, self._setup.network
        route = routes.up if up else routes.down
        rng, latency = self._setup.rng, law.latency + route[client].latency
        server, stays = self._setup.server_of(client), self.presence.never_leaves
        lane = Lane(
            client,
            radio,
            self._bearers[0 if up else 1][client],
            # Both directions use one stream, as shadowing and fading belong to the place.
            rate,
            rate.carrier(partial(rng, "channel", client)),
            None if network.reliable else self._losses(client, up),
            network.delay(latency),
            up=up,
            may_leave=not (stays(client) and stays(server)),  # a gateway may leave, too
            factor=network.factor,
            packets=self._packets(client),
            reliable=network.reliable,
        )
        if server != SERVER:
            lane.set_server(server, self._off(server) if up else None)
        if relays := route[client].relays:
            lane.set_route(lane.bearer, lane.latency, self._relays.of(relays))
        return lane

    def _off(self, gateway: ClientId) -> Callable[[], bool] | None:
        """Return a function that tells whether a gateway is off; None for one that never is."""
        if self.presence.never_leaves(gateway):
            return None
        return lambda: not self.presence.is_present(gateway)

    def channel(self, client: ClientId, up: bool) -> Channel:
        """Create the channel of one direction of a client's radio, equal to that of its lane."""
        rate, law = self._law(client, up), self.kinds[client].radio
        carrier = rate.carrier(partial(self._setup.rng, "channel", client))
        losses = self._losses(client, up)
        return Channel(rate, carrier, losses, self._packets(client), law.most_tries)

    def _relay(self, client: ClientId) -> Relay:
        """Create the relay of messages that pass a client's node of a graph."""
        rates = self._law(client, True), self._law(client, False)
        # The streams of the client's lanes, as shadowing and fading belong to the place.
        carriers = [rate.carrier(partial(self._setup.rng, "channel", client)) for rate in rates]
        is_present = partial(self.presence.is_present, client)
        return Relay(client, self.radios[client], rates, (carriers[0], carriers[1]), is_present)

    def network(self) -> ServerLanes:
        """Return the network of the lanes of a star."""
        return self._setup.network.star(self._site)

    def _follow(self, client: ClientId, lanes: Sequence[Lane]) -> None:
        """Make the downlink radios of these lanes follow the rate of one client."""
        self._followers[client] = lanes

    def _on_change(self, client: ClientId, up: bool, rate: float) -> None:
        now = self._calendar.now
        self.radios[client].change(up, rate, now)
        # In a broadcast one bearer carries the bits of all listeners, so only one client reports.
        if not up:
            for lane in self._followers.get(client, ()):
                lane.radio.change(up, rate, now)

    def peer_network(self) -> "PeerNetwork | MediumNetwork":
        """Return the network of the lanes of peers."""
        return cast("PeerNetwork | MediumNetwork", self._setup.network.peers(self._site))

    def equipment(self, client: ClientId, looks: set[str]) -> Equipment:
        """Return the equipment of a client.

        Args:
            client: the number of the client.
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
            work=self.work,
        )

    def oracle(self, client: ClientId) -> Oracle:
        """Return a client's loss."""
        return self._roster.oracle(client)

    def unsettled(self, messages: Spans) -> Unsettled:
        """Return the energy that no row has charged yet; see `fedsim.sim.worlds.open_spans`.

        Args:
            messages: the messages in progress, until now.
        """
        now = self._calendar.now
        waited, states = open_states(self._awake, now)
        spent = Spans.join([self.work.spans(now), waited, messages])
        if not len(states.clients):
            return Unsettled(spent, NO_SPANS)
        if self._stages is None:
            kinds = self.radio_kinds.runs
            self._stages = StageTable((count, kind.law.states.stages) for count, kind in kinds)
        parts = [*tails(states, now, self._stages.last(states.clients), self._stages.figure)]
        return Unsettled(spent, within_batteries(parts, self._may_empty(parts), self._empty_at))

    def _may_empty(self, parts: Sequence[Spans]) -> NDArray[np.bool_]:
        """Return which clients' batteries may not outlast the first of some tails, shape (n,)."""
        clients = parts[0].clients
        if not self.supplies:
            return np.zeros(len(clients), np.bool_)
        until, watts = bounds(parts)
        held = (self.supplies.get(client) for client in clients.tolist())
        return np.array([one is not None and not one.outlasts(until, watts) for one in held])

    def _empty_at(self, client: ClientId, loads: Sequence[tuple[float, float]]) -> float:
        return self.supplies[client].empty_at(loads)

    def joules(self) -> Array:
        """Return the energy of each client beyond its idle power, J, shape (M,).

        If all of it was spent in arrays, this is that very array, to which later exchanges write.
        """
        # Rounds in arrays need neither processors nor radios of single clients. Where some exist
        # all the same, their meters are added below.
        if self.vectorised_joules is not None and not (self._owners or self.radios):
            return self.vectorised_joules
        spent = np.zeros(len(self._roster))
        if self.vectorised_joules is not None:  # only nonzero entries, so that zeros take no memory
            spenders = np.flatnonzero(self.vectorised_joules)
            spent[spenders] = self.vectorised_joules[spenders]
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
        # Accounts are read below, so all of them are first brought up to the present time.
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
