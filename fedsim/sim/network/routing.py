"""Contended links: which links of a topology can limit which lanes of the fleet."""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.physics.radios import RateLaw
from fedsim.physics.run_length import RunLengthSequence, joint
from fedsim.physics.topology import Discipline, Route, Topology
from fedsim.sim.network.flows import Link, Path, SharedLink
from fedsim.sim.network.fluid import Fluid


class RoutedLane(NamedTuple):
    """One direction of one client's radio, and its route.

    Attributes:
        client: the number of the client; 0 if it stands for several.
        up: whether it leads to the server.
        rate: the rate law of the radio.
        route: the route of its messages.
        watched: whether changes of its rates are reported.
    """

    client: ClientId
    up: bool
    rate: RateLaw
    route: Route
    watched: bool


def route_lanes(
    topology: Topology,
    up: RunLengthSequence[RateLaw],
    down: RunLengthSequence[RateLaw],
    watched: RunLengthSequence[bool],
) -> tuple[RunLengthSequence[RoutedLane], RunLengthSequence[RoutedLane]]:
    """Return the uplinks and the downlinks by client, run-length encoded."""
    directions = (True, up, topology.up), (False, down, topology.down)
    one, other = (
        joint(joint(rates, RunLengthSequence.of(routes)), watched).map(
            partial(_routed_lane, to_server)
        )
        for to_server, rates, routes in directions
    )
    return one, other


def _routed_lane(up: bool, terms: tuple[tuple[RateLaw, Route], bool]) -> RoutedLane:
    (rate, route), watched = terms
    return RoutedLane(0, up, rate, route, watched)


class LinkPlan:
    """Which links of a topology can limit which lanes of a fleet.

    A lane carries one message at a time, so the demand on a link never exceeds the sum of the peak
    rates of its lanes.

    Args:
        topology: links and routes.
        lanes: runs of equal lanes with their lengths, the uplinks first.
    """

    def __init__(self, topology: Topology, lanes: Sequence[tuple[int, RoutedLane]]) -> None:
        self._links = topology.links
        self._wanted = [0.0] * len(topology.links)
        self._users = [0] * len(topology.links)
        for count, lane in lanes:
            for link in lane.route.links:
                self._wanted[link] = _add_repeatedly(self._wanted[link], lane.rate.peak, count)
                self._users[link] += count
        self._simple = [self._alike(link) for link in range(len(topology.links))]
        for _, lane in lanes:
            kept = self.links(lane)
            plain = len(kept) == 1 and not lane.watched and lane.rate.signal is None
            # One lane that is not simple makes all other lanes of its links not simple, either.
            if not plain:
                for link in kept:
                    self._simple[link] = False

    def links(self, lane: RoutedLane) -> tuple[int, ...]:
        """Return the links of a lane that can limit it."""
        return tuple([link for link in lane.route.links if self._binds(link, lane.rate.peak)])

    def users(self, link: int) -> int:
        """Return the number of lanes that use a link."""
        return self._users[link]

    def discipline(self, link: int) -> Discipline:
        """Return how a link is shared; with fewer than two lanes it is fair in any case."""
        return "fair" if self._users[link] < 2 else self._links[link].discipline

    def simple(self, lane: RoutedLane) -> bool:
        """Return whether one link limits this lane, and all other lanes on that link."""
        kept = self.links(lane)
        return len(kept) == 1 and self._simple[kept[0]]

    def _binds(self, link: int, fastest: float) -> bool:
        """Return whether a link can ever limit a lane of this peak rate, bit/s."""
        capacity, discipline = self._links[link].capacity, self.discipline(link)
        if discipline == "fifo" or capacity.signal is not None:
            return True
        if discipline == "slotted":
            return capacity.peak / self._users[link] < fastest
        return capacity.peak < self._wanted[link]

    def _alike(self, link: int) -> bool:
        """Return whether a link has constant capacity and is shared fairly."""
        constant = self._links[link].capacity.signal is None
        return constant and self.discipline(link) == "fair"


