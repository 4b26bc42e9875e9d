"""Files of edges: lists in CSV, and GraphML."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

from pydantic import ValidationError

from fedsim.errors import DataError
from fedsim.files import decompressed, read_bytes
from fedsim.physics.networks import Edge, joined
from fedsim.scenario.faults import faults_of
from fedsim.scenario.located import Origin, located

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

_TIMES = 100
"""The bytes of memory that a byte of a file takes: an edge of 30 characters is 3 kB of graph."""

_REST = "cells beyond the columns"

Row = tuple[str, Mapping[str, Any]]
"""Where an edge was written, and what was written there."""


def read_graph(path: Path) -> "nx.Graph[str]":
    """Return the graph that a file holds.

    Raises:
        DataError: it cannot be read as one.
        OSError: the file cannot be read.
    """
    if path.suffix == ".csv":
        return joined(_edges(_csv_rows(path), path), directed=False)
    graph = _graphml(path)
    return joined(_edges(_graphml_rows(graph), path), directed=graph.is_directed())


def _edges(rows: Iterable[Row], path: Path) -> Iterator[tuple[str, Edge]]:
    """Yield the edges of a file: its cells are read like the values of a scenario."""
    for where, row in rows:
        try:
            yield where, Edge.model_validate(row)
        except ValidationError as error:
            faults = faults_of(error, located(row, Origin(f"{path}, {where}")), Edge, None)
            raise DataError("path", "; ".join(map(str, faults))) from error


def _csv_rows(path: Path) -> Iterator[Row]:
    """Yield the lines of a list of edges; an empty cell has the default of its column."""
    content = read_bytes(path, "path", times=_TIMES).decode("utf-8-sig", "backslashreplace")
    reader = csv.DictReader(StringIO(content, newline=""), restkey=_REST, skipinitialspace=True)
    try:
        for row in reader:
            yield f"line {reader.line_num}", {key: cell for key, cell in row.items() if cell}
    except csv.Error as error:
        raise DataError("path", f"{path}, line {reader.line_num}: {error}") from error


def _graphml(path: Path) -> "nx.Graph[str]":
    import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

    content = read_bytes(path, "path", times=_TIMES)
    content = decompressed(content, path, "path", times=_TIMES)
    if b"<!DOCTYPE" in content or b"\0" in content:  # a few lines could stand for terabytes
        text = f"{path} is no GraphML that is read: give it in UTF-8, without a document type"
        raise DataError("path", text)
    try:
        graph: nx.Graph[str] = nx.read_graphml(BytesIO(content))
    except (ParseError, nx.NetworkXException, KeyError, ValueError, TypeError) as error:
        raise DataError("path", f"{path} is no GraphML: {error}") from error
    if graph.is_multigraph():
        text = f"{path} joins two nodes by several edges; give one edge, of their sum"
        raise DataError("path", text)
    return graph


def _graphml_rows(graph: "nx.Graph[str]") -> Iterator[Row]:
    for source, target, attributes in graph.edges(data=True):
        known = {name: value for name, value in attributes.items() if name != "id"}
        yield f"edge {source} - {target}", {"source": source, "target": target, **known}
