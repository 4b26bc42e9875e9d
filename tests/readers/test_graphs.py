"""The readers of graphs, and what is odd in their files; the tables are those of the page."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd

from fedsim.core.remarks import hearing
from fedsim.physics.topology import build_routes
from fedsim.scenario.building.network import read_graph
from tests.readers.matrix import GRAPHS, NUMBERS, TABLES, Cell, each_of, hold, summary

PAGE = Path(__file__).parents[2] / "docs/howto/own-data.md"
PAIRS = [("server", "hub"), ("hub", "client-0"), ("hub", "client-1"), ("hub", "client-2")]
LINKS = {frozenset(pair): (1e6, 0.05) for pair in PAIRS}
"""1 Mbit/s and 50 ms on each edge."""

Edges = list[tuple[Any, Any, dict[str, Any]]]


def edges(**attributes: Any) -> Edges:
    """Return the edges with attributes; by default those of `LINKS`."""
    return among(PAIRS, **attributes)


def among(pairs: Iterable[tuple[Any, Any]], **attributes: Any) -> Edges:
    own = attributes or {"rate": "1 Mbit/s", "latency": "50 ms"}
    return [(source, target, dict(own)) for source, target in pairs]


SPEED: Mapping[str, Any] = {"LinkSpeed": "1", "LinkSpeedUnits": "M", "latency": "50 ms"}
ODD: Mapping[str, Edges] = {
    "another unit": edges(rate="125 kBps", latency="0.05 s"),
    "a unit of another kind": edges(rate="5 W"),
    "a rate without a unit": edges(rate=1e6),
    "`bandwidth` and `delay`": edges(bandwidth="1000 kbit/s", delay="50 ms"),
    "`LinkSpeed` and its units": edges(**SPEED, LinkSpeedRaw=1e6),
    "`LinkSpeed` without units": edges(LinkSpeed="1", latency="50 ms"),
    "`LinkSpeed` and another `LinkSpeedRaw`": edges(**SPEED, LinkSpeedRaw=2e6),
    "an unknown attribute": edges(rate="1 Mbit/s", colour="red"),
    "two edges between two nodes": [*edges(), *among(PAIRS[:1], rate="1 kbit/s", latency="50 ms")],
    "`NA` for a rate": edges(rate="NA"),
    "thousands with commas": edges(rate="1,000 kbit/s"),
    "decimal commas": edges(rate="0,5 Mbit/s"),
    "clients not in the fleet": among([*PAIRS, ("hub", "client-7")]),
    "clients from 1": among([PAIRS[0], *(("hub", f"client-{n}") for n in (1, 2, 3))]),
    "nodes that are numbers, in any order": [(2, 0, {}), (0, 1, {})],
    "labels that are no names of nodes": [("Graz", "Linz", {}), ("Linz", "Wien", {})],
}
IN_A_HEADER = edges(rate_kbps=1000, delay_ms=50)
"""Another unit, as a list of edges may have it."""

NEIGHBOURS: Mapping[str, set[frozenset[str]]] = {
    "nodes that are numbers, in any order": {frozenset("20"), frozenset("01")},
    "labels that are no names of nodes": {frozenset("01"), frozenset("12")},
}


def listed(cell: Cell, path: Path) -> None:
    """Write edges as a list."""
    given = IN_A_HEADER if cell.oddity == "another unit" else ODD.get(cell.oddity, edges())
    names = ["source", "target", *given[0][2]]
    frame = pd.DataFrame([[one, other, *own.values()] for one, other, own in given], columns=names)
    if cell.oddity == "columns in another order":
        frame = frame[names[::-1]]
    if cell.oddity == "a column twice":
        frame = frame.assign(again="5 Mbit/s").rename(columns={"again": "rate"})
    separator = "\t" if cell.oddity == "separated by tabs" else ","
    frame.to_csv(path, index=False, header=cell.oddity != "no header", sep=separator)


def graph_file(cell: Cell, folder: Path) -> Path:
    """Write a graph in which something is odd."""
    if cell.reader.startswith("list"):
        path = folder / "g.csv"
        listed(cell, path)
    else:
        parallel = cell.oddity.startswith("two edges")
        graph: nx.Graph[Any] = nx.MultiGraph() if parallel else nx.Graph()
        for one, other, own in ODD.get(cell.oddity, edges()):
            graph.add_edge(one, other, **own)
        path = folder / f"g.{cell.reader.lower()}"
        (nx.write_gml if cell.reader == "GML" else nx.write_graphml)(graph, path)
    mark = b"\xef\xbb\xbf" if cell.oddity == "byte order mark" else b""
    path.write_bytes(b"" if cell.oddity == "empty file" else mark + path.read_bytes())
    return path


@each_of(GRAPHS)
def test_graphs(cell: Cell, tmp_path: Path) -> None:
    path = graph_file(cell, tmp_path)
    more = [("hub", "client-7")] if cell.oddity == "clients not in the fleet" else []
    links = LINKS | {frozenset(pair): (1e6, 0.05) for pair in more}

    with hearing() as heard:

        def made() -> tuple[Any, list[str]]:
            if cell.oddity in NEIGHBOURS:
                found = read_graph(path, ends=True).edges
                return {frozenset(pair) for pair in found}, heard
            graph = read_graph(path)
            build_routes(graph, clients=3)
            return {
                frozenset((one, other)): (own["rate"], own["latency"])
                for one, other, own in graph.edges(data=True)
            }, heard

        hold(cell, made, NEIGHBOURS.get(cell.oddity, links))


def test_the_page_on_files_has_the_tables_that_are_tried() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for table in (NUMBERS, TABLES, GRAPHS):
        assert summary(table) in text
