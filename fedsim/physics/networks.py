"""Networks: the links between the clients' radios and the server. Each block is its own law."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from fedsim.core.blocks.choice import OneOf, failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import Fraction, Rate, Seconds
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, Keys, KindFirst, Spec, as_written
from fedsim.core.blocks.wording import show
from fedsim.core.errors import DataError
from fedsim.physics.cells import CellSharing
from fedsim.physics.failures import EdgeFailures
from fedsim.physics.medium import Medium
from fedsim.physics.mixing import MIXING, Mixing
from fedsim.physics.network_models import AnyNetworkModel, FluidFlows, TcpFlows
from fedsim.physics.overlay import OVERLAYS, Neighbours, check_source
from fedsim.physics.packet_loss import ALL_LOST
from fedsim.physics.radios.lorawan import LoRaGateway
from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import Discipline, Topology, build_routes, star, tree
from fedsim.physics.wifi import Wifi

# Base class of networks: a block of a scenario, and the law of its links.

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

Broadcast = Literal["unicast", "cell"]
"""How a message is sent to many clients: one copy per client, or one broadcast per cell."""

DISCIPLINE = "how transfers share it: fair, fifo (one at a time) or slotted (fixed shares)"
_MODEL = (
    "how transfers share links: fluid (max-min fair), lv08 (SimGrid's model of TCP), tcp"
    " (congestion windows), or a model of your own"
)
_TCP = "the parameters of model: tcp; its defaults if omitted"
_WIFI = "Wi-Fi cells, whose clients share the channel; null: Wi-Fi radios do not interfere"
_BROADCAST = "one copy per client, or one transmission that all clients of a group receive"
_LORA = "the gateway of the fleet's LoRa radios, at which frames collide; null: they do not"
_CELL = "the cells of the fleet's LTE and 5G radios; null: each radio has a cell to itself"
_OPTIONAL = ("tcp", "lora", "cell", "wifi", "mixing", "medium", "failures", "directed")
_DIRECTED = "whether an edge leads from source to target only; GraphML and GML files state it"
_PEERS = "the graph of neighbours, for a decentralised method (peers without a server)"

AnyOverlay = Given[Annotated[Neighbours, OneOf(OVERLAYS)] | None, Neighbours | Block | None]
"""A field for a neighbourhood overlay."""

AnyMixing = Given[Annotated[Mixing, OneOf(MIXING)] | None, Mixing | Block | None]
"""A field for a mixing matrix."""

_MIXES = "the mixing matrix of peers; by default metropolis, or out-degree in a directed graph"

_FAILS = "random failures of edges between peers; null: none"
_MEDIUM = "the radio medium that peers in range of each other share; null: they send over links"

BROADCAST = Nature(shares="a broadcast is received by a whole cell")
"""The nature of one transmission for all clients of a group."""

ReadGraph = Callable[..., "nx.Graph[str]"]
"""Reads a file of edges, from its path, into a graph with the attributes of
`fedsim.physics.topology.build_routes`. With `directed=True`, an edge of a list leads one way
only."""


class Need(NamedTuple):
    """The memory that a network needs besides that of its clients.

    Attributes:
        key: the key of the block that determines the amount.
        what: a description, for messages.
        bytes: a lower bound, bytes.
    """

    key: str
    what: str
    bytes: int


class Network(KindFirst):
    """The network between clients and server. A user-defined one has `topology` and `links`.

    It does not include the clients' own radios.
    """

    topology: str
    model: AnyNetworkModel = as_written("fluid", _MODEL)
    broadcast: Broadcast = Field(default="unicast", description=_BROADCAST)
    peers: AnyOverlay = as_written(None, _PEERS)
    mixing: AnyMixing = as_written(None, _MIXES)
    failures: Given[EdgeFailures | None, EdgeFailures | Keys | None] = as_written(None, _FAILS)
    medium: Given[Medium | None, Medium | Keys | None] = as_written(None, _MEDIUM)
    tcp: Given[Tcp | None, Tcp | Keys | None] = as_written(None, _TCP)
    wifi: Given[Wifi | None, Wifi | Keys | None] = as_written(None, _WIFI)

    @model_validator(mode="after")
    def _ways_of_tcp(self) -> Self:
        """Check that the settings suit TCP, whose queues all messages share packet by packet."""
        if not isinstance(self.model, TcpFlows):
            if self.tcp is not None:
                text = f"got parameters of TCP under model: {self.model.kind}; give model: tcp"
                raise failure(("tcp", text, self.model.kind))
            return self
        if self.broadcast != "unicast":
            text = f"got {self.broadcast}, but a connection of TCP has one receiver; use unicast"
            raise failure(("broadcast", text, self.broadcast))
        for key, discipline in self.disciplines.items():
            if discipline != "fair":
                text = f"got {discipline}, but under model: tcp all share a link's queue; use fair"
                raise failure((key, text, discipline))
        return self

    @model_validator(mode="after")
    def _ways_of_wifi(self) -> Self:
        """Check that the settings suit Wi-Fi cells."""
        if self.wifi is None:
            return self
        if not isinstance(self.model, FluidFlows):
            text = f"got {self.model.kind}, but the air of wifi is shared by fluid alone"
            raise failure(("model", text, self.model.kind))
        if self.broadcast != "unicast":
            text = f"got {self.broadcast}, but what wifi sends is acknowledged by one; use unicast"
            raise failure(("broadcast", text, self.broadcast))
        if self.peers is not None or self.topology == "graph":
            key = "topology" if self.peers is None else "peers"
            text = "got links between clients, but wifi has access points; use star or tree"
            raise failure((key, text, getattr(self, key)))
        if self.gateway_of_lora is not None:
            text = "got a gateway beside wifi, in whose cells all radios are; give one of both"
            raise failure(("lora", text, self.gateway_of_lora))
        return self

    @model_validator(mode="after")
    def _ways_of_medium(self) -> Self:
        """Check that a medium has neither links beside it nor a server."""
        if self.failures is not None and self.peers is None:
            text = "got failures of edges between peers; give peers, or leave it out"
            raise failure(("failures", text, None))
        if self.medium is None:
            return self
        if self.peers is None:
            text = "got a medium, which peers in range share; give peers, or leave it out"
            raise failure(("medium", text, None))
        if self.topology != "star" or getattr(self, "server", ServerLink()) != ServerLink():
            text = "got links beside medium, in which messages go from radio to radio; leave one"
            raise failure(("medium", f"{text} of the two out", None))
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit optional keys without a value, so that older scenarios keep their bytes."""
        written: dict[str, object] = write(self)
        return {
            key: value
            for key, value in written.items()
            if value is not None or key not in _OPTIONAL
        }

    @property
    def layers(self) -> tuple[tuple[str, Spec], ...]:
        """The blocks that carry messages, by name: the model of flows, then those on top of it."""
        model = self.connections if isinstance(self.model, TcpFlows) else self.model
        around = {"cell": self.cell_sharing, "wifi": self._cells, "lora": self.gateway_of_lora}
        named = [(name, block) for name, block in around.items() if block is not None]
        return ((self.model.kind, model), *named)

    @property
    def _cells(self) -> Wifi | None:
        """The Wi-Fi cells. Each gateway has one unless the block gives their number."""
        if self.wifi is None or self.wifi.cells or not self.access_points:
            return self.wifi
        return self.wifi.model_copy(update={"cells": self.access_points})

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield the nature of a broadcast; the blocks declare the rest."""
        if self.broadcast == "cell":
            yield "broadcast", BROADCAST

    @property
    def connections(self) -> Tcp:
        """TCP's parameters, or the default ones."""
        return self.tcp or Tcp()

    @property
    def gateway_of_lora(self) -> LoRaGateway | None:
        """The gateway of the fleet's LoRa radios; None if their frames do not collide."""
        return None

    @property
    def cell_sharing(self) -> CellSharing | None:
        """The cells of the fleet's LTE and 5G radios; None if each radio has a cell to itself."""
        return None

    @abstractmethod
    def links(self, clients: int, read: ReadGraph) -> Topology:
        """Return the links and the routes for a number of clients.

        Args:
            clients: the number of clients.
            read: reads a file of edges, from a path relative to the scenario.

        Raises:
            DataError: the network does not suit this number of clients.
        """

    @property
    def access_points(self) -> int:
        """The number of gateways, each of which is a cell under `wifi`; 0 for a single cell."""
        return 0

    @property
    def written(self) -> str:
        """The key of the links, used in errors about them."""
        return "topology"

    @property
    def disciplines(self) -> Mapping[str, Discipline]:
        """The disciplines of the links in the block, by key."""
        return {}

    @property
    def needs(self) -> tuple[Need, ...]:
        """The memory needed besides that of the clients' links."""
        return ()


