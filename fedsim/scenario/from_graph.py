"""From a networkx graph to the blocks of a scenario: neighbours, weights, links and fleet."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.core.blocks.wording import printable, show
from fedsim.core.errors import DataError, Fault, ScenarioError
from fedsim.physics.link_attributes import link_attributes
from fedsim.scenario.located import Located, Origin, locate
from fedsim.scenario.merging import place
from fedsim.scenario.specs import Group

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

    AnyGraph = nx.Graph[Any]

_LINK = {"rate": "bit/s", "latency": "s", "discipline": "", "duplex": "", "loss": "%"}
"""Attributes of an edge that describe its link, with the unit of a bare number."""

_NODE = frozenset(Group.model_fields) - {"count", "intervals"}
"""Attributes of a node that describe the client as a group of the fleet."""

_SERVER = "server"

_CLIENT = re.compile(r"client-(\d+)")


def with_graph(tree: Located, graph: "AnyGraph") -> Located:
    """Return a scenario as written, extended by what a graph describes.

    Two sorts of graphs are accepted. A graph with a node "server" gives the links between the
    server and the clients (`network.edges`). Its nodes client-0, client-1, ... are the clients, and
    all others are routers. Any other graph gives the neighbours of peers (`network.peers`). Peers
    have the numbers 0, 1, ... if the nodes are named so, or client-0, client-1, ...; otherwise they
    are numbered in the order of the nodes.

    The attribute `weight` of an edge is an entry of the mixing matrix. `rate`, `latency`, `loss`,
    `discipline` and `duplex` describe its link. Numbers are in bit/s and s, and a loss is a share
    of packets. As in files, `bandwidth` is also accepted for the rate and `delay` for the latency,
    and a name may end in a unit, as in `bandwidth_mbps`. In a directed graph, links are directed if
    some lose packets or differ from their reverse; otherwise they go both ways. Attributes of
    client nodes such as `device`, `radio` and `battery` describe the fleet. Other attributes have
    no effect.

    Args:
        tree: the scenario as written.
        graph: the graph.

    Raises:
        ScenarioError: the graph is unsuitable, or the scenario already has a block that the graph
            describes.
    """
    blocks = dict(_blocks(graph))
    # Empty blocks say nothing, and a graph may replace a star.
    faults = [
        Fault("", key, f"got {show(below.plain())} beside a graph, which defines it; leave one out")
        for key in blocks
        if (below := _at(tree, key)) is not None and below.content not in (None, [], {})
        if not (key == "network.topology" and below.content in ("star", "graph"))
    ]
    if faults:
        raise ScenarioError(faults)
    fleet, nodes = tree.get("fleet"), len(_numbers(graph))
    stated = "fleet" in blocks or (fleet is not None and fleet.content)
    if "network.peers" not in blocks:  # the split may decide how many clients a server has
        stated = stated or not nodes or _at(tree, "problem.split.clients") is not None
    if not stated:
        blocks["fleet"] = [{"count": nodes}]
    for key, value in blocks.items():
        try:
            piece = locate(value, Origin("graph"))
        except (TypeError, ValueError) as error:
            raise ScenarioError([Fault("graph", key, str(error))]) from error
        tree = place(tree, key.split("."), piece)
    return tree


def _at(tree: Located, key: str) -> Located | None:
    path = tuple(key.split("."))
    below, depth = tree.nearest(path)
    return below if depth == len(path) else None


def _blocks(graph: "AnyGraph") -> Iterator[tuple[str, Any]]:
    """Yield key and value of each block that the graph describes.

    Raises:
        ScenarioError: see `with_graph`.
    """
    import networkx as nx

    seen: object = graph
    if not isinstance(seen, nx.Graph) or seen.is_multigraph() or not len(seen):
        wanted = "expected a networkx.Graph or a networkx.DiGraph with nodes"
        raise _wrong(f"got a {type(seen).__name__}; {wanted}")
    if _SERVER in graph:
        yield from _network(graph, {node: str(node) for node in graph})
        yield from _fleet(graph, _numbers(graph))
        return
    numbers = _numbers(graph)
    pairs = sorted((numbers[one], numbers[other]) for one, other in graph.edges if one != other)
    directed = {"directed": True} if graph.is_directed() else {}
    if any(_LINK.keys() & attributes.keys() for *_, attributes in _links(graph)):
        names = {node: f"client-{number}" for node, number in numbers.items()}
        yield from _network(graph, names)
    yield "network.peers", {"kind": "edges", "edges": pairs, **directed}
    if weights := _weights(graph, numbers):
        yield "network.mixing", {"kind": "matrix", "weights": weights}
    yield from _fleet(graph, numbers)


def _wrong(text: str) -> ScenarioError:
    return ScenarioError([Fault("", "graph", text)])


def _numbers(graph: "AnyGraph") -> Mapping[object, int]:
    """Return the client number of each node. With a server, only nodes named client-N have one."""
    if _SERVER in graph:
        named = ((node, _CLIENT.fullmatch(str(node))) for node in graph)
        return {node: int(match[1]) for node, match in named if match}
    names = [str(node).removeprefix("client-") for node in graph]
    # Names that are the numbers 0 to M - 1 keep them; otherwise the order of nodes counts.
    if sorted(names) == sorted(map(str, range(len(names)))):
        return {node: int(name) for node, name in zip(graph, names, strict=True)}
    return {node: number for number, node in enumerate(graph)}


def _weights(
    graph: "AnyGraph", numbers: Mapping[object, int]
) -> list[tuple[int, int, float]] | None:
    """Return the weights of edges as (receiver, sender, weight); None if no edge has one.

    Raises:
        ScenarioError: only some edges have a weight, or one is not a number.
    """
    weights = list[tuple[int, int, float]]()
    bare = list[tuple[object, object]]()
    for source, target, attributes in graph.edges(data=True):
        weight = _plain(attributes.get("weight"))
        if weight is None:
            bare.append((source, target))
        elif isinstance(weight, bool) or not isinstance(weight, int | float):
            raise _wrong(f"{_edge(source, target)} has the weight {show(weight)}; give a number")
        elif source != target:
            one, other = numbers[source], numbers[target]
            weights.append((other, one, float(weight)))
            if not graph.is_directed():
                weights.append((one, other, float(weight)))
    if weights and bare:
        raise _wrong(f"{_edge(*bare[0])} has no weight, and others have; give all one, or none")
    return sorted(weights) or None


def _edge(source: object, target: object) -> str:
    return f"the edge between {printable(str(source))} and {printable(str(target))}"


def _network(graph: "AnyGraph", names: Mapping[object, str]) -> Iterator[tuple[str, Any]]:
    """Yield the topology and its links."""
    links = [
        {"source": names[source], "target": names[target], **_link(attributes)}
        for source, target, attributes in _links(graph)
    ]
    yield "network.topology", "graph"  # first: it replaces the block of another topology
    if graph.is_directed():
        ways = {(link["source"], link["target"]): link for link in links}
        there = [(link, ways.get((link["target"], link["source"]), link)) for link in links]
        if any("loss" in link or _differ(link, back) for link, back in there):
            yield "network.directed", True
        else:  # both directions are alike: one undirected link stands for the two
            ends = {frozenset(pair): link for pair, link in reversed(ways.items())}
            links = [link for pair, link in ways.items() if ends[frozenset(pair)] is link]
    yield "network.edges", links


def _links(graph: "AnyGraph") -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Yield the edges with their attributes, named as in a scenario.

    Raises:
        ScenarioError: two attributes of an edge mean the same.
    """
    for source, target, attributes in graph.edges(data=True):
        named: Mapping[Any, Any] = attributes  # networkx takes any key
        settings = {key: _plain(value) for key, value in named.items() if isinstance(key, str)}
        try:
            yield source, target, link_attributes(settings)
        except DataError as error:
            raise _wrong(f"{_edge(source, target)}: {error}") from error


