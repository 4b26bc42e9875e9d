"""Peers whose exchanges are played by a kernel: the same world as `Peers`, with the same log."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.overlay import Overlay
from fedsim.ports import ClientId, Message, Oracle
from fedsim.progress import activity
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.stopping import RunStopped
from fedsim.protocol.transport import Envelope
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.record.summary import DONE, Ending
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.config import PeerMethod, WorldConfig
from fedsim.sim.exchanges.layout import ASKS, CLOSED, FULL, Tables
from fedsim.sim.exchanges.nodes import PlayedNode, Step, replies_to
from fedsim.sim.exchanges.state import enter_kinds, hand_back
from fedsim.sim.fleet import Fleet
from fedsim.sim.meetings import Neighbourhood
from fedsim.sim.network.peers import PeerNetwork
from fedsim.sim.peer_rounds import PeerRounds
from fedsim.wire.packers import Packing
from fedsim.worlds.main_task import ending_of
from fedsim.worlds.observer import Observer

LOADING = "loading the kernel of exchanges, which takes some seconds the first time"

_COMMON = "joules", "bits_up", "transmissions", "beacons"
"""What the kernel counts of the run's traffic."""


class _Own(NamedTuple):
    """See `fedsim.sim.participant.Belongings`."""

    evaluator: Any
    oracle: Oracle
    state: Any
    rng: Any
    take_back: Any
    looks: set[str]


