"""Networks around a server: a star, and a tree of gateways."""

# ruff: noqa: ARG002 - they follow no file

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.given import Given, Keys
from fedsim.blocks.quantities import Rate, Seconds
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import shown
from fedsim.physics.networks.base import DISCIPLINE, Need, Network, ReadGraph
from fedsim.physics.topology import Discipline, Topology, star, tree

GATEWAY = 500
"""The bytes that a gateway takes at the least: two links and their names."""


class ServerLink(Spec):
    """The server's link, which all transfers of the moment share."""

    uplink: Rate = as_written("unlimited", "clients to server: what it can receive of all")
    downlink: Rate = as_written("unlimited", "server to clients: what it can send to all")
    latency: Seconds = as_written("0 s", "one-way delay, added to the radio's")
    discipline: Discipline = Field(default="fair", description=DISCIPLINE)

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
    discipline: Discipline = Field(default="fair", description=DISCIPLINE)


class StarNetwork(Network):
    """Every client by its own radio straight to the server."""

    topology: Literal["star"] = Field(default="star", description="star, tree or graph")
    server: Given[ServerLink, ServerLink | Keys] = as_written({}, "the server's own link")

    def links(self, clients: int, read: ReadGraph) -> Topology:
        """Return the server's link, which all share."""
        return star(clients, **dict(self.server))

    @property
    def disciplines(self) -> Mapping[str, Discipline]:
        """That of the server's link."""
        return {"server.discipline": self.server.discipline}


class TreeNetwork(Network):
    """Every client by its own radio to a gateway, the gateways to the server.

    The clients are spread evenly, in order: the first ones at the first gateway.
    """

    topology: Literal["tree"] = Field(description="star, tree or graph")
    gateways: int = Field(ge=1, description="how many gateways")
    gateway: Gateway = as_written({}, "the link between each gateway and the server")
    server: Given[ServerLink, ServerLink | Keys] = as_written({}, "the server's own link")

    def links(self, clients: int, read: ReadGraph) -> Topology:
        """Return the server's link and those of the gateways."""
        each = self.gateway
        return tree(
            clients,
            self.gateways,
            rate=each.rate,
            gateway_latency=each.latency,
            gateway_discipline=each.discipline,
            **dict(self.server),
        )

    @property
    def disciplines(self) -> Mapping[str, Discipline]:
        """That of the server's link, and that of the gateways'."""
        return {
            "server.discipline": self.server.discipline,
            "gateway.discipline": self.gateway.discipline,
        }

    @property
    def needs(self) -> tuple[Need, ...]:
        """The gateways."""
        return (Need("gateways", f"{self.gateways} gateways", GATEWAY * self.gateways),)
