"""Networks: what lies between the clients' radios and the server. The block is the law."""

from fedsim.blocks.registry import Registry
from fedsim.physics.networks.base import Network, ReadGraph
from fedsim.physics.networks.central import Gateway, ServerLink, StarNetwork, TreeNetwork
from fedsim.physics.networks.graph import Edge, GraphNetwork, joined

NETWORKS: Registry[Network] = Registry(
    "network", (StarNetwork, TreeNetwork, GraphNetwork), Network, key="topology"
)
"""The topologies."""

__all__ = [
    "NETWORKS",
    "Edge",
    "Gateway",
    "GraphNetwork",
    "Network",
    "ReadGraph",
    "ServerLink",
    "StarNetwork",
    "TreeNetwork",
    "joined",
]
