"""Bearers of a fleet under `model: tcp`, created at their lookup."""

from collections.abc import Callable, Hashable
from functools import partial
from math import inf
from typing import NamedTuple, TypeVar

import numpy as np

from fedsim.addons.tcp.episodes import Episodes, EpisodeTransfer
from fedsim.addons.tcp.fair_queue import FairQueue
from fedsim.addons.tcp.kept import KeptWindow
from fedsim.addons.tcp.memory import EpisodeMemory
from fedsim.addons.tcp.path import PathTimes, TcpLane, TcpPath, TcpStage
from fedsim.addons.tcp.queue import LinkQueue
from fedsim.addons.tcp.transfer import TcpTransfer
from fedsim.addons.tcp.window import CLIENT_RTT_SAMPLES, SERVER_RTT_SAMPLES, Window
from fedsim.addons.tcp.worlds import PacketWorlds
from fedsim.core.ports import ClientId
from fedsim.core.ports.bearers import Bearer
from fedsim.physics.network_models import Bearers, Site
from fedsim.physics.radios import RateLaw
from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.lazy import ComputedSequence
from fedsim.sim.network.routing import LinkPlan, RoutedLane, nominal
from fedsim.sim.network.transmission import calendar_of, lanes_of, rate_callback

T = TypeVar("T")

PACKET = 8 * 1500.0
"""Bits per packet, for queues given in bandwidth-delay products."""


class Connections(NamedTuple):
    """Parameters of connections beside links and radios.

    Attributes:
        law: the parameters of TCP.
        rng: returns the stream that draws the lost packets of a train, by client and direction
            (true: uplink).
        opened: whether kept connections are open before their first message.
        hashes: returns the stream that assigns the flows over a link to FQ-CoDel queues; None if no
            two flows share a queue.
        bucket: returns the queue of a client's flow, by direction; None if it is drawn.
    """

    law: Tcp
    rng: Callable[[ClientId, bool], np.random.Generator]
    opened: bool = False
    hashes: Callable[[int], np.random.Generator] | None = None
    bucket: Callable[[ClientId, bool], int] | None = None


def bearers(site: Site, connections: Connections) -> Bearers:
    """Return the bearers of each client of a site, uplink and downlink."""
    factory = TcpBearers(site, connections)
    return TcpLanes(factory, site.clients, up=True), TcpLanes(factory, site.clients, up=False)


class TcpBearer:
    """The bearer of one lane: a connection per message, or one kept connection.

    Args:
        lane: the parameters that its messages have in common.
        opened: whether a kept connection is open before its first message.
        up: whether the direction is the uplink.
    """

    open = False

    def __init__(self, lane: TcpLane, *, opened: bool = False, up: bool = False) -> None:
        self._lane, self._opened, self._up = lane, opened, up
        self._keeps = lane.law.connections == "kept"
        self._kept: Window | None = None
        self._last: TcpTransfer | None = None

    def start(
        self, bits: float, cap: float, finished: Callable[[T], None], token: T
    ) -> TcpTransfer:
        """See `Bearer.start`."""
        lane = self._lane
        radio_queue, law = lane.path.own, lane.law
        # The rate of a radio may differ from message to message.
        if radio_queue.signal is None:
            radio_queue.rate = cap
        if not self._keeps:
            return TcpTransfer(
                lane, Window(law, lane.path.payload), bits, finished, token, opened=False
            )
        window, opened = self._kept, self._opened
        if window is None:
            kind = KeptWindow if law.stack == "linux" else Window
            window = self._kept = kind(law, lane.path.payload)
            if opened:
                client = self._up and law.stack == "linux"
                window.seed_rtt(
                    lane.path.trip, CLIENT_RTT_SAMPLES if client else SERVER_RTT_SAMPLES
                )
        else:
            opened = True
            window.begin_message(lane.calendar.now)
            if law.idle_restart:
                window.restart(law.initial_window, lane.calendar.now)
        # Late acknowledgements of the message before would otherwise change the window of this one.
        if self._last is not None:
            self._last.forget()
        transfer = self._last = TcpTransfer(lane, window, bits, finished, token, opened=opened)
        return transfer


class EpisodeBearer:
    """The bearer of one lane whose links remember episodes.

    Args:
        lane: the parameters that its messages have in common.
        episodes: the episodes of its links.
        key: the kind of the lane within these episodes.
    """

    open = False

    def __init__(self, lane: TcpLane, episodes: Episodes, key: Hashable) -> None:
        self._lane, self._episodes, self._key = lane, episodes, key

    def start(
        self, bits: float, cap: float, finished: Callable[[T], None], token: T
    ) -> EpisodeTransfer:
        """See `Bearer.start`."""
        return self._episodes.start(self._lane, self._key, bits, cap, finished, token)


