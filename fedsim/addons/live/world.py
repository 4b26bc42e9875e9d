"""The live world: a listening server, and its clients."""

import asyncio
import gc
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from math import inf, nan
from typing import Any, cast

import numpy as np

from fedsim.addons.live.access import Access
from fedsim.addons.live.clock import OrderedLog, WallClock
from fedsim.addons.live.connection import Timing, ignore_text
from fedsim.addons.live.entrance import Entrance
from fedsim.addons.live.frames import largest_vector
from fedsim.addons.live.handshake import RunOffer
from fedsim.addons.live.misfits import ReplyRule, ReplySizes
from fedsim.addons.live.network import LiveNetwork
from fedsim.addons.live.returning import ReturnRule
from fedsim.addons.live.session import Door
from fedsim.core.errors import ClientsMissingError, Failed, FedsimError, FrameError, PeerError
from fedsim.core.ports import ClientId, Message, node_name
from fedsim.core.progress import activity
from fedsim.protocol.participation import Participation
from fedsim.protocol.server import ServerProtocol
from fedsim.protocol.stopping import RunStopped
from fedsim.protocol.transport import ByteTransport
from fedsim.results.record.ledger import Meters
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import Event
from fedsim.results.record.summary import Ending
from fedsim.sim.config import Method, WorldConfig
from fedsim.sim.known import known_fleet
from fedsim.sim.worlds.main_task import MainTask, ending_of
from fedsim.sim.worlds.observed import ObservedRun
from fedsim.sim.worlds.observer import Observer, OnRound, ignore_round
from fedsim.sim.worlds.server import RoundServer
from fedsim.wire.packers import Packing

StartClients = Callable[[int], Sequence[Coroutine[Any, Any, None]]]
"""Returns the clients that this process runs itself, given the port of the server."""


class LiveServer(RoundServer):
    """A server in real time, with the timers of the event loop, and messages over connections.

    Attributes:
        expel: permanently disconnects a client with invalid replies.
    """

    expel: Callable[[ClientId, PeerError], None]

    def __init__(self, protocol: ServerProtocol, **parts: Any) -> None:
        super().__init__(protocol, **parts)
        self._sizes = ReplySizes(self.initial.shape)

    async def _wait_finished(self) -> None:
        """Wait for the end of the exchange, and drop invalid replies.

        If it then has too few replies, the exchange continues, and its deadline starts again.
        """
        while True:
            await super()._wait_finished()
            # Only when the exchange would close: by then most replies are known, and the majority
            # decides the right size.
            misfits = self._sizes.misfits(self._protocol.unused)
            if not misfits:
                return
            for client, why in misfits.items():
                self._protocol.disown(client)
                self.expel(client, FrameError(why))


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """The settings of a live run.

    Attributes:
        listener: a listening socket; it stays open after the run.
        access: the authentication of clients.
        offer: the run that clients join.
        fingerprint: the hash of the clients' losses.
        participation: the scenario's policy; its spans are in real time.
        another: whether another run follows.
        timing: of connections.
        start_clients: see `StartClients`.
        refused: called with the error of each rejected connection.
        tell: called with a text when clients leave or reconnect.
        returning: the reconnection policy.
        patience: how long to wait for reconnections if no client is left, s.
        replies: the classes of messages that the method's clients send; empty if unknown.
        goes_on: whether the run continues without a client whose handler has failed.
        facts: receives facts of live runs only: bytes on connections, clients that left.
    """

    listener: socket.socket
    access: Access
    offer: RunOffer
    fingerprint: str
    participation: Participation
    another: bool = False
    timing: Timing = field(default_factory=Timing)
    start_clients: StartClients = lambda _: ()
    refused: Callable[[PeerError], None] = ignore_round
    tell: Callable[[str], None] = ignore_text
    returning: ReturnRule = field(default_factory=ReturnRule)
    patience: float = 0.0
    replies: Sequence[type[Message]] = ()
    goes_on: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


