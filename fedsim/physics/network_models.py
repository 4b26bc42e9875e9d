"""Models of networks: how messages share what lies between radios and the server.

A model is a block of a scenario (`network.model`), registered like a radio. The site on which a
network is built executes the built-in models; a user-defined model executes itself.
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
"""Called with a client, whether its bits flow up, and their rate from now on, bit/s."""

OwnLaw = Callable[[ClientId, bool], RateLaw]
"""Returns a client's own rate law, up or down: in a fleet it may stand for many that are alike
but for where their traces start."""


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
    """Where a model of a network is built: the radios of a fleet, and the links behind them.

    Sequences are by client. An empty one has the default for all.

    Attributes:
        calendar: the simulated time.
        topology: links and routes.
        up, down: the rate laws of the radios; in a fleet one may stand for many (`own`).
        latency: the latency of the radios, one way, s; 0 by default.
        watched: whether changes of a client's rates are reported; False by default.
        cellular: whether a radio is of LTE or 5G; False by default.
        changed: takes the rate of a client's bits when it changes; at the end of an instant.
        own: see `OwnLaw`; None where `up` and `down` have each client's own.
        framing: returns how a client's messages are cut into packets.
        losses: returns the losses of a client's radio, up or down, or None; None itself where no
            radio has any.
        rng: returns the random stream of a purpose and an entity, which are any names and numbers.
        on_air: takes a client, whether its message goes up, and how long one of its bits is sent,
            and how long its answers are, s.
        collided: takes a client at the end of a message up, and how long it was sent in vain, s.
        built_in: returns the bearers of a built-in model, given its kind, its block and a site; by
            default an error.
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

    A user-defined one has `kind`, `nature` and `bearers`.
    """

    kind: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield what it is."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """What it is: from this follows where a run with it can be played.

        By default how fast a message is depends on the others, so that it is played by events.
        """
        return Nature(shares=f"messages under network.model {self.kind} depend on each other")

    def framing(self, own: Framing) -> Framing:
        """Return how a message is cut into packets, given how its radio does it."""
        return own

    def delay(self, latency: float) -> float:
        """Return how long a message takes before its bits begin to flow, s.

        Args:
            latency: the latency of its route and its radio together, one way, s.
        """
        return latency

    @abstractmethod
    def bearers(self, site: Site) -> Bearers:
        """Return what carries the messages up and down of each client.

        Args:
            site: the radios and the links.
        """

    @model_serializer(mode="wrap")
    def _by_name(self, write: SerializerFunctionWrapHandler) -> object:
        """Write a model without parameters as its name: scenarios of before keep their bytes."""
        written: dict[str, object] = write(self)
        return self.kind if set(written) == {"kind"} else written


class _OwnModel(NetworkModel):
    """A built-in model, executed by the site."""

    def bearers(self, site: Site) -> Bearers:
        """Return what carries the messages up and down of each client."""
        return site.built_in(self.kind, self, site)


class FluidFlows(_OwnModel):
    """Bits flow like a fluid; transfers that share a link have equal shares (max-min fair)."""

    kind: Literal["fluid"] = "fluid"

    @property
    def nature(self) -> Nature:
        """The same at all times; what shares a link is in the links."""
        return CONSTANT


class Lv08(_OwnModel):
    """SimGrid's validated model of TCP: max-min fair, by round trips (Velho, Legrand, 2009)."""

    kind: Literal["lv08"] = "lv08"


class TcpFlows(_OwnModel):
    """TCP's windows in queues; its parameters are in the block `network.tcp`."""

    kind: Literal["tcp"] = "tcp"

    def bearers(self, site: Site) -> Bearers:
        """Return what carries messages with the default parameters of TCP."""
        return site.built_in(self.kind, Tcp(), site)


NETWORK_MODELS: Registry[NetworkModel] = Registry(
    "network model", (FluidFlows, Lv08, TcpFlows), NetworkModel
)
"""The kinds of `network.model`."""

AnyNetworkModel = Given[Annotated[NetworkModel, OneOf(NETWORK_MODELS)], NetworkModel | Block]
"""A field for a model of a network."""
