"""The fluid network: transfers that share a link have equal shares of it, and peers have routes."""

from functools import partial

from fedsim.physics.network_models import Bearers, Site
from fedsim.sim.network.models import FleetSite, Layer
from fedsim.sim.network.peers import PeerNetwork, PeerRoutes
from fedsim.sim.network.transmission import FluidPlan


class FluidLayer(Layer):
    """Max-min fair shares of links."""

    def bearers(self, site: Site) -> Bearers:
        """Return what carries the messages up and down of each client."""
        return self.over(FluidPlan(site), site)

    def over(self, plan: FluidPlan, site: Site) -> Bearers:
        """Return the bearers of a plan."""
        return plan.bearers

    def peers(self, site: FleetSite) -> PeerNetwork:
        """Return the network of the lanes of peers."""
        ways = PeerRoutes(site)
        network = PeerNetwork(site.parts, ways, partial(site.rng, "links"))
        network.relays = site.relays
        return network


def layer(block: object, below: Layer | None) -> FluidLayer:
    """Return the layer."""
    return FluidLayer(below)
