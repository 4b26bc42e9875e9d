"""The interfaces between algorithms and worlds.

An algorithm sees a `Server` or a `Client`, and nothing else of the world that it runs in. The world
sees `Message`s with exact sizes and `Work` with a count of operations, and nothing else of the
algorithm. `fedsim.sim` implements these interfaces in virtual time.
"""

from fedsim.core.ports.messages import (
    DENSE,
    SERVER,
    SIGNS,
    SILENCE,
    SPARSE,
    Array,
    Beacon,
    ClientId,
    Meaning,
    Message,
    Noted,
    Packer,
    Payload,
    Reply,
    Silence,
    Structure,
    constant,
    node_name,
)
from fedsim.core.ports.work import Basis, Oracle, Work, alike
from fedsim.core.ports.worlds import Client, Node, PairNode, Server

__all__ = [
    "DENSE",
    "SERVER",
    "SIGNS",
    "SILENCE",
    "SPARSE",
    "Array",
    "Basis",
    "Beacon",
    "Client",
    "ClientId",
    "Meaning",
    "Message",
    "Node",
    "Noted",
    "Oracle",
    "Packer",
    "PairNode",
    "Payload",
    "Reply",
    "Server",
    "Silence",
    "Structure",
    "Work",
    "alike",
    "constant",
    "node_name",
]
