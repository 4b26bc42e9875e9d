"""The server of a world: passes arrivals to its protocol endpoint, and records them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import Failed
from fedsim.core.ports import SERVER, Array, ClientId, Message, Reply
from fedsim.protocol.aggregation import Tally
from fedsim.protocol.participation import ExchangeOutcome, Sent
from fedsim.protocol.reporting import CHOSEN, to_candidates
from fedsim.protocol.selection import Cohort
from fedsim.protocol.server import Post, ReplyOutcome, ServerProtocol
from fedsim.protocol.stopping import NoClientsLeft
from fedsim.protocol.transport import Envelope
from fedsim.protocol.uncommitted import UncommittedExchanges
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.worlds.clock import Clock, Clocked
from fedsim.wire.feedback import resolve_pending
from fedsim.wire.packers import Packing
from fedsim.wire.replies import ReplyColumns

_COUNTED = ReplyOutcome.COUNTED


class RowLog(Protocol):
    """The part of the event log that actors need; see `fedsim.results.record.log.EventLog`."""

    @property
    def append(self) -> Callable[..., None]:
        """Add a row."""
        ...

    @property
    def word(self) -> Callable[[str], int]:
        """Return the number of a message name or of a detail."""
        ...


class Downlinks(Protocol):
    """The part of the network that a server needs."""

    def send_down(self, clients: Sequence[ClientId], envelope: Envelope) -> None:
        """Accept a message for several clients, and charge its bits."""
        ...


class Attendance(Protocol):
    """Which clients can be reached."""

    def why_gone(self, clients: Sequence[ClientId]) -> str:
        """Return why none of these clients will ever take part again; empty if one may."""
        ...

    def charge(self, client: ClientId) -> float:
        """Return the state of charge of a client's battery; NaN on mains."""
        ...

    async def change(self) -> None:
        """Wait until the presence or the battery of any client has changed."""


