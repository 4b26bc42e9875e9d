"""The fleet: the physical parts of all clients, wired to each other."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fedsim.physics.topology import Route, star
from fedsim.ports import Array, ClientId
from fedsim.record.ledger import NO_STORES, Stores
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.cells import CellNetwork
from fedsim.sim.network.courses import Course, courses, delay
from fedsim.sim.network.lanes import Lane
from fedsim.sim.network.peers import PeerNetwork, Ways
from fedsim.sim.network.transport import Network
from fedsim.sim.power.cellular import CellularRadio
from fedsim.sim.power.processor import Processor
from fedsim.sim.power.radio import Radio
from fedsim.sim.power.rest import RestMeter
from fedsim.sim.power.supply import Supply
from fedsim.sim.presence import Presence
from fedsim.sim.setup import Member, Setup
from fedsim.sim.worker import Equipment


class Fleet:
    """What the clients are made of.

    Attributes:
        rest: meters what they draw at rest.
        presence: who is there.
        supplies: their batteries, None on mains.
        radios, processors: their parts.
        up, down: their lanes.
    """

    def __init__(self, setup: Setup, calendar: Calendar, log: EventLog, traffic: Traffic) -> None:
        self._calendar = calendar
        self._log = log
        self._traffic = traffic
        self._followers: dict[ClientId, Sequence[Lane]] = {}
        idle = [member.device.idle + member.radio.idle for member in setup.fleet]
        self.rest = RestMeter(np.array(idle))
        self.presence = Presence(calendar, log, self.rest)
        self.supplies = [
            self._supply(setup, client, idle[client]) for client in range(len(setup.fleet))
        ]
        members = list(zip(setup.fleet, self.supplies, strict=True))
        for client, (member, supply) in enumerate(members):
            self.presence.add(
                member.availability, supply, partial(setup.rng, "availability", client)
            )
        self.processors = [Processor(member.device, calendar, supply) for member, supply in members]
        self.radios = [
            self._radio(client, member, supply) for client, (member, supply) in enumerate(members)
        ]
        self.up, self.down = self._lanes(setup)

    def _radio(self, client: ClientId, member: Member, supply: Supply | None) -> Radio:
        law, continuous = member.radio, all(rate.continuous for rate in member.rates)
        if not law.connection.stateful:
            return Radio(law, supply, continuous=continuous)
        live = self._calendar, self._log, self._traffic
        return CellularRadio(law, client, supply, *live, continuous=continuous)

    def _supply(self, setup: Setup, client: ClientId, idle: float) -> Supply | None:
        model = setup.fleet[client].battery
        if model is None:
            return None
        threshold = max(model.threshold, setup.participation.least_charge)
        crossed = partial(self.presence.crossed, client)
        return Supply(self._calendar, replace(model, threshold=threshold), idle, crossed)

    def _lanes(self, setup: Setup) -> tuple[list[Lane], list[Lane]]:
        fleet = setup.fleet
        # Among peers a lane is a radio alone: the links depend on whom a message is for.
        links = setup.topology if setup.overlay is None else None
        topology = links or star(len(fleet))
        up, down = courses(
            self._calendar,
            topology,
            [member.rates.up for member in fleet],
            [member.rates.down for member in fleet],
            model=setup.sharing,
            radio_latency=[member.radio.latency for member in fleet],
            watched=self._watched(setup),
            changed=self._changed,
        )
        lane = partial(self._lane, setup)
        ways = zip(up, topology.up, strict=True), zip(down, topology.down, strict=True)
        return (
            [lane(client, *way, up=True) for client, way in enumerate(ways[0])],
            [lane(client, *way, up=False) for client, way in enumerate(ways[1])],
        )

    def _lane(
        self, setup: Setup, client: ClientId, course: Course, route: Route, *, up: bool
    ) -> Lane:
        radio, rates = self.radios[client], setup.fleet[client].rates
        law, loss, way = radio.law, radio.law.loss, "up" if up else "down"
        rate = rates.up if up else rates.down
        return Lane(
            client,
            radio,
            course,
            # Both directions draw from a stream of one name: shadow and fading are the place's.
            rate,
            rate.carrier(partial(setup.rng, "channel", client)),
            loss.process(setup.rng("loss", client, way)) if loss.mean else None,
            delay(law.latency + route.latency, setup.sharing),
            up=up,
            mortal=not self.presence.immortal(client),
        )

    def _watched(self, setup: Setup) -> list[bool]:
        """Say whose rates a battery follows; in a cell all listen at the rate of one of them."""
        watched = [supply is not None for supply in self.supplies]
        if not setup.cells:
            return watched
        groups = {member.group for member in setup.fleet if member.battery is not None}
        return [member.group in groups for member in setup.fleet]

    def network(self, setup: Setup) -> Network:
        """Return the network that these lanes make."""
        ends = self._calendar, self.up, self.down, self._log, self._traffic
        if not setup.cells:
            return Network(*ends)
        return CellNetwork(*ends, [member.group for member in setup.fleet], self._follow)

    def _follow(self, client: ClientId, lanes: Sequence[Lane]) -> None:
        """Let the downlinks of all these lanes go at the rate of one client's."""
        self._followers[client] = lanes

    def _changed(self, client: ClientId, up: bool, rate: float) -> None:  # noqa: FBT001
        self.radios[client].change(up, rate)
        if not up:
            for lane in self._followers.get(client, ()):
                lane.radio.change(up, rate)

    def peer_network(self, setup: Setup) -> PeerNetwork:
        """Return the network that these lanes make among peers."""
        ways = Ways(self._calendar, setup.topology, self._watched(setup), self._changed)
        return PeerNetwork(self._calendar, self.up, self.down, self._log, self._traffic, ways)

    def equipment(self, setup: Setup, client: ClientId, looks: set[str]) -> Equipment:
        """Return what a client works with; `looks` takes note of what its method looks at."""
        return Equipment(
            calendar=self._calendar,
            processor=self.processors[client],
            supply=self.supplies[client],
            evaluator=setup.evaluator,
            log=self._log,
            traffic=self._traffic,
            oracle=setup.fleet[client].oracle,
            state=setup.algorithm.memory(setup.initial),
            rng=setup.rng,
            take_back=setup.algorithm.undelivered,
            looks=looks,
        )

    def joules(self) -> Array:
        """Return what each client spent beyond its idle power, shape (M,)."""
        parts = zip(self.processors, self.radios, strict=True)
        return np.array([processor.joules + radio.joules for processor, radio in parts])

    def stores(self) -> Stores:
        """Return what the batteries say of themselves."""
        held = [(n, supply) for n, supply in enumerate(self.supplies) if supply is not None]
        if not held:
            return NO_STORES
        for _, supply in held:
            supply.advance()
        rows = [
            (
                supply.store.model.initial * supply.store.model.capacity,
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
