"""The network: from its description in a scenario to links and routes to every client."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from fedsim.core.blocks.wording import printable
from fedsim.core.errors import DataError
from fedsim.core.files import read_bytes
from fedsim.core.graph_files import read_graph_file
from fedsim.core.remarks import hearing, remark
from fedsim.physics.availability import PresenceLaw, read_intervals
from fedsim.physics.carbon import Carbon, Intensity
from fedsim.physics.link_attributes import link_attributes
from fedsim.physics.network_models import TcpFlows
from fedsim.physics.networks import Edge, Network, build_graph
from fedsim.physics.radios.traces import Trace
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.signals import Constant, Steps
from fedsim.physics.topology import Topology
from fedsim.physics.traces import read_intensity, read_power
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.faults import faults_of
from fedsim.scenario.located import Origin, locate

# Files of edges: lists in CSV, and graphs in GraphML and GML.

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

_TIMES = 100
"""Bytes of memory per byte of a file: an edge of 30 characters is 3 kB of graph."""

_REST = "cells beyond the columns"

_NAMES = frozenset(("id", "key"))
"""Attributes of GraphML and GML that are names of edges."""

Row = tuple[str, Mapping[str, Any]]
"""The place of an edge in its file, and its attributes there."""


def read_graph(path: Path, *, directed: bool = False, ends: bool = False) -> "nx.Graph[str]":
    """Return the graph in a file.

    Args:
        path: the file.
        directed: whether an edge of a list leads one way only; GraphML and GML state it themselves.
        ends: whether only the ends of edges are used; other attributes cause a remark then.

    Raises:
        DataError: the file is not a graph.
        OSError: the file cannot be read.
    """
    if path.suffix == ".csv":
        rows = _csv_rows(path)
    else:
        published = read_graph_file(path)
        rows, directed = _published_rows(published), published.is_directed()
    edges = _edges(_ends(rows, path) if ends else rows, path)
    if path.suffix != ".csv":
        edges = _without_parallels(edges, path, directed=directed, ends=ends)
    return build_graph(edges, directed=directed)


def _ends(rows: Iterable[Row], path: Path) -> Iterator[Row]:
    """Yield edges without attributes that have no effect on neighbours, and remark on these.

    Weights stay, and are refused: the weights of neighbours are those of a mixing matrix.
    """
    others: dict[str, None] = {}
    for where, row in rows:
        kept = {key: row[key] for key in row if key in ("source", "target", "weight", _REST)}
        others |= dict.fromkeys(key for key in row if key not in kept)
        yield where, kept
    if others:
        names = printable(", ".join(others))
        remark(f"{printable(path.name)}: the attributes {names} of edges have no effect")


def _edges(rows: Iterable[Row], path: Path) -> Iterator[tuple[str, Edge]]:
    """Yield the edges of a file; its cells are read like the values of a scenario."""
    for where, row in rows:
        try:
            yield where, Edge.model_validate(link_attributes(row))
        except DataError as error:
            raise DataError("path", f"{path}, {where}: {error}") from error
        except ValidationError as error:
            faults = faults_of(error, locate(row, Origin(f"{path}, {where}")), Edge, None)
            raise DataError("path", "; ".join(map(str, faults))) from error


def _csv_rows(path: Path) -> Iterator[Row]:
    """Yield the lines of a list of edges; an empty cell has the default of its column."""
    content = read_bytes(path, "path", times=_TIMES).decode("utf-8-sig", "backslashreplace")
    reader = csv.DictReader(StringIO(content, newline=""), restkey=_REST, skipinitialspace=True)
    try:
        names = reader.fieldnames or ()
        if not names:
            raise DataError("path", f"{path} is empty; expected the columns of an edge")
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            text = f"{path} has several columns called {twice[0]!r}; each needs a different name"
            raise DataError("path", text)
        for row in reader:
            yield f"line {reader.line_num}", {key: cell for key, cell in row.items() if cell}
    except csv.Error as error:
        raise DataError("path", f"{path}, line {reader.line_num}: {error}") from error


def _published_rows(graph: "nx.Graph[str]") -> Iterator[Row]:
    """Yield the edges of a graph; `id` and `key` name edges, and are no attributes of links."""
    for source, target, attributes in graph.edges(data=True):
        known = {name: value for name, value in attributes.items() if name not in _NAMES}
        yield f"edge {source} - {target}", {"source": source, "target": target, **known}


def _without_parallels(
    edges: Iterable[tuple[str, Edge]], path: Path, *, directed: bool, ends: bool
) -> Iterator[tuple[str, Edge]]:
    """Yield one edge per pair of nodes: of parallel edges, the one with the highest rate.

    A message travels over one link. A stated rate precedes none, which is unlimited; of equal
    rates, the smallest latency decides.
    """
    best: dict[frozenset[str] | tuple[str, str], tuple[str, Edge]] = {}
    parallel = set[frozenset[str] | tuple[str, str]]()
    for where, edge in edges:
        pair = (edge.source, edge.target) if directed else frozenset((edge.source, edge.target))
        if pair in best:
            parallel.add(pair)
        if pair not in best or _speed(edge) > _speed(best[pair][1]):
            best[pair] = where, edge
    if parallel:
        many = "1 pair of nodes is" if len(parallel) == 1 else f"{len(parallel)} pairs of nodes are"
        counts = "which count as one" if ends else "of which the one with the highest rate counts"
        remark(f"{printable(path.name)}: {many} joined by parallel edges, {counts}")
    yield from best.values()


def _speed(edge: Edge) -> tuple[bool, float, float]:
    return "rate" in edge.model_fields_set, edge.rate, -edge.latency


# The files of fleet and network, each read once.

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

T = TypeVar("T")


class Files:
    """Reads files and caches their contents, since groups and variants share them.

    Args:
        folder: the folder of relative paths.

    Raises:
        DataError, OSError: by all methods, if a file is invalid or cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[tuple[Any, ...], Any] = {}

    def rate(self, trace: Trace) -> Steps:
        """Return the rate of a trace, bit/s."""
        rate: object = trace.rate(self.read)
        if not isinstance(rate, Steps):
            text = f"the rate of {trace.kind} is a {type(rate).__name__}; return Steps"
            raise DataError("trace", text)
        if trace.starts_anywhere and not isfinite(rate.period):
            text = f"{trace.kind} does not repeat, so no client can start anywhere in it"
            raise DataError("trace", text)
        return rate

    def power(
        self,
        path: Path,
        read: Callable[..., Steps] = read_power,
        **options: bool | float | str,
    ) -> Steps:
        """Return the power of a file, W."""
        return self.read(read, path, **options)

    def carbon(self, law: Carbon) -> Intensity:
        """Return the carbon intensity of electricity."""
        signal: object = law.signal(self._intensity)
        if not isinstance(signal, Constant | Steps):
            text = f"the signal of {law.kind} is a {type(signal).__name__}"
            raise DataError("carbon", f"{text}; return Constant or Steps")
        return Intensity(signal)

    def _intensity(self, path: Path, *, repeat: bool) -> Steps:
        return self.read(read_intensity, path, repeat=repeat)

    def presence(
        self,
        path: Path,
        read: Callable[..., Mapping[int, PresenceLaw]] = read_intervals,
        **options: bool | int | str,
    ) -> Mapping[int, PresenceLaw]:
        """Return the presence of the clients, by their number."""
        return self.read(read, path, **options)

    def graph(self, path: Path, *, directed: bool = False) -> "nx.Graph[str]":
        """Return a graph whose edges have attributes of links."""
        return self.read(read_graph, path, directed=directed)

    def pairs(self, path: Path, *, directed: bool = False) -> list[tuple[str, str]]:
        """Return the edges of a graph, as pairs of nodes.

        Args:
            path: the file.
            directed: whether the first node of a pair sends to the second only, not both ways.

        Raises:
            DataError: an arrow of a directed graph has no counterpart, but needs one.
        """
        if directed:
            graph = self.read(read_graph, path, directed=True, ends=True)
            if not graph.is_directed():
                text = f'{path} has edgedefault="undirected"; give directed, or leave directed out'
                raise DataError("path", text)
            return list(graph.edges)
        graph = self.read(read_graph, path, ends=True)
        for source, target in graph.edges if graph.is_directed() else ():
            if not graph.has_edge(target, source):
                text = (
                    f'{path} has an arrow from "{printable(source)}" to "{printable(target)}" and'
                    " none back, but neighbours send to each other, and their weights would not be"
                    ' doubly stochastic; give both, or edgedefault="undirected"'
                )
                raise DataError("path", text)
        return list(graph.edges)

    def read(self, read: Callable[..., T], path: Path, **options: bool | float | str) -> T:
        """Return a function's result for a file, cached, and repeat its remarks."""
        key = read, path, *options.items()
        if key not in self._read:
            with hearing() as heard:
                self._read[key] = read(self._folder / path, **options), heard
        content: T
        content, remarks = self._read[key]
        for text in remarks:
            remark(text)
        return content