def _link(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a link that the attributes of an edge give."""
    return {
        key: _quantity(attributes[key], unit) for key, unit in _LINK.items() if key in attributes
    }


def _differ(link: Mapping[str, Any], back: Mapping[str, Any]) -> bool:
    return any(link.get(key) != back.get(key) for key in _LINK)


def _quantity(value: object, unit: str) -> object:
    """Return a number with its unit, and a share in per cent; leave other values unchanged."""
    value = _plain(value)
    if not unit or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if unit == "%" and isfinite(value):
        # In decimal notation 0.07 is exactly 7 %; as a float, 100 * 0.07 is not.
        return f"{Decimal(repr(float(value))).scaleb(2):f} %"
    return f"{value!r} {unit}"


def _plain(value: object) -> object:
    """Return a number of NumPy as the Python number that prints the same; others unchanged.

    >>> _plain(np.float32(0.1)), _plain(np.int64(3))
    (0.1, 3)
    """
    if isinstance(value, np.floating):
        return float(str(value))
    return value.item() if isinstance(value, np.generic) else value


def _fleet(graph: "AnyGraph", numbers: Mapping[object, int]) -> Iterator[tuple[str, Any]]:
    """Yield the fleet if nodes have attributes of clients; equal neighbours form one group.

    Raises:
        ScenarioError: a node that is no client has such attributes.
    """
    parts_of = {
        node: {key: _plain(attributes[key]) for key in sorted(_NODE & attributes.keys())}
        for node, attributes in graph.nodes(data=True)
    }
    for node, attributes in parts_of.items():
        if attributes and node not in numbers:
            text = f"the node {printable(str(node))} has the attribute {next(iter(attributes))}"
            raise _wrong(f"{text}, and is no client; beside a server, these are client-0, client-1")
    if any(parts_of.values()):
        parts = (parts_of[node] for node in sorted(numbers, key=numbers.__getitem__))
        yield "fleet", [{"count": sum(1 for _ in alike), **part} for part, alike in groupby(parts)]
