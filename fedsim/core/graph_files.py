"""Graphs in files as others publish them: GraphML and GML, as of the Internet Topology Zoo."""

import re
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from fedsim.core.blocks.wording import printable
from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_bytes
from fedsim.core.remarks import remark

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

ENDINGS = (".graphml", ".gml")

_TIMES = 100
"""The bytes of memory that a byte of a file takes: an edge of 30 characters is 3 kB of graph."""

_NODE = re.compile(r"server|client-[0-9]+")
_GRAPH = re.compile(r"^\s*graph\s*\[", re.MULTILINE)


def read_graph_file(path: Path) -> "nx.Graph[str]":
    """Return the graph of a GraphML or GML file; a multigraph if it has parallel edges.

    Nodes have their ids for names. If no id is "server" or "client-0", "client-1", ..., but a label
    is, they have their labels, and nodes that share one also their id, as in "Vienna (7)". So they
    have in GML if all labels are different whole numbers, as NetworkX writes nodes that are
    numbers, in any order.

    Raises:
        DataError: under the key "path", it is no such file.
        OSError: it cannot be read.
    """
    content = decompress(read_bytes(path, "path", times=_TIMES), path, "path", times=_TIMES)
    graph = (_gml if path.suffix == ".gml" else _graphml)(path, content)
    return _labelled(graph, path)


def _graphml(path: Path, content: bytes) -> "nx.Graph[str]":
    import networkx as nx

    if b"<!DOCTYPE" in content or b"\0" in content:  # a few lines could stand for terabytes
        text = f"{path} is no GraphML that is read: give it in UTF-8, without a document type"
        raise DataError("path", text)
    try:
        graph: nx.Graph[str] = nx.read_graphml(BytesIO(content))
    except (ParseError, nx.NetworkXException, KeyError, ValueError, TypeError) as error:
        raise DataError("path", f"{path} is no GraphML: {error}") from error
    return graph


def _gml(path: Path, content: bytes) -> "nx.Graph[str]":
    import networkx as nx

    # Published files have parallel edges, and do not say so, without which they are an error.
    text = _GRAPH.sub("graph [ multigraph 1", content.decode("utf-8-sig", "replace"), count=1)
    try:
        graph: nx.Graph[str] = nx.parse_gml(text, label="id")
    except (nx.NetworkXException, LookupError, ValueError, TypeError, RecursionError) as error:
        raise DataError("path", f"{path} is no GML: {error}") from error
    named: nx.Graph[str] = nx.relabel_nodes(graph, {node: str(node) for node in graph.nodes})
    if any(count > 1 for count in Counter(_pairs(named)).values()):
        return named
    plain: nx.Graph[str] = nx.DiGraph(named) if named.is_directed() else nx.Graph(named)
    return plain


def _pairs(graph: "nx.Graph[str]") -> list[tuple[str, ...]]:
    ends = ((str(one), str(other)) for one, other in graph.edges())
    return list(ends) if graph.is_directed() else [tuple(sorted(pair)) for pair in ends]


def _are_numbers(labels: Mapping[str, str], graph: "nx.Graph[str]") -> bool:
    """Return whether all nodes have labels that are different whole numbers."""
    return len({*labels.values()}) == len(graph) > 0 and all(map(str.isdecimal, labels.values()))


def _labelled(graph: "nx.Graph[str]", path: Path) -> "nx.Graph[str]":
    """Return the graph under its nodes' labels, if these are the names of a scenario's nodes."""
    import networkx as nx

    labels = {
        node: str(attributes["label"])
        for node, attributes in graph.nodes(data=True)
        if "label" in attributes
    }
    if any(map(_NODE.fullmatch, graph)):
        return graph
    if not (any(map(_NODE.fullmatch, labels.values())) or _are_numbers(labels, graph)):
        if any(node != label for node, label in labels.items()):
            remark(f"{printable(path.name)}: nodes have their ids for names, not their labels")
        return graph
    shared = {label for label, count in Counter(labels.values()).items() if count > 1}
    if wrong := sorted(label for label in shared if _NODE.fullmatch(label)):
        raise DataError("path", f'{path} has several nodes with the label "{wrong[0]}"; give one')
    names = {
        node: f"{label} ({node})" if label in shared else label for node, label in labels.items()
    }
    if len({*names.values(), *(graph.nodes - names.keys())}) < len(graph):
        raise DataError("path", f"{path} has nodes whose labels are the ids of others; rename them")
    renamed: nx.Graph[str] = nx.relabel_nodes(graph, names)
    return renamed
