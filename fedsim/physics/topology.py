"""Topologies: the links between server and clients, and the routes between any two nodes.

They do not include the clients' own radios, which limit the rate at a client's end.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from fedsim.core.blocks.wording import listed
from fedsim.core.errors import DataError
from fedsim.core.ports import SERVER, ClientId, node_name
from fedsim.core.ports.messages import clients_behind
from fedsim.core.remarks import remark
from fedsim.physics.radios.rates import ConstantRate, RateLaw
from fedsim.physics.run_length import RunLengthSequence

_CLIENT = re.compile(r"client-(0|[1-9][0-9]*)")
_MOST = 4  # nodes listed in a message, at most

# The best routes through a graph from one node: least latency, then fewest hops.


@dataclass(frozen=True, slots=True)
class RouteEdge:
    """One direction between two neighbours.

    Attributes:
        links: the indices of its links.
        latency: one way, s.
        loss: the share of lost packets.
    """

    links: tuple[int, ...]
    latency: float
    loss: float = 0.0


Edges = Mapping[tuple[Any, Any], RouteEdge]
"""Edges by source and target node."""

Ways = dict[Any, tuple[Any, float]]
"""For every reachable node: its predecessor, and the total latency to the node, s."""


class RoutePath(NamedTuple):
    """A route from one node to another.

    Attributes:
        links: the indices of its links, in the order of travel.
        latency: the total latency, s.
        passed: the nodes between its two ends, in the order of travel.
        loss: the share of packets lost on its edges, whose losses are independent.
    """

    links: tuple[int, ...]
    latency: float
    passed: tuple[Any, ...]
    loss: float = 0.0

    @property
    def backwards(self) -> "RoutePath":
        """The same route in the other direction."""
        return RoutePath(self.links[::-1], self.latency, self.passed[::-1], self.loss)


class Paths:
    """The best routes of a graph between any two nodes, computed on request.

    The routes from the last requested source are cached, since a sender to several nodes mostly
    sends to them at once.

    Args:
        neighbours: the targets of the edges from every node.
        edges: the edges of the graph.
        numbers: the numbers of the nodes that are clients.

    Attributes:
        numbers: see the arguments.
    """

    def __init__(
        self,
        neighbours: Mapping[Any, Iterable[Any]],
        edges: Edges,
        numbers: Mapping[Any, ClientId],
    ) -> None:
        self.numbers = numbers
        self._neighbours = neighbours
        self._edges = edges
        self._source: object = None
        self._ways = Ways()

    def between(self, source: object, target: object) -> RoutePath:
        """Return the best route from one node to another.

        Raises:
            KeyError: there is no route.
        """
        # Callers ask for many targets of one source in a row, so one tree of routes is enough.
        if source != self._source:
            self._ways = best_ways(source, self._neighbours, self._edges)
            self._source = source
        return way_to(target, self._ways, self._edges)


def best_ways(source: object, neighbours: Mapping[Any, Iterable[Any]], edges: Edges) -> Ways:
    """Return the tree of best routes from a source (Dijkstra's algorithm).

    Routes are compared by latency, then by hops, then by the order in which they are found. So the
    tree only depends on the order of nodes and edges.

    Args:
        source: the node where all routes start.
        neighbours: the targets of the edges from every node.
        edges: the edges of the graph.
    """
    best, serial = Ways(), count(1)
    # The serial number breaks ties, since nodes of different types cannot be compared.
    heap: list[tuple[float, int, int, Any, Any]] = [(0.0, 0, 0, source, None)]
    while heap:
        latency, hops, _, node, before = heappop(heap)
        if node in best:
            continue
        best[node] = before, latency
        for other in neighbours[node]:
            if other not in best:
                there = latency + edges[node, other].latency
                heappush(heap, (there, hops + 1, next(serial), other, node))
    return best


def way_to(node: object, ways: Ways, edges: Edges) -> RoutePath:
    """Return the best route to a node."""
    links, passed, latency, arriving = list[int](), list[Any](), ways[node][1], 1.0
    # The tree is followed from the target back to the source.
    while (before := ways[node][0]) is not None:
        links += reversed(edges[before, node].links)
        arriving *= 1 - edges[before, node].loss
        passed.append(before)
        node = before
    return RoutePath(tuple(reversed(links)), latency, tuple(reversed(passed[:-1])), 1 - arriving)


if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

Discipline = Literal["fair", "fifo", "slotted"]
"""How a link is shared: max-min fair, one transfer at a time, or in equal fixed shares."""

_SERVER = node_name(SERVER)


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a connection, or both if they share one capacity.

    Attributes:
        capacity: the rate law; an infinite rate for no limit.
        discipline: how transfers share the link. "fifo" is one transfer at a time even if the link
            has no limit of its own, since the radios may limit each transfer.
        name: a readable name.
    """

    capacity: RateLaw
    discipline: Discipline = "fair"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """A route through the network.

    Attributes:
        links: indices into `Topology.links`, each once, in order, without unlimited links.
        latency: one way, s, without that of radios.
        relays: the clients that forward messages on this route, in the order of travel.
        loss: the share of packets lost on its links.
    """

    links: tuple[int, ...]
    latency: float
    relays: tuple[ClientId, ...] = ()
    loss: float = 0.0


_HERE = Route((), 0.0)


@dataclass(frozen=True, slots=True)
class Topology:
    """All links, the routes of every client to and from the server, and those between clients.

    Attributes:
        links: the links.
        up: the route to the server, by client number; empty without a server.
        down: the route from the server, by client number; empty without a server.
        paths: the routes of a graph; None if all routes pass the server.
        lossy: whether some links lose packets.
    """

    links: tuple[Link, ...]
    up: Sequence[Route]
    down: Sequence[Route]
    paths: Paths | None = field(default=None, compare=False, repr=False)
    lossy: bool = False

    def between(self, sender: ClientId, receiver: ClientId) -> Route:
        """Return the route from one node to another, either of which may be the server.

        In a star or a tree it goes up to the server and down again. In a graph it is the route of
        least latency, computed on request.
        """
        if self.paths is not None:
            way = self.paths.between(node_name(sender), node_name(receiver))
            return _route(way, self.paths.numbers)
        # Without a graph, every route leads through the server.
        there = _HERE if sender == SERVER else self.up[sender]
        back = _HERE if receiver == SERVER else self.down[receiver]
        return Route(there.links + back.links, there.latency + back.latency)


def _route(way: RoutePath, numbers: Mapping[Any, ClientId]) -> Route:
    """Return a route through a graph; `numbers` are the numbers of the clients among its nodes."""
    relays = tuple([numbers[node] for node in way.passed if node in numbers])
    return Route(way.links, way.latency, relays, way.loss)


class _Links:
    """Collects links. Unlimited ones get no index, since they never delay a transfer."""

    def __init__(self) -> None:
        self.links: list[Link] = []

    def add(self, capacity: RateLaw, discipline: Discipline, name: str) -> tuple[int, ...]:
        """Add a link; return its part of a route, which is empty for an unlimited link."""
        # An unlimited fifo link still lets transfers wait for each other.
        if capacity.peak == inf and discipline != "fifo":
            return ()
        self.links.append(Link(capacity, discipline, name))
        return (len(self.links) - 1,)


def star(
    clients: int,
    *,
    uplink: float = inf,
    downlink: float = inf,
    latency: float = 0.0,
    discipline: Discipline = "fair",
) -> Topology:
    """Return a star: all clients share the server's own connection.

    Args:
        clients: the number of clients.
        uplink: the rate from all clients together to the server, bit/s.
        downlink: the rate from the server to all clients together, bit/s.
        latency: one way, s.
        discipline: the discipline of the connection.

    Example:
        >>> up, down = ConstantRate(10e6), ConstantRate(50e6)
        >>> shared = star(3, uplink=up, downlink=down, latency=0.02)
        >>> len(shared.links)
        2
    """
    links = _Links()
    into = Route(links.add(ConstantRate(uplink), discipline, "server.up"), latency)
    out = Route(links.add(ConstantRate(downlink), discipline, "server.down"), latency)
    up, down = (RunLengthSequence([(clients, route)]) for route in (into, out))
    return Topology(tuple(links.links), up, down)


def tree(
    clients: int,
    gateways: int,
    *,
    rate: float = inf,
    gateway_latency: float = 0.0,
    gateway_discipline: Discipline = "fair",
    uplink: float = inf,
    downlink: float = inf,
    latency: float = 0.0,
    discipline: Discipline = "fair",
) -> Topology:
    """Return a tree: blocks of clients behind gateways, which are connected to the server.

    The sizes of the blocks differ by one client at most.

    Args:
        clients: the number of clients.
        gateways: the number of gateways, at least 1.
        rate: the rate of each direction of a gateway's link to the server, bit/s.
        gateway_latency: the latency of these links, one way, s.
        gateway_discipline: the discipline of these links.
        uplink: the rate from all clients together to the server, bit/s.
        downlink: the rate from the server to all clients together, bit/s.
        latency: the latency of the server's own connection, one way, s.
        discipline: the discipline of the server's own connection.

    Example:
        >>> gateway, server = ConstantRate(5e6), ConstantRate(50e6)
        >>> network = tree(4, 2, rate=gateway, uplink=server, downlink=server)
        >>> len(network.links)
        6
    """
    links, total, each = _Links(), latency + gateway_latency, ConstantRate(rate)
    into = links.add(ConstantRate(uplink), discipline, "server.up")
    out = links.add(ConstantRate(downlink), discipline, "server.down")
    ups, downs = list[tuple[int, Route]](), list[tuple[int, Route]]()
    for gateway, members in enumerate(clients_behind(clients, gateways)):
        name = f"gateway-{gateway}"
        up_link = links.add(each, gateway_discipline, f"{name}.up")
        ups.append((members, Route(up_link + into, total)))
        down_link = links.add(each, gateway_discipline, f"{name}.down")
        downs.append((members, Route(out + down_link, total)))
    return Topology(tuple(links.links), RunLengthSequence(ups), RunLengthSequence(downs))


def build_routes(graph: "nx.Graph[Any]", clients: int, *, server: bool = True) -> Topology:
    """Return the links and the best routes of a graph.

    Its nodes are "server", "client-0", "client-1" and so on, and any routers. Attributes of an
    edge: `rate` (bit/s, infinite by default) or, in its place, `law` (a rate law); `latency` (s,
    0); `loss` (share of packets, 0; only without a server); `discipline` ("fair"); and `duplex`:
    "full" (each direction has the rate for itself; the default) or "half" (both share it). In a
    directed graph an edge is one direction only.

    A route has the least latency, and among routes of equal latency the fewest hops. Among these,
    the choice only depends on the order of nodes and edges in the graph.

    Args:
        graph: a graph of networkx that is not a multigraph.
        clients: the number of clients.
        server: whether a server is required; among peers it is not.

    Raises:
        DataError: under the key "network", if a node is missing, a client cannot reach the server
            (or, without one, client-0) or be reached, or an attribute is invalid.

    Example:
        >>> import networkx as nx
        >>> len(build_routes(nx.Graph([("server", "client-0", {"rate": 1e9})]), clients=1).links)
        2
    """
    import networkx as nx

    if graph.is_multigraph():
        raise DataError("network", "got two edges between the same nodes; give one with their sum")
    if server and _SERVER not in graph:
        raise DataError("network", f'the graph has no node "{_SERVER}"')
    names = [node_name(client) for client in range(clients)]
    _complain([name for name in names if name not in graph], "has no node", "have no node")
    _remark_strangers(graph, clients)
    all_links, edges = _edges(graph)
    # Routes to the server are routes from it in the reversed graph, travelled backwards.
    back = {(end, start): edge for (start, end), edge in edges.items()}
    centre = _SERVER if server else node_name(0)
    down = best_ways(centre, graph.adj, edges)
    up = best_ways(centre, graph.pred if isinstance(graph, nx.DiGraph) else graph.adj, back)
    lost = [name for name in names if name not in up or name not in down]
    where = "the server" if server else centre
    _complain(lost, f"is not connected to {where}", f"are not connected to {where}")
    numbers = {name: client for client, name in enumerate(names)}
    paths = Paths(graph.adj, edges, numbers)
    lossy = next((ends for ends, edge in edges.items() if edge.loss), None)
    if not server:
        return Topology(tuple(all_links), (), (), paths, lossy=lossy is not None)
    _refuse_loss(lossy)
    downs = tuple([_route(way_to(name, down, edges), numbers) for name in names])
    backwards = [way_to(name, up, back) for name in names]
    ups = tuple([_route(way.backwards, numbers) for way in backwards])
    return Topology(tuple(all_links), ups, downs, paths)


def _remark_strangers(graph: "nx.Graph[Any]", clients: int) -> None:
    """Remark on nodes that are named like clients but are not in the fleet."""
    numbers = (_CLIENT.fullmatch(str(node)) for node in graph)
    strangers = sorted(int(match[1]) for match in numbers if match and int(match[1]) >= clients)
    if strangers:
        shown = listed([node_name(number) for number in strangers], _MOST)
        fleet = f"the fleet, which is of clients 0 to {clients - 1}"
        remark(f"nodes of the graph that are not in {fleet}, only forward messages: {shown}")


def _refuse_loss(ends: tuple[object, object] | None) -> None:
    """Raise a DataError that names the ends of a lossy edge, if there is one."""
    if ends is not None:
        text = f"the edge between {ends[0]} and {ends[1]} has a loss, but with a server messages"
        raise DataError("network", f"{text} are lost by radios; give these a loss, or use peers")


def _complain(names: Sequence[str], one: str, many: str) -> None:
    """Raise a DataError that names some clients, if there are any."""
    if names:
        raise DataError(
            "network", f"{listed(names, 3)} {one if len(names) == 1 else many} in the graph"
        )


def _edges(graph: "nx.Graph[Any]") -> tuple[list[Link], Edges]:
    """Return the links of a graph, and links, latency and loss of each directed edge."""
    links, edges = _Links(), dict[tuple[object, object], RouteEdge]()
    for start, end, attributes in graph.edges(data=True):
        law, latency, loss, discipline, duplex = _attributes(start, end, attributes)
        there = links.add(law, discipline, f"{start} -> {end}")
        edges[start, end] = RouteEdge(there, latency, loss)
        if not graph.is_directed():
            # In half duplex, both directions are one link.
            half = duplex == "half"
            back = there if half else links.add(law, discipline, f"{end} -> {start}")
            edges[end, start] = RouteEdge(back, latency, loss)
    return links.links, edges


def _attributes(
    start: object, end: object, given: Mapping[str, Any]
) -> tuple[RateLaw, float, float, Discipline, str]:
    """Return rate law, latency, loss, discipline and duplex of an edge.

    Raises:
        DataError: one of them is invalid.
    """
    rate, latency = given.get("rate", inf), given.get("latency", 0.0)
    discipline, duplex = given.get("discipline", "fair"), given.get("duplex", "full")
    loss = given.get("loss", 0.0)
    if not rate > 0:
        wrong = f"the rate {rate}; a rate is above 0 bit/s"
    elif not (isfinite(latency) and latency >= 0):
        wrong = f"the latency {latency}; a latency is finite and at least 0 s"
    elif not 0 <= loss < 1:
        wrong = f"the loss {loss}; a loss is a share of packets, at least 0 and below 1"
    elif discipline not in get_args(Discipline):
        wrong = f'the discipline "{discipline}"; there are {", ".join(get_args(Discipline))}'
    elif duplex not in {"full", "half"}:
        wrong = f'the duplex "{duplex}"; there are full, half'
    else:
        return given.get("law", ConstantRate(rate)), latency, loss, discipline, duplex
    raise DataError("network", f"the edge between {start} and {end} has {wrong}")