def run_to_end(main: Coroutine[Any, Any, Ending]) -> Ending:
    """Run a coroutine in a new event loop; if one is running already, in a further thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main)
    with ThreadPoolExecutor(1) as pool:  # as in a notebook
        return pool.submit(copy_context().run, asyncio.run, main).result()


class NoIdleEnergy:
    """The idle energy of a live run, which no meter separates from that of work."""

    def take(self, now: float) -> float:
        """Return 0."""
        return 0.0

    def take_grams(self, now: float) -> float:
        """Return 0."""
        return 0.0


class LiveWorld(ObservedRun):
    """One live run, with the interface of `fedsim.sim.world.World`.

    Attributes:
        traffic: running totals of what the run has cost.
    """

    def __init__(
        self,
        setup: WorldConfig,
        book: RunRecorder,
        on_round: OnRound = ignore_round,
        *,
        settings: LiveSettings,
    ) -> None:
        super().__init__()
        self.traffic = Traffic()
        self._setup = replace(setup, participation=settings.participation)
        self._settings = settings
        self._book, self._on_round = book, on_round
        self._clock = WallClock()
        self._log = OrderedLog(book.log)
        clients = len(setup.fleet)
        transport = cast("ByteTransport", setup.transport)
        self._network = LiveNetwork(
            clients,
            self._clock,
            self._log,
            self.traffic,
            transport,
            self._looks,
            settings.timing.answer,
            largest_vector(setup.initial.size),
            0.0 if settings.returning.never else settings.patience,
            replies=ReplyRule(settings.replies),
            goes_on=settings.goes_on,
        )
        self._observer = Observer(
            self._setup,
            book,
            self._clock,
            self.traffic,
            NoIdleEnergy(),
            on_round,
            log=self._log,
        )
        self._server = self._make_server(transport)
        self._observer.counts = self._server.tally.close
        method = cast("Method", setup.algorithm)
        self._main_task = MainTask(method.serve, self._server, lambda: ())
        self._network.on_reply = self._server.receive
        self._network.on_lost = self._server.lose
        self._server.expel = self._network.expel
        self._network.on_failed = self._main_task.fail

    def _make_server(self, transport: ByteTransport) -> LiveServer:
        setup, network = self._setup, self._network
        return LiveServer(
            setup.server_protocol(network, transport, known_fleet(setup)),
            calendar=self._clock,
            network=network,
            presence=network,
            log=self._log,
            traffic=self.traffic,
            initial=setup.initial,
            smoothness=setup.smoothness,
            packing=Packing(setup.packer_down),
            weights=setup.shares,
            rng=setup.rng("server", 0),
            commit=self._observer.commit,
            stay=self._observer.stay,
            looks=self._looks,
        )

    @property
    def aggregation_notes(self) -> Sequence[tuple[str, str]]:
        """Notes on what the rule of aggregation did, each with the key that it concerns."""
        return list(self._server.tally.notes())

    @property
    def now(self) -> float:
        """The time of the run, s."""
        return self._clock.now

    @property
    def unheard(self) -> int:
        """The number of clients that were asked, and of which no reply has ever counted."""
        return self._server.unheard

    def run(self) -> str:
        """Run to the end and return the reason why it ended.

        Raises:
            ClientsMissingError: not all clients have joined in time.
            Diverged: the model or the objective stopped being finite.
            Failed: the handler of a client has failed.
        """
        # Objects from before the run stay alive: the search for garbage took a tenth of the time.
        gc.freeze()
        try:
            return self._run_observed(lambda: run_to_end(self._run()))
        finally:
            gc.unfreeze()

    async def _run(self) -> Ending:
        settings = self._settings
        door = Door(
            settings.offer,
            settings.access.token,
            self._network,
            self._setup.initial.size,
            settings.fingerprint,
            settings.timing,
            settings.refused,
            settings.returning,
            settings.tell,
        )
        entrance = Entrance(settings.listener, door, settings.access.certificates)
        entrance.open()
        port = settings.listener.getsockname()[1]
        own = [asyncio.create_task(each) for each in settings.start_clients(port)]
        try:
            await self._wait_for_clients(door, own=bool(own))
            return await self._serve()
        except RunStopped as stopped:  # the model that the run starts with is at its goal
            return ending_of(stopped)
        finally:
            # The clock first, so that all rows of the end have one time; clients are told before
            # connections close.
            self._clock.stop()
            self._network.close(another=settings.another)
            entrance.close()
            await door.close()
            await asyncio.gather(*own, return_exceptions=True)
            settings.facts.update(
                sent_bytes=door.sent_bytes,
                received_bytes=door.received_bytes,
                left={node_name(one): why for one, why in self._network.departures.items()},
                returned=self._network.returned,
            )

    async def _serve(self) -> Ending:
        """Run the server's coroutine to its end.

        Raises:
            Failed: it has raised an error, perhaps because of what a client has sent.
        """
        try:
            return await self._main_task.run()
        except FedsimError:
            raise
        except Exception as error:
            text = "the server's part of the method has failed, perhaps due to a client's message"
            raise Failed(f"{text}: {error!r}") from error

    async def _wait_for_clients(self, door: Door, *, own: bool) -> None:
        """Wait until all clients are ready, and start the clock.

        Args:
            door: the door of the run.
            own: whether the clients run in this process, which do not retry.

        Raises:
            ClientsMissingError: some are not in time.
            Failed: a client of this process cannot be built.
            RunStopped: a stop rule applies to the model that the run starts with.
        """
        span = self._settings.timing.joining
        try:
            async with asyncio.timeout(span):
                with activity(self._who_is_missing):
                    while self._network.missing:
                        await door.changed.wait()
                        door.changed.clear()
                        if own and door.failure:
                            raise Failed(door.failure)
        except TimeoutError:
            missing = self._network.missing
            names = ", ".join(map(node_name, missing[:_FEW])) + ", ..." * (len(missing) > _FEW)
            count = f"{len(missing)} of {self._settings.offer.clients} clients have not joined"
            raise ClientsMissingError(f"{count} within {span:g} s: {names}") from None
        # One client without a meter makes all sums of energy unknown.
        if not self._network.metered:
            self.traffic.joules = nan
            self._book.log.metered = False
        # The initial model is evaluated before time begins, as an evaluation costs no time in a
        # run.
        self._observer.begin()
        self._clock.begin()
        for rule in self._setup.stop.rules:
            if (time := rule.ends_at) < inf:
                reason = f"{rule.key}: {time:g} s"
                self._clock.at_deadline(time, self._main_task.stop, reason)

    def _who_is_missing(self) -> str:
        """Return the activity of a server that waits for clients, for displays in other threads."""
        return f"waiting for {len(self._network.missing)} of {self._settings.offer.clients} clients"

    def meters(self) -> Meters:
        """Return the readings of the connections and the clients' meters, for the audit."""
        network = self._network
        return Meters(
            bits_sent=self.traffic.bits_up + self.traffic.bits_down,
            bits_delivered=network.delivered,
            bits_heard=network.delivered,
            bits_lost=network.lost,
            bits_in_flight=network.in_flight,
            joules=network.joules,
            idle_joules=np.zeros(len(self._setup.fleet)),
            metered=network.metered,
        )

    def close(self, reason: str) -> None:
        """Record why the run ended, and what the meters show."""
        self._observer.write_idle(Event.STOP, self._book.rounds.rounds, self._log.word(reason))
        self._observer.charge_infrastructure(self.now)
        # Rows of the last, unfinished round are still held back to be put in order.
        self._log.release()
        self._book.end(self.meters())


_FEW = 5
"""Largest number of missing clients that are listed."""