# Networks around a server: a star, and a tree of gateways.


GATEWAY = 500
"""The memory of a gateway, bytes, a lower bound: two links and their names."""


class ServerLink(Spec):
    """The server's link, which all concurrent transfers share."""

    uplink: Rate = as_written("unlimited", "clients to server: total receiving rate")
    downlink: Rate = as_written("unlimited", "server to clients: total sending rate")
    latency: Seconds = as_written("0 s", "one-way delay, added to the radio's")
    discipline: Discipline = Field(default="fair", description=DISCIPLINE)

    @model_validator(mode="before")
    @classmethod
    def _named_by_way(cls, block: object) -> object:
        """Refuse the former keys `up` and `down`, named from the server's point of view."""
        if not isinstance(block, Mapping):
            return block
        # Both keys would be valid again with the opposite meaning, so they have to fail loudly.
        if old := [key for key in ("up", "down") if key in block]:
            raise failure(*[(key, _rename(key, block), block[key]) for key in old])
        return block


def _rename(key: str, block: Mapping[str, object]) -> str:
    """Return the error about `up` or `down`: its former meaning, and its replacement."""
    new, way = {"up": ("downlink", "server to clients"), "down": ("uplink", "clients to server")}[
        key
    ]
    return (
        f"a server's link has no '{key}' any more, which meant {way}; write {new}:"
        f" {show(block[key])} for that (uplink is clients to server, downlink is server to"
        " clients)"
    )