class RoundServer(Clocked):
    """Implements `fedsim.core.ports.Server`.

    Attributes:
        id: the number of the server in the log.
        weights: the clients' shares of all samples, shape (M,).
        asked: the clients of the last exchange.
    """

    def __init__(
        self,
        protocol: ServerProtocol,
        *,
        calendar: Clock,
        network: Downlinks,
        presence: Attendance,
        log: RowLog,
        traffic: Traffic,
        initial: Array,
        smoothness: Callable[[], Array],
        weights: Array,
        packing: Packing,
        rng: np.random.Generator,
        commit: Callable[[Array, dict[str, float]], None],
        stay: Callable[[], None],
        looks: set[str],
        number: ClientId = SERVER,
    ) -> None:
        super().__init__(calendar, looks)
        self.id = number
        self.clients = protocol.clients
        self.initial = initial
        self.weights = weights
        self.pack = packing.pack
        self.aggregate = protocol.aggregator.sum
        self.repeat = protocol.aggregator.repeat
        self.repeated = packing.repeat
        self.rng = rng
        self._protocol = protocol
        self._smoothness = smoothness
        self._network = network
        self._presence = presence
        self._log = log
        self._traffic = traffic
        self._commit = commit
        self._stay = stay
        self._watched = protocol.watched
        self._over: asyncio.Future[None] | None = None  # the wait in progress, if any
        self._outcome: ExchangeOutcome | None = None  # of the last exchange, for an informed policy
        self._counts = True
        self.asked: Sequence[ClientId] = ()
        self._uncommitted = UncommittedExchanges("server.commit(model)")
        self._opened = 0, 0.0  # the number of the last round, and when its first exchange began
        self._sent_before = 0  # replies and beacons of clients before the open exchange

    @property
    def round(self) -> int:
        """The number of the round that is open, from 1."""
        return self._protocol.round

    @property
    def smoothness(self) -> Array:
        """The smoothness constants of the clients' losses, shape (M,)."""
        return self._smoothness()

    def coefficients(self, replies: Sequence[Reply]) -> Array:
        """See `fedsim.core.ports.Server.coefficients`."""
        return self._protocol.estimator.coefficients(replies, self.weights)

    def factors(self, replies: Sequence[Reply]) -> Array | float:
        """See `fedsim.core.ports.Server.factors`."""
        return self._protocol.estimator.factors(replies)

    @property
    def unheard(self) -> int:
        """The number of clients that were asked, and of which no reply has ever counted."""
        return self._protocol.unheard

    @property
    def tally(self) -> Tally:
        """What the rule of aggregation did beside combining vectors."""
        return self._protocol.aggregator.tally

    @property
    def answers(self) -> tuple[int, int, int]:
        """The numbers of clients asked, of reports, and of replies in transit.

        They may be read from another thread. Without an open exchange all are 0.
        """
        # Read once: the exchange may close while another thread evaluates the lines below.
        exchange, sent = self._protocol.exchange, self._sent - self._sent_before
        if exchange is None:
            return 0, 0, 0
        return exchange.asked, exchange.reported, max(sent - exchange.reported, 0)

    @property
    def _sent(self) -> int:
        return self._traffic.transmissions + self._traffic.beacons

    @property
    def stuck(self) -> str:
        """Describe which clients the server was still waiting for at the end; empty if none."""
        return self._protocol.stuck

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.core.ports.Server.commit`."""
        if self._protocol.aggregator.unused:
            text = "the method adds up replies by itself, so that the aggregation has no effect"
            raise Failed(f"{text}; let it ask for `server.aggregate(replies, field, weights)`")
        # The observer first: its row belongs to the round that is still open, and it may end the
        # run by an exception.
        self._commit(model, measures)
        self._protocol.round += 1
        self._uncommitted.close()

    async def exchange(
        self,
        message: Message | Mapping[ClientId, Message],
        *,
        to: Sequence[ClientId] | None = None,
        again: Callable[[], Message | Mapping[ClientId, Message]] | None = None,
    ) -> Sequence[Reply]:
        """See `fedsim.core.ports.Server.exchange`."""
        # Before the first `await`, so that a second exchange is refused at its call.
        self._protocol.check_free()
        to = self._protocol.recipients(message, to)
        while True:
            # One pass per round: an abandoned round is repeated with another cohort.
            cohort = await self._cohort(to, message)
            # `opened` is the time after a possible wait for clients: an abandoned round lasts from
            # here.
            resolved, opened = resolve_pending(message, cohort.clients), self._calendar.now
            if self._opened[0] != self._protocol.round:
                self._opened = self._protocol.round, opened
            chosen: Cohort | None = cohort
            if cohort.drawn and self._protocol.asks_candidates:
                chosen = await self._ask_candidates(resolved, cohort)
                # An empty message: the candidates have received the real one, and keep it.
                resolved = CHOSEN
            if chosen is not None:
                if self._counts:
                    self._traffic.cohort += len(chosen.clients)
                await self._hold(resolved, chosen)
                if not self._protocol.given_up:
                    share = 1.0 if to is None else len(to) / len(self.clients)
                    self._uncommitted.add(self._protocol.round, share)
                    return self._protocol.replies()
            self._abandon(opened, self._protocol.progress)
            if cohort.gone:
                return []
            # Clients may have received the message of the abandoned round.
            message = self.repeated(message) if again is None else again()

    # -- doors for methods of several exchanges a round; see `fedsim.protocol.secrecy` --

    @property
    def silent(self) -> Sequence[ClientId]:
        """The clients whose beacon has arrived in the last exchange."""
        return self._protocol.silent

    def count_cohort(self, counts: bool) -> None:
        """Let the clients of the exchanges to come count as asked, or not, for the round table."""
        self._counts = counts

    def leave_out(self, clients: Sequence[ClientId], why: str) -> None:
        """Log that the open round goes on without some clients."""
        self._write_cohort(Cohort((), skipped=[(client, why) for client in clients]))

    def abandon(
        self, why: str, message: Message | Mapping[ClientId, Message]
    ) -> Message | Mapping[ClientId, Message]:
        """Abandon the open round between two exchanges: the model stays.

        Args:
            why: the reason, for the log.
            message: the message of the round.

        Returns:
            The message of the next round.
        """
        self._abandon(self._opened[1], why)
        return self.repeated(message)

    # -- exchanges ---------------------------------------------------------------------

    async def _hold(self, message: Sent, cohort: Cohort) -> None:
        """Open an exchange, and wait until it is closed."""
        # `open` may count replies that an asynchronous server has kept, and so close the exchange
        # at once. Its messages are sent all the same.
        post = self._protocol.open(message, cohort.clients)
        self.asked = cohort.clients
        self._sent_before = self._sent
        if self._watched:
            self._protocol.begin_watch(self._calendar.now, cohort.clients)
        try:
            self._send(post, "" if isinstance(message, Mapping) else message.label)
            await self._wait_finished()
        except BaseException:
            # BaseException: a method may cancel its own wait, by `asyncio.timeout` say, and then
            # open another exchange.
            self._protocol.cancel()
            raise
        if self._watched:
            self._outcome = self._protocol.close_watch(self._calendar.now)

    async def _ask_candidates(self, message: Sent, cohort: Cohort) -> Cohort | None:
        """Return the candidates that are asked for an update, after their reports, or None."""
        await self._hold(to_candidates(message), cohort)
        if self._protocol.given_up or self._outcome is None:
            return None
        chosen = self._protocol.choose(self._outcome)
        self._write_cohort(chosen)
        return chosen

    async def _wait(self, *timers: tuple[float, Callable[[], None]]) -> None:
        """Wait until `_wake`.

        Args:
            timers: times, s, and what to call then; infinite for never. A call comes after all
                else that happens at that instant: a reply that arrives exactly then counts.
        """
        self._over = over = asyncio.get_running_loop().create_future()
        at = self._calendar.at_deadline
        running = [at(when, callback) for when, callback in timers if when < inf]
        try:
            await over
        finally:
            # Also if a method cancels its wait: a timer that is left would end a later wait.
            self._over = None
            for timer in running:
                timer.cancel()

    async def _cohort(self, to: Sequence[ClientId] | None, message: Sent) -> Cohort:
        """Return the cohort, as soon as one of the wanted clients can be asked, or none ever will.

        Raises:
            NoClientsLeft: none of all clients can take part any more.
        """
        wanted = self.clients if to is None else to
        while wanted:
            if self._watched and to is None and (delay := self._protocol.delay(self._calendar.now)):
                await self._wait((self._calendar.now + delay, self._wake))
            cohort = self._protocol.cohort(to, self._calendar.now, message)
            if cohort is not None:
                # Candidates are not yet sampled: only those chosen of them get a row, in
                # `_ask_candidates`.
                reported = cohort.drawn and self._protocol.asks_candidates
                self._write_cohort(replace(cohort, drawn=False) if reported else cohort)
                return cohort
            if self._presence.why_gone(wanted):
                # All wanted clients are gone, but others are not: the exchange closes empty.
                if reason := self._presence.why_gone(self.clients):
                    raise NoClientsLeft(reason)
                # Until the end of this instant, at which further clients may leave.
                await self._wait((self._calendar.now, self._wake))
                if self._presence.why_gone(self.clients):
                    continue
                cohort = self._protocol.all_gone(wanted)
                self._write_cohort(cohort)
                return cohort
            await self._presence.change()
        # No client is wanted, as a method may name none: the exchange is empty.
        return Cohort(wanted)

    def _send(self, post: Post, label: str) -> None:
        """Record that messages go to a cohort, and send them.

        Args:
            post: the messages with their receivers; may be empty.
            label: the label of a common message; empty if every client has its own.
        """
        now, number = self._calendar.now, self._protocol.round
        if post:
            word = self._log.word(label)
            self._log.append(now, 0.0, Event.EXCHANGE, self.id, NO_PEER, number, word)
        for envelope, clients in post:
            envelope.word = self._log.word(envelope.message.label)
            self._network.send_down(clients, envelope)

    async def _wait_finished(self) -> None:
        """Wait until the exchange is closed, with enough reports, or abandoned."""
        if self._protocol.over:
            return
        now, protocol = self._calendar.now, self._protocol
        await self._wait(
            (now + protocol.deadline, self._on_deadline),
            (now + protocol.round_timeout, self._on_timeout),
        )

    def _abandon(self, opened: float, why: str) -> None:
        """End a round with too few reports: the model stays."""
        # In this order: `abandon` drops the exchange, whose progress the row describes, and raises
        # the round number. `_stay` comes last, as it may end the run by an exception.
        now, number = self._calendar.now, self._protocol.round
        word = self._log.word(why)
        self._log.append(now, now - opened, Event.ABANDONED, self.id, NO_PEER, number, detail=word)
        for reply, verdict in self._protocol.abandon():
            self._write_late(
                reply.client, reply.round, self._log.word(reply.message.label), verdict
            )
        self._uncommitted.close()
        self._stay()

    # -- events ------------------------------------------------------------------------

    def receive(self, client: ClientId, envelope: Envelope) -> None:
        """Receive a reply."""
        if self._watched:
            self._protocol.see_reply(client, envelope, self._calendar.now)
        verdict = self._protocol.receive_reply(client, envelope)
        if verdict is _COUNTED:  # the usual case
            return
        if verdict is ReplyOutcome.CLOSED:
            self._wake()
        elif verdict is ReplyOutcome.KEPT or verdict is ReplyOutcome.DROPPED:
            self._write_late(client, envelope.round, envelope.word, verdict)

    def receive_all(self, number: int, clients: NDArray[np.int64], replies: ReplyColumns) -> bool:
        """Receive many replies at once, if possible; see `ServerProtocol.receive_all`."""
        verdict = self._protocol.receive_all(number, clients, replies)
        if verdict is ReplyOutcome.CLOSED:
            self._wake()
        return verdict is not None

    def lose(self, client: ClientId) -> None:
        """Handle the end of a client's connection, now or at the next beat: it will not report."""
        now = self._calendar.now
        when = self._protocol.notice(now)
        if when <= now:
            if self._protocol.client_left(client):
                self._wake()
        elif when < inf:
            # By the time of the beat, the client may be back and at work for another exchange. The
            # number of the exchange of now tells the two apart.
            asked = client, self._protocol.asked_in(client)
            self._calendar.at_deadline(when, self._notice, asked)

    def _notice(self, left: tuple[ClientId, int]) -> None:
        """Handle at a beat that a client had left in some exchange."""
        if self._protocol.client_left(*left):
            self._wake()

    def _on_deadline(self) -> None:
        if self._protocol.deadline_expired():
            self._wake()

    def _on_timeout(self) -> None:
        if self._protocol.abandon_round():
            self._wake()

    def _wake(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    # -- rows --------------------------------------------------------------------------

    def _write_cohort(self, cohort: Cohort) -> None:
        now, number = self._calendar.now, self._protocol.round
        append, charge = self._log.append, self._presence.charge
        for client, why in cohort.skipped:
            word, share = self._log.word(why), charge(client)
            append(
                now,
                0.0,
                Event.SKIPPED,
                client,
                NO_PEER,
                number,
                detail=word,
                state_of_charge=share,
            )
        for client in cohort.clients if cohort.drawn else ():
            share = charge(client)
            append(now, 0.0, Event.SAMPLED, client, NO_PEER, number, state_of_charge=share)

    def _write_late(self, client: ClientId, number: int, word: int, verdict: ReplyOutcome) -> None:
        detail = self._log.word(verdict.value)
        now = self._calendar.now
        self._log.append(now, 0.0, Event.LATE, client, self.id, number, word, detail=detail)
