"""Models of networks: how messages share the network between the radios and the server.

A model is a block of a scenario (`network.model`), registered like a radio. The `Site` on which a
network is built executes the built-in models. A user-defined model executes itself.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import SerializerFunctionWrapHandler, model_serializer

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.nature import CONSTANT, Nature
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, KindFirst
from fedsim.core.ports import ClientId
from fedsim.core.ports.bearers import Bearer, Clock
from fedsim.physics.packet_loss import LossProcess
from fedsim.physics.radios import RateLaw
from fedsim.physics.radios.channel import NONE, Framing
from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import Topology

Bearers = tuple[Sequence[Bearer], Sequence[Bearer]]
"""The bearers of uplinks and of downlinks, by client."""

RateChanged = Callable[[ClientId, bool, float], None]
"""Called with a client, whether its bits flow up, and their new rate, bit/s."""

OwnLaw = Callable[[ClientId, bool], RateLaw]
"""Returns a client's own rate law, up or down. In a fleet one law may represent many clients that
only differ in where their traces start."""


def _no_framing(client: ClientId) -> Framing:  # noqa: ARG001 - the same for all
    return NONE


def _nothing(*args: object) -> None:
    """Ignore what is reported."""


def _generator(*entity: object) -> np.random.Generator:  # noqa: ARG001 - the same for all
    return np.random.default_rng(0)


def _no_built_in(kind: str, block: object, site: "Site") -> Bearers:  # noqa: ARG001
    raise ValueError(f"the site executes no built-in model, got {kind}; give it built_in=...")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The place where a network model is built: the radios of a fleet, and the links behind them.

    Sequences are by client. An empty sequence stands for the default value of every client.

    Attributes:
        calendar: the simulated time.
        topology: links and routes.
        up: the rate laws of the radios' uplinks; in a fleet one may represent many (see `own`).
        down: the same for downlinks.
        latency: the latency of the radios, one way, s; 0 by default.
        watched: whether changes of a client's rates are reported; False by default.
        cellular: whether a radio is LTE or 5G; False by default.
        changed: called at the end of an instant with the new rate of a client's bits.
        own: see `OwnLaw`; None if `up` and `down` have a law of each client's own.
        framing: returns how a client's messages are divided into packets.
        losses: returns the losses of a client's radio, up or down, or None; None itself if no radio
            has losses.
        rng: returns the random stream of a purpose and an entity, given as any names and numbers.
        on_air: called with a client, whether its message goes up, the time on the air per bit, and
            that of the responses, s.
        collided: called with a client at the end of a message up, and the time it was sent in vain,
            s.
        built_in: returns the bearers of a built-in model, from its kind, its block and a site; by
            default raises an error.
    """

    calendar: Clock
    topology: Topology
    up: Sequence[RateLaw]
    down: Sequence[RateLaw]
    latency: Sequence[float] = ()
    watched: Sequence[bool] = ()
    cellular: Sequence[bool] = ()
    changed: RateChanged | None = None
    own: OwnLaw | None = None
    framing: Callable[[ClientId], Framing] = _no_framing
    losses: Callable[[ClientId, bool], LossProcess | None] | None = None
    rng: Callable[..., np.random.Generator] = _generator
    on_air: Callable[[ClientId, bool, float, float], None] = _nothing
    collided: Callable[[ClientId, float], None] = _nothing
    built_in: Callable[[str, object, "Site"], Bearers] = _no_built_in

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.up)


class NetworkModel(KindFirst):
    """A model of a network: what carries messages between the clients' radios and the server.

    A user-defined one is a subclass with `kind`, `nature` and `bearers`.
    """

    kind: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield the nature of the model."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """The traits that decide how a run with this model can be simulated.

        By default messages influence each other's speed, which requires the event-driven
        simulation.
        """
        return Nature(shares=f"messages under network.model {self.kind} depend on each other")

    def framing(self, own: Framing) -> Framing:
        """Return how messages are divided into packets; `own` is the framing of the radio."""
        return own

    def delay(self, latency: float) -> float:
        """Return the delay before the bits of a message begin to flow, s.

        Args:
            latency: the latency of its route and its radio together, one way, s.
        """
        return latency

    @abstractmethod
    def bearers(self, site: Site) -> Bearers:
        """Return what carries the messages of each client, up and down.

        Args:
            site: the radios and the links.
        """

    @model_serializer(mode="wrap")
    def _by_name(self, write: SerializerFunctionWrapHandler) -> object:
        """Write a model without parameters as its name, so older scenarios keep their bytes."""
        written: dict[str, object] = write(self)
        return self.kind if set(written) == {"kind"} else written


class _OwnModel(NetworkModel):
    """A built-in model, executed by the site."""

    def bearers(self, site: Site) -> Bearers:
        """Return what carries the messages of each client, up and down."""
        return site.built_in(self.kind, self, site)


class FluidFlows(_OwnModel):
    """Bits flow like a fluid; transfers on a shared link get equal shares (max-min fair)."""

    kind: Literal["fluid"] = "fluid"

    @property
    def nature(self) -> Nature:
        """Constant: links declare themselves what shares them."""
        return CONSTANT


class Lv08(_OwnModel):
    """SimGrid's validated TCP model: max-min fair, by round trips (Velho, Legrand, 2009)."""

    kind: Literal["lv08"] = "lv08"


class TcpFlows(_OwnModel):
    """TCP's windows in queues. Its parameters are in the block `network.tcp`."""

    kind: Literal["tcp"] = "tcp"

    def bearers(self, site: Site) -> Bearers:
        """Return what carries the messages, with the default parameters of TCP."""
        return site.built_in(self.kind, Tcp(), site)


NETWORK_MODELS: Registry[NetworkModel] = Registry(
    "network model", (FluidFlows, Lv08, TcpFlows), NetworkModel
)
"""The kinds of `network.model`."""

AnyNetworkModel = Given[Annotated[NetworkModel, OneOf(NETWORK_MODELS)], NetworkModel | Block]
"""A field for a model of a network."""
