"""The server's own connection, as most tests have it."""

from dataclasses import dataclass
from math import inf

from fedsim.physics.topology import Topology, star


@dataclass(frozen=True)
class ServerLink:
    """What the server can send and receive, bit/s, and its latency, s."""

    up: float = inf
    down: float = inf
    latency: float = 0.0

    def of(self, clients: int) -> Topology:
        return star(clients, up=self.up, down=self.down, latency=self.latency)
