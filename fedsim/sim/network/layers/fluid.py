"""The fluid network: transfers share links max-min fairly, and peers have routes."""

from functools import partial
from typing import TYPE_CHECKING

from fedsim.physics.network_models import Bearers, Site
from fedsim.sim.network.models import FleetSite, Layer
from fedsim.sim.network.transmission import FluidPlan

if TYPE_CHECKING:
    from fedsim.sim.network.peers import PeerNetwork


class FluidLayer(Layer):
    """Max-min fair shares of links."""

    def bearers(self, site: Site) -> Bearers:
        """Return the bearers of each client, uplink and downlink."""
        return self.over(FluidPlan(site), site)

    def over(self, plan: FluidPlan, site: Site) -> Bearers:
        """Return the bearers of a plan."""
        return plan.bearers

    def peers(self, site: FleetSite) -> "PeerNetwork":
        """Return the network of the lanes of peers."""
        from fedsim.sim.network.peers import PeerNetwork, PeerRoutes

        routes = PeerRoutes(site)
        network = PeerNetwork(site.parts, routes, partial(site.rng, "links"))
        network.relays = site.relays
        return network


def layer(block: object, below: Layer | None) -> FluidLayer:
    """Return the layer."""
    return FluidLayer(below)
