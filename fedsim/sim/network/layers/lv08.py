"""LV08, SimGrid's validated model of TCP: fluid flows with less bandwidth and more latency.

Velho, Legrand, "Accuracy Study and Improvement of Network Simulation in the SimGrid Framework",
SIMUTools 2009.
"""

from functools import lru_cache

from fedsim.core.blocks.nature import Nature
from fedsim.physics.network_models import Bearers, NetworkModel, Site
from fedsim.sim.network import routing
from fedsim.sim.network.fluid import Fluid
from fedsim.sim.network.models import Layer
from fedsim.sim.network.transmission import FluidBearer, calendar_of, lanes_of, rate_callback


class Lv08Layer(Layer):
    """Every message is a flow of the fluid network, and its radio is a link of that network."""

    def __init__(self, nature: Nature) -> None:
        super().__init__()
        self.nature = nature

    @property
    def factor(self) -> float:
        """The share of a rate that TCP leaves for the bits of a message."""
        return routing.BANDWIDTH_FACTOR

    @property
    def own_traces(self) -> bool:
        """True: every radio is a link of the network, and has its own trace."""
        return True

    def delay(self, latency: float) -> float:
        """Return the delay before the bits of a message compete for links, s."""
        return delay(latency)

    def bearers(self, site: Site) -> Bearers:
        """Return the bearers of each client, uplink and downlink."""
        fluid = Fluid(calendar_of(site))
        lanes = [
            way._replace(client=n)
            # Numbered by client, since the path needs the latency of each radio; `lanes_of` has one
            # lane for a run of equal clients.
            for direction in lanes_of(site)
            for n, way in enumerate(direction)
        ]
        paths = routing.paths(fluid, site.topology, lanes, site.latency)
        factor, both = routing.BANDWIDTH_FACTOR, []
        for path, lane in zip(paths, lanes, strict=True):
            signal, callback = (
                lane.rate.with_factor(factor).signal,
                rate_callback(lane, site.changed),
            )
            both.append(FluidBearer(fluid, path, callback, signal, factor))
        return both[: site.clients], both[site.clients :]


@lru_cache
def delay(latency: float) -> float:
    """Return the delay before the bits of a message compete for links, s."""
    return routing.LATENCY_FACTOR * latency


def layer(block: NetworkModel, below: Layer | None) -> Lv08Layer:
    """Return the layer."""
    return Lv08Layer(block.nature)
