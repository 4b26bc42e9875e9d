"""Cells of LTE and 5G around the fluid network."""

from fedsim.physics.cells import CellSharing
from fedsim.physics.network_models import Bearers, Site
from fedsim.sim.network.cells import CellBearers
from fedsim.sim.network.layers.fluid import FluidLayer
from fedsim.sim.network.transmission import FluidPlan


class CellLayer(FluidLayer):
    """Radios of LTE and 5G share the time of their cells; other clients use the layer below.

    Args:
        law: the law of the cells.
        below: a fluid network.
    """

    def __init__(self, law: CellSharing, below: FluidLayer) -> None:
        super().__init__(below)
        self._law, self._below, self.nature = law, below, law.nature

    def bearers(self, site: Site) -> Bearers:
        """Return the bearers of each client, uplink and downlink."""
        return self.over(FluidPlan(site, alone=True), site)

    def over(self, plan: FluidPlan, site: Site) -> Bearers:
        """Return the bearers of a plan: those of clients in cells, and those of other clients."""
        one, other = (
            CellBearers(plan, self._law, site.cellular, lanes, others)
            for lanes, others in zip(plan.lanes, self._below.over(plan, site), strict=True)
        )
        return one, other


def layer(block: CellSharing, below: FluidLayer) -> CellLayer:
    """Return the layer."""
    return CellLayer(block, below)
