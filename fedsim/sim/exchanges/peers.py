"""Peers whose exchanges are played by a kernel: the same world as `Peers`, with the same log."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np

from fedsim.physics.overlay import Overlay
from fedsim.ports import ClientId, Message
from fedsim.progress import activity
from fedsim.protocol.stopping import RunStopped
from fedsim.record.log import EventLog, Rows
from fedsim.record.rounds import Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.record.summary import DONE, Ending
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.arrays.together import NotAlikeError
from fedsim.sim.config import PeerMethod, WorldConfig
from fedsim.sim.exchanges.layout import ASKS, CLOSED, FULL, KernelTables
from fedsim.sim.exchanges.nodes import NodeScripts
from fedsim.sim.exchanges.rows import RowScripts
from fedsim.sim.exchanges.state import enter_kinds, hand_back
from fedsim.sim.fleet import Fleet
from fedsim.sim.network.peers import PeerNetwork
from fedsim.sim.peer_rounds import PeerRounds, begin_rounds
from fedsim.worlds.main_task import ending_of
from fedsim.worlds.observer import Observer

LOADING = "loading the kernel of exchanges, which takes some ten seconds the first time"

_COMMON = "joules", "bits_up", "transmissions", "beacons"
"""What the kernel counts of the run's traffic."""

_AT_ONCE = 8192
"""So many rows are handed to the log at once."""


class Scripts(Protocol):
    """What nodes do and send, as the methods' coroutines say."""

    def begin(self, tables: KernelTables) -> KernelTables:
        """Enter what all nodes do first."""
        ...

    def resume(self, tables: KernelTables) -> KernelTables:
        """Enter what the nodes that are asked do next."""
        ...

    def close_round(self) -> None:
        """Hand the models of the open round over."""
        ...

    def last_message(self, sender: ClientId, odd: int) -> Message:
        """Return a node's message of its last even, or odd, exchange."""
        ...

    def end(self) -> None:
        """End the coroutines."""
        ...


class PlayedPeers:
    """Runs the nodes of a graph that stays, on mains, until a stop rule applies.

    Attributes:
        network: where the run ends, the lanes between them.
        remedy: empty: no node ever waits for what does not come.
        doing, stuck: empty, too.
    """

    remedy = doing = stuck = ""

    def __init__(
        self,
        setup: WorldConfig,
        fleet: Fleet,
        observer: Observer,
        traffic: Traffic,
        log: EventLog,
        looks: set[str],
    ) -> None:
        count = len(setup.fleet)
        self._setup, self._looks, self._observer = setup, looks, observer
        self._fleet, self._traffic, self._log = fleet, traffic, log
        self._calendar = fleet.calendar
        self.network = cast("PeerNetwork", fleet.peer_network())
        self.network.join([_ignore] * count, _ignore)
        self._rounds = PeerRounds(range(count), observer, traffic)
        overlay = cast("Overlay", setup.overlay)
        self._tables = KernelTables.of(overlay.neighbours)
        enter_kinds(self._tables, fleet.kinds, fleet.radio_kinds)
        self._total: Any = self._tables.total[0]
        self._total["last"] = min(setup.stop.rounds, 2**62)
        self._scripts: Scripts
        self._kernel: Callable[[KernelTables], int]
        self._over: asyncio.Future[Ending]
        self._whole = False  # whether all rows of what the kernel has played are in the log

    async def run(self) -> Ending:
        """Return how it ended.

        Raises:
            ReactionError: what follows is not known without the objects.
        """
        self._over = asyncio.get_running_loop().create_future()
        try:
            begin_rounds(cast("PeerMethod", self._setup.algorithm), self._setup, self._observer)
        except RunStopped as stopped:
            return ending_of(stopped)
        with activity(LOADING):
            from fedsim.sim.exchanges.kernel import play  # noqa: PLC0415 - it takes a while

            self._kernel = play
        self._calendar.call(self._calendar.now, self._begin, None)
        try:
            return await self._over
        finally:
            if self._whole:  # also where an interrupt ends the run
                self._end()

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
        parts = self._setup, self._fleet, self._rounds, self._looks
        try:
            self._scripts = RowScripts(*parts)
            self._tables = self._scripts.begin(self._tables)
        except NotAlikeError:
            self._scripts = NodeScripts(*parts)
            self._tables = self._scripts.begin(self._tables)
        self._total["word"] = self._log.word(self._scripts.last_message(0, 1).label)
        self._tables.ready[:] = np.arange(len(self._tables.ready))
        self._total["ready"] = len(self._tables.ready)
        self._play()

    def _play(self) -> None:
        """Let the kernel go on up to the end of a round."""
        self._whole = False
        while True:
            for name in _COMMON:
                self._total[name] = getattr(self._traffic, name)
            why = self._kernel(self._tables)
            for name in _COMMON:
                setattr(self._traffic, name, self._total[name].item())
            self._write_rows(self._tables.rows[: self._total["rows"]])
            self._total["rows"] = 0
            if why == ASKS:
                self._tables = self._scripts.resume(self._tables)
            elif why == CLOSED:
                self._whole = True
                self._calendar.call(float(self._total["now"]), self._close_round, None)
                return
            elif why != FULL:
                raise ReactionError("nothing is known to happen")

    def _write_rows(self, rows: Rows) -> None:
        """Let the log have a copy of rows, which the kernel will write over."""
        for begin in range(0, len(rows), _AT_ONCE):
            some = rows[begin : begin + _AT_ONCE]
            self._log.extend(np.frombuffer(some.tobytes(), some.dtype))

    def _close_round(self, _: None) -> None:
        """Hand the models of a round to the observer, and go on unless that ends the run."""
        try:
            self._scripts.close_round()
        except RunStopped as stopped:
            self._finish(ending_of(stopped))
        except Exception as error:  # noqa: BLE001 - the run ends with it
            self._finish(error)
        else:
            self._play()

    def _end(self) -> None:
        """Charge work in progress, and leave messages and radios as they are to the network."""
        nodes, now = self._tables.nodes, max(self._calendar.now, float(self._total["now"]))
        for number in np.flatnonzero(nodes["work_begun"] >= 0.0).tolist():
            own: Any = nodes[number]
            span = max(now - float(own["work_begun"]), 0.0)
            joules = float(own["power"]) * span
            own["work_joules"] += joules
            self._traffic.joules += joules
            event, what = int(Event.COMPUTE), int(own["round"])
            self._log.append(now, span, event, number, NO_PEER, what, joules=joules)
        self._fleet.vectorised_joules = hand_back(
            self._tables, self.network, self._scripts.last_message
        )
        self._scripts.end()


def _ignore(*_: object) -> None:
    """Ignore what has arrived: the kernel knows."""
