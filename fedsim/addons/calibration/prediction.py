"""Predicted durations of recorded messages on a network of given constants.

Each message is sent at its recorded time, or as soon as its lane is free: one direction of a
client. Durations count from there. So an error in one message does not carry over to the next, and
messages that were in progress together share links.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.core.ports.bearers import Bearer
from fedsim.physics.network_models import FluidFlows, Site, TcpFlows
from fedsim.physics.networks import Network
from fedsim.physics.radios import ConstantRate
from fedsim.physics.radios.channel import Framing
from fedsim.physics.topology import Topology
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.models import built_in, flows


@dataclass(frozen=True, slots=True)
class Radios:
    """The constants of the clients' radios, each of shape (clients,).

    Attributes:
        up, down: the rates, bit/s.
        latency: the one-way latency, without that of links, s.
    """

    up: Array
    down: Array
    latency: Array


@dataclass(frozen=True)
class Messages:
    """Recorded messages, in the order of sending; arrays of shape (messages,).

    Attributes:
        run: the run; times of different runs are not comparable.
        client: the client, from 0.
        up: whether the message went to the server.
        start: the time at which it was sent, s.
        bits: the bits without transport headers.
    """

    run: NDArray[np.intp]
    client: NDArray[np.intp]
    up: NDArray[np.bool_]
    start: Array
    bits: Array


@dataclass(frozen=True)
class Prediction:
    """The messages of a recording, and the network that carries them.

    Attributes:
        network: the network of the scenario.
        topology: its links and routes.
        framings: the framings of the scenario's radios, by client.
        messages: the recorded messages.
    """

    network: Network
    topology: Topology
    framings: Sequence[Framing]
    messages: Messages

    @property
    def separate(self) -> bool:
        """Whether no link is shared, so that each client's messages only depend on its radio."""
        return not self.topology.links  # unlimited links are not among them

    @cached_property
    def route_latency(self) -> Array:
        """The one-way latency of links between a client and the server, s, shape (clients,)."""
        return np.array([route.latency for route in self.topology.up])

    def least_route_latency(self, clients: NDArray[np.intp]) -> Array:
        """Return the latency of links below which no observation of these clients can be, s.

        Args:
            clients: the client of each observation, shape (n,); -1 for all, of which the nearest
                counts.
        """
        return np.where(clients < 0, self.route_latency.min(), self.route_latency[clients])

    def headers(self, client: int, bits: float) -> float:
        """Return the bits of headers of a client's message; a mean over the clients for -1."""
        if client >= 0:
            return float(self.packets[client].bits(round(bits)))
        counts = Counter(self.packets)
        headers = sum(n * framing.bits(round(bits)) for framing, n in counts.items())
        return headers / len(self.packets)

    @cached_property
    def bits(self) -> Array:
        """The bits of each message with packet headers, shape (messages,)."""
        pairs = zip(self.messages.client, self.messages.bits, strict=True)
        return np.array([bits + self.packets[client].bits(round(bits)) for client, bits in pairs])

    @cached_property
    def packets(self) -> Sequence[Framing]:
        """The framings of the clients under the network model."""
        model = self.network.connections if isinstance(self.network.model, TcpFlows) else None
        return self.framings if model is None else [*map(model.packaging, self.framings)]

    def durations(self, radios: Radios) -> Array:
        """Return the duration of each message, s, shape (messages,)."""
        # Closed form without shared links; otherwise the network model itself is run on a calendar.
        if isinstance(self.network.model, FluidFlows) and self.separate:
            client, up = self.messages.client, self.messages.up
            rate = np.where(up, radios.up[client], radios.down[client])
            return radios.latency[client] + self.route_latency[client] + self.bits / rate
        durations = np.empty(len(self.bits))
        for run in np.unique(self.messages.run):
            which = np.flatnonzero(self.messages.run == run)
            durations[which] = self._replay(which, radios)
        return durations

    def _replay(self, which: NDArray[np.intp], radios: Radios) -> Array:
        """Return the durations of the messages of one run."""
        # Runs are replayed one by one: their times have different origins.
        calendar, sent, packets = Calendar(), self.messages, self.packets
        laws = [[ConstantRate(float(rate)) for rate in rates] for rates in (radios.up, radios.down)]
        latencies, network = radios.latency.tolist(), flows(self.network)
        # New bearers per evaluation, as links and connections have a state.
        bearers = network.bearers(
            Site(
                calendar=calendar,
                topology=self.topology,
                up=laws[0],
                down=laws[1],
                latency=latencies,
                framing=packets.__getitem__,
                built_in=built_in,
            )
        )
        first, durations = float(sent.start[which].min()), np.empty(len(which))
        lanes = dict[tuple[int, bool], _Lane]()
        for place, number in enumerate(which.tolist()):
            client, up = int(sent.client[number]), bool(sent.up[number])
            # Created at the first message, as most clients send in one direction only.
            lane = lanes.get((client, up))
            if lane is None:
                delay = network.delay(float(self.route_latency[client] + latencies[client]))
                rate = float((radios.up if up else radios.down)[client])
                lane = _Lane(calendar, bearers[not up][client], rate, delay, durations)
                lanes[client, up] = lane
            # Relative to the first message: large absolute times would cost precision.
            due = float(sent.start[number]) - first
            calendar.at(due, lane.send, (place, float(self.bits[number])))
        calendar.run()  # to the last arrival: nothing else is scheduled
        return durations


class _Lane:
    """One direction of a client, which carries one message at a time.

    Args:
        calendar: the calendar.
        bearer: the bearer of its messages.
        rate: the rate of its radio, bit/s.
        delay: the delay before bits compete for links, s.
        durations: receives durations, by index of the message.
    """

    def __init__(
        self, calendar: Calendar, bearer: Bearer, rate: float, delay: float, durations: Array
    ) -> None:
        self._calendar, self._bearer = calendar, bearer
        self._rate, self._delay, self._durations = rate, delay, durations
        self._waiting = deque[tuple[int, float]]()
        self._busy = False
        self._begun = 0.0

    def send(self, message: tuple[int, float]) -> None:
        """Send a message (index, bits) as soon as the lane is free."""
        # First in, first out, as in the simulator.
        self._waiting.append(message)
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = True
        # Before the delay: a duration includes the latency, as the recorded ones do.
        self._begun = self._calendar.now
        self._calendar.at(self._begun + self._delay, self._flow, self._waiting.popleft())

    def _flow(self, message: tuple[int, float]) -> None:
        place, bits = message
        self._bearer.start(bits, self._rate, self._arrive, place)

    def _arrive(self, place: int) -> None:
        # Without the wait for the lane, which is the fault of the message before.
        self._durations[place] = self._calendar.now - self._begun
        self._busy = False
        if self._waiting:
            self._next()
