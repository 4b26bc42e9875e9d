"""What every network is: a block of a scenario, and the law of its links."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from fedsim.blocks.choice import OneOf
from fedsim.blocks.fields import as_written
from fedsim.blocks.given import Block, Given
from fedsim.blocks.listed import KindFirst
from fedsim.physics.overlay import OVERLAYS, Neighbours
from fedsim.physics.topology import Discipline, Topology

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

Model = Literal["fluid", "lv08"]
"""How bits flow: max-min fair, or as in SimGrid's validated model LV08."""

Broadcast = Literal["unicast", "cell"]
"""How one message goes to many: a copy each, or one transmission that a cell hears."""

DISCIPLINE = "how transfers share it: fair, fifo (one at a time) or slotted (fixed shares)"
_MODEL = "how bits flow: fluid (max-min fair), or lv08 (SimGrid's model of TCP)"
_BROADCAST = "a copy for each client, or one transmission that all clients of a group hear"
_PEERS = "who speaks to whom, for a method of peers, which has no server"

AnyOverlay = Given[Annotated[Neighbours, OneOf(OVERLAYS)] | None, Neighbours | Block | None]
"""A field that takes a way to say who is whose neighbour."""

ReadGraph = Callable[[Path], "nx.Graph[str]"]
"""Reads a file of edges, each with the attributes that `fedsim.physics.topology.routed` knows."""


class Need(NamedTuple):
    """What a network takes of memory beside its clients.

    Attributes:
        key: of the block, which says how much.
        what: it is, for messages.
        bytes: at the least.
    """

    key: str
    what: str
    bytes: int


class Network(KindFirst):
    """What lies between clients and server. One of one's own has its `topology` and its `links`.

    A client's own radio is no part of it.
    """

    topology: str
    model: Model = Field(default="fluid", description=_MODEL)
    broadcast: Broadcast = Field(default="unicast", description=_BROADCAST)
    peers: AnyOverlay = as_written(None, _PEERS)

    @abstractmethod
    def links(self, clients: int, read: ReadGraph) -> Topology:
        """Return the links and the routes of so many clients.

        Args:
            clients: how many.
            read: reads a file of edges, of a path relative to the scenario.

        Raises:
            DataError: there are none.
        """

    @property
    def written(self) -> str:
        """The key that says what links there are, to which what is wrong with them belongs."""
        return "topology"

    @property
    def disciplines(self) -> Mapping[str, Discipline]:
        """How the links are shared that the block speaks of, by their keys."""
        return {}

    @property
    def needs(self) -> tuple[Need, ...]:
        """What is made beside the links of a client."""
        return ()
