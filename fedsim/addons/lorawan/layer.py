"""A network layer with a LoRa gateway; radios of other kinds use the lanes of the layer below."""

from functools import partial

from fedsim.addons.lorawan.device import FrameMeter
from fedsim.addons.lorawan.network import LoRaNetwork
from fedsim.physics.radios.lora import LoRaRadio
from fedsim.physics.radios.lorawan import LoRaGateway
from fedsim.sim.network.models import FleetSite, Layer
from fedsim.sim.power.radio import RadioMeter
from fedsim.sim.power.radio_kind import RadioKind
from fedsim.sim.power.supply import Supply


class LoRaLayer(Layer):
    """LoRa radios send frame by frame to a gateway.

    Args:
        gateway: the gateway's parameters.
        below: the network of other radios.
    """

    def __init__(self, gateway: LoRaGateway, below: Layer) -> None:
        super().__init__(below)
        self._gateway, self.nature = gateway, gateway.nature

    def meter(self, kind: RadioKind, supply: Supply | None) -> RadioMeter | None:
        """Return the meter of a LoRa radio, which meters frame by frame."""
        if isinstance(kind.law, LoRaRadio):
            return FrameMeter(kind, supply)
        return super().meter(kind, supply)

    def star(self, site: FleetSite) -> LoRaNetwork:
        """Return the network of the lanes of a star."""
        rng = partial(site.rng, "lora")
        return LoRaNetwork(site.parts, site.kinds, self._gateway, site.radio, rng, site.present)


def layer(block: LoRaGateway, below: Layer) -> LoRaLayer:
    """Return the layer."""
    return LoRaLayer(block, below)