class QueuePlan(LinkPlan):
    """The links of a topology that delay segments, by their rates or by their queues.

    On the uplink, a radio comes first and paces its segments. On the downlink, whole windows of
    several clients reach a link at once and queue there, however fast it is.
    """

    def links(self, lane: RoutedLane) -> tuple[int, ...]:
        """Return the links of a lane that can delay its segments."""
        if lane.up:
            return super().links(lane)
        return tuple([link for link in lane.route.links if self._delays(link, lane.rate.peak)])

    def _delays(self, link: int, fastest: float) -> bool:
        shared = self._users[link] > 1 and self._links[link].capacity.peak < inf
        return shared or self._binds(link, fastest)


class TcpBearers:
    """Creates the bearers of a fleet, and each queue once.

    Args:
        site: the radios and the links.
        connections: the parameters of connections.
    """

    def __init__(self, site: Site, connections: Connections) -> None:
        self._calendar, topology = calendar_of(site), site.topology
        self._site, self._links, self._lanes = site, topology.links, (lanes := lanes_of(site))
        self._latency, self._connections, self._own = site.latency, connections, site.own
        self._plan = QueuePlan(topology, [*lanes[0].runs, *lanes[1].runs])
        self._queues: dict[int, LinkQueue] = {}
        self._fair: dict[LinkQueue, FairQueue] = {}
        self._longest: dict[int, float] = {}
        if connections.law.queue_bdp is not None:
            self._find_longest_trips()
        self._memory = EpisodeMemory()
        self._worlds = PacketWorlds(connections.law)
        self._episodes: dict[int, Episodes] = {}
        self._clocks: dict[int, Calendar] = {}  # calendars of episodes
        self._kinds: dict[Hashable, int] = {}  # kinds of lanes
        self._recurs = self._may_recur()
        self._first: dict[int, int] = {}  # union-find parents: connected links have one root
        self._join_links()

    def _may_recur(self) -> bool:
        """Return whether episodes may recur: new connections, and nothing random.

        Arrival rates must not be reported either, as for a client with a battery. Ends are reported
        at ticks, while the power of a radio is integrated over exact times.
        """
        steady = all(link.capacity.signal is None for link in self._links)
        runs = [lane for lanes in self._lanes for _, lane in lanes.runs]
        steady = steady and all(lane.rate.signal is None for lane in runs)
        steady = steady and all(rate_callback(lane, self._site.changed) is None for lane in runs)
        return steady and self._site.losses is None and self._connections.law.connections == "new"

    def _join_links(self) -> None:
        """Find sets of links that are connected by lanes over several shared links."""
        for lanes in self._lanes:
            for _, lane in lanes.runs:
                links = self._find_shared(lane)
                # Union: all links of a lane belong to one set.
                for link in links:
                    one, other = self._root(links[0]), self._root(link)
                    # The smaller number becomes the root, so that the root of a set does not depend
                    # on the order of lanes.
                    self._first[max(one, other)] = min(one, other)

    def _find_shared(self, lane: RoutedLane) -> list[int]:
        """Return the links that may delay a lane and that others use."""
        return [link for link in self._plan.links(lane) if self._plan.users(link) > 1]

    def _root(self, link: int) -> int:
        while self._first.setdefault(link, link) != link:
            link = self._first[link]
        return link

    def _find_longest_trips(self) -> None:
        """Find the longest round trip of the lanes over each link."""
        for lanes in self._lanes:
            for client, lane in enumerate(lanes):
                trip = self._trip(client)
                for link in lane.route.links:
                    self._longest[link] = max(self._longest.get(link, 0.0), trip)

    def _trip(self, client: ClientId) -> float:
        """Return the propagation delay of a round trip, s."""
        routes = [lanes[client].route.latency for lanes in self._lanes]
        return sum(routes) + 2 * self._latency_of(client)

    def _latency_of(self, client: ClientId) -> float:
        return self._latency[client] if self._latency else 0.0

    def _limit(self, rate: float, trip: float) -> float:
        """Return the capacity of a link queue, packets."""
        law = self._connections.law
        if law.queue_bdp is None:
            return law.queue
        return max(1.0, round(law.queue_bdp * rate * trip / PACKET)) if rate < inf else inf

    def _queue(self, law: RateLaw, trip: float) -> LinkQueue:
        managed = self._connections.law.discipline == "fq-codel"
        return LinkQueue(law.peak, self._limit(nominal(law), trip), managed, law.signal)

    def _stage(
        self, queue: LinkQueue, delay: float, clock: Calendar, link: int | None = None
    ) -> TcpStage:
        """Return the stage of a link; that of a radio has no number."""
        shared = link is not None and self._plan.users(link) > 1
        if not queue.managed:
            return TcpStage(queue, delay, shared)
        if queue not in self._fair:
            hashes, draws = self._connections.hashes, None
            # Only on shared links can two flows collide in one hash bucket.
            if shared and link is not None and hashes is not None:
                draws = partial(hashes, link)
            linux = self._connections.law.stack == "linux"
            self._fair[queue] = FairQueue(clock, queue, draws, linux=linux)
        return TcpStage(queue, delay, shared, self._fair[queue])

    def _queue_of(self, link: int) -> LinkQueue:
        if link not in self._queues:
            capacity = self._links[link].capacity
            self._queues[link] = self._queue(capacity, self._longest.get(link, 0.0))
        return self._queues[link]

    def bearer(self, client: ClientId, *, up: bool) -> TcpBearer | EpisodeBearer:
        """Return the bearer of one direction of a client."""
        lane, back = self._lane(client, up=up), self._lane(client, up=not up)
        if self._recurs:
            return self._episode_bearer(lane, back)
        connections, changed = self._connections, rate_callback(lane, self._site.changed)
        law, path = connections.law, self._path(lane, back, self._calendar)
        losses = self._site.losses
        loss = None if losses is None else losses(client, up)
        tcp_lane = TcpLane(
            self._calendar,
            law,
            path,
            changed,
            loss,
            lambda: connections.rng(client, up),
            self._bucket_of(client, up=up),
            holds=up and law.connections == "kept" and law.stack == "linux",
        )
        return TcpBearer(tcp_lane, opened=connections.opened, up=up)

    def _bucket_of(self, client: ClientId, *, up: bool) -> int | None:
        """Return the queue of a client's flow, if its hash is known."""
        bucket = self._connections.bucket
        return None if bucket is None else bucket(client, up)

    def _episode_bearer(self, lane: RoutedLane, back: RoutedLane) -> EpisodeBearer:
        """Return the bearer of a lane whose links remember episodes."""
        law, shared = self._connections.law, tuple(self._find_shared(lane))
        root = self._root(shared[0]) if shared else None
        episodes = None if root is None else self._episodes.get(root)
        clock = Calendar() if root is None else self._clocks.setdefault(root, Calendar())
        path = self._path(lane, back, clock)
        # Equal lanes share their memory, whether they share links or not.
        bucket = self._bucket_of(lane.client, up=lane.up)
        traits = shared, path.parameters, bucket
        # Numbers replace long tuples as keys of the tree.
        key = self._kinds.setdefault(traits, len(self._kinds))
        if episodes is None:
            # Lanes that share links have a memory of their own. A lane alone shares the memory of
            # all equal lanes, since what it does recurs on each of them.
            memory_key = root if root is not None else traits
            parts = self._worlds, clock
            episodes = Episodes(self._calendar, parts, self._memory, memory_key, alone=not shared)
        if root is not None:
            self._episodes[root] = episodes
        return EpisodeBearer(TcpLane(clock, law, path, bucket=bucket), episodes, key)

    def _lane(self, client: ClientId, *, up: bool) -> RoutedLane:
        lane = self._lanes[0 if up else 1][client]._replace(client=client)
        if self._own is not None and lane.rate.signal is not None:
            # Clients of a run may start their trace at different times.
            lane = lane._replace(rate=self._own(client, up))
        return lane

    def _path(self, lane: RoutedLane, back: RoutedLane, clock: Calendar) -> TcpPath:
        """Return the path of a lane, with that of its acknowledgements."""
        client, radio = lane.client, self._latency_of(lane.client)
        packets = self._site.framing(client)
        radio_queue = self._queue(lane.rate, self._trip(client))
        binding = set(self._plan.links(lane))
        # A link that no packet can wait for has no queue: a packet only takes its transmission
        # time.
        free = [link for link in lane.route.links if link not in binding]
        free_bit = sum([1.0 / nominal(self._links[link].capacity) for link in free])
        route = lane.route.latency + 8.0 * packets.packet * free_bit
        links = [(link, self._queue_of(link)) for link in lane.route.links if link in binding]
        # The propagation delay of the route is placed behind its last link.
        stages = [
            self._stage(queue, route if link == links[-1][0] else 0.0, clock, link)
            for link, queue in links
        ]
        number = 0 if lane.up else len(stages)
        stages.insert(number, self._stage(radio_queue, radio if links else radio + route, clock))
        rates = [back.rate, *[self._links[link].capacity for link in back.route.links]]
        header = 8.0 * packets.overhead
        bit = sum([1.0 / nominal(rate) for rate in rates])
        returns = radio + back.route.latency + header * bit
        times = PathTimes(returns, bit, free_bit)
        return TcpPath(tuple(stages), number, times, packets)


class TcpLanes(ComputedSequence[Bearer]):
    """The bearers of one direction by client."""

    def __init__(self, factory: TcpBearers, clients: int, *, up: bool) -> None:
        self._factory, self._clients, self._up = factory, clients, up

    def __len__(self) -> int:
        return self._clients

    def item(self, index: ClientId) -> Bearer:
        """Return the bearer of a client."""
        return self._factory.bearer(index, up=self._up)
