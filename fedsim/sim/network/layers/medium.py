"""A medium that peers in range of each other share, in place of links."""

from functools import partial

from fedsim.physics.medium import RadioGraph
from fedsim.physics.radios import RadioLaw, awake_power
from fedsim.sim.network.medium import MediumNetwork
from fedsim.sim.network.models import FleetSite, Layer
from fedsim.sim.network.random_access import RandomAccessNetwork


class MediumLayer(Layer):
    """Messages go from radio to radio.

    Args:
        graph: the nodes in range of each other, and the medium.
        below: the network of links that the medium replaces.
    """

    def __init__(self, graph: RadioGraph, below: Layer) -> None:
        super().__init__(below)
        self._graph, self.nature = graph, graph.medium.nature

    def listening(self, radio: RadioLaw) -> float:
        """Return the power of a radio beyond its rest, W: it listens all the time."""
        return awake_power(radio)

    def peers(self, site: FleetSite) -> MediumNetwork:
        """Return the network of the lanes of peers."""
        if self._graph.medium.random:
            return RandomAccessNetwork(site.parts, self._graph, partial(site.rng, "medium"))
        return MediumNetwork(site.parts, self._graph)


def layer(block: RadioGraph, below: Layer) -> MediumLayer:
    """Return the layer."""
    return MediumLayer(block, below)
