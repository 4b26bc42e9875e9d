"""Which links can hold which lanes up: what is left of a topology once the fleet is known."""

from collections.abc import Sequence
from typing import NamedTuple

from fedsim.physics.radios import RateLaw
from fedsim.physics.topology import Discipline, Route, Topology
from fedsim.ports import ClientId


class Way(NamedTuple):
    """One direction of one client's radio, and its route.

    Attributes:
        client: whose.
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
    topology: Topology,
    up: Sequence[RateLaw],
    down: Sequence[RateLaw],
    watched: Sequence[bool],
) -> list[Way]:
    """Return the uplinks by client, and then the downlinks."""
    clients = range(len(up))
    return [
        Way(client, to_server, rates[client], routes[client], bool(watched) and watched[client])
        for to_server, rates, routes in ((True, up, topology.up), (False, down, topology.down))
        for client in clients
    ]


class Plan:
    """What the links of a topology mean to the lanes of a fleet.

    A lane carries one message at a time, so a link never has to carry more than the sum of
    the fastest that its lanes can be.
    """

    def __init__(self, topology: Topology, lanes: Sequence[Way]) -> None:
        self._links = topology.links
        self._wanted = [0.0] * len(topology.links)
        self._users = [0] * len(topology.links)
        for lane in lanes:
            for link in lane.route.links:
                self._wanted[link] += lane.rate.peak
                self._users[link] += 1
        self._kept = [self._binding(lane) for lane in lanes]
        self._simple = [self._alike(link) for link in range(len(topology.links))]
        for lane, kept in zip(lanes, self._kept, strict=True):
            plain = len(kept) == 1 and not lane.watched and lane.rate.signal is None
            if not plain:
                for link in kept:
                    self._simple[link] = False

    def links(self, lane: int) -> tuple[int, ...]:
        """Return those links of a lane, by its number, that can hold it up."""
        return self._kept[lane]

    def users(self, link: int) -> int:
        """Return how many lanes take a link."""
        return self._users[link]

    def discipline(self, link: int) -> Discipline:
        """Return how a link is shared; with fewer than two lanes it is fair whatever it does."""
        return "fair" if self._users[link] < 2 else self._links[link].discipline

    def simple(self, lane: int) -> bool:
        """Return whether a lane shares one link with others, which do nothing else either."""
        kept = self._kept[lane]
        return len(kept) == 1 and self._simple[kept[0]]

    def _binding(self, lane: Way) -> tuple[int, ...]:
        return tuple([link for link in lane.route.links if self._binds(link, lane.rate.peak)])

    def _binds(self, link: int, fastest: float) -> bool:
        """Return whether a link can ever hold up a lane that is as fast as this."""
        capacity, discipline = self._links[link].capacity, self.discipline(link)
        if discipline == "fifo" or not isinstance(capacity, int | float):
            return True
        if discipline == "slotted":
            return capacity / self._users[link] < fastest
        return capacity < self._wanted[link]

    def _alike(self, link: int) -> bool:
        """Return whether one link without a change in its capacity is shared fairly."""
        constant = isinstance(self._links[link].capacity, int | float)
        return constant and self.discipline(link) == "fair"
