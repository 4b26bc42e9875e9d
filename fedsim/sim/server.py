"""The server of the virtual world: opens rounds, gathers replies, closes rounds."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter

import numpy as np

from fedsim.ports import SERVER, SILENCE, Array, Beacon, ClientId, Message, Payload, Reply, Silence
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import Event
from fedsim.sim.engine.calendar import DEADLINE, Calendar
from fedsim.sim.network.lanes import Envelope
from fedsim.sim.network.transport import Star
from fedsim.sim.silence import SilencePolicy

BEACON = Beacon()

_SILENT = int(Event.SILENT)

_by_client_and_round = itemgetter(0, 1)


@dataclass(slots=True)
class Gathering:
    """The replies of one exchange: it is open until all have reported or its deadline."""

    number: int
    pending: int
    closed: asyncio.Future[None]
    replies: list[Reply] = field(default_factory=list)

    def close(self) -> None:
        """Close it, if it is open."""
        if not self.closed.done():
            self.closed.set_result(None)


class SimServer:
    """Implements `fedsim.ports.Server`.

    Attributes:
        round: the current round, from 1.
    """

    def __init__(
        self,
        *,
        calendar: Calendar,
        network: Star,
        log: EventLog,
        traffic: Traffic,
        silence: SilencePolicy,
        header_bits: int,
        clients: int,
        initial: Array,
        smoothness: Callable[[], Array],
        pack: Callable[[Array], Payload],
        rng: np.random.Generator,
        commit: Callable[[Array, dict[str, float]], None],
    ) -> None:
        self.clients: Sequence[ClientId] = range(clients)
        self.initial = initial
        self.pack = pack
        self.rng = rng
        self.round = 1
        self._smoothness = smoothness
        self._calendar = calendar
        self._network = network
        self._log = log
        self._traffic = traffic
        self._silence = silence
        self._header_bits = header_bits
        self._commit = commit
        self._exchanges = 0
        self._gathering: Gathering | None = None
        self._late: list[Reply] = []

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
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
        cohort = self.clients if to is None else self._known(to)
        self._exchanges += 1
        self._traffic.cohort += len(cohort)
        gathering = Gathering(
            self._exchanges, len(cohort), asyncio.get_running_loop().create_future()
        )
        self._gathering = gathering
        self._network.send_down(cohort, self._seal(message, self.round, self._exchanges))
        try:
            await self._gathered(gathering)
        finally:
            self._gathering = None
        replies, self._late = self._late + gathering.replies, []
        return sorted(replies, key=_by_client_and_round)

    def _known(self, to: Sequence[ClientId]) -> Sequence[ClientId]:
        if strangers := [client for client in to if client not in self.clients]:
            raise ValueError(f"there are clients 0 to {len(self.clients) - 1}, not {strangers}")
        return to

    def _seal(self, message: Message, round_number: int, exchange: int) -> Envelope:
        word = self._log.word(message.label)
        return Envelope(message, word, round_number, exchange, self._header_bits)

    async def _gathered(self, gathering: Gathering) -> None:
        """Wait until all have reported, or until the deadline."""
        if not gathering.pending:
            return
        deadline = None
        if self._silence.after < inf:
            deadline = self._calendar.at(
                self._calendar.now + self._silence.after, gathering.close, priority=DEADLINE
            )
        await gathering.closed
        if deadline is not None:
            deadline.cancel()

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
        if gathering is None or gathering.number != envelope.exchange:
            self._receive_late(client, envelope)
            return
        if envelope.message is not BEACON:
            gathering.replies.append(Reply(client, envelope.round, envelope.message))
        gathering.pending -= 1
        if not gathering.pending:
            gathering.close()

    def _receive_late(self, client: ClientId, envelope: Envelope) -> None:
        """A reply whose round has closed counts for the next one, or not at all."""
        kept = self._silence.keep_late and envelope.message is not BEACON
        if kept:
            self._late.append(Reply(client, envelope.round, envelope.message))
        self._log.append(
            self._calendar.now,
            0.0,
            Event.LATE,
            client,
            SERVER,
            envelope.round,
            envelope.word,
            detail=self._log.word("kept for the next round" if kept else "dropped"),
        )
