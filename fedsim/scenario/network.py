"""The network between the clients' radios and the server: a star, a tree or a graph."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import Rate, Seconds
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import shown
from fedsim.physics.overlay import OVERLAYS, Neighbours
from fedsim.scenario.merging import STAR

Discipline = Literal["fair", "fifo", "slotted"]
"""How the transfers over a link share it: evenly, one at a time, or in fixed shares."""

Model = Literal["fluid", "lv08"]
"""How bits flow: max-min fair, or as in SimGrid's validated model LV08."""

Broadcast = Literal["unicast", "cell"]
"""How one message goes to many: a copy each, or one transmission that a cell hears."""

_DISCIPLINE = "how transfers share it: fair, fifo (one at a time) or slotted (fixed shares)"
_MODEL = "how bits flow: fluid (max-min fair), or lv08 (SimGrid's model of TCP)"
_BROADCAST = "a copy for each client, or one transmission that all clients of a group hear"


_PEERS = "who speaks to whom, for a method of peers, which has no server"


AnyOverlay = Annotated[Neighbours, OneOf(OVERLAYS)]
"""A field that takes a way to say who is whose neighbour."""


class ServerLink(Spec):
    """The server's link, which all transfers of the moment share."""

    uplink: Rate = as_written("unlimited", "clients to server: what it can receive of all")
    downlink: Rate = as_written("unlimited", "server to clients: what it can send to all")
    latency: Seconds = as_written("0 s", "one-way delay, added to the radio's")
    discipline: Discipline = Field(default="fair", description=_DISCIPLINE)

    @model_validator(mode="before")
    @classmethod
    def _named_by_way(cls, block: object) -> object:
        """Refuse the names of the server's own point of view, which turned the ways round."""
        if not isinstance(block, Mapping):
            return block
        if old := [key for key in ("up", "down") if key in block]:
            raise failure(*[(key, _renamed(key, block), block[key]) for key in old])
        return block


def _renamed(key: str, block: Mapping[str, object]) -> str:
    """Say what `up` and `down` of a server's link meant, and what to write now."""
    new, way = {"up": ("downlink", "server to clients"), "down": ("uplink", "clients to server")}[
        key
    ]
    return (
        f"a server's link has no '{key}' any more, which meant {way}; write {new}:"
        f" {shown(block[key])} for that (uplink is clients to server, downlink is server to"
        " clients)"
    )


class Gateway(Spec):
    """A gateway's link to the server."""

    rate: Rate = as_written("unlimited", "rate of each direction")
    latency: Seconds = as_written("0 s", "one-way delay, added to the radio's")
    discipline: Discipline = Field(default="fair", description=_DISCIPLINE)


class StarNetwork(Spec):
    """Every client by its own radio straight to the server."""

    topology: Literal["star"] = Field(default="star", description="star, tree or graph")
    server: ServerLink = as_written({}, "the server's own link")
    model: Model = Field(default="fluid", description=_MODEL)
    broadcast: Broadcast = Field(default="unicast", description=_BROADCAST)
    peers: AnyOverlay | None = Field(default=None, description=_PEERS)


class TreeNetwork(Spec):
    """Every client by its own radio to a gateway, the gateways to the server.

    The clients are spread evenly, in order: the first ones at the first gateway.
    """

    topology: Literal["tree"] = Field(description="star, tree or graph")
    gateways: int = Field(ge=1, description="how many gateways")
    gateway: Gateway = as_written({}, "the link between each gateway and the server")
    server: ServerLink = as_written({}, "the server's own link")
    model: Model = Field(default="fluid", description=_MODEL)
    broadcast: Broadcast = Field(default="unicast", description=_BROADCAST)
    peers: AnyOverlay | None = Field(default=None, description=_PEERS)


class Edge(Spec):
    """A link of a graph."""

    source: str = Field(min_length=1, description='one end: "server", "client-0" or a router')
    target: str = Field(min_length=1, description="the other end")
    rate: Rate = as_written("unlimited", "rate of each direction, or of both where half duplex")
    latency: Seconds = as_written("0 s", "one-way delay")
    discipline: Discipline = Field(default="fair", description=_DISCIPLINE)
    duplex: Literal["full", "half"] = Field(
        default="full", description="each direction for itself, or both on one link"
    )

    @model_validator(mode="after")
    def _two_ends(self) -> Self:
        if self.source == self.target:
            text = f'seen "{self.target}", which is the source as well; a link has two ends'
            raise failure(("target", text, self.target))
        return self


class GraphNetwork(Spec):
    """Any graph: nodes "server", "client-0", "client-1", ... and routers of any name.

    Messages take the way of least latency.
    """

    topology: Literal["graph"] = Field(description="star, tree or graph")
    path: Path | None = as_written(
        None, "a .graphml file, or a .csv list with the columns of an edge"
    )
    edges: tuple[Edge, ...] = as_written((), "the links, in place of a file")
    model: Model = Field(default="fluid", description=_MODEL)
    broadcast: Broadcast = Field(default="unicast", description=_BROADCAST)
    peers: AnyOverlay | None = Field(default=None, description=_PEERS)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.path is None and not self.edges:
            raise failure(("path", "missing: a graph is given by path or by edges", None))
        if self.path is not None and self.edges:
            raise failure(("edges", "seen beside path; give one of the two", None))
        if self.path is not None and self.path.suffix not in (".graphml", ".csv"):
            text = f'seen "{self.path}"; give a file that ends in .graphml or .csv'
            raise failure(("path", text, self.path))
        return self


NetworkSpec = StarNetwork | TreeNetwork | GraphNetwork
NETWORKS: Registry[Spec] = Registry(
    "network", (StarNetwork, TreeNetwork, GraphNetwork), key="topology"
)
"""The topologies."""

AnyNetwork = Annotated[NetworkSpec, OneOf(NETWORKS, default=STAR)]
"""A field that takes one of them; a star where none is named."""