_CLIENT = re.compile(r"client-(\d+)")


def topology(
    network: Network, clients: Sequence[str], files: Files, findings: Findings
) -> Topology | None:
    """Return the links between the clients' radios and the server.

    Args:
        network: the network of the scenario.
        clients: the name of each client's group, for messages.
        files: reads files of edges.
        findings: collects faults; the result is None if there are any.
    """
    links = None
    with findings.at(f"network.{network.written}"):
        try:
            links = _check_reachable(
                network, network.links(len(clients), files.graph), len(clients)
            )
        except DataError as error:
            if error.key != "network":  # written in the scenario, and quoted as it is
                raise
            raise DataError("network", _describe(str(error), clients)) from error
        _check_queues(network, links)
    return links


def _check_queues(network: Network, made: Topology) -> None:
    """Check that TCP's packets can share the links.

    Raises:
        DataError: a link in a file has another discipline; the scenario's were checked before.
    """
    for link in made.links if isinstance(network.model, TcpFlows) else ():
        if link.discipline != "fair":
            text = f"{link.name or 'a link'} is {link.discipline}, but under model: tcp all share"
            raise DataError("network", f"{text} a link's queue; use fair")


def _check_reachable(network: Network, made: object, clients: int) -> Topology:
    """Return the links of a network if they lead to every client.

    Raises:
        DataError: they do not; those of fedsim's own networks always do.
    """
    kind = network.topology
    if not isinstance(made, Topology):
        text = f"the links of {kind} are a {type(made).__name__}; return a Topology, such as star's"
        raise DataError("network", text)
    if made.paths is not None and not (made.up or made.down):
        return made  # among peers there is no server
    if not len(made.up) == len(made.down) == clients:
        text = f"{len(made.up)} ways up and {len(made.down)} down, and there are {clients} clients"
        raise DataError("network", f"the links of {kind} have {text}; give one each of each")
    number = len(made.links)
    ways = (way for each in (made.up, made.down) for _, way in RunLengthSequence.of(each).runs)
    if wrong := [link for way in ways for link in way.links if link >= number]:
        text = f"a way of {kind} takes link {wrong[0]}, and there are {number}, counted from 0"
        raise DataError("network", text)
    return made


def _describe(text: str, clients: Sequence[str]) -> str:
    """Return a message in which the clients are said to be what they are."""

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"{match[0]} ({clients[number]})" if number < len(clients) else match[0]

    return _CLIENT.sub(named, text)
