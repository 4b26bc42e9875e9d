"""A client's memory of a run: it lasts as long as its process, across connections."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from fedsim.addons.live.frames import WorkSpan, largest_vector
from fedsim.addons.live.handshake import RunOffer
from fedsim.addons.live.meters import Meter
from fedsim.core.ports import (
    SERVER,
    Array,
    ClientId,
    Message,
    Oracle,
    Payload,
    Silence,
    Work,
)
from fedsim.protocol.transport import (
    BEACON,
    ByteTransport,
    ClientProtocol,
    Envelope,
    Unpacking,
)
from fedsim.sim.config import WorldConfig
from fedsim.sim.worlds.client_work import check_result, submit_work
from fedsim.wire.packers import Packing


class ClientPart(Protocol):
    """A client's part of a scenario; a `fedsim.scenario.building.Job` includes it."""

    @property
    def setup(self) -> WorldConfig:
        """The configuration of its world."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of the clients' losses."""
        ...


class LiveClient:
    """Implements `fedsim.core.ports.Client` in real time.

    Args:
        setup: of the run.
        protocol: its endpoint.
        meter: of the energy of its work.
        apart: whether work is evaluated in a thread, so that the connection stays alive meanwhile.
        returns: how often the client has left the run before; it selects a new random stream.

    Attributes:
        id: its number.
        oracle: its loss.
        state: the algorithm's own.
        spans: the work done since they were last read.
        looks: the ports that the method has read.
    """

    def __init__(
        self,
        setup: WorldConfig,
        protocol: ClientProtocol,
        meter: Meter,
        *,
        apart: bool,
        returns: int = 0,
    ) -> None:
        self.id: ClientId = protocol.id
        self.oracle: Oracle = setup.fleet[protocol.id].oracle
        self.state: Any = setup.algorithm.memory(setup.initial)
        self.spans: list[WorkSpan] = []
        self.looks: set[str] = set()
        self._protocol = protocol
        self._setup = setup
        self._meter = meter
        self._apart = apart
        # A client that comes back in a new process would otherwise draw the numbers of its first
        # rounds again.
        self._stream = f"client, return {returns}" if returns else "client"
        self._start = monotonic()
        self._rng: np.random.Generator | None = None

    @property
    def round(self) -> int:
        """The round of the message being handled."""
        return self._protocol.round

    @property
    def weight(self) -> float:
        """See `fedsim.core.ports.Client.weight`."""
        return self.oracle.weight

    @property
    def now(self) -> float:
        """Seconds since the start of this client."""
        self.looks.add("now")
        return monotonic() - self._start

    @property
    def battery(self) -> float | None:
        """None: a live run has no batteries."""
        self.looks.add("battery")
        return None

    @property
    def pack(self) -> Callable[..., Payload]:
        """See `fedsim.core.ports.Client.pack`."""
        return self._protocol.packing.pack

    @property
    def rng(self) -> np.random.Generator:
        """This client's random stream: the one of the simulated run, until it reconnects."""
        if self._rng is None:
            self._rng = self._setup.rng(self._stream, self.id)
        return self._rng

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.core.ports.Client.compute`.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        evaluator = self._setup.evaluator
        before, began = self._meter.joules(), monotonic()
        ticket = submit_work(evaluator, work)
        # All at once, before the work: an evaluator computes the pieces as one.
        if begun is not None:
            for number in range(1, work.pieces + 1):
                begun(number)
        result: Array
        if self._apart:
            result = await asyncio.to_thread(evaluator.result, ticket)
        else:
            result = evaluator.result(ticket)
        ended, spent = monotonic(), self._meter.joules() - before
        amounts = work.operations, work.samples
        self.spans.append(WorkSpan(began, ended, work.pieces, *amounts, spent))
        return check_result(evaluator, ticket, result, self.id, self._protocol.round)


class _Sent(NamedTuple):
    """A reply that may not have arrived."""

    exchange: int
    reply: Message | Silence


class ClientMemory:
    """A client's memory of a run: of the method, of senders' vectors, of its own messages.

    Args:
        part: the client's part of the run.
        number: of the client.
        offer: the offer of the run.
        meter: of the energy of its work.
        apart: see `LiveClient`.

    Attributes:
        run: identifies the run.
        part: see above.
        client: the client that its handler receives.
        protocol: its endpoint.
    """

    def __init__(
        self, part: ClientPart, number: ClientId, offer: RunOffer, meter: Meter, *, apart: bool
    ) -> None:
        setup = part.setup
        self.run, self.part = offer.run, part
        self._transport, self._unpacking = cast("ByteTransport", setup.transport), Unpacking()
        self.protocol = ClientProtocol(
            number,
            Packing(setup.packer_up, number),
            beacons=setup.silence.beacon,
            header_bits=setup.header_bits,
            transport=self._transport,
        )
        self.client = LiveClient(setup, self.protocol, meter, apart=apart, returns=offer.returns)
        self._handle, self._take_back = setup.handler, setup.take_back
        self._largest = largest_vector(setup.initial.size)
        self._sent: deque[_Sent] = deque()
        self._forgotten = 0  # exchange of the last forgotten reply

    def read(self, body: bytes) -> Envelope:
        """Return a message of the server.

        Raises:
            DecodeError: it is not a message.
        """
        return self._transport.read(body, SERVER, self._unpacking, self._largest)

    async def answer(self, asked: Envelope) -> tuple[Message | Silence, Envelope | None]:
        """Handle a message; return the reply and its envelope, if any."""
        self.client.spans = []
        # Messages are handled one at a time, so the spans that a reply reports are its own.
        reply = await self._handle(self.client, self.protocol.open(asked))
        envelope = self.protocol.answer(asked, reply)
        self._sent.append(_Sent(asked.exchange, reply))
        if len(self._sent) > _MOST_SENT:
            self._forgotten = self._sent.popleft().exchange
        return reply, envelope

    def recover(self, last_exchange: int) -> bool:
        """Undo the replies that have not arrived; return whether all of them are still stored.

        Args:
            last_exchange: the exchange of the last reply that has arrived.
        """
        # The newest first, as each undo restores the state that the reply before it has left.
        while self._sent and self._sent[-1].exchange > last_exchange:
            reply = self._sent.pop().reply
            if isinstance(reply, Message) and reply is not BEACON:
                self.protocol.take_back(reply)
                self._take_back(self.client, reply)
        return self._forgotten <= last_exchange


_MOST_SENT = 4
"""The number of replies that a client keeps for the case of a broken connection."""
