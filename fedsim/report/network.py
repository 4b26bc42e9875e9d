"""The network, drawn: its links as wide as what they carried."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from fedsim.analysis import COLOURS, quantity
from fedsim.report.drawing import SYMBOLS, Link, Nodes, network, symbol_icon
from fedsim.report.parts import Figure, Key
from fedsim.report.study import Run, Study
from fedsim.report.topology import SERVER, Graph, graph_of, places

_FACTS = ("uplink", "downlink", "up", "down", "rate", "latency")

_FEW = 40  # nodes of a drawing with room for large ones

_WRITTEN = 12  # links that have room for what they carried

_INK, _SOFT = "#000000", "#666666"


def drawing(study: Study, run: Run) -> Figure:
    """Return the network as it is drawn: server, gateways or routers, clients, or peers."""
    members = run.rows(study.clients)
    graph = graph_of(run, members)
    kinds = dict(_kinds(graph, members, run.scenario["network"]))
    label = f"The network: {graph.note}"
    own = network(label, places(graph.links), _links(graph), kinds.values())
    keys = tuple(Key(name, symbol_icon(kind.symbol, kind.colour)) for name, kind in kinds.items())
    return Figure(own, f"{graph.note}; {_widths(graph, run)}", keys)


def _widths(graph: Graph, run: Run) -> str:
    most = max(map(sum, graph.carried.values()), default=0.0)
    text = f"a link is as wide as what it carried both ways under seed {run.seed}, at most "
    text += quantity(most, "bit")
    if run.scenario["network"].get("broadcast", "unicast") != "unicast":
        text += ", with a copy of a broadcast for each that received it"
    if graph.links.number_of_edges() > len(graph.carried):
        text += "; dashed ones are one of several ways as good as each other, not told apart here"
    return text


def _links(graph: Graph) -> Iterator[Link]:
    most = max(map(sum, graph.carried.values()), default=0.0)
    known, room = set(), len(graph.carried) <= min(_WRITTEN, len(graph.links))
    for (one, other), (there, back) in graph.carried.items():
        known |= {(one, other), (other, one)}
        told = f"{one} to {other}: {quantity(there, 'bit')}"
        if one != other:
            told += f"\n{other} to {one}: {quantity(back, 'bit')}"
        word = quantity(there + back, "bit") * room
        yield Link((one, other), (there + back) / most if most else 0.0, told, word)
    for one, other in graph.links.edges():
        if (one, other) not in known:
            yield Link(
                (one, other), None, f"{one}, {other}: one of several ways as good as each other"
            )


def _kinds(
    graph: Graph, members: pd.DataFrame, facts: Mapping[str, Any]
) -> Iterator[tuple[str, Nodes]]:
    """Yield the kinds of nodes, what runs the network first."""
    inner = [node for node, own in graph.links.nodes(data=True) if "group" not in own]
    if SERVER in inner:
        inner.remove(SERVER)
        told = {SERVER: _told(SERVER, facts.get("server"))}
        yield SERVER, Nodes("square", _INK, 10, told, SERVER)
    if inner:
        name = "gateway" if facts["topology"] == "tree" else "router"
        own = {node: _told(node, facts.get("gateway")) for node in inner}
        yield name, Nodes("square", _SOFT, 7, own)
    for group in sorted(members["group"].unique()):
        own = members[members["group"] == group]
        kind, place = str(own["kind"].iloc[0]), int(group)
        yield f"{kind} ({len(own):,})", _clients(graph, own, kind, place)


def _told(name: str, link: Mapping[str, Any] | None) -> str:
    facts = [f"{key} {link[key]}" for key in _FACTS if link and key in link]
    return "\n".join([name, *facts])


def _clients(graph: Graph, own: pd.DataFrame, kind: str, place: int) -> Nodes:
    symbol = list(SYMBOLS)[place % len(SYMBOLS)]
    colour = COLOURS[place % len(COLOURS)]
    whole = f"kind {place}"
    if whole in graph.links:
        text = f"{len(own):,} clients\n{kind}\n{own['samples'].sum():,} samples"
        return Nodes(symbol, colour, 14, {whole: text}, whole)
    facts = zip(own["client"].astype(str), own["samples"], strict=True)
    told = {client: f"{client}\n{kind}\n{samples:,} samples" for client, samples in facts}
    return Nodes(symbol, colour, 7 if len(graph.links) <= _FEW else 4.5, told)
