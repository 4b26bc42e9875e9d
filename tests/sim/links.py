"""The server's own connection, as most tests have it, and links of varying capacity."""

from dataclasses import dataclass, replace
from math import inf

from fedsim.physics.radios import Traced
from fedsim.physics.signals import Constant
from fedsim.physics.topology import Link, Topology, star


@dataclass(frozen=True)
class ServerLink:
    """What the server can receive and send, bit/s, and its latency, s."""

    uplink: float = inf
    downlink: float = inf
    latency: float = 0.0

    def of(self, clients: int) -> Topology:
        return star(clients, uplink=self.uplink, downlink=self.downlink, latency=self.latency)


def varying(topology: Topology) -> Topology:
    """Return the same, but with capacities that nobody knows to be constant."""

    def vary(link: Link) -> Link:
        assert link.capacity.signal is None
        return replace(link, capacity=Traced(Constant(link.capacity.peak)))

    return replace(topology, links=tuple([vary(link) for link in topology.links]))
