"""Layer of TCP: windows in queues, where lost packets are retransmitted by the connection."""

from collections.abc import Iterator

from fedsim.addons.tcp.bearers import Connections, bearers
from fedsim.addons.tcp.worlds import COMPILED
from fedsim.core.blocks.nature import Nature
from fedsim.physics.network_models import Bearers, Site
from fedsim.physics.radios import RadioLaw
from fedsim.physics.radios.channel import Framing
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import Topology
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.models import Layer


class TcpLayer(Layer):
    """A connection per message, or a kept connection per client.

    Args:
        law: TCP's parameters.
    """

    nature = Nature(shares="messages under network.model tcp depend on each other")

    def __init__(self, law: Tcp) -> None:
        super().__init__()
        self.law = law

    @property
    def reliable(self) -> bool:
        """True: a connection retransmits lost packets."""
        return True

    def framing(self, radio: RadioLaw) -> Framing:
        """Return how messages of a radio are cut into segments."""
        return self.law.packaging(super().framing(radio))

    def delay(self, latency: float) -> float:
        """Return the delay before the first segment of a message, s: 0, as the path includes it."""
        return 0.0

    def bearers(self, site: Site) -> Bearers:
        """Return the bearers of each client, uplink and downlink."""
        return bearers(
            site,
            Connections(
                self.law,
                lambda client, up: site.rng("tcp", client, "up" if up else "down"),
                opened=True,  # of those that are kept: clients join before the first round
                hashes=lambda link: site.rng("tcp", link, "hash"),
            ),
        )

    def why_objects(self, kinds: RunLengthSequence[ClientConfig], topology: Topology | None) -> str:
        """Return why no kernel simulates the segments of a fleet; empty if one may."""
        return next(self._unknown(kinds, topology), "")

    def _unknown(
        self, kinds: RunLengthSequence[ClientConfig], topology: Topology | None
    ) -> Iterator[str]:
        """Yield features that the kernels do not implement."""
        if self.law.discipline not in COMPILED:
            yield f"the discipline of queues is {self.law.discipline}"
        if self.law.connections != "new":
            yield "connections are kept"
        links = topology.links if topology is not None else ()
        if any(link.capacity.signal is not None for link in links):
            yield "the rate of a link is not the same at all times"
        for _, kind in kinds.runs:
            if kind.battery is not None:
                # Their radios need every change of a rate, which kernels do not report.
                yield "clients have batteries"
            if kind.radio.loss.mean:
                yield "packets are lost"
            if kind.rates.up.signal is not None or kind.rates.down.signal is not None:
                yield f"the rate of the radio {kind.radio.kind} is not the same at all times"


def layer(block: Tcp, below: Layer | None) -> TcpLayer:  # noqa: ARG001 - it is the first
    """Return the layer."""
    return TcpLayer(block)
