"""Broadcasts around a network: a message down is one transmission that a whole group receives."""

from fedsim.physics.networks import BROADCAST
from fedsim.physics.run_length import RunLengthSequence
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.broadcast import CellNetwork
from fedsim.sim.network.models import FleetSite, Layer


class BroadcastLayer(Layer):
    """The clients of a group receive every message sent to one of them."""

    nature = BROADCAST

    def watched(self, kinds: RunLengthSequence[ClientConfig]) -> RunLengthSequence[bool]:
        """Return the clients whose rates are reported: all of a group receive at one rate."""
        groups = {kind.group for _, kind in kinds.runs if kind.battery is not None}
        return kinds.map(lambda kind: kind.group in groups)

    def star(self, site: FleetSite) -> CellNetwork:
        """Return the network of the lanes of a star."""
        return CellNetwork(site.parts, site.kinds, site.follow)


def layer(block: None, below: Layer) -> BroadcastLayer:
    """Return the layer."""
    return BroadcastLayer(below)
