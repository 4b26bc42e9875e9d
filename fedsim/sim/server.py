"""The server of the virtual world: opens rounds, gathers replies, closes rounds."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from operator import itemgetter

import numpy as np

from fedsim.ports import SERVER, SILENCE, Array, ClientId, Message, Reply, Silence
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.client import BEACON
from fedsim.sim.engine.calendar import DEADLINE, Calendar, Timer
from fedsim.sim.gathering import Gathering
from fedsim.sim.lateness import LateReplies
from fedsim.sim.network.lanes import Envelope
from fedsim.sim.network.transport import Network
from fedsim.sim.packing import Packing
from fedsim.sim.participation import Selection
from fedsim.sim.presence import Presence
from fedsim.sim.silence import SilencePolicy
from fedsim.sim.stopping import RunStopped

_SILENT = int(Event.SILENT)

_by_client_and_round = itemgetter(0, 1)


class SimServer:
    """Implements `fedsim.ports.Server`.

    Attributes:
        round: the current round, from 1.
        weights: the clients' shares of all samples, shape (M,).
    """

    def __init__(
        self,
        *,
        calendar: Calendar,
        network: Network,
        presence: Presence,
        selection: Selection,
        log: EventLog,
        traffic: Traffic,
        silence: SilencePolicy,
        header_bits: int,
        clients: int,
        initial: Array,
        smoothness: Callable[[], Array],
        weights: Array,
        packing: Packing,
        rng: np.random.Generator,
        commit: Callable[[Array, dict[str, float]], None],
        stay: Callable[[], None],
        looks: set[str],
    ) -> None:
        self.clients: Sequence[ClientId] = range(clients)
        self.initial = initial
        self.weights = weights
        self.pack = packing.pack
        self.rng = rng
        self.round = 1
        self._smoothness = smoothness
        self._calendar = calendar
        self._network = network
        self._presence = presence
        self._selection = selection
        self._policy = selection.policy
        self._asynchronous = selection.policy.buffer > 0
        self._deadline = min(silence.after, selection.policy.deadline)
        kept = silence.keep_late and selection.policy.keep_late
        self._late = LateReplies(calendar, log, keep=kept)
        self._log = log
        self._traffic = traffic
        self._silence = silence
        self._header_bits = header_bits
        self._commit = commit
        self._stay = stay
        self._looks = looks
        self._exchanges = 0
        self._gathering: Gathering | None = None
        self._unclosed: Gathering | None = None  # the last one, where it was broken off
        self._busy: set[ClientId] = set()  # of an asynchronous server: who works already
        self._carried = 0  # the reports that an asynchronous server's buffer holds already
        self._beyond: deque[tuple[ClientId, Envelope]] = deque()

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        self._looks.add("now")
        return self._calendar.now

    @property
    def smoothness(self) -> Array:
        """The smoothness constants of the clients' losses, shape (M,)."""
        return self._smoothness()

    def commit(self, model: Array, **measures: float) -> None:
        """See `fedsim.ports.Server.commit`."""
        self._commit(model, measures)
        self.round += 1

    async def exchange(
        self, message: Message, *, to: Sequence[ClientId] | None = None
    ) -> list[Reply]:
        """See `fedsim.ports.Server.exchange`."""
        if self._gathering is not None:
            raise RuntimeError("an exchange is under way: a round has one at a time")
        gathering = await self._asked(message, to)
        while gathering.abandoned:
            self._give_up(gathering)
            gathering = await self._asked(message, to)
        return sorted(self._late.taken() + gathering.replies, key=_by_client_and_round)

    async def _asked(self, message: Message, to: Sequence[ClientId] | None) -> Gathering:
        """Ask a cohort, and return what came of it."""
        cohort = await self._cohort(to)
        gathering = self._open(cohort)
        self._gathering = gathering
        if cohort:
            self._begin(cohort, self._seal(message, self.round, self._exchanges))
        while self._beyond and not gathering.closed.done():
            self.receive(*self._beyond.popleft())
        try:
            await self._gathered(gathering)
        finally:
            self._gathering = None
            self._unclosed = gathering if gathering.closed.cancelled() else None
        return gathering

    def _give_up(self, gathering: Gathering) -> None:
        """Give up a round in which too few have reported: the model stays, the round is over.

        What has come counts as late, but in the buffer of an asynchronous server, where it
        stays; those whom such a server waited for may be asked again.
        """
        now, word = self._calendar.now, self._log.word(gathering.progress)
        span = now - gathering.opened
        self._log.append(now, span, Event.ABANDONED, SERVER, NO_PEER, self.round, detail=word)
        if self._asynchronous:
            self._busy, self._carried = set(), gathering.reported
            self._late.carry(gathering.replies)
        else:
            for reply in gathering.replies:
                self._late.count(reply, self._log.word(reply.message.label))
        self._stay()
        self.round += 1

    @property
    def stuck(self) -> str:
        """Whom it waited for when the world ended, in words; empty where for nobody."""
        if self._unclosed is None:
            return ""
        return f"the server waits in round {self.round}: {self._unclosed.progress}"

    async def _cohort(self, to: Sequence[ClientId] | None) -> Sequence[ClientId]:
        """Return whom to ask, once there is somebody to ask.

        Raises:
            RunStopped: there never will be.
        """
        if to is not None and (strangers := [one for one in to if one not in self.clients]):
            raise ValueError(f"there are clients 0 to {len(self.clients) - 1}, not {strangers}")
        wanted = self.clients if to is None else to
        while wanted:
            cohort = self._selection.cohort(to, self._busy, self._calendar.now, self.round)
            if cohort is not None:
                return cohort
            if reason := self._presence.hopeless(wanted):
                raise RunStopped(reason)
            await self._presence.change()
        return wanted

    def _open(self, cohort: Sequence[ClientId]) -> Gathering:
        """Return the gathering of an exchange with these clients."""
        self._exchanges += 1
        self._traffic.cohort += len(cohort)
        waiting = set(cohort)
        if self._asynchronous:
            waiting = self._busy = self._busy | waiting
        closed = asyncio.get_running_loop().create_future()
        policy, size = self._policy, len(waiting)
        made = Gathering(self._exchanges, waiting, closed, policy.goal(size), policy.least(size))
        made.asked, made.opened = size, self._calendar.now
        made.reported, self._carried = self._carried, 0
        return made

    def _begin(self, cohort: Sequence[ClientId], envelope: Envelope) -> None:
        """Write down that a message goes to a cohort, and send it."""
        now, word = self._calendar.now, envelope.word
        self._log.append(now, 0.0, Event.EXCHANGE, SERVER, NO_PEER, self.round, word)
        self._network.send_down(cohort, envelope)

    def _seal(self, message: Message, round_number: int, exchange: int) -> Envelope:
        word = self._log.word(message.label)
        return Envelope(message, word, round_number, exchange, self._header_bits)

    async def _gathered(self, gathering: Gathering) -> None:
        """Wait until enough have reported, or until the deadline."""
        if not gathering.waiting:
            return
        now, timers = self._calendar.now, list[Timer]()
        for span, act in (
            (self._deadline, gathering.pass_deadline),
            (self._policy.give_up, gathering.abandon),
        ):
            if span < inf:
                timers.append(self._calendar.at(now + span, act, priority=DEADLINE))
        await gathering.closed
        for timer in timers:
            timer.cancel()

    def lose(self, client: ClientId) -> None:
        """Take note that a client's connection has ended: it will not report."""
        self._busy.discard(client)
        if self._gathering is not None:
            self._gathering.drop(client)

    def answer(self, client: ClientId, asked: Envelope, reply: Message | Silence) -> None:
        """Take a client's reply to the network, or its silence to wherever that goes."""
        if isinstance(reply, Message):
            self._network.send_up(client, self._seal(reply, asked.round, asked.exchange))
            return
        if reply is not SILENCE:
            raise TypeError(f"a handler returns a Message or SILENCE, not {reply!r}")
        self._log.append(self._calendar._now, 0.0, _SILENT, client, SERVER, asked.round)
        if self._silence.beacon:
            if asked.beacon is None:
                asked.beacon = self._seal(BEACON, asked.round, asked.exchange)
            self._network.send_up(client, asked.beacon)

    def receive(self, client: ClientId, envelope: Envelope) -> None:
        """Take a reply that has arrived."""
        gathering = self._gathering
        if self._asynchronous:
            if gathering is not None and gathering.closed.done():
                # Of replies that come at once, those beyond the buffer wait for the next round,
                # and whose they are counts as at work until then.
                self._beyond.append((client, envelope))
                return
            self._busy.discard(client)
        if gathering is None or not (gathering.number == envelope.exchange or self._asynchronous):
            reply = Reply(client, envelope.round, envelope.message)
            self._late.count(reply, envelope.word)
            return
        if envelope.message is not BEACON:
            gathering.replies.append(Reply(client, envelope.round, envelope.message))
        # In place, not a method of the gathering: this runs for every client in every round.
        gathering.reported += 1
        gathering.waiting.discard(client)
        if not gathering.waiting or gathering.overdue or gathering.reported >= gathering.goal:
            gathering.look()
