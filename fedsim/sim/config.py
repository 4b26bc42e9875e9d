"""The configuration of a world."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from fedsim.core.ports import SERVER, SILENCE, Array, ClientId, Packer
from fedsim.core.streams import Streams
from fedsim.physics.failures import PeerGraph
from fedsim.physics.hierarchy import Hierarchy
from fedsim.physics.infrastructure import InfrastructureMeter
from fedsim.physics.topology import Topology
from fedsim.problems.evaluators import Evaluator, SerialEvaluator
from fedsim.protocol.aggregation import Aggregation, Aggregator, Mean, Tally
from fedsim.protocol.attacks import Attack
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


class Remembers(Protocol):
    """The part of any algorithm that a world needs."""

    @property
    def undelivered(self) -> TakeBack:
        """Handle, at a client, the loss of its message."""
        ...

    def memory(self, initial: Array) -> Any:
        """Return a client's memory."""


class Method(Remembers, Protocol):
    """The part of an algorithm that a star needs, as `fedsim.algorithms.Algorithm` has it."""

    async def serve(self, server: Any) -> None:
        """Run the server."""

    @property
    def handle(self) -> Handler:
        """Answer a message that has reached a client."""
        ...


def silenced(handle: Handler, silent: frozenset[ClientId]) -> Handler:
    """Return a handler whose silent clients work, and then send nothing."""

    async def answer(client: Any, message: Any) -> Any:
        reply = await handle(client, message)
        return SILENCE if client.id in silent else reply

    return answer


def what_follows(method: object) -> Follows:
    """Return `Algorithm.afterwards` if clients compute after their replies, otherwise None."""
    # A method need not derive from `Algorithm`; without the attribute, no work follows.
    return method.afterwards if getattr(method, "computes_after_reply", False) else None  # type: ignore[attr-defined]


class PeerMethod(Remembers, Protocol):
    """The part of an algorithm that peers need, as `fedsim.algorithms.PeerAlgorithm` has it."""

    def start(self, initial: Array, rng: np.random.Generator) -> Array:
        """Return the vector that a node begins with, shape (d,)."""
        ...

    async def live(self, node: Any) -> None:
        """Run a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """The configuration of one level of a hierarchy: its nodes, and the servers above them.

    Attributes:
        method: the configured method; its server runs above, its clients are the nodes.
        packer_up, packer_down: create the packer of one field of a node's messages, and of a
            server's, by the sender's number, the field's name and its number.
        participation: client sampling, and when a round closes; shares are unresolved.
        silence: how a node signals a censored message.
        transport: encodes messages.
        aggregation: how a server combines the vectors of replies.
        rounds: kappa, the rounds of a gateway with its nodes per round of its server; 1 for
            clients.
    """

    method: Method
    packer_up: Callable[[ClientId, str, int], Packer]
    packer_down: Callable[[ClientId, str, int], Packer]
    participation: Participation
    silence: SilencePolicy
    transport: Transport = VALUES
    aggregation: Aggregation = Mean()  # noqa: RUF009 - frozen
    rounds: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """The computation of a world, independent of the fleet and the network.

    Attributes:
        algorithm: the configured algorithm, or a wrapper of it.
        initial: the initial model, shape (d,).
        smoothness: returns w_m L_m of the clients, shape (M,).
        evaluate: returns the objective at a model; costs no simulated time.
        valued: whether the objective is known; otherwise NaN is an ordinary value of it.
        optimum: the minimum of the objective; NaN if it is not known.
        measures: further measures of a model; each returns values by name.
        tolerance: the tolerance of the constraint, which is one of the measures; None without a
            constraint.
        packer_up, packer_down: create the packer of one field of a client's messages, and of the
            server's, by its name and its number; a packer may have memory.
        samples: the number of samples per client, shape (M,), for draws that depend on it; 1 by
            default.
        weights: the clients' weights over their sum, shape (M,); equal by default.
        evaluator: computes the numeric work.
        transport: encodes messages.
        alike: whether the clients' oracles are the evaluator's losses, in their order, and packers
            of a field differ between clients only in their memory.
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
        header_bits: the header bits of every message.
        rng: returns the random stream of a purpose and an entity.
        topology: the links between clients and server; None if none limits a rate.
        overlay: the neighbours of each peer; None in a star.
        hierarchy: the server of each node; None if all have one server.
        hops: the configuration of each level of the hierarchy, from the clients up.
        network: the network layers that carry messages.
        silence: how a client signals a censored message.
        participation: client sampling, and when a round closes.
        aggregation: how the server combines the vectors of replies.
        attacks: the attack of each malicious client.
        stop: when the run ends.
        observe: which rounds are evaluated.
        counting: which model of a round is evaluated.
        higher: the columns of measures for which more is better.
        infrastructure: the energy of server and network; None if it is not counted.
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
    aggregation: Aggregation = field(default_factory=Mean)
    attacks: Mapping[ClientId, Attack] = field(default_factory=dict)
    stop: Stop = field(default_factory=Stop)
    observe: Observe = field(default_factory=Observe)
    counting: Counting = "rounds"
    higher: frozenset[str] = frozenset()
    infrastructure: InfrastructureMeter | None = None
    round_seconds: Callable[[], Sequence[float]] = tuple

    @property
    def handler(self) -> Handler:
        """The handler of a client: the method's, with the reports of the policy."""
        handle: Handler = self.algorithm.handle  # type: ignore[union-attr]
        silent = frozenset(m for m, attack in self.attacks.items() if attack.silent)
        return reporting(silenced(handle, silent) if silent else handle, self.participation)

    @property
    def take_back(self) -> TakeBack:
        """The handler of lost messages at a client; reports are not passed to the method."""
        undelivered = self.algorithm.undelivered
        if not isinstance(self.participation, Informed):
            return undelivered

        def take_back(client: Any, message: Any) -> None:
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
        """Return the server's endpoint in a star.

        Args:
            eligibility: determines which clients may take part.
            transport: encodes messages.
            known: the server's knowledge of the fleet, for an informed policy.
        """
        clients, policy = range(len(self.fleet)), self.participation
        rng = self.rng("cohort", 0)
        selection = Selection(policy, eligibility, clients, rng, self.samples, known)
        return ServerProtocol(
            clients,
            selection,
            policy,
            self.silence,
            self.header_bits,
            transport,
            aggregator=self.aggregator(self.aggregation, 0, self.tally()),
        )

    def aggregator(self, rule: Aggregation, place: int, tally: Tally) -> Aggregator:
        """Return the aggregator of a server, or of a peer.

        Args:
            rule: how it combines vectors.
            place: the index of its random streams.
            tally: counts what it does beside that.
        """
        return Aggregator(rule, partial(self.rng, "aggregation", place), self.attacks, tally)

    def tally(self) -> Tally:
        """Return a tally with the columns that the rules and attacks of this world can fill."""
        rules = [self.aggregation, *(hop.aggregation for hop in self.hops)]
        robust = [rule for rule in rules if not rule.adds_up]
        return Tally(
            name
            for name, possible in {
                "replaced": any(rule.least() > 1 for rule in robust),
                "dropped": bool(robust),
                "unreadable": any(attack.unreadable for attack in self.attacks.values()),
            }.items()
            if possible
        )