class Gateway(Spec):
    """A gateway's link to the server."""

    rate: Rate = as_written("unlimited", "rate of each direction")
    latency: Seconds = as_written("0 s", "one-way delay, added to the radio's")
    discipline: Discipline = Field(default="fair", description=DISCIPLINE)


class StarNetwork(Network):
    """Every client is connected to the server by its own radio."""

    topology: Literal["star"] = Field(default="star", description="star, tree or graph")
    server: Given[ServerLink, ServerLink | Keys] = as_written({}, "the server's own link")
    lora: Given[LoRaGateway | None, LoRaGateway | Keys | None] = as_written(None, _LORA)
    cell: Given[CellSharing | None, CellSharing | Keys | None] = as_written(None, _CELL)

    @model_validator(mode="after")
    def _ways_of_shared_air(self) -> Self:
        """Check that the settings suit a LoRa gateway, or cells."""
        wrong = list[tuple[str, str, object]]()
        for key, block in (("lora", self.lora), ("cell", self.cell)):
            if block is None:
                continue
            if not isinstance(self.model, FluidFlows):
                kind = self.model.kind
                wrong.append(("model", f"got {kind} beside {key}; use fluid", kind))
            if self.broadcast != "unicast":
                text = f"got {self.broadcast} beside {key}, in which each client has its own share"
                wrong.append(("broadcast", f"{text}; use unicast", self.broadcast))
            if self.peers is not None:
                text = f"got neighbours beside {key}, in which all speak to a server"
                wrong.append(("peers", f"{text}; give one of both", None))
        if wrong:
            raise failure(*wrong)
        return self

    @property
    def gateway_of_lora(self) -> LoRaGateway | None:
        """The gateway of the fleet's LoRa radios."""
        return self.lora

    @property
    def cell_sharing(self) -> CellSharing | None:
        """The cells of the fleet's LTE and 5G radios."""
        return self.cell

    def links(self, clients: int, read: ReadGraph) -> Topology:
        """Return the server's link, shared by all clients."""
        return star(clients, **dict(self.server))

    @property
    def disciplines(self) -> Mapping[str, Discipline]:
        """The discipline of the server's link."""
        return {"server.discipline": self.server.discipline}


class TreeNetwork(Network):
    """Every client is connected to a gateway by its own radio, and the gateways to the server.

    The clients are distributed evenly, in order: the first clients belong to the first gateway.
    """

    topology: Literal["tree"] = Field(description="star, tree or graph")
    gateways: int = Field(ge=1, description="number of gateways")
    gateway: Gateway = as_written({}, "the link between each gateway and the server")
    server: Given[ServerLink, ServerLink | Keys] = as_written({}, "the server's own link")

    def links(self, clients: int, read: ReadGraph) -> Topology:
        """Return the links of the server and of the gateways."""
        gateway = self.gateway
        return tree(
            clients,
            self.gateways,
            rate=gateway.rate,
            gateway_latency=gateway.latency,
            gateway_discipline=gateway.discipline,
            **dict(self.server),
        )

    @property
    def disciplines(self) -> Mapping[str, Discipline]:
        """The disciplines of the server's link and of the gateways' links."""
        return {
            "server.discipline": self.server.discipline,
            "gateway.discipline": self.gateway.discipline,
        }

    @property
    def access_points(self) -> int:
        """The number of gateways."""
        return self.gateways

    @property
    def needs(self) -> tuple[Need, ...]:
        """The memory of the gateways."""
        return (Need("gateways", f"{self.gateways} gateways", GATEWAY * self.gateways),)


