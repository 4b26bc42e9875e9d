"""Networks in the simulated world, executed layer by layer.

A block of a scenario describes a network; a layer executes it. The lowest layer is a model of
flows. Other layers may surround it: cells of LTE and 5G, cells of Wi-Fi, a LoRaWAN gateway,
broadcasts, or a medium that peers share. A layer overrides what it changes, and defers to the layer
below for the rest. The built-in layers are looked up by name, so that a run imports only its own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module

from fedsim.core.blocks.nature import Nature
from fedsim.core.ports import ClientId
from fedsim.physics.network_models import Bearers, NetworkModel, OwnLaw, RateChanged, Site
from fedsim.physics.networks import Network
from fedsim.physics.radios import RadioLaw
from fedsim.physics.radios.channel import Framing
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.topology import Topology
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.lanes import Lane
from fedsim.sim.network.relays import Relays
from fedsim.sim.network.transport import NetworkParts, ServerLanes
from fedsim.sim.power.radio import RadioMeter
from fedsim.sim.power.radio_kind import RadioKind
from fedsim.sim.power.supply import Supply

LAYERS = {
    "fluid": "fedsim.sim.network.layers.fluid",
    "lv08": "fedsim.sim.network.layers.lv08",
    "tcp": "fedsim.addons.tcp.layer",
    "cell": "fedsim.sim.network.layers.cells",
    "wifi": "fedsim.sim.network.layers.wifi",
    "lora": "fedsim.addons.lorawan.layer",
    "broadcast": "fedsim.sim.network.layers.broadcast",
    "medium": "fedsim.sim.network.layers.medium",
}
"""The module of each layer; its `layer` returns a layer, given a block and the layer below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSite(Site):
    """The site of a fleet in a world.

    Attributes:
        kinds: a representative of each client; see `fedsim.sim.fleet.Roster`.
        between: the links between peers; None if there are none.
        parts: the parts that every network needs.
        radio: returns the meter of a client's radio.
        present: returns whether a client can be reached now.
        follow: makes downlinks follow the rate of one client from now on.
        relays: the clients that forward messages.
    """

    changed: RateChanged
    own: OwnLaw
    kinds: RunLengthSequence[ClientConfig]
    between: Topology | None
    parts: NetworkParts
    radio: Callable[[ClientId], RadioMeter]
    present: Callable[[ClientId], bool]
    follow: Callable[[ClientId, Sequence[Lane]], None]
    relays: Relays


class Layer:
    """A layer of a network, with all that a layer may change. Methods defer to the layer below.

    Attributes:
        below: the layer below; None for a model of flows.
        nature: the declaration of its block.
    """

    nature = Nature()

    def __init__(self, below: "Layer | None" = None) -> None:
        self.below = below

    @property
    def factor(self) -> float:
        """The factor on a radio's rate, beside the headers of packets."""
        return self.below.factor if self.below is not None else 1.0

    @property
    def reliable(self) -> bool:
        """Whether the network itself retransmits what a radio loses."""
        return self.below is not None and self.below.reliable

    @property
    def own_traces(self) -> bool:
        """Whether `bearers` needs the rate law of each client, with its own start of traces."""
        return self.below is not None and self.below.own_traces

    def framing(self, radio: RadioLaw) -> Framing:
        """Return how the messages of a radio are cut into packets."""
        return radio.packaging if self.below is None else self.below.framing(radio)

    def delay(self, latency: float) -> float:
        """Return the delay before the bits of a message compete for links, s.

        Args:
            latency: the one-way latency of route and radio, s.
        """
        return latency if self.below is None else self.below.delay(latency)

    def listening(self, radio: RadioLaw) -> float:
        """Return the power of a radio beyond its rest, W, that this network causes."""
        return 0.0 if self.below is None else self.below.listening(radio)

    def meter(self, kind: RadioKind, supply: Supply | None) -> RadioMeter | None:
        """Return this network's meter of a radio, or None for the usual one."""
        return None if self.below is None else self.below.meter(kind, supply)

    def watched(self, kinds: RunLengthSequence[ClientConfig]) -> RunLengthSequence[bool]:
        """Return which clients' rates are reported: those of clients with batteries."""
        if self.below is not None:
            return self.below.watched(kinds)
        return kinds.map(lambda kind: kind.battery is not None)

    def bearers(self, site: Site) -> Bearers:
        """Return the bearers of each client, uplink and downlink."""
        if self.below is None:  # pragma: no cover - every model of flows has its own
            raise NotImplementedError(f"{type(self).__name__} has no bearers")
        return self.below.bearers(site)

    def star(self, site: FleetSite) -> ServerLanes:
        """Return the network of the lanes of a star."""
        if self.below is not None:
            return self.below.star(site)
        network = ServerLanes(site.parts)
        network.relays = site.relays
        return network

    def peers(self, site: FleetSite) -> ServerLanes:
        """Return the network of the lanes of peers."""
        if self.below is None:
            raise NotImplementedError(f"{type(self).__name__} has no routes between peers")
        return self.below.peers(site)

    def why_objects(self, kinds: RunLengthSequence[ClientConfig], topology: Topology | None) -> str:
        """Return why packets are Python objects; empty if a compiled kernel may be used."""
        return "" if self.below is None else self.below.why_objects(kinds, topology)

    def natures(self) -> Iterable[Nature]:
        """Yield the declarations of the layers, the model of flows first."""
        if self.below is not None:
            yield from self.below.natures()
        yield self.nature


class ModelLayer(Layer):
    """A network model of the user."""

    def __init__(self, model: NetworkModel) -> None:
        super().__init__()
        self._model, self.nature = model, model.nature

    @property
    def own_traces(self) -> bool:
        """True: a model may look at the rates of all clients."""
        return True

    def framing(self, radio: RadioLaw) -> Framing:
        """Return how the messages of a radio are cut into packets."""
        return self._model.framing(radio.packaging)

    def delay(self, latency: float) -> float:
        """Return the delay before the bits of a message begin to flow, s."""
        return self._model.delay(latency)

    def bearers(self, site: Site) -> Bearers:
        """Return the bearers of each client, uplink and downlink."""
        return self._model.bearers(site)


def layer(name: str, block: object = None, below: Layer | None = None) -> Layer:
    """Return a built-in layer.

    Args:
        name: `fluid`, `lv08`, `tcp`, `cell`, `wifi`, `lora`, `broadcast` or `medium`.
        block: the block of the scenario, if there is one.
        below: the layer below.
    """
    result: Layer = import_module(LAYERS[name]).layer(block, below)
    return result


def built_in(kind: str, block: object, site: Site) -> Bearers:
    """Return the bearers of a built-in model of flows; see `Site.built_in`."""
    return layer(kind, block).bearers(site)


def flows(network: Network) -> Layer:
    """Return the model of flows of a network, without the layers around it."""
    # The model of flows comes first: layers are listed from the lowest up.
    (kind, model), *_ = network.layers
    return layer(kind, model) if kind in LAYERS else _own(model)


def played(network: Network, medium: object = None) -> Layer:
    """Return the layers of a network.

    Args:
        network: the network of the scenario.
        medium: the nodes in range of each other and their medium; None without a medium.
    """
    top = flows(network)
    for name, block in network.layers[1:]:
        top = layer(name, block, top)
    if network.broadcast == "cell":
        top = layer("broadcast", None, top)
    return top if medium is None else layer("medium", medium, top)


def _own(model: object) -> ModelLayer:
    if not isinstance(model, NetworkModel):  # pragma: no cover - the scenario has checked it
        raise TypeError(f"{type(model).__name__} is not a network model")
    return ModelLayer(model)
