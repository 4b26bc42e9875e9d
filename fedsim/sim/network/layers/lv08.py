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
    """Every message is a flow of the fluid network, with its own radio as a link."""

    def __init__(self, nature: Nature) -> None:
        super().__init__()
        self.nature = nature

    @property
    def factor(self) -> float:
        """What TCP leaves of a rate."""
        return routing.BANDWIDTH_FACTOR

    @property
    def own_traces(self) -> bool:
        """Every radio is a link of the network, in which it has its own trace."""
        return True

    def delay(self, latency: float) -> float:
        """Return how long a message takes before its bits contend for links, s."""
        return delay(latency)

    def bearers(self, site: Site) -> Bearers:
        """Return what carries the messages up and down of each client."""
        fluid = Fluid(calendar_of(site))
        lanes = [
            way._replace(client=n)
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
    """Return how long a message takes before its bits contend for links, s."""
    return routing.LATENCY_FACTOR * latency


def layer(block: NetworkModel, below: Layer | None) -> Lv08Layer:
    """Return the layer."""
    return Lv08Layer(block.nature)