# A network that is an arbitrary graph, from the scenario or a file.

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx


class Edge(Spec):
    """A link of a graph."""

    source: str = Field(min_length=1, description='one end: "server", "client-0" or a router')
    target: str = Field(min_length=1, description="the other end")
    rate: Rate = as_written("unlimited", "rate of each direction, or of both for half duplex")
    latency: Seconds = as_written("0 s", "one-way delay")
    discipline: Discipline = Field(default="fair", description=DISCIPLINE)
    duplex: Literal["full", "half"] = Field(
        default="full",
        description="full: each direction has the rate to itself; half: both directions share it",
    )
    loss: Fraction = as_written("0 %", "share of lost packets, below 100 %; only between peers")

    @model_validator(mode="after")
    def _two_ends(self) -> Self:
        if self.source == self.target:
            text = f'got "{self.target}", which is also the source; a link has two ends'
            raise failure(("target", text, self.target))
        if self.loss >= 1:
            raise failure(("loss", f'got "100 %": {ALL_LOST}', self.loss))
        return self

    @model_serializer(mode="wrap")
    def _without_loss(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit the loss of a link without losses, so that older scenarios keep their bytes."""
        written: dict[str, object] = write(self)
        return {key: value for key, value in written.items() if key != "loss" or self.loss}


def build_graph(edges: Iterable[tuple[str, Edge]], *, directed: bool) -> "nx.Graph[str]":
    """Return the graph of edges.

    Args:
        edges: the edges, each with a description of its origin, for messages.
        directed: whether each edge leads one way only.

    Raises:
        DataError: two edges join the same nodes; the key is "edges".
    """
    import networkx as nx

    graph: nx.Graph[str] = nx.DiGraph() if directed else nx.Graph()
    for where, edge in edges:
        if graph.has_edge(edge.source, edge.target):
            ends = f"{edge.source} and {edge.target}"
            raise DataError("edges", f"{where}: {ends} are connected already; give one edge")
        attributes = edge.model_dump(exclude={"source", "target"})
        graph.add_edge(edge.source, edge.target, **attributes)
    return graph


class GraphNetwork(Network):
    """Any graph: nodes "server", "client-0", "client-1", ... and routers of any name.

    Messages take the route of least latency, which does not change when a node on it fails. A
    client on the route of others forwards their messages: its own radio receives and sends them,
    with energy from its own battery. A message that reaches such a client while it is off or
    offline is lost.

    A GraphML or GML file is read as published. Links may have the Topology Zoo's `LinkSpeedRaw`, or
    `LinkSpeed` and `LinkSpeedUnits`; its texts, such as `LinkLabel`, are ignored. Nodes are named
    by their labels if these are `server` and `client-0` and so on, or all whole numbers; otherwise
    by their ids. Of parallel edges only the one with the highest rate counts, and a remark says so.
    """

    topology: Literal["graph"] = Field(description="star, tree or graph")
    path: Given[Path | None, Path | str | None] = as_written(
        None, "a .graphml or .gml file, or a .csv list with the columns of an edge"
    )
    edges: tuple[Edge, ...] = as_written((), "the links, in place of a file")
    directed: bool | None = Field(default=None, description=_DIRECTED)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        check_source(self.path, self.edges, ("path", "a graph is given by path or by edges"))
        return self

    def links(self, clients: int, read: ReadGraph) -> Topology:
        """Return the edges as links, and the best routes over them."""
        if self.path is None:
            rows = [(f"edge {number}", edge) for number, edge in enumerate(self.edges)]
            graph = build_graph(rows, directed=bool(self.directed))
        else:
            graph = read(self.path, directed=True) if self.directed else read(self.path)
            if self.directed and not graph.is_directed():
                text = f'{self.path} has edgedefault="undirected"; give directed, or leave directed'
                raise DataError("path", f"{text} out")
        return build_routes(graph, clients, server=self.peers is None)

    @property
    def written(self) -> str:
        """The key of the links: `path` or `edges`."""
        return "edges" if self.path is None else "path"

    @property
    def disciplines(self) -> Mapping[str, Discipline]:
        """The disciplines of the edges in the scenario, by key."""
        return {f"edges.{n}.discipline": edge.discipline for n, edge in enumerate(self.edges)}


NETWORKS: Registry[Network] = Registry(
    "network", (StarNetwork, TreeNetwork, GraphNetwork), Network, key="topology"
)
"""The kinds of networks."""
