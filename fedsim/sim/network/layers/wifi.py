"""Cells of Wi-Fi around the fluid network."""

from collections.abc import Sequence

from fedsim.core.ports import ClientId
from fedsim.core.ports.bearers import Bearer
from fedsim.physics.network_models import Bearers, Site
from fedsim.physics.radios import RadioLaw
from fedsim.physics.radios.channel import Framing
from fedsim.physics.wifi import Wifi
from fedsim.sim.lazy import ComputedSequence
from fedsim.sim.network.air import AirBearer, AirLink
from fedsim.sim.network.layers.fluid import FluidLayer
from fedsim.sim.network.transmission import FluidPlan, calendar_of


class WifiLayer(FluidLayer):
    """The clients of a cell share its air; radios of LTE and 5G use the layer below.

    Args:
        law: the law of the cells.
        below: a fluid network.
    """

    def __init__(self, law: Wifi, below: FluidLayer) -> None:
        super().__init__(below)
        self._law, self._below, self.nature = law, below, law.nature

    def framing(self, radio: RadioLaw) -> Framing:
        """Return how the messages of a radio are cut into packets."""
        framing = super().framing(radio)
        return framing if radio.cellular else self._law.packaging(framing)

    def bearers(self, site: Site) -> Bearers:
        """Return the bearers of each client, uplink and downlink."""
        return self.over(FluidPlan(site, alone=True), site)

    def over(self, plan: FluidPlan, site: Site) -> Bearers:
        """Return the bearers of a plan: those of clients in cells, and those of other clients."""
        cells, (one, other) = _Cells(self._law, site, plan), self._below.over(plan, site)
        return _AirBearers(cells, one, up=True), _AirBearers(cells, other, up=False)


class _Cells:
    """Makes the bearers of clients in cells, and the air of each cell once."""

    def __init__(self, law: Wifi, site: Site, plan: FluidPlan) -> None:
        self._law, self.site, self._plan = law, site, plan
        self._air: dict[int, AirLink] = {}

    def bearer(self, client: ClientId, *, up: bool) -> AirBearer:
        """Return the bearer of one direction of a client."""
        plan, law, site = self._plan, self._law, self.site
        sent, received = [lanes[client]._replace(client=client) for lanes in plan.lanes]
        lane = sent if up else received
        # Equal shares of the fleet, in the order of clients.
        cell = client * (law.cells or 1) // site.clients
        if cell not in self._air:
            self._air[cell] = AirLink(calendar_of(site))
        return AirBearer(
            law,
            site,
            plan.fluid,
            self._air[cell],
            plan.links(lane),
            client,
            (law.timing(sent.rate.peak), law.timing(received.rate.peak)),
            plan.callback(lane),
            up=up,
        )


class _AirBearers(ComputedSequence[Bearer]):
    """The bearers of one direction by client: of Wi-Fi cells, and those of LTE and 5G radios."""

    def __init__(self, cells: _Cells, others: Sequence[Bearer], *, up: bool) -> None:
        self._cells, self._others, self._up = cells, others, up

    def __len__(self) -> int:
        return len(self._others)

    def item(self, index: ClientId) -> Bearer:
        """Return the bearer of a client."""
        cellular = self._cells.site.cellular
        if cellular and cellular[index]:
            return self._others[index]
        return self._cells.bearer(index, up=self._up)


def layer(block: Wifi, below: FluidLayer) -> WifiLayer:
    """Return the layer."""
    return WifiLayer(block, below)
