"""Which links can hold which lanes up: what is left of a topology once the fleet is known."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fedsim.physics.radios import RateLaw
from fedsim.physics.topology import Discipline, Route, Topology
from fedsim.ports import ClientId
from fedsim.sim.on_demand import Runs, joint


class Way(NamedTuple):
    """One direction of one client's radio, and its route.

    Attributes:
        client: whose; 0 where it stands for several.
        up: whether it leads to the server.
        rate: the radio's.
        route: the way that its messages take.
        watched: whether changes of its rates are to be told.
    """

    client: ClientId
    up: bool
    rate: RateLaw
    route: Route
    watched: bool


def ways(
    topology: Topology, up: Runs[RateLaw], down: Runs[RateLaw], watched: Runs[bool]
) -> tuple[Runs[Way], Runs[Way]]:
    """Return the uplinks and the downlinks by client; those that are alike as one of them."""
    directions = (True, up, topology.up), (False, down, topology.down)
    one, other = (
        joint(joint(rates, Runs.of(routes)), watched).map(partial(_way, to_server))
        for to_server, rates, routes in directions
    )
    return one, other


def _way(up: bool, of: tuple[tuple[RateLaw, Route], bool]) -> Way:  # noqa: FBT001 - for partial
    (rate, route), watched = of
    return Way(0, up, rate, route, watched)


class LinkPlan:
    """What the links of a topology mean to the lanes of a fleet.

    A lane carries one message at a time, so a link never has to carry more than the sum of
    the fastest that its lanes can be.

    Args:
        topology: links and routes.
        lanes: how many there are of which, the uplinks first.
    """

    def __init__(self, topology: Topology, lanes: Sequence[tuple[int, Way]]) -> None:
        self._links = topology.links
        self._wanted = [0.0] * len(topology.links)
        self._users = [0] * len(topology.links)
        for count, lane in lanes:
            for link in lane.route.links:
                self._wanted[link] = _added(self._wanted[link], lane.rate.peak, count)
                self._users[link] += count
        self._simple = [self._alike(link) for link in range(len(topology.links))]
        for _, lane in lanes:
            kept = self.links(lane)
            plain = len(kept) == 1 and not lane.watched and lane.rate.signal is None
            if not plain:
                for link in kept:
                    self._simple[link] = False

    def links(self, lane: Way) -> tuple[int, ...]:
        """Return those links of a lane that can hold it up."""
        return tuple([link for link in lane.route.links if self._binds(link, lane.rate.peak)])

    def users(self, link: int) -> int:
        """Return how many lanes take a link."""
        return self._users[link]

    def discipline(self, link: int) -> Discipline:
        """Return how a link is shared; with fewer than two lanes it is fair whatever it does."""
        return "fair" if self._users[link] < 2 else self._links[link].discipline

    def simple(self, lane: Way) -> bool:
        """Return whether a lane shares one link with others, which do nothing else either."""
        kept = self.links(lane)
        return len(kept) == 1 and self._simple[kept[0]]

    def _binds(self, link: int, fastest: float) -> bool:
        """Return whether a link can ever hold up a lane that is as fast as this."""
        capacity, discipline = self._links[link].capacity, self.discipline(link)
        if discipline == "fifo" or capacity.signal is not None:
            return True
        if discipline == "slotted":
            return capacity.peak / self._users[link] < fastest
        return capacity.peak < self._wanted[link]

    def _alike(self, link: int) -> bool:
        """Return whether one link without a change in its capacity is shared fairly."""
        constant = self._links[link].capacity.signal is None
        return constant and self.discipline(link) == "fair"


def _added(total: float, each: float, count: int) -> float:
    """Return a total to which so many of the same are added, one after the other."""
    terms = np.full(count + 1, each)
    terms[0] = total
    return float(np.add.accumulate(terms)[-1])