def _add_repeatedly(total: float, number: float, count: int) -> float:
    """Return the sum after `count` additions of one number, each rounded."""
    # Not a product: it would round differently from one addition per client.
    terms = np.full(count + 1, number)
    terms[0] = total
    return float(np.add.accumulate(terms)[-1])


# LV08, SimGrid's validated model of TCP transfers, as flows of a fluid network.
#
# Velho and Legrand, "Accuracy study and improvement of network simulation in the SimGrid
# framework", SIMUTools 2009; the constants are those of SimGrid since 3.x (`network/model:LV08`).
# As there, weight and window see the latencies and bandwidths of the platform as they are, and
# the bandwidth factor applies to whatever rate a flow gets, be it held back by a link or by
# its window. All amounts are in bits here and in bytes there.

LATENCY_FACTOR = 13.01
"""Factor on the latency of route and radio, for slow start."""

BANDWIDTH_FACTOR = 0.97
"""Factor on a bandwidth, for headers."""

REVERSE_USAGE = 0.05
"""Rate of acknowledgements on the way back, as a share of the forward rate."""

SEGMENT = 8 * 20537.0
"""The S of the weight 1/(latency + sum S/bandwidth), bits."""

WINDOW = 8 * 4194304.0
"""The largest window of TCP, bits; a flow sends at most one window per round trip."""


def weight(latency: float, bandwidths: Sequence[float]) -> float:
    """Return the weight of a flow: the inverse of its round-trip time under load.

    Args:
        latency: the one-way latency, s.
        bandwidths: the bandwidths of all links of the route, bit/s.
    """
    penalty = latency + sum([SEGMENT / bandwidth for bandwidth in bandwidths])
    return 1.0 / penalty if penalty else 1.0


def most(latency: float) -> float:
    """Return the rate limit of the TCP window at a one-way latency in s, bit/s."""
    return WINDOW / (2.0 * latency) if latency else inf


def nominal(law: RateLaw) -> float:
    """Return the bandwidth from which a weight is computed, bit/s: the long-run mean."""
    return law.average or law.peak or inf


def paths(
    fluid: Fluid, topology: Topology, lanes: Sequence[RoutedLane], radio_latency: Sequence[float]
) -> list[Path]:
    """Return the path of every lane; a client's other lane carries its acknowledgements.

    Args:
        fluid: the fluid network of the flows.
        topology: the links and routes.
        lanes: the uplinks by client, and then the downlinks.
        radio_latency: the one-way latency of each client's radio, s.
    """
    plan, clients = LinkPlan(topology, [(1, lane) for lane in lanes]), len(lanes) // 2
    links = [
        fluid.link(link.capacity.with_factor(BANDWIDTH_FACTOR), plan.discipline(n), plan.users(n))
        for n, link in enumerate(topology.links)
    ]
    radios = [fluid.link(lane.rate.with_factor(BANDWIDTH_FACTOR)) for lane in lanes]
    used = [
        (radio, *[links[link] for link in lane.route.links])
        for radio, lane in zip(radios, lanes, strict=True)
    ]
    result = list[Path]()
    for number, lane in enumerate(lanes):
        usage = round_trip(used[number], used[(number + clients) % len(lanes)])
        latency = lane.route.latency + radio_latency[lane.client]
        laws = [lane.rate, *[topology.links[link].capacity for link in lane.route.links]]
        importance = weight(latency, [nominal(law) for law in laws])
        limit = BANDWIDTH_FACTOR * most(latency)
        result.append(fluid.path([*usage], [*usage.values()], importance, limit))
    return result


def round_trip(there: Sequence[Link], back: Sequence[Link]) -> dict[Link, float]:
    """Return the share of a flow's rate on each link, including its acknowledgements."""
    usage = dict.fromkeys(there, 1.0)
    for link in back:
        if isinstance(link, SharedLink):  # acknowledgements neither queue nor wait for a slot
            usage[link] = usage.get(link, 0.0) + REVERSE_USAGE
    return usage
