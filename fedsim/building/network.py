"""The network: from what a scenario says to links and routes."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

from pydantic import ValidationError

from fedsim.building.findings import Findings
from fedsim.errors import DataError
from fedsim.files import decompressed, read_bytes
from fedsim.physics.topology import Topology, routed, star, tree
from fedsim.scenario import GraphNetwork, NetworkSpec, StarNetwork, TreeNetwork
from fedsim.scenario.faults import faults_of
from fedsim.scenario.located import Origin, located
from fedsim.scenario.network import Edge

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

_TIMES = 100
"""The bytes of memory that a byte of a file takes: an edge of 30 characters is 3 kB of graph."""

_REST = "cells beyond the columns"

_CLIENT = re.compile(r"client-(\d+)")

Row = tuple[str, Mapping[str, Any]]
"""Where an edge was written, and what was written there."""


def topology(
    spec: NetworkSpec, clients: Sequence[str], folder: Path, findings: Findings
) -> Topology | None:
    """Return the links between the clients' radios and the server.

    Args:
        spec: what was written.
        clients: what each client is, for messages.
        folder: where relative paths start.
        findings: takes what is wrong with a graph; the result is None then.
    """
    if isinstance(spec, StarNetwork | TreeNetwork):
        return _around(spec, len(clients))
    links = None
    with findings.at("network.edges" if spec.path is None else "network.path"):
        graph = _graph(spec, folder)
        try:
            links = routed(graph, len(clients), server=spec.peers is None)
        except DataError as error:
            raise DataError("network", _worded(str(error), clients)) from error
    return links


def _around(spec: StarNetwork | TreeNetwork, clients: int) -> Topology:
    server = spec.server
    if isinstance(spec, StarNetwork):
        return star(
            clients,
            uplink=server.uplink,
            downlink=server.downlink,
            latency=server.latency,
            discipline=server.discipline,
        )
    return tree(
        clients,
        spec.gateways,
        rate=spec.gateway.rate,
        gateway_latency=spec.gateway.latency,
        gateway_discipline=spec.gateway.discipline,
        uplink=server.uplink,
        downlink=server.downlink,
        latency=server.latency,
        discipline=server.discipline,
    )


def _worded(text: str, clients: Sequence[str]) -> str:
    """Return a message in which the clients are said to be what they are."""

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"{match[0]} ({clients[number]})" if number < len(clients) else match[0]

    return _CLIENT.sub(named, text)


def _graph(spec: GraphNetwork, folder: Path) -> "nx.Graph[str]":
    """Return the graph that is written out, or that a file holds.

    Raises:
        DataError: it cannot be read as one.
        OSError: the file cannot be read.
    """
    if spec.path is None:
        rows = [(f"edge {number}", edge) for number, edge in enumerate(spec.edges)]
        return _joined(rows, directed=False)
    path = folder / spec.path
    if path.suffix == ".csv":
        return _joined(_edges(_csv_rows(path), path), directed=False)
    graph = _graphml(path)
    return _joined(_edges(_graphml_rows(graph), path), directed=graph.is_directed())


def _joined(edges: Iterable[tuple[str, Edge]], *, directed: bool) -> "nx.Graph[str]":
    import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

    graph: nx.Graph[str] = nx.DiGraph() if directed else nx.Graph()
    for where, edge in edges:
        if graph.has_edge(edge.source, edge.target):
            ends = f"{edge.source} and {edge.target}"
            raise DataError("network", f"{where}: {ends} are joined already; give one edge")
        attributes = edge.model_dump(exclude={"source", "target"})
        graph.add_edge(edge.source, edge.target, **attributes)
    return graph


def _edges(rows: Iterable[Row], path: Path) -> Iterator[tuple[str, Edge]]:
    """Yield the edges of a file: its cells are read like the values of a scenario."""
    for where, row in rows:
        try:
            yield where, Edge.model_validate(row)
        except ValidationError as error:
            faults = faults_of(error, located(row, Origin(f"{path}, {where}")), Edge, None)
            raise DataError("network", "; ".join(map(str, faults))) from error


def _csv_rows(path: Path) -> Iterator[Row]:
    """Yield the lines of a list of edges; an empty cell has the default of its column."""
    content = read_bytes(path, "network", times=_TIMES).decode("utf-8-sig", "backslashreplace")
    reader = csv.DictReader(StringIO(content, newline=""), restkey=_REST, skipinitialspace=True)
    try:
        for row in reader:
            yield f"line {reader.line_num}", {key: cell for key, cell in row.items() if cell}
    except csv.Error as error:
        raise DataError("network", f"{path}, line {reader.line_num}: {error}") from error


def _graphml(path: Path) -> "nx.Graph[str]":
    import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

    content = read_bytes(path, "network", times=_TIMES)
    content = decompressed(content, path, "network", times=_TIMES)
    if b"<!DOCTYPE" in content or b"\0" in content:  # a few lines could stand for terabytes
        text = f"{path} is no GraphML that is read: give it in UTF-8, without a document type"
        raise DataError("network", text)
    try:
        graph: nx.Graph[str] = nx.read_graphml(BytesIO(content))
    except (ParseError, nx.NetworkXException, KeyError, ValueError, TypeError) as error:
        raise DataError("network", f"{path} is no GraphML: {error}") from error
    if graph.is_multigraph():
        text = f"{path} joins two nodes by several edges; give one edge, of their sum"
        raise DataError("network", text)
    return graph


def _graphml_rows(graph: "nx.Graph[str]") -> Iterator[Row]:
    for source, target, attributes in graph.edges(data=True):
        known = {name: value for name, value in attributes.items() if name != "id"}
        yield f"edge {source} - {target}", {"source": source, "target": target, **known}