class PlayedPeers:
    """Runs the nodes of a graph that stays, on mains, until a stop rule applies.

    Attributes:
        network: where the run ends, the lanes between them.
        remedy: empty: no node ever waits for what does not come.
    """

    remedy = ""
    doing = ""
    stuck = ""

    def __init__(
        self,
        setup: WorldConfig,
        fleet: Fleet,
        observer: Observer,
        traffic: Traffic,
        log: EventLog,
        looks: set[str],
    ) -> None:
        overlay, count = cast("Overlay", setup.overlay), len(setup.fleet)
        self._method = cast("PeerMethod", setup.algorithm)
        self._fleet, self._traffic, self._log = fleet, traffic, log
        self._calendar = fleet.calendar
        self.network = cast("PeerNetwork", fleet.peer_network())
        self.network.join([_ignore] * count, _ignore)
        self._rounds = PeerRounds(range(count), observer, traffic)
        self._nodes = [self._node(setup, overlay, number, looks) for number in range(count)]
        degrees = np.array([len(node.neighbours) for node in self._nodes], np.int64)
        edges = np.array([one for node in self._nodes for one in node.neighbours], np.int64)
        self._tables = Tables.of(degrees, edges)
        self._written: list[list[Step]] = [[] for _ in range(count)]
        enter_kinds(self._tables, fleet.kinds, fleet.radio_kinds)
        self._total: Any = self._tables.total[0]
        self._over: asyncio.Future[Ending]

    def _node(
        self, setup: WorldConfig, overlay: Overlay, number: ClientId, looks: set[str]
    ) -> PlayedNode:
        near = Neighbourhood.of(overlay, number)
        protocol = PeerProtocol(
            number,
            near.neighbours,
            Packing(setup.packer_up, number),
            beacons=setup.silence.beacon,
            deadline=setup.silence.closes_after,
            header_bits=setup.header_bits,
            transport=setup.transport,
        )
        own = _Own(
            setup.evaluator,
            self._fleet.oracle(number),
            setup.algorithm.memory(setup.initial),
            setup.rng,
            self._fleet.take_back,
            looks,
        )
        return PlayedNode(
            protocol,
            self._fleet.kinds[number].device,
            own,
            near=near,
            initial=setup.initial,
            transport=setup.transport,
            header_bits=setup.header_bits,
            keep=self._rounds.take,
            rounds=setup.stop.rounds,
        )

    # -- how it goes on ----------------------------------------------------------------

    async def run(self) -> Ending:
        """Return how it ended.

        Raises:
            ReactionError: what follows is not known without the objects.
        """
        self._over = asyncio.get_running_loop().create_future()
        with activity(LOADING):
            from fedsim.sim.exchanges.kernel import play  # noqa: PLC0415 - it takes a while

            self._kernel = play
        self._calendar.call(self._calendar.now, self._begin, None)
        try:
            return await self._over
        finally:
            self._end()
            for node in self._nodes:
                node.close()

    def stop(self, reason: str) -> None:
        """End the run now."""
        self._finish(Ending(DONE, reason))

    def lose(self, client: ClientId) -> None:
        """Refuse: nodes on mains that are always there do not leave."""
        raise RuntimeError(f"node {client} cannot leave")

    def _finish(self, end: Ending | BaseException) -> None:
        if self._over.done():
            return
        if isinstance(end, Ending):
            self._over.set_result(end)
        else:
            self._over.set_exception(end)

    def _begin(self, _: None) -> None:
        """Let all nodes begin, in order."""
        for node in self._nodes:
            node.start(self._method.live)
        self._ask(range(len(self._nodes)), begin=True)
        self._total["word"] = self._log.word(self._nodes[0].sent.message.label)
        self._tables.ready[:] = np.arange(len(self._nodes))
        self._total["ready"] = len(self._nodes)
        self._play()

    def _play(self) -> None:
        """Let the kernel go on up to the end of a round."""
        while True:
            for name in _COMMON:
                self._total[name] = getattr(self._traffic, name)
            why = self._kernel(self._tables)
            for name in _COMMON:
                setattr(self._traffic, name, self._total[name].item())
            self._log.extend(self._tables.rows[: self._total["rows"]])
            self._total["rows"] = 0
            if why == ASKS:
                asked = self._tables.asked[: self._total["asked"]].tolist()
                self._total["asked"] = 0
                self._ask(asked)
            elif why == CLOSED:
                self._calendar.call(float(self._total["now"]), self._close_round, None)
                return
            elif why != FULL:
                raise ReactionError("nothing is known to happen")

    def _close_round(self, _: None) -> None:
        """Hand the models of a round to the observer, and go on unless that ends the run."""
        try:
            self._rounds.close()
        except RunStopped as stopped:
            self._finish(ending_of(stopped))
        except Exception as error:  # noqa: BLE001 - the run ends with it
            self._finish(error)
        else:
            self._play()

    def _ask(self, numbers: Sequence[ClientId], *, begin: bool = False) -> None:
        """Let nodes say what they do up to their next exchanges.

        Raises:
            ReactionError: one fails; what the others do meanwhile, only events tell.
        """
        nodes = [self._nodes[number] for number in numbers]
        given = [None if begin else replies_to(node, self._nodes) for node in nodes]
        for node in nodes:
            node.steps = []
        try:
            busy = [node for node, replies in zip(nodes, given, strict=True) if node.go_on(replies)]
            while busy:
                busy = [node for node in busy if node.go_on(None)]
        except ReactionError:
            raise
        except Exception as error:
            raise ReactionError("a node has failed") from error
        self._enter(np.array(numbers, np.int64), nodes)

    def _enter(self, numbers: NDArray[np.int64], nodes: Sequence[PlayedNode]) -> None:
        """Enter the steps of nodes, and what they send after these, in the tables."""
        for node in nodes:
            steps = node.steps
            if steps == self._written[node.id]:
                continue
            self._tables = tables = self._tables.with_steps(len(steps))
            figures = np.array(steps)
            tables.kinds[node.id, : len(steps)] = figures[:, 0]
            tables.figures[node.id, : len(steps)] = figures[:, 1:]
            self._written[node.id] = steps
        own = self._tables.nodes
        own["step"][numbers] = 0
        own["steps"][numbers] = [len(node.steps) for node in nodes]
        own["payload"][numbers] = [node.sent.payload_bits for node in nodes]
        own["header"][numbers] = [node.sent.header_bits for node in nodes]

    # -- how it ends -------------------------------------------------------------------

    def _end(self) -> None:
        """Charge work in progress, and leave messages and radios as they are to the network."""
        nodes, now = self._tables.nodes, self._calendar.now
        for number in np.flatnonzero(nodes["work_begun"] >= 0.0).tolist():
            own = nodes[number]
            span = max(now - float(own["work_begun"]), 0.0)
            joules = float(own["power"]) * span
            own["work_joules"] += joules
            self._traffic.joules += joules
            event, what = int(Event.COMPUTE), int(own["round"])
            self._log.append(now, span, event, number, NO_PEER, what, joules=joules)
        self._fleet.in_arrays = hand_back(self._tables, self.network, self._envelope)

    def _envelope(self, sender: ClientId, odd: int) -> Envelope:
        """Return what a node has sent in its last even, or odd, exchange."""
        node = self._nodes[sender]
        post = node.posts[odd]
        assert post is not None, "it has been sent"  # noqa: S101
        message: Message = post.message
        number = node.exchange_number - ((node.exchange_number & 1) != odd)
        word = int(self._total["word"])
        return Envelope(message, post.round, number, node.sent.header_bits, word)


def _ignore(*_: object) -> None:
    """Ignore what has arrived: the kernel knows."""
