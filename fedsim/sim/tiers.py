"""Tiers: gateways, which are servers of the nodes below them and clients of the server above.

Towards the server above, a gateway is an ordinary client: it runs the method's client handler. Its
loss is a `RoundsOracle`, which runs rounds with the nodes below in place of local steps. In these
rounds the gateway runs the server coroutine of the method of its level, from the received model and
for the number of rounds of its tier. The coroutine is then ended as at the end of a run, and starts
anew with the next model.

All messages carry the round number of the server at the top. Neither role of a gateway shares code
with an algorithm.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedsim.core.errors import Failed
from fedsim.core.ports import SERVER, Array, ClientId, Reply, Work, node_name
from fedsim.physics.hierarchy import Hierarchy
from fedsim.protocol.reporting import reporting
from fedsim.protocol.selection import Selection
from fedsim.protocol.server import ServerProtocol
from fedsim.protocol.stopping import NoClientsLeft, ended_by
from fedsim.protocol.transport import ClientProtocol, Envelope
from fedsim.sim.client import Equipment, SimClient
from fedsim.sim.config import Hop, Method, WorldConfig
from fedsim.sim.known import TrueState, known_nodes
from fedsim.sim.lazy import LazyTable
from fedsim.sim.presence import Presence
from fedsim.sim.server import SimServer
from fedsim.sim.star import Star
from fedsim.wire.packers import Packing

# The loss that a method sees at a gateway.


class RoundsOracle:
    """The loss of a gateway: rounds with the nodes below it in place of local steps.

    Args:
        rows: the samples of all clients below it.
    """

    random = False

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.weight = 1.0

    def __getattr__(self, name: str) -> Any:
        raise Failed(
            f"the method needs `{name}` of a client's loss, which a gateway (tiers) does not have:"
            " rounds with the nodes below replace local steps only"
        )

    def sgd_steps(
        self,
        w: Array,
        eta: float,
        drawn: Sequence[object],
        pull: float | None = None,
        *,
        change: bool = False,
    ) -> Work:
        """Describe rounds from the model `w`, shape (d,)."""
        # No operations: the time and the energy are those of the rounds below. `SimGateway.compute`
        # reads the arguments only, and calls no evaluator.
        return Work(_rounds, None, (w, change), 0.0)

    def optimizer_steps(self, w: Array, drawn: Sequence[object], training: object) -> Work:
        """Describe rounds from the model `w`, shape (d,)."""
        return Work(_rounds, None, (w, False), 0.0)


def _rounds(w: Array, change: bool) -> Array:
    """Raise an error: only a gateway can run its rounds."""
    raise TypeError(f"no evaluator runs the rounds of a gateway: {w.shape}, change: {change}")


# The two roles of a gateway: server of the nodes below, client of the server above.


class _RoundsOver(BaseException):
    """Ends the server's coroutine of a gateway that has completed its rounds.

    Like `RunStopped` it is no error, so `except Exception` of a method does not catch it.
    """


class GatewayServer(SimServer):
    """A gateway as the server of the nodes below it, for some rounds at a time.

    Args:
        protocol: its endpoint.
        method: the method of the nodes below.
        rounds: kappa, the number of its rounds.
        share: the sum of the weights of the nodes below.
        world: the other arguments of a server.
    """

    def __init__(
        self,
        protocol: ServerProtocol,
        method: Method,
        rounds: int,
        share: float,
        **world: Any,
    ) -> None:
        super().__init__(protocol, commit=self._keep, stay=self._count, **world)
        self._share = share
        self._serve = method.serve
        self._rounds = rounds
        self._left = self._number = 0
        self._model: Array

    def coefficients(self, replies: Sequence[Reply]) -> Array:
        """Return the weights of replies in a mean; see `fedsim.core.ports.Server`.

        Weights are shares of all samples: those of the nodes below add up to the gateway's.
        """
        return self._protocol.estimator.coefficients(replies, self.weights, self._share)

    async def run_rounds(self, start: Array, number: int) -> Array:
        """Return the model after its rounds, shape (d,).

        Args:
            start: the first model, shape (d,).
            number: the number of the round that the server above is in.

        Raises:
            NoClientsLeft: none of the nodes below can take part any more.
        """
        # A method's server begins from `initial`, so each call is a whole run of the method from
        # the model that the gateway has received.
        self.initial = self._model = start
        self._protocol.aggregator.reset()
        self._left, self._number = self._rounds, number
        self._protocol.round = number
        try:
            await self._serve(self)
        except BaseException as error:
            ended = ended_by(error, _RoundsOver, NoClientsLeft)
            if ended is None:
                raise
            if isinstance(ended, NoClientsLeft):
                raise ended from None
        return self._model

    def commit(self, model: Array, **measures: float) -> None:
        """Close a round; only the server at the top is observed."""
        # Unlike a server at the top, it counts no round here: `_count` sets the number.
        self._keep(model, measures)

    def _keep(self, model: Array, _: dict[str, float]) -> None:
        self._model = model
        self._count()

    def _count(self) -> None:
        """Count a round, also one in which the model stays."""
        self._left -= 1
        self._uncommitted.close()
        # All messages carry the top server's round, which an abandoned round has incremented.
        self._protocol.round = self._number
        if self._left <= 0:
            raise _RoundsOver


class SimGateway(SimClient):
    """A gateway as a client of the server above it."""

    __slots__ = ("_deserted", "_rounds")

    def __init__(
        self,
        *ends: Any,
        rounds: Callable[[Array, int], Any],
        deserted: Callable[[ClientId], None],
    ) -> None:
        super().__init__(*ends)
        self._rounds = rounds
        self._deserted = deserted

    @property
    def name(self) -> str:
        """The name of the gateway in reports."""
        return f"gateway-{self.id}"

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """Return the model after rounds with the nodes below, or its change; see `RoundsOracle`."""
        start, change = work.arguments
        try:
            ends: Array = await self._rounds(start, self.round)
        except NoClientsLeft:
            self._deserted(self.id)
            # It never answers again. The server above stops waiting, as the gateway is lost.
            await asyncio.get_running_loop().create_future()
            raise
        return ends - start if change else ends


class Reach:
    """Which nodes a server can reach: a gateway only while a node below it may take part.

    Args:
        presence: which nodes are on and online.
    """

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._deserted: set[ClientId] = set()
        self.charge = presence.charge
        self.change = presence.change
        self.sample_available = presence.sample_available

    def desert(self, gateway: ClientId) -> None:
        """Register that no node below a gateway will ever take part again."""
        self._deserted.add(gateway)

    @property
    def always_complete(self) -> bool:
        """Whether every node is always eligible."""
        return self._presence.always_complete and not self._deserted

    def obstacle(self, node: ClientId) -> str:
        """Return why a node is not eligible; empty if it is."""
        return DESERTED if node in self._deserted else self._presence.obstacle(node)

    def why_gone(self, nodes: Sequence[ClientId]) -> str:
        """Return why none of these nodes will ever take part again; empty if one may."""
        left = [node for node in nodes if node not in self._deserted]
        if left:
            return self._presence.why_gone(left)
        return f"no gateway can take part any more: {DESERTED} ({len(nodes)})"


DESERTED = "no client below it"
"""Why a gateway is not eligible whose clients have all left for good."""


class Tiers(Star):
    """A star with gateways between the server and its clients.

    Attributes:
        servers: the gateways as servers, by number.
    """

    def __init__(self, setup: WorldConfig, *world: Any) -> None:
        assert setup.hierarchy is not None, "without a hierarchy it is a star"  # noqa: S101
        # All of this is set before `super().__init__`, which calls the overridden methods below.
        self._tree, self._hops, self._tally = setup.hierarchy, setup.hops, setup.tally()
        self._levels = [self._tree.level(node) for node in range(len(self._tree.above))]
        self._reach = Reach(world[0].presence)
        self._truth = TrueState(setup, world[0].presence)
        self._handles = [reporting(hop.method.handle, hop.participation) for hop in setup.hops]
        self._weights = sum_below(self._tree, setup.shares)
        ones = np.ones(self._tree.clients)
        self._samples = sum_below(self._tree, ones if setup.samples is None else setup.samples)
        self.servers: LazyTable[GatewayServer] = LazyTable(self._make_gateway_server)
        super().__init__(setup, *world)

    def _top(self, setup: WorldConfig) -> Method:
        return setup.hops[-1].method

    def _connect(self) -> None:
        """Connect the network to all servers, clients and gateways."""
        # The nodes below one server are all of one level, so the first tells the transport. Each
        # server has a decoder of its own, with its copies of the vectors of its nodes.
        ups = {
            server: self._hops[self._levels[nodes[0]]].transport.to_server(self._to(server))
            for server, nodes in self._tree.below.items()
        }
        downs = [hop.transport.to_clients(self._on_received) for hop in self._hops]

        def at_server(node: ClientId, envelope: Envelope) -> None:
            ups[self._tree.above[node]](node, envelope)

        def at_node(node: ClientId, envelope: Envelope) -> None:
            downs[self._levels[node]](node, envelope)

        self.network.connect(at_server, at_node, self._on_undelivered)
        self.network.prepare(self._fleet.supplies)

    def _to(self, server: ClientId) -> Callable[[ClientId, Envelope], None]:
        """Return the callback for messages that arrive at a server."""
        if server == SERVER:
            return self.server.receive
        return self.servers[server].receive

    # -- servers -----------------------------------------------------------------------

    def _server_parts(self, number: ClientId, hop: Hop) -> tuple[ServerProtocol, dict[str, Any]]:
        """Return the endpoint of a server, and its other parts except its rounds."""
        setup, nodes, place = self._setup, self._tree.below[number], self._place(number)
        # A policy counts nodes from 0, so it gets slices of the columns. The estimator looks
        # weights up by the number of a node, so the server below gets the whole column.
        policy, rng = hop.participation.among(len(nodes)), setup.rng("cohort", place)
        samples, shares = (
            column[nodes.start : nodes.stop] for column in (self._samples, self._weights)
        )
        known = known_nodes(setup, policy, nodes, samples, shares, self._truth)
        selection = Selection(policy, self._reach, nodes, rng, samples, known)
        protocol = ServerProtocol(
            nodes,
            selection,
            policy,
            hop.silence,
            setup.header_bits,
            hop.transport,
            self._name,
            setup.aggregator(hop.aggregation, place, self._tally),
        )
        world = {
            "calendar": self._calendar,
            "network": self.network,
            "presence": self._reach,
            "log": self._log,
            "traffic": self._traffic,
            "initial": setup.initial,
            "smoothness": setup.smoothness,
            "packing": Packing(hop.packer_down, number),
            "weights": self._weights,
            "rng": setup.rng("server", place),
            "looks": self._looks,
            "number": number,
        }
        return protocol, world

    def _name(self, node: ClientId) -> str:
        return node_name(node, self._tree.clients)

    def _place(self, number: ClientId) -> int:
        """Return the index of a server's streams: gateways from the clients up, then the top.

        The first gateway therefore draws as the server of a star does.
        """
        clients = self._tree.clients
        return len(self._tree.above) - clients if number == SERVER else number - clients

    def _make_server(self, setup: WorldConfig) -> SimServer:
        protocol, world = self._server_parts(SERVER, self._hops[-1])
        return SimServer(protocol, commit=self._observer.commit, stay=self._observer.stay, **world)

    def _make_gateway_server(self, number: ClientId) -> GatewayServer:
        level = self._levels[number]
        below, hop = self._hops[level - 1], self._hops[level]
        protocol, world = self._server_parts(number, below)
        share = float(self._weights[number])
        return GatewayServer(protocol, below.method, hop.rounds, share, **world)

    # -- clients -----------------------------------------------------------------------

    def _protocol(self, number: ClientId) -> ClientProtocol:
        hop = self._hops[self._levels[number]]
        return ClientProtocol(
            number,
            Packing(hop.packer_up, number),
            beacons=hop.silence.beacon,
            header_bits=self._setup.header_bits,
            transport=hop.transport,
            server=self._tree.above[number],
        )

    def _make_client(self, number: ClientId) -> Any:
        if not self._levels[number]:
            return super()._make_client(number)
        method, server = self._hops[self._levels[number]].method, self.servers[number]
        gateway = SimGateway(
            self._protocol(number),
            self.network,
            self._gateway_equipment(number, method),
            self._handles[self._levels[number]],
            self._fail,
            rounds=server.run_rounds,
            deserted=self._on_deserted,
        )
        if self._main_task.over:
            # The run may be over as a message in transit reaches a gateway for the first time.
            gateway.end()
        return gateway

    def _gateway_equipment(self, number: ClientId, method: Method) -> Equipment:
        parts = self._fleet.equipment(number, self._looks)
        memory = method.memory(self._setup.initial)
        return replace(parts, state=memory, take_back=method.undelivered)

    # -- events ------------------------------------------------------------------------

    def _server(self, number: ClientId) -> SimServer:
        return self.server if number == SERVER else self.servers[number]

    def _on_deserted(self, gateway: ClientId) -> None:
        """Handle a gateway whose clients have all left for good."""
        self._reach.desert(gateway)
        self._server(self._tree.above[gateway]).lose(gateway)

    def lose(self, client: ClientId) -> None:
        """Abort all that a node does: it has left, or its battery is empty.

        Messages to and from the nodes below a gateway are cut off; their radios stay on.
        """
        if client in self.clients:
            self.clients[client].abort()
        self.network.abort(client)
        for node in self._tree.below.get(client, ()):
            # Only for a gateway: clients have nothing below them. `break_off` leaves the radios of
            # these nodes on, since it is the gateway that has gone.
            self.network.break_off(node)
        self._server(self._tree.above[client]).lose(client)

    @property
    def stuck(self) -> str:
        """Describe which nodes the servers were still waiting for at the end; empty if none."""
        waits = [self.server.stuck, *(server.stuck for server in self.servers.in_order())]
        return "; ".join(text for text in waits if text)


def sum_below(tree: Hierarchy, figures: Array) -> Array:
    """Return an amount of each client, shape (M,), and the sum below each gateway."""
    sums = np.zeros(len(tree.above))
    sums[: tree.clients] = figures
    # From the clients up, so that the sums of gateways exist before those of gateways above them.
    for nodes in tree.levels[1:]:
        for node in nodes:
            below = tree.below[node]
            sums[node] = sums[below.start : below.stop].sum()
    return sums
