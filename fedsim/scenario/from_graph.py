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
"""Attributes of an edge that are those of a link, with the unit of a number."""

_NODE = frozenset(Group.model_fields) - {"count", "intervals"}
"""Attributes of a node that are those of a group of the fleet."""

_SERVER = "server"

_CLIENT = re.compile(r"client-(\d+)")


def with_graph(tree: Located, graph: "AnyGraph") -> Located:
    """Return a scenario as written, with what a graph says.

    A graph with a node "server" has the links between it and the clients, `network.edges`; these
    are its nodes client-0, client-1, ..., and all others are routers. Any other graph has the
    neighbours of peers, `network.peers`, which are numbered in the order of the nodes, or by their
    own numbers if they are 0, 1, ... or client-0, client-1, ... The `weight` of edges is the mixing
    matrix, `rate`, `latency`, `loss`, `discipline` and `duplex` are those of links; numbers are in
    bit/s and s, and a loss is the share of packets. `bandwidth` is the rate, `delay` the latency,
    and a name may have a unit, as in `bandwidth_mbps`; so they are in files. In a directed graph
    links lead one way if some lose packets, or differ from those back; else both ways. Attributes
    of clients such as `device`, `radio` and `battery` are those of the fleet. Other attributes have
    no effect.

    Raises:
        ScenarioError: the graph cannot be one of peers, or says what the scenario says, too.
    """
    blocks = dict(_blocks(graph))
    faults = [
        Fault("", key, f"got {show(below.plain())} beside a graph, which says it; leave one out")
        for key in blocks
        if (below := _at(tree, key)) is not None and below.content not in (None, [], {})
        if not (key == "network.topology" and below.content in ("star", "graph"))
    ]
    if faults:
        raise ScenarioError(faults)
    fleet, nodes = tree.get("fleet"), len(_numbers(graph))
    stated = "fleet" in blocks or (fleet is not None and fleet.content)
    if "network.peers" not in blocks:  # of a server's clients the split may say how many there are
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
    """Yield the blocks of a scenario by key.

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
    """Return the numbers of the nodes as clients; with a server, of those that are named so."""
    if _SERVER in graph:
        named = ((node, _CLIENT.fullmatch(str(node))) for node in graph)
        return {node: int(match[1]) for node, match in named if match}
    names = [str(node).removeprefix("client-") for node in graph]
    if sorted(names) == sorted(map(str, range(len(names)))):
        return {node: int(name) for node, name in zip(graph, names, strict=True)}
    return {node: number for number, node in enumerate(graph)}


def _weights(
    graph: "AnyGraph", numbers: Mapping[object, int]
) -> list[tuple[int, int, float]] | None:
    """Return the weights of edges, as the receiver, the sender and the weight; None without any.

    Raises:
        ScenarioError: some edges have one, and one has none, or no number.
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
    """Yield the edges as links, each in both directions, or in one of them."""
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
        else:  # one of two that are alike
            ends = {frozenset(pair): link for pair, link in reversed(ways.items())}
            links = [link for pair, link in ways.items() if ends[frozenset(pair)] is link]
    yield "network.edges", links


def _links(graph: "AnyGraph") -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Yield the edges, with attributes by their names in a scenario.

    Raises:
        ScenarioError: two attributes of one say the same.
    """
    for source, target, attributes in graph.edges(data=True):
        named: Mapping[Any, Any] = attributes  # networkx takes any key
        settings = {key: _plain(value) for key, value in named.items() if isinstance(key, str)}
        try:
            yield source, target, link_attributes(settings)
        except DataError as error:
            raise _wrong(f"{_edge(source, target)}: {error}") from error


def _link(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the attributes of an edge say of a link."""
    return {
        key: _quantity(attributes[key], unit) for key, unit in _LINK.items() if key in attributes
    }


def _differ(link: Mapping[str, Any], back: Mapping[str, Any]) -> bool:
    return any(link.get(key) != back.get(key) for key in _LINK)


def _quantity(value: object, unit: str) -> object:
    """Return a number with its unit, a share in per cent; what is a text has one."""
    value = _plain(value)
    if not unit or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if unit == "%" and isfinite(value):
        return f"{Decimal(repr(float(value))).scaleb(2):f} %"
    return f"{value!r} {unit}"


def _plain(value: object) -> object:
    """Return a value, and of a number of NumPy that of Python which reads the same.

    >>> _plain(np.float32(0.1)), _plain(np.int64(3))
    (0.1, 3)
    """
    if isinstance(value, np.floating):
        return float(str(value))
    return value.item() if isinstance(value, np.generic) else value


def _fleet(graph: "AnyGraph", numbers: Mapping[object, int]) -> Iterator[tuple[str, Any]]:
    """Yield the groups of the fleet, if nodes say any: clients that follow one another, and alike.

    Raises:
        ScenarioError: a node that is no client has attributes of one.
    """
    parts_of = {
        node: {key: _plain(each[key]) for key in sorted(_NODE & each.keys())}
        for node, each in graph.nodes(data=True)
    }
    for node, each in parts_of.items():
        if each and node not in numbers:
            text = f"the node {printable(str(node))} has the attribute {next(iter(each))}"
            raise _wrong(f"{text}, and is no client; beside a server, these are client-0, client-1")
    if any(parts_of.values()):
        parts = (parts_of[node] for node in sorted(numbers, key=numbers.__getitem__))
        yield "fleet", [{"count": sum(1 for _ in alike), **part} for part, alike in groupby(parts)]
