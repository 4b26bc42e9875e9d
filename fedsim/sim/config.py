"""The configuration of a world."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from fedsim.computing import Evaluator, SerialEvaluator
from fedsim.physics.failures import PeerGraph
from fedsim.physics.hierarchy import Hierarchy
from fedsim.physics.topology import Topology
from fedsim.ports import SERVER, Array, ClientId, Packer
from fedsim.protocol.participation import (
    FullParticipation,
    Informed,
    KnownFleet,
    Participation,
)
from fedsim.protocol.reporting import Reports, reporting
from fedsim.protocol.selection import Eligibility, Selection
from fedsim.protocol.server import ServerProtocol
from fedsim.protocol.silence import BeaconSilence, SilencePolicy
from fedsim.protocol.stopping import Counting, Observe, Stop
from fedsim.protocol.transport import VALUES, Transport
from fedsim.sim.client import Handler
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.models import Layer, layer
from fedsim.sim.participant import Follows, TakeBack
from fedsim.streams import Streams


class Remembers(Protocol):
    """The part of any algorithm that a world needs."""

    @property
    def undelivered(self) -> TakeBack:
        """Handle, at a client, the loss of its message."""
        ...

    def memory(self, initial: Array) -> Any:  # noqa: ANN401
        """Return a client's memory."""


class Method(Remembers, Protocol):
    """The part of an algorithm that a star needs, as `fedsim.algorithms.Algorithm` has it."""

    async def serve(self, server: Any) -> None:  # noqa: ANN401
        """Run the server."""

    @property
    def handle(self) -> Handler:
        """Answer a message that has reached a client."""
        ...


def what_follows(method: object) -> Follows:
    """Return `Algorithm.afterwards` of a method whose clients go on after replies; else None."""
    return method.afterwards if getattr(method, "goes_on", False) else None  # type: ignore[attr-defined]


class PeerMethod(Remembers, Protocol):
    """The part of an algorithm that peers need, as `fedsim.algorithms.PeerAlgorithm` has it."""

    def start(self, initial: Array, rng: np.random.Generator) -> Array:
        """Return the vector that a node begins with, shape (d,)."""
        ...

    async def live(self, node: Any) -> None:  # noqa: ANN401
        """Run a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """What the nodes of one level and the servers above them run, where there are tiers.

    Attributes:
        method: configured; its server runs above, its clients are the nodes.
        packer_up, packer_down: make what packs one field of a node's messages, and of a server's,
            by the sender's number, the field's name and its number.
        participation: the nodes asked, and when a round closes; with shares unresolved.
        silence: how a node keeps quiet.
        transport: how messages are carried.
        rounds: kappa, the rounds of a gateway with those below it in a round of its server; 1 for
            clients.
    """

    method: Method
    packer_up: Callable[[ClientId, str, int], Packer]
    packer_down: Callable[[ClientId, str, int], Packer]
    participation: Participation
    silence: SilencePolicy
    transport: Transport = VALUES
    rounds: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """The computation of a world, independent of the fleet and the network.

    Attributes:
        algorithm: configured, or what takes its place.
        initial: the initial model, shape (d,).
        smoothness: returns w_m L_m of the clients, shape (M,).
        evaluate: returns the objective at a model; costs no simulated time.
        valued: whether the objective is known; if not, NaN is a number like others.
        optimum: the least objective; NaN where none is known.
        measures: what else to evaluate at every model; each returns figures by name.
        tolerance: up to which the constraint, one of the figures, is met; None without one.
        packer_up, packer_down: make what packs one field of a client's messages, and of the
            server's, by its name and its number; it may remember what it has packed.
        samples: how many each client has, shape (M,), which draws may go by; one where not given.
        weights: the clients' weights over their sum, shape (M,); equal ones when not given.
        evaluator: computes the numeric work.
        transport: how messages are carried.
        alike: whether the clients' oracles are those of the evaluator's losses, in their order,
            and what packs a field differs from client to client in its memory only.
    """

    algorithm: Method | PeerMethod
    initial: Array
    smoothness: Callable[[], Array]
    evaluate: Callable[[Array], float]
    optimum: float
    packer_up: Callable[[ClientId, str, int], Packer]
    packer_down: Callable[[str, int], Packer]
    valued: bool = True
    measures: Sequence[Callable[[Array], Mapping[str, float]]] = ()
    tolerance: float | None = None
    samples: Array | None = None
    weights: Array | None = None
    evaluator: Evaluator = field(default_factory=SerialEvaluator)
    transport: Transport = VALUES
    alike: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldConfig(Numerics):
    """The whole configuration of a world.

    Attributes:
        fleet: the clients in order, and then the gateways of tiers.
        header_bits: in front of every message.
        rng: returns the random stream of a purpose and an entity.
        topology: the links between clients and server; None for none that bind.
        overlay: the neighbours of each peer; None in a star.
        hierarchy: which server each node has; None where all have one.
        hops: what the nodes of each of its levels run with their servers, from the clients up.
        network: what carries messages, layer by layer.
        silence: how a client keeps quiet.
        participation: the clients asked, and when a round closes.
        stop: when the run ends.
        observe: which rounds are looked at.
        counting: the model that a round is looked at with.
        higher: the columns of measures of which more is better.
        round_seconds: returns the mean time of a round of each client alone, s, for an oracle.
    """

    fleet: Sequence[ClientConfig]
    header_bits: int
    rng: Streams
    topology: Topology | None = None
    overlay: PeerGraph | None = None
    hierarchy: Hierarchy | None = None
    hops: tuple[Hop, ...] = ()
    network: Layer = field(default_factory=partial(layer, "fluid"))
    silence: SilencePolicy = field(default_factory=BeaconSilence)
    participation: Participation = field(default_factory=FullParticipation)
    stop: Stop = field(default_factory=Stop)
    observe: Observe = field(default_factory=Observe)
    counting: Counting = "rounds"
    higher: frozenset[str] = frozenset()
    round_seconds: Callable[[], Sequence[float]] = tuple

    @property
    def handler(self) -> Handler:
        """How a client answers a message: the method's, with the reports of the policy."""
        return reporting(self.algorithm.handle, self.participation)  # type: ignore[union-attr]

    @property
    def take_back(self) -> TakeBack:
        """How a client handles the loss of its message; a report alone is not the method's."""
        undelivered = self.algorithm.undelivered
        if not isinstance(self.participation, Informed):
            return undelivered

        def take_back(client: Any, message: Any) -> None:  # noqa: ANN401
            if not isinstance(message, Reports):
                undelivered(client, message)

        return take_back

    @property
    def shares(self) -> Array:
        """The clients' weights, shape (M,)."""
        if self.weights is not None:
            return self.weights
        return np.full(len(self.fleet), 1 / max(len(self.fleet), 1))

    def server_of(self, node: ClientId) -> ClientId:
        """Return the number of the server that a node answers."""
        return SERVER if self.hierarchy is None else self.hierarchy.above[node]

    def server_protocol(
        self, eligibility: Eligibility, transport: Transport, known: KnownFleet | None = None
    ) -> ServerProtocol:
        """Return the server's end of a star.

        Args:
            eligibility: says which clients may be asked.
            transport: how messages are carried.
            known: what the server knows of the fleet, for an informed policy.
        """
        clients, policy = range(len(self.fleet)), self.participation
        rng = self.rng("cohort", 0)
        selection = Selection(policy, eligibility, clients, rng, self.samples, known)
        return ServerProtocol(clients, selection, policy, self.silence, self.header_bits, transport)
