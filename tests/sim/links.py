"""The server's own connection, as most tests have it."""

from dataclasses import dataclass
from math import inf

from fedsim.physics.topology import Topology, star


@dataclass(frozen=True)
class ServerLink:
    """What the server can receive and send, bit/s, and its latency, s."""

    uplink: float = inf
    downlink: float = inf
    latency: float = 0.0

    def of(self, clients: int) -> Topology:
        return star(clients, uplink=self.uplink, downlink=self.downlink, latency=self.latency)
