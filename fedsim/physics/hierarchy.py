"""Hierarchies of gateways between clients and server: which nodes belong to which server.

Nodes are numbered from below: the clients, from 0, then the gateways of the first tier, then those
of the next one. Each server has a block of consecutive nodes below it. The sizes of the blocks in a
tier differ by at most one node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedsim.core.ports import SERVER, ClientId
from fedsim.physics.topology import Link, Route, Topology


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The levels of a tree of servers.

    Attributes:
        levels: the numbers of the nodes of each level: the clients, then tier by tier.
        below: the nodes that each server asks, by the number of the server.
        above: the server of each node, by the number of the node.
    """

    levels: tuple[range, ...]
    below: Mapping[ClientId, range]
    above: tuple[ClientId, ...]

    @property
    def clients(self) -> int:
        """The number of clients, M."""
        return len(self.levels[0])

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """The smallest and largest number of nodes below a server, by the level of these nodes."""
        counts: list[list[int]] = [[] for _ in self.levels]
        for nodes in self.below.values():
            counts[self.level(nodes[0])].append(len(nodes))
        return tuple((min(level), max(level)) for level in counts)

    def describe(self, methods: Sequence[str], rounds: Sequence[int]) -> str:
        """Return a description of the levels.

        Args:
            methods: the kind of the method between the nodes of each level and their servers.
            rounds: for each tier, the rounds of a gateway per round of its server.

        Example:
            >>> hierarchy(4, [2]).describe(["fedavg", "diloco"], [3]).partition(": ")[2]
            'in a round of diloco with the server 3 rounds of fedavg'
        """
        texts, whats = [f"{self.clients} clients"], ["client", *["gateway"] * len(rounds)]
        for tier, count in enumerate(rounds):
            (least, most), what = self.sizes[tier], whats[tier]
            below = f"{least if least == most else f'{least} to {most}'} {what}{'s' * (most > 1)}"
            above = "the gateway above" if tier + 1 < len(rounds) else "the server"
            own = len(self.levels[tier + 1])
            many = f"{own} gateways, each" if own > 1 else "1 gateway"
            texts.append(
                f"{many} with {below} below: in a round of {methods[tier + 1]} with {above}"
                f" {count} round{'s' * (count > 1)} of {methods[tier]}"
            )
        return "; ".join(texts)

    def level(self, node: ClientId) -> int:
        """Return the level of a node: 0 for a client, k for a gateway of tier k."""
        return next(number for number, nodes in enumerate(self.levels) if node in nodes)


def hierarchy(clients: int, gateways: Sequence[int]) -> Hierarchy:
    """Return the hierarchy of a number of clients below tiers of gateways.

    Args:
        clients: M, the number of clients.
        gateways: the number of gateways in each tier, from below; at most the number of nodes
            below.

    Example:
        >>> tree = hierarchy(5, [2])
        >>> tree.below[5], tree.below[6], tree.below[SERVER], tree.above
        (range(0, 2), range(2, 5), range(5, 7), (5, 5, 6, 6, 6, -1, -1))
    """
    levels, first = [range(clients)], clients
    for count in gateways:
        levels.append(range(first, first + count))
        first += count
    below: dict[ClientId, range] = {}
    above: list[ClientId] = []
    # Above the last level is the server alone.
    for nodes, servers in zip(levels, [*levels[1:], range(SERVER, SERVER + 1)], strict=True):
        for place, server in enumerate(servers):
            # Rounding down spreads the nodes: numbers below servers differ by at most one.
            bounds = (number * len(nodes) // len(servers) for number in (place, place + 1))
            members = below[server] = nodes[slice(*bounds)]
            above += [server] * len(members)
    return Hierarchy(tuple(levels), below, tuple(above))


def tier_links(tree: Hierarchy, links: Mapping[ClientId, Topology]) -> Topology:
    """Return all links of a hierarchy, and the routes of each node to its server and back.

    Args:
        tree: the hierarchy.
        links: the links between each server and the nodes below it, in the order of these nodes.
    """
    every: list[Link] = []
    ups: dict[ClientId, Route] = {}
    downs: dict[ClientId, Route] = {}
    for server, nodes in tree.below.items():
        topology, first = links[server], len(every)
        every += topology.links
        for routes, by_node in ((topology.up, ups), (topology.down, downs)):
            for node, route in zip(nodes, routes, strict=True):
                # All links are in one list, so the numbers in a part's routes are shifted.
                moved = tuple([first + link for link in route.links])
                by_node[node] = Route(moved, route.latency, route.relays)
    order = range(len(tree.above))
    return Topology(
        tuple(every), tuple([ups[node] for node in order]), tuple([downs[node] for node in order])
    )
